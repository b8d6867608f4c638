"""Rows of the cores that Spark has, and of the memory that it takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bench.load import run_load
from bench.pipeline.measuring import SIZE, STREAM, Pipeline, declare_stream
from bench.pipeline.memory_source import SEVEN_COLUMNS
from bench.pipeline.scanning import MEBIBYTE, Scan, scanned
from bench.pipeline.sources import schema_text
from bench.pipeline.table import Measured

LARGE_STREAM: Final = "bench-large"
_LARGEST: Final = 16 * MEBIBYTE
_LARGE, _LARGE_WINDOW, _FILL_SECONDS = 12, 2, 600
_HEAP: Final = 512


def cores(bench: Pipeline) -> Iterator[Measured]:
    """Rows of a journal, and of the live stream, a second, with two cores beside one. The nodes of the stream
    have both cores in either case.
    """
    columns = list(SEVEN_COLUMNS)
    journal = ("quorate-journal", {"path": bench.journal(0)}, schema_text(columns, queue="long"))
    topic = ("quorate", bench.options | {"topic": STREAM}, schema_text(columns))
    for title, scan, goal in (("journal", journal, 1.7), ("source", topic, 1.4)):
        one, two = (bench.rows / scanned(Scan(*scan, cores=number)).seconds for number in (1, 2))
        title = f"{title}, from one core to two"
        yield Measured(title, two, "rows / s", one, "one core", f"≥ {goal} ×", goal)


def memory(bench: Pipeline) -> Iterator[Measured]:
    """The memory of a scan of all columns of messages of up to 16 MiB, with a heap of 512 MiB."""
    declare_stream(bench.cluster.address(0), LARGE_STREAM)
    load = bench.load_options | {"queue": LARGE_STREAM, "consumers": 0}
    run_load(_FILL_SECONDS, **load | {"count": min(bench.rows, 10_000), "size": SIZE})
    large = {"count": _LARGE, "size": _LARGEST, "mixed": 0, "window": _LARGE_WINDOW}
    run_load(_FILL_SECONDS, **load | large)
    scan = Scan("quorate", bench.options | {"topic": LARGE_STREAM}, cores=1, heap=_HEAP)
    found = scanned(scan)
    beyond = found.worker - _LARGEST / MEBIBYTE
    title = "Python worker beyond its largest message, 16 MiB"
    yield Measured(title, beyond, "MiB", 256, "", "≤ 256 MiB", 1, most=True)
    title = f"heap of driver and executors, collected, of {_HEAP} MiB"
    yield Measured(title, found.heap, "MiB", _HEAP, "", f"≤ {_HEAP} MiB", 1, most=True)
