"""Rows of numbers in an entry: column by column, each an array of little-endian u64."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from node.ranges.range_columns import paired, transposed
from node.ranges.range_set import Range, decode_array, encode_array

Buffer = bytes | memoryview


def encode_columns(rows: Sequence[tuple[int, ...]]) -> bytes:
    """The first numbers of all rows, then the second ones, and so on. The rows have one length."""
    return b"".join(map(encode_array, transposed(list(rows), len(rows[0])))) if rows else b""


def decode_columns(data: Buffer, offset: int, rows: int, width: int) -> tuple[list[array[int]], int]:
    """The `width` columns of so many rows, and the offset behind. Raises ValueError when cut short."""
    columns = []
    for _ in range(width):
        column, offset = decode_array("Q", data, offset, rows)
        columns.append(column)
    return columns, offset


def ranges_of_columns(firsts: array[int], lasts: array[int]) -> list[Range]:
    """The ranges of two columns. Raises ValueError where a range ends before it starts."""
    found = paired(firsts, lasts)
    if found is None:
        raise ValueError("range ends before it starts")
    return found
