"""Takes numbers and octets out of malformed data without harm: every length is held against what is there."""

from __future__ import annotations

import sys
from array import array
from itertools import compress
from operator import gt
from struct import Struct
from typing import Any, Final

Range = tuple[int, int]
"""First and last of consecutive numbers."""

_U8: Final = Struct("<B")
_U16: Final = Struct("<H")
_U32: Final = Struct("<I")
_U64: Final = Struct("<Q")


class MalformedError(ValueError):
    """Octets are not of the form that they should have. `at` is their offset in the data."""

    def __init__(self, at: int, what: str) -> None:
        super().__init__(f"{what} at octet {at}")
        self.at = at
        self.what = what


class Cursor:
    """A place in octets. Every method raises MalformedError where fewer octets are left than it wants."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self.data = data
        self.at = at
        self.end = len(data) if end is None else end

    @property
    def left(self) -> int:
        return self.end - self.at

    def skip(self, length: int) -> int:
        """Go on behind so many octets; returns where they begin. Raises MalformedError."""
        at = self.at
        if length > self.end - at:
            raise MalformedError(at, f"{length} octets are wanted, {self.end - at} are left")
        self.at = at + length
        return at

    def fields(self, form: Struct) -> tuple[Any, ...]:
        """The values of a structure."""
        return form.unpack_from(self.data, self.skip(form.size))

    def u8(self) -> int:
        return int(_U8.unpack_from(self.data, self.skip(1))[0])

    def u16(self) -> int:
        return int(_U16.unpack_from(self.data, self.skip(2))[0])

    def u32(self) -> int:
        return int(_U32.unpack_from(self.data, self.skip(4))[0])

    def u64(self) -> int:
        return int(_U64.unpack_from(self.data, self.skip(8))[0])

    def octets(self, length: int) -> bytes:
        at = self.skip(length)
        return self.data[at : at + length]

    def numbers(self, count: int, code: str = "Q") -> array[int]:
        """So many numbers: `Q` has eight octets each, `I` four."""
        found: array[int] = array(code)
        at = self.skip(count * found.itemsize)
        found.frombytes(memoryview(self.data)[at : self.at])
        if sys.byteorder == "big":
            found.byteswap()
        return found

    def columns(self, rows: int, width: int) -> list[array[int]]:
        """Columns of so many rows. Raises MalformedError."""
        if rows * width * 8 > self.left:
            raise MalformedError(self.at, f"{rows} rows are wanted, {self.left} octets are left")
        return [self.numbers(rows) for _ in range(width)]

    def ranges(self, count: int) -> list[Range]:
        """So many ranges in columns: all firsts, then all lasts."""
        at = self.at
        firsts, lasts = self.columns(count, 2)
        return _checked(firsts, lasts, at)

    def pairs(self, count: int) -> list[Range]:
        """So many ranges, each with its first and last together."""
        at = self.at
        numbers = self.numbers(2 * count)
        return _checked(numbers[::2], numbers[1::2], at)

    def tags(self, count: int) -> list[bytes]:
        """So many tags: their lengths, an octet each, and the tags."""
        return [self.octets(size) for size in self.octets(count)]


def _checked(firsts: array[int], lasts: array[int], at: int) -> list[Range]:
    if next(compress(firsts, map(gt, firsts, lasts)), None) is not None:
        raise MalformedError(at, "a range that ends before it begins")
    return list(zip(firsts, lasts, strict=True))
