"""Arguments of queues, exchanges and bindings in requests to `/management`: values of AMQP 1.0, and the field
values of AMQP 0-9-1 that the broker keeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from node.wire.amqp091.fields import FieldValue, Timestamp
from node.wire.amqp10.composite import Composite
from node.wire.amqp10.values import (
    AmqpValue,
    DecimalOctets,
    Described,
    PairMap,
    TimestampMs,
    TypedArray,
    decimal128_of,
)

MS: Final = 1000
_MIN_LONG: Final = -(2**63)
_MAX_LONG: Final = 2**63 - 1


class ArgumentError(ValueError):
    """The broker keeps no argument of that type, or with that value."""


def field_table(value: AmqpValue) -> dict[str, FieldValue]:
    """The arguments that a map has. Raises ArgumentError."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ArgumentError("arguments are no map with texts as keys")
    return {str(key): _field(one, str(key)) for key, one in value.items()}


def _field(value: AmqpValue, name: str) -> FieldValue:
    """The field value for a value of the argument `name`. Raises ArgumentError."""
    if value is None or isinstance(value, bool | bytes):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, TimestampMs):
        return Timestamp(value // MS)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, list):
        return [_field(one, name) for one in value]
    if isinstance(value, TypedArray) and not value.descriptors:
        return [_field(one, name) for one in value.items]
    if isinstance(value, dict):
        return field_table(value)
    if isinstance(value, DecimalOctets):
        try:
            return value.number()
        except ValueError as error:
            raise ArgumentError(f"argument {name!r}: {error}") from None
    raise ArgumentError(f"argument {name!r} has a value of the unsupported type {_type_name(value)}")


def _type_name(value: UUID | Described | TypedArray | Composite | PairMap | Mapping[Any, AmqpValue]) -> str:
    return type(value).__name__


def amqp_map(arguments: Mapping[str, Any]) -> dict[str, AmqpValue]:
    """Arguments as a map of AMQP 1.0."""
    return {text_of(name): _value(value) for name, value in arguments.items()}


def _value(value: Any) -> AmqpValue:
    """The value for a field value. What AMQP 1.0 has no type for is told as text."""
    if value is None or isinstance(value, bool | bytes | float):
        return value
    if isinstance(value, str):
        return text_of(value)
    if isinstance(value, Timestamp):
        return TimestampMs(max(_MIN_LONG, min(value * MS, _MAX_LONG)))
    if isinstance(value, int):
        return value if -_MAX_LONG <= value <= _MAX_LONG else str(value)
    if isinstance(value, Decimal):
        try:
            return decimal128_of(value)
        except ValueError:
            return str(value)
    if isinstance(value, list):
        return [_value(one) for one in value]
    if isinstance(value, Mapping):
        return amqp_map(value)
    return text_of(str(value))


def text_of(text: str) -> str:
    """The text with a question mark for each octet that is no UTF-8: AMQP 0-9-1 takes such names."""
    return text.encode("utf-8", "replace").decode()
