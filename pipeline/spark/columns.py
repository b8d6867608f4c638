"""Columns of the tables as Spark and Arrow know them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
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

from pipeline.message.content import plain
from pipeline.message.row_types import BINARY, FLAG, LONG, PAIRS, TEXT, TEXTS
from pipeline.options import OptionError, nearest

_TEXT_PROPERTIES: Final = (
    "content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "message_id", "type",
    "user_id", "app_id", "cluster_id", "to", "subject", "group_id", "reply_to_group_id",
)  # fmt: skip
_NUMBER_PROPERTIES: Final = (
    "delivery_mode", "priority", "timestamp", "ttl", "delivery_count", "absolute_expiry_time",
    "creation_time", "group_sequence",
)  # fmt: skip
_FLAG_PROPERTIES: Final = ("durable", "first_acquirer")

PROPERTIES: Final = StructType(
    [StructField(name, StringType()) for name in _TEXT_PROPERTIES]
    + [StructField(name, LongType()) for name in _NUMBER_PROPERTIES]
    + [StructField(name, BooleanType()) for name in _FLAG_PROPERTIES]
)
"""The properties of both protocols. A message has those of its own; all others are null."""

_ARROW_PROPERTIES: Final = pa.struct(
    [(name, pa.string()) for name in _TEXT_PROPERTIES]
    + [(name, pa.int64()) for name in _NUMBER_PROPERTIES]
    + [(name, pa.bool_()) for name in _FLAG_PROPERTIES]
)

SPARK_TYPES: Final[dict[str, DataType]] = {
    LONG: LongType(),
    TEXT: StringType(),
    BINARY: BinaryType(),
    FLAG: BooleanType(),
    TEXTS: ArrayType(StringType()),
    PAIRS: MapType(StringType(), StringType()),
}
_ARROW: Final = {
    LONG: pa.int64(),
    TEXT: pa.string(),
    BINARY: pa.binary(),
    FLAG: pa.bool_(),
    TEXTS: pa.list_(pa.string()),
    PAIRS: pa.map_(pa.string(), pa.string()),
}

_HALF: Final = 1 << 63
_WHOLE: Final = 1 << 64
_PROPERTIES_COLUMN: Final = "properties"


def schema_of(kinds: Mapping[str, str]) -> StructType:
    """The schema of columns with these types."""
    return StructType([StructField(name, _type_of(name, kind)) for name, kind in kinds.items()])


def _type_of(name: str, kind: str) -> DataType:
    return PROPERTIES if name == _PROPERTIES_COLUMN else SPARK_TYPES[kind]


def arrow_schema(kinds: Mapping[str, str], names: Sequence[str]) -> pa.Schema:
    """The Arrow schema of some columns of these types."""
    return pa.schema(
        [(name, _ARROW_PROPERTIES if name == _PROPERTIES_COLUMN else _ARROW[kinds[name]]) for name in names]
    )


def check_columns(of: str, kinds: Mapping[str, str], schema: StructType) -> None:
    """Raises OptionError where `of` has no such columns."""
    known = {field.name: field.dataType for field in schema_of(kinds)}
    for field in schema:
        if field.name not in known:
            raise OptionError(f"{of} has no column {field.name}{nearest(field.name, tuple(known))}")
        if field.dataType != known[field.name]:
            right, wrong = known[field.name].simpleString(), field.dataType.simpleString()
            raise OptionError(f"the column {field.name} is of type {right}, not {wrong}")


def converters(kinds: Mapping[str, str], names: Sequence[str]) -> list[Callable[[Any], Any] | None]:
    """For each column the function that makes its values fit; None where they fit as they are."""
    return [_properties if name == _PROPERTIES_COLUMN else _CONVERTERS.get(kinds[name]) for name in names]


def _signed(value: int | None) -> int | None:
    """A number of 64 bits as Spark's longs have it: the upper half of the numbers is negative."""
    return value if value is None or value < _HALF else value - _WHOLE


def _text(value: Any) -> str | None:
    value = plain(value)
    return value if value is None or isinstance(value, str) else json.dumps(value, default=str)


def _pairs(value: dict[str, Any] | None) -> list[tuple[str, str | None]] | None:
    return None if value is None else [(name, _text(one)) for name, one in value.items()]


def _properties(value: dict[str, Any] | None) -> dict[str, Any] | None:
    if value is None:
        return None
    found: dict[str, Any] = {name: _text(value[name]) for name in _TEXT_PROPERTIES if name in value}
    found |= {name: _signed(int(value[name])) for name in _NUMBER_PROPERTIES if _is_number(value.get(name))}
    return found | {name: bool(value[name]) for name in _FLAG_PROPERTIES if name in value}


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and -_HALF <= value < _WHOLE


_CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {LONG: _signed, PAIRS: _pairs}
