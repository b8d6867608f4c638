"""Reads and writes the field tables of AMQP 0-9-1 (§4.2.5.5).

    wire                            Python
    t boolean                       bool
    b B s U u I i l L integers      int
    f d                             float
    D                               Decimal
    S                               str, or bytes where it is not UTF-8
    x                               bytes
    A F                             list, dict
    T                               Timestamp
    V                               None

Clients disagree with the grammar about two types. This module follows the clients, as RabbitMQ's errata do:
`s` is a signed 16-bit integer (no client sends the grammar's short string), and `l` a signed 64-bit integer,
as `L` is. `x`, a byte array, is not in the grammar.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from struct import Struct
from struct import error as StructError
from typing import Final, TypeAlias

from node.wire.amqp091.errors import FieldSyntaxError
from node.wire.amqp091.primitives import LONG, LONGLONG, encode_shortstr

MAX_DEPTH: Final = 64
"""The largest depth of nested tables and arrays: deeper ones could overflow the server's stack."""

MAX_FIELDS: Final = 4096
"""The largest number of values in a client's table, with those of nested tables and arrays: each
costs work.
"""

_ANY_NUMBER: Final = 2**62

MAX_NAME: Final = 128
"""The largest number of characters in a field name (§4.2.5.5)."""


class Timestamp(int):
    """Seconds since 1970 (§4.2.5.4): an int that `encode_value` writes as a timestamp."""

    __slots__ = ()


FieldValue: TypeAlias = (
    "bool | int | float | str | bytes | Decimal | Timestamp | list[FieldValue] | dict[str, FieldValue] | None"
)
Table = dict[str, FieldValue]

FIXED_FIELDS: Final = {
    ord(kind): Struct(f">{code}")
    for kind, code in {
        "b": "b",
        "B": "B",
        "s": "h",
        "U": "h",
        "u": "H",
        "I": "i",
        "i": "I",
        "l": "q",
        "L": "q",
        "f": "f",
        "d": "d",
    }.items()
}
_DECIMAL: Final = Struct(">Bi")


def _check_name(name: str) -> None:
    """Raises FieldSyntaxError. §4.2.5.5 lets names start with a letter, `$` or `#`. `_` is accepted because
    Java frameworks put names such as `__TypeId__` into every message. A short string has no zero octet
    (§4.2.5.3).
    """
    if not name or len(name) > MAX_NAME or not (name[0].isalpha() or name[0] in "$#_") or "\0" in name:
        raise FieldSyntaxError(f"invalid field name {name[:32]!r}")


def read_table(data: bytes, at: int) -> tuple[Table, int]:
    """The table whose length stands at `at`, and the position behind it.

    Raises FieldSyntaxError, also for invalid names, duplicate names and more than MAX_FIELDS values;
    IndexError or struct.error where `data` is cut short.
    """
    return _Reader(data, MAX_FIELDS, strict=True).table(at, len(data), MAX_DEPTH)


def read_headers(data: bytes, at: int) -> tuple[Table, int]:
    """As `read_table`, with any names and any number of values.

    Applications choose the names of headers. `header_tables` limits the headers that a client sends; dead
    letters have more of them.
    """
    return _Reader(data, _ANY_NUMBER, strict=False).table(at, len(data), MAX_DEPTH)


def read_numbered(data: bytes, at: int, names: Sequence[str]) -> Table:
    """The fields that stand from `at` on to the end, each with the number of its name in place of the name.

    Raises FieldSyntaxError, also for duplicate names; IndexError or struct.error where `data` is cut short.
    """
    reader = _Reader(data, _ANY_NUMBER, strict=False)
    table: Table = {}
    while at < len(data):
        name = names[data[at]]
        if name in table:
            raise FieldSyntaxError(f"duplicate field {name[:32]!r}")
        table[name], at = reader.value(at + 1, len(data), MAX_DEPTH)
    return table


class _Reader:
    """Reads one table or array of at most `fields_max` values, with nested ones."""

    __slots__ = ("_data", "_left", "_strict")

    def __init__(self, data: bytes, fields_max: int, *, strict: bool) -> None:
        self._data = data
        self._strict = strict
        self._left = fields_max

    def bounds(self, at: int, limit: int) -> tuple[int, int]:
        """The begin and end of the value whose length stands at `at`. Raises FieldSyntaxError
        beyond `limit`.
        """
        (length,) = LONG.unpack_from(self._data, at)
        end: int = at + 4 + length
        if end > limit:
            raise FieldSyntaxError("a field is longer than what it stands in")
        return at + 4, end

    def table(self, at: int, limit: int, depth: int) -> tuple[Table, int]:
        """The table whose length stands at `at`, and the position behind it."""
        if not depth:
            raise FieldSyntaxError(f"tables are nested more than {MAX_DEPTH} deep")
        at, end = self.bounds(at, limit)
        table: Table = {}
        while at < end:
            octets, at = self.name(at, end)
            name = _text(octets)
            if self._strict:
                _check_name(name)
            if name in table:
                raise FieldSyntaxError(f"duplicate field {name[:32]!r}")
            table[name], at = self.value(at, end, depth)
        return table, end

    def name(self, at: int, limit: int) -> tuple[bytes, int]:
        """The octets of the field name at `at`, and the position of its value."""
        data = self._data
        end = at + 1 + data[at]
        if end >= limit:
            raise FieldSyntaxError("a field name is longer than its table")
        return data[at + 1 : end], end

    def value(self, at: int, limit: int, depth: int) -> tuple[FieldValue, int]:
        """The value whose type octet stands at `at`, and the position behind it, at most `limit`."""
        self._left -= 1
        if self._left < 0:
            raise FieldSyntaxError(f"more than {MAX_FIELDS} fields in a table")
        kind = self._data[at]
        at += 1
        fixed = FIXED_FIELDS.get(kind)
        value: FieldValue
        if fixed is not None:
            (value,) = fixed.unpack_from(self._data, at)
            at += fixed.size
        else:
            value, at = self._other(kind, at, limit, depth)
        if at > limit:
            raise FieldSyntaxError("a field value is cut short")
        return value, at

    def _other(self, kind: int, at: int, limit: int, depth: int) -> tuple[FieldValue, int]:
        match kind:
            case 0x53:  # S
                return self._string(at, limit)
            case 0x56:  # V
                return None, at
            case 0x74:  # t
                return self._data[at] != 0, at + 1
            case 0x46:  # F
                return self.table(at, limit, depth - 1)
            case 0x41:  # A
                return self._array(at, limit, depth)
            case 0x54:  # T
                return Timestamp(LONGLONG.unpack_from(self._data, at)[0]), at + LONGLONG.size
            case 0x78:  # x
                at, end = self.bounds(at, limit)
                return self._data[at:end], end
            case 0x44:  # D
                return _decimal(self._data, at), at + _DECIMAL.size
            case _:
                raise FieldSyntaxError(f"unknown field type {kind:#04x}")

    def _string(self, at: int, limit: int) -> tuple[str | bytes, int]:
        at, end = self.bounds(at, limit)
        octets = self._data[at:end]
        try:
            return octets.decode("utf-8"), end
        except UnicodeDecodeError:
            return octets, end

    def _array(self, at: int, limit: int, depth: int) -> tuple[list[FieldValue], int]:
        if depth <= 1:
            raise FieldSyntaxError(f"arrays are nested more than {MAX_DEPTH} deep")
        at, end = self.bounds(at, limit)
        values: list[FieldValue] = []
        while at < end:
            value, at = self.value(at, end, depth - 1)
            values.append(value)
        return values, end


