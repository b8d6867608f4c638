"""Checks the header tables of incoming messages, without making values of them.

The broker needs most header tables only well-formed. `fields` reads the ones whose values the broker needs.
Both accept the same tables (§4.2.5.5).
"""

from __future__ import annotations

from typing import Final

from node.wire.amqp091.errors import FieldSyntaxError
from node.wire.amqp091.fields import MAX_DEPTH, MAX_FIELDS

ANY_NUMBER: Final = 2**62
"""No limit of values, for stored tables: dead letters have more headers than their publishers sent."""

_OTHER: Final = 0xFF

_WIDTHS: Final = bytes(
    {
        **dict.fromkeys(b"V", 0),
        **dict.fromkeys(b"tbB", 1),
        **dict.fromkeys(b"sUu", 2),
        **dict.fromkeys(b"iIf", 4),
        **dict.fromkeys(b"D", 5),
        **dict.fromkeys(b"lLdT", 8),
    }.get(kind, _OTHER)
    for kind in range(256)
)
"""The number of octets of a value behind its type octet, for types of a fixed size; `_OTHER` for
other types.
"""


class HeaderTable:
    """A checked header table, whose length stands at `at`.

    Raises FieldSyntaxError for duplicate names, names that are not UTF-8, unknown types, more than
    `values_max` values with nested ones, and more than MAX_DEPTH levels. Raises IndexError where `data` ends
    before the table.
    """

    __slots__ = ("_data", "_values_max", "end", "names", "values")

    def __init__(self, data: bytes, at: int, values_max: int = MAX_FIELDS) -> None:
        self._data = data
        self._values_max = values_max
        self.values = 0
        """The number of values, with nested ones."""
        self.names: set[bytes] = set()
        """The names in the table, without those of nested tables."""
        self.end = self._table(at, len(data), MAX_DEPTH, self.names)
        """The position behind the table."""

    def _table(self, at: int, limit: int, depth: int, names: set[bytes]) -> int:
        """The position behind a table."""
        if not depth:
            raise FieldSyntaxError(f"tables are nested more than {MAX_DEPTH} deep")
        data, widths = self._data, _WIDTHS
        end = self._end(at, limit)
        at = begin = at + 4
        while at < end:
            value = at + 1 + data[at]
            if value >= end:
                raise FieldSyntaxError("a field name is longer than its table")
            name = data[at + 1 : value]
            if name in names:
                raise FieldSyntaxError(f"duplicate field {name[:32].decode('utf-8', 'replace')!r}")
            names.add(name)
            width = widths[data[value]]
            at = value + 1
            at = self._other(data[value], at, end, depth) if width == _OTHER else at + width
            if at > end:
                raise FieldSyntaxError("a field value is cut short")
            self._count()
        if not data[begin:end].isascii():
            _check_text(names)
        return end

    def _array(self, at: int, limit: int, depth: int) -> int:
        """The position behind an array, whose values have no names."""
        if depth <= 1:
            raise FieldSyntaxError(f"arrays are nested more than {MAX_DEPTH} deep")
        data, widths = self._data, _WIDTHS
        end = self._end(at, limit)
        at += 4
        while at < end:
            kind = data[at]
            width = widths[kind]
            at += 1
            at = self._other(kind, at, end, depth - 1) if width == _OTHER else at + width
            if at > end:
                raise FieldSyntaxError("a field value is cut short")
            self._count()
        return end

    def _other(self, kind: int, at: int, limit: int, depth: int) -> int:
        """The position behind a value that begins with a length."""
        if kind == 0x53 or kind == 0x78:  # S, x
            return self._end(at, limit)
        if kind == 0x46:  # F
            return self._table(at, limit, depth - 1, set())
        if kind == 0x41:  # A
            return self._array(at, limit, depth)
        raise FieldSyntaxError(f"unknown field type {kind:#04x}")

    def _end(self, at: int, limit: int) -> int:
        """The end of the value whose length stands at `at`. Raises FieldSyntaxError beyond `limit`."""
        data = self._data
        end = at + 4 + (data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3])
        if end > limit:
            raise FieldSyntaxError("a field is longer than what it stands in")
        return end

    def _count(self) -> None:
        self.values += 1
        if self.values > self._values_max:
            raise FieldSyntaxError(f"more than {self._values_max} fields in a table")


def _check_text(names: set[bytes]) -> None:
    """Raises FieldSyntaxError where a name is not UTF-8."""
    try:
        for name in names:
            name.decode("utf-8")
    except UnicodeDecodeError:
        raise FieldSyntaxError("a field name is not UTF-8") from None
