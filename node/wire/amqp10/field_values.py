"""Values of annotations and application-properties as values of field tables, and back.

The types are those of RabbitMQ's tables. A uuid, a char and a decimal, which are not there, become a text or
a decimal. Encoded values go in and come out. None stands for a value that the other protocol cannot hold.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from struct import Struct
from struct import error as StructError
from typing import Any, Final
from uuid import UUID

from node.wire.amqp091.errors import FieldSyntaxError
from node.wire.amqp091.fields import encode_value, join_array, join_table, split_array, split_table
from node.wire.amqp10.decoding import decode_value
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.values import (
    AmqpValue,
    Byte,
    DecimalOctets,
    Float,
    Int,
    Short,
    Symbol,
    TimestampMs,
    TypedArray,
    UByte,
    UInt,
    ULong,
    UShort,
    decimal128_of,
)

MAX_FIELD_NESTING: Final = 24
"""The largest depth of a value that is converted. Both protocols bound the depth of what stands around it."""

_MAX_NAME: Final = 255

_INTEGERS: Final[dict[type, tuple[bytes, Struct]]] = {
    Byte: (b"b", Struct(">b")),
    UByte: (b"B", Struct(">B")),
    Short: (b"s", Struct(">h")),
    UShort: (b"u", Struct(">H")),
    Int: (b"I", Struct(">i")),
    UInt: (b"i", Struct(">I")),
    int: (b"l", Struct(">q")),
    ULong: (b"l", Struct(">q")),
    Float: (b"f", Struct(">f")),
    float: (b"d", Struct(">d")),
}

_SECONDS: Final = Struct(">cQ")
_LENGTH: Final = Struct(">cI")


class UnknownThereError(ValueError):
    """The other protocol has no value like this one."""


def field_of(octets: bytes) -> bytes | None:
    """The encoded field value, type octet included, of an encoded value of AMQP 1.0."""
    try:
        return _field(decode_value(octets), MAX_FIELD_NESTING)
    except UnknownThereError:
        return None


def value_of(field: bytes) -> bytes | None:
    """The encoded value of AMQP 1.0 of an encoded field value, whose type octet comes first."""
    try:
        return encode_amqp(_value(field, MAX_FIELD_NESTING))
    except UnknownThereError:
        return None


def text_field(octets: bytes) -> bytes:
    """The encoded field value of a text."""
    return _LENGTH.pack(b"S", len(octets)) + octets


# -- AMQP 1.0 to AMQP 0-9-1 -------------------------------------------------------------------------


def _field(value: AmqpValue, depth: int) -> bytes:
    if value is None:
        return b"V"
    if isinstance(value, bool):
        return b"t\1" if value else b"t\0"
    if isinstance(value, str):
        return text_field(value.encode())
    if isinstance(value, bytes):
        return _LENGTH.pack(b"x", len(value)) + value
    if isinstance(value, TimestampMs):
        if value < 0:
            raise UnknownThereError
        return _SECONDS.pack(b"T", value // 1000)
    known = _INTEGERS.get(type(value))
    if known is not None:
        kind, struct = known
        try:
            return kind + struct.pack(value)
        except StructError:
            raise UnknownThereError from None
    if isinstance(value, UUID):
        return text_field(value.urn.encode())
    if isinstance(value, DecimalOctets):
        return _decimal_field(value)
    return _container_field(value, depth)


def _decimal_field(value: DecimalOctets) -> bytes:
    try:
        return encode_value(value.number())
    except ValueError:
        raise UnknownThereError from None


def _container_field(value: AmqpValue, depth: int) -> bytes:
    if not depth:
        raise UnknownThereError
    items = value.items if isinstance(value, TypedArray) and not value.descriptors else value
    if isinstance(items, list):
        return b"A" + join_array([_field(item, depth - 1) for item in items])
    if isinstance(items, dict):
        fields = [(_name(key), _field(item, depth - 1)) for key, item in items.items()]
        # A symbol and a string of one text are two keys of a map, and one name of a table.
        return b"F" + join_table(fields)
    raise UnknownThereError


def _name(key: object) -> bytes:
    name = key.encode() if isinstance(key, str) else b""
    if not isinstance(key, str) or len(name) > _MAX_NAME:
        raise UnknownThereError
    return name


# -- AMQP 0-9-1 to AMQP 1.0 -------------------------------------------------------------------------


def _value(field: bytes, depth: int) -> AmqpValue:
    kind = field[:1]
    reader = _READERS.get(kind)
    if reader is not None:
        return reader(field)
    if not depth:
        raise UnknownThereError
    try:
        if kind == b"A":
            return [_value(each, depth - 1) for each in split_array(field, 1)]
        if kind == b"F":
            return {_key(name): _value(each, depth - 1) for name, each in split_table(field, 1)}
    except (FieldSyntaxError, StructError, IndexError):
        pass
    raise UnknownThereError


def _key(name: bytes) -> str:
    text = name.decode()
    return Symbol(text) if text.isascii() else text


def _integer(kind: Callable[[int], Any], code: str) -> Callable[[bytes], AmqpValue]:
    struct = Struct(f">x{code}")

    def read(field: bytes) -> AmqpValue:
        found: AmqpValue = kind(struct.unpack(field)[0])
        return found

    return read


def _text(field: bytes) -> AmqpValue:
    octets = field[_LENGTH.size :]
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return octets


def _time(field: bytes) -> AmqpValue:
    milliseconds = _SECONDS.unpack(field)[1] * 1000
    if milliseconds >= 1 << 63:
        raise UnknownThereError
    return TimestampMs(milliseconds)


_DECIMAL: Final = Struct(">xBi")


def _decimal(field: bytes) -> AmqpValue:
    scale, unscaled = _DECIMAL.unpack(field)
    digits = tuple(map(int, str(abs(unscaled))))
    return decimal128_of(Decimal((1 if unscaled < 0 else 0, digits, -scale)))


_READERS: Final[dict[bytes, Callable[[bytes], AmqpValue]]] = {
    b"V": lambda field: None,
    b"t": lambda field: field[1] != 0,
    b"b": _integer(Byte, "b"),
    b"B": _integer(UByte, "B"),
    b"s": _integer(Short, "h"),
    # Clients, and RabbitMQ, send a signed short integer as `s`; the grammar's `U` is one too (§4.2.5.5).
    b"U": _integer(Short, "h"),
    b"u": _integer(UShort, "H"),
    b"I": _integer(Int, "i"),
    b"i": _integer(UInt, "I"),
    b"l": _integer(int, "q"),
    b"L": _integer(int, "q"),
    b"f": _integer(Float, "f"),
    b"d": _integer(float, "d"),
    b"D": _decimal,
    b"T": _time,
    b"S": _text,
    b"x": lambda field: field[_LENGTH.size :],
}
