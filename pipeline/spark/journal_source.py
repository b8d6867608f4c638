"""The data source `quorate-journal`: tables of the journals of several nodes, a task for each segment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pipeline.arrow.columns import arrow_schema, converters
from pipeline.arrow.journals import message_batches
from pipeline.journal.damage import FAIL, REPORT
from pipeline.journal.rows import ROWS, columns_of
from pipeline.journal.segments import OtherJournalError, Segment, segments_in
from pipeline.journal.tables import read_table
from pipeline.message.batches import BATCH_OCTETS, BATCH_ROWS
from pipeline.options import OptionError, nearest
from pipeline.spark.columns import check_columns, schema_of

OPTIONS: Final = ("path", "journals", "table", "onDamage")
_KNOWN: Final = {name.lower(): name for name in OPTIONS}
_OCTETS: Final = ("body", "raw")


class SegmentPartition(InputPartition):
    """One segment: one task."""

    def __init__(self, segment: Segment) -> None:
        super().__init__(tuple(segment))


class JournalSource(DataSource):
    """Options: `path`, a journal or a data directory, or `journals`, several of `[NAME=]DIR` with a semicolon
    between them (`DIR,DIR` for a journal and its archive); `table`, by default messages; `onDamage`, fail
    (the default) or report.

    `.schema(…)` with a subset of the columns is the projection: only these are decoded.
    """

    @classmethod
    def name(cls) -> str:
        """The name for `spark.read.format`."""
        return "quorate-journal"

    def schema(self) -> StructType:
        """All columns of the table. Raises OptionError."""
        return schema_of(columns_of(_checked(self.options)["table"]))

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of the columns that `schema` has. Raises OptionError."""
        options = _checked(self.options)
        table = options["table"]
        check_columns(f"the table {table}", columns_of(table), schema)
        return JournalReader(options, schema.names)


class JournalReader(DataSourceReader):
    """Reads segments as Arrow batches."""

    def __init__(self, options: Mapping[str, str], columns: Sequence[str]) -> None:
        self._options = dict(options)
        self._columns = list(columns)

    def partitions(self) -> Sequence[InputPartition]:
        """A partition for each segment that is there now. Raises OptionError."""
        found: list[InputPartition] = []
        for directory in _journals(self._options):
            node, _, path = directory.rpartition("=")
            try:
                segments = segments_in(path, node or None)
            except (FileNotFoundError, NotADirectoryError):
                raise OptionError(f"{path} is no directory with a journal") from None
            except OtherJournalError as error:
                raise OptionError(str(error)) from None
            found += map(SegmentPartition, segments)
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a segment. Raises DamageError where damage is not to be reported."""
        if partition.value is None:
            # A reader without partitions is asked for one all the same.
            return
        table, columns = self._options["table"], self._columns
        segment = Segment(*partition.value)
        if table == "messages":
            yield from message_batches(segment, columns, self._options["onDamage"])
            return
        rows = read_table(segment, table, columns, self._options["onDamage"])
        kinds = columns_of(table)
        names = list(kinds)
        places = [names.index(name) for name in columns]
        schema = arrow_schema(kinds, columns)
        fit = converters(kinds, columns)
        sized = [place for place, name in enumerate(names) if name in _OCTETS]
        for batch in _batches(rows, sized):
            arrays = []
            for place, field, convert in zip(places, schema, fit, strict=True):
                values: Any = map(itemgetter(place), batch)
                arrays.append(pa.array(list(map(convert, values) if convert else values), field.type))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _batches(rows: Iterator[tuple[Any, ...]], sized: Sequence[int]) -> Iterator[list[tuple[Any, ...]]]:
    """Rows a batch at a time, which is closed early where bodies are large."""
    while True:
        batch: list[tuple[Any, ...]] = []
        octets = 0
        for row in islice(rows, BATCH_ROWS):
            batch.append(row)
            octets += sum(len(row[place] or b"") for place in sized)
            if octets >= BATCH_OCTETS:
                break
        if not batch:
            return
        yield batch


def _checked(options: Mapping[str, str]) -> dict[str, str]:
    """The options by their names, with defaults. Raises OptionError."""
    found = {"table": "messages", "onDamage": FAIL}
    for name, value in options.items():
        known = _KNOWN.get(name.lower())
        if known is None:
            raise OptionError(f"the option {name} is not known{nearest(name, OPTIONS)}")
        found[known] = value
    if found["table"] not in ROWS:
        raise OptionError(f"there is no table {found['table']}{nearest(found['table'], tuple(ROWS))}")
    if found["onDamage"] not in (FAIL, REPORT):
        raise OptionError(f"onDamage is {FAIL} or {REPORT}, not {found['onDamage']}")
    if ("path" in found) == ("journals" in found):
        raise OptionError("one of the options path and journals names the journals")
    return found


def _journals(options: Mapping[str, str]) -> list[str]:
    if "path" in options:
        return [options["path"]]
    return [one for one in options["journals"].split(";") if one]