def _text(octets: bytes) -> str:
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        raise FieldSyntaxError("a field name is not UTF-8") from None


def _decimal(data: bytes, at: int) -> Decimal:
    scale, unscaled = _DECIMAL.unpack_from(data, at)
    sign = 1 if unscaled < 0 else 0
    return Decimal((sign, tuple(map(int, str(abs(unscaled)))), -scale))


def encode_table(table: Table) -> bytes:
    """The table with its length. Raises ValueError for names over 255 octets, integers beyond 64 bits, times
    before 1970, and decimals that the type cannot hold.
    """
    parts = [encode_shortstr(name) + encode_value(value) for name, value in table.items()]
    body = b"".join(parts)
    return LONG.pack(len(body)) + body


def encode_value(value: FieldValue) -> bytes:
    """Type octet and value. Integers that fit 32 bits are written as `I`, others as `l`."""
    match value:
        case None:
            return b"V"
        case bool():
            return b"t\1" if value else b"t\0"
        case Timestamp():
            return b"T" + _encode_seconds(value)
        case int():
            return _encode_integer(value)
        case float():
            return b"d" + FIXED_FIELDS[ord("d")].pack(value)
        case str():
            octets = value.encode("utf-8")
            return b"S" + LONG.pack(len(octets)) + octets
        case bytes():
            return b"x" + LONG.pack(len(value)) + value
        case Decimal():
            return _encode_decimal(value)
        case list():
            body = b"".join(map(encode_value, value))
            return b"A" + LONG.pack(len(body)) + body
        case dict():
            return b"F" + encode_table(value)


def _encode_seconds(value: Timestamp) -> bytes:
    try:
        return LONGLONG.pack(value)
    except StructError:
        raise ValueError(f"{value} does not fit into a timestamp") from None


def _encode_integer(value: int) -> bytes:
    kind = "I" if -(2**31) <= value < 2**31 else "l"
    try:
        return kind.encode() + FIXED_FIELDS[ord(kind)].pack(value)
    except StructError:
        raise ValueError(f"{value} does not fit into a field") from None


def _encode_decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or not -255 <= exponent <= 0:
        raise ValueError(f"{value} does not fit into a decimal field")
    unscaled = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    try:
        return b"D" + _DECIMAL.pack(-exponent, unscaled)
    except StructError:
        raise ValueError(f"{value} does not fit into a decimal field") from None


# -- tables whose values stay encoded ------------------------------------------------------------


def split_table(data: bytes, at: int) -> list[tuple[bytes, bytes]]:
    """The names and the encoded values (type octet included) of the table whose length stands at `at`.

    Does not check names. Raises FieldSyntaxError, IndexError, struct.error.
    """
    reader = _Reader(data, _ANY_NUMBER, strict=False)
    at, end = reader.bounds(at, len(data))
    found = []
    while at < end:
        name, at = reader.name(at, end)
        _, value_end = reader.value(at, end, MAX_DEPTH)
        found.append((name, data[at:value_end]))
        at = value_end
    return found


def split_array(data: bytes, at: int) -> list[bytes]:
    """The encoded values (type octet included) of the array whose length stands at `at`.

    Raises FieldSyntaxError, IndexError, struct.error.
    """
    reader = _Reader(data, _ANY_NUMBER, strict=False)
    at, end = reader.bounds(at, len(data))
    found = []
    while at < end:
        _, value_end = reader.value(at, end, MAX_DEPTH)
        found.append(data[at:value_end])
        at = value_end
    return found


def join_table(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The encoded table, with its length, of names (up to 255 octets) and encoded values."""
    body = b"".join([bytes((len(name),)) + name + value for name, value in fields])
    return LONG.pack(len(body)) + body


def join_array(values: Iterable[bytes]) -> bytes:
    """The encoded array, with its length and without its type octet, of encoded values."""
    body = b"".join(values)
    return LONG.pack(len(body)) + body
