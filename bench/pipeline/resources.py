"""The row of the cores that Spark has."""

from __future__ import annotations

from collections.abc import Iterator

from bench.pipeline.measuring import Pipeline
from bench.pipeline.memory_source import SEVEN_COLUMNS
from bench.pipeline.scanning import Scan, scanned
from bench.pipeline.sources import schema_text
from bench.pipeline.table import Measured


def cores(bench: Pipeline) -> Iterator[Measured]:
    """Rows of a journal a second, with two cores beside one."""
    options, schema = {"path": bench.journal(0)}, schema_text(list(SEVEN_COLUMNS), queue="long")
    one, two = (
        bench.rows / scanned(Scan("quorate-journal", options, schema, number)).seconds for number in (1, 2)
    )
    yield Measured("journal, from one core to two", two, "rows / s", one, "one core", "≥ 1.7 ×", 1.7)
