"""Columns of the tables as Spark knows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from pipeline.arrow.columns import PROPERTIES_COLUMN
from pipeline.message.property_names import FLAG_PROPERTIES, NUMBER_PROPERTIES, TEXT_PROPERTIES
from pipeline.message.row_types import BINARY, FLAG, LONG, PAIRS, TEXT, TEXTS
from pipeline.options import OptionError, nearest

PROPERTIES: Final = StructType(
    [StructField(name, StringType()) for name in TEXT_PROPERTIES]
    + [StructField(name, LongType()) for name in NUMBER_PROPERTIES]
    + [StructField(name, BooleanType()) for name in FLAG_PROPERTIES]
)
"""The properties of both protocols. A message has those of its own; all others are null."""

SPARK_TYPES: Final[dict[str, DataType]] = {
    LONG: LongType(),
    TEXT: StringType(),
    BINARY: BinaryType(),
    FLAG: BooleanType(),
    TEXTS: ArrayType(StringType()),
    PAIRS: MapType(StringType(), StringType()),
}


def schema_of(kinds: Mapping[str, str]) -> StructType:
    """The schema of columns with these types."""
    return StructType([StructField(name, _type_of(name, kind)) for name, kind in kinds.items()])


def _type_of(name: str, kind: str) -> DataType:
    return PROPERTIES if name == PROPERTIES_COLUMN else SPARK_TYPES[kind]


def check_columns(of: str, kinds: Mapping[str, str], schema: StructType) -> None:
    """Raises OptionError where `of` has no such columns."""
    known = {field.name: field.dataType for field in schema_of(kinds)}
    for field in schema:
        if field.name not in known:
            raise OptionError(f"{of} has no column {field.name}{nearest(field.name, tuple(known))}")
        if field.dataType != known[field.name]:
            right, wrong = known[field.name].simpleString(), field.dataType.simpleString()
            raise OptionError(f"the column {field.name} is of type {right}, not {wrong}")
