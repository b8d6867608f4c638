"""Changes and questions of many ranges at once. Ranges are columns of first and last numbers, ascending and
disjoint, from 0 to 2^64-1. The work is done in C where `_range_columns.c` was built.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import le, lt
from typing import Any, Final

from node.ranges import native

_ABOVE: Final = 1 << 64


def chunks_of(size: int, most: int) -> list[slice]:
    """Where columns of so many ranges are cut into chunks: not at all up to twice `most` ranges, and after
    each `most` ranges otherwise.
    """
    step = most if size > 2 * most else max(size, 1)
    return [slice(at, at + step) for at in range(0, size, step)]


def by_chunk(
    lasts: list[int], ranges: list[tuple[int, int]]
) -> Iterator[tuple[int, list[tuple[int, int]], list[tuple[int, int]]]]:
    """(chunk, ranges that no later chunk has a part of, the range behind them that a later chunk may have a
    part of) for ranges that are ascending and disjoint. `lasts`: the last number of each chunk.
    """
    at = 0
    while at < len(ranges):
        chunk = bisect_left(lasts, ranges[at][0])
        if chunk == len(lasts):
            break
        top = lasts[chunk]
        behind = bisect_right(ranges, (top, _ABOVE), at)
        crossing = behind - 1 if ranges[behind - 1][1] > top else behind
        yield chunk, ranges[at:crossing], ranges[crossing:behind]
        at = behind


def total(starts: array[int], ends: array[int]) -> int:
    """How many numbers the ranges have."""
    if native.NATIVE_TOTAL is not None:
        found: int | None = native.NATIVE_TOTAL(starts, ends)
        if found is not None:
            return found
    return sum(ends) - sum(starts) + len(starts)


def ascending(starts: array[int], ends: array[int]) -> bool:
    """Whether no range ends before it starts, and each begins behind the end of the one before."""
    if native.NATIVE_ASCENDING is not None:
        found: bool = native.NATIVE_ASCENDING(starts, ends)
        return found
    return all(map(le, starts, ends)) and all(map(lt, ends, starts[1:]))


def paired(starts: array[int], ends: array[int]) -> list[tuple[int, int]] | None:
    """The ranges of two columns, which may overlap. None where one ends before it starts."""
    if native.NATIVE_PAIRED is not None:
        found: list[tuple[int, int]] | None = native.NATIVE_PAIRED(starts, ends)
        return found
    return list(zip(starts, ends, strict=True)) if all(map(le, starts, ends)) else None


def transposed(rows: list[Any], width: int) -> list[array[int]]:
    """The first numbers of all rows, then the second ones, and so on. A row is a tuple of so many numbers."""
    if native.NATIVE_TRANSPOSED is not None:
        made: list[array[int]] = native.NATIVE_TRANSPOSED(rows, width)
        return made
    return [array("Q", numbers) for numbers in zip(*rows, strict=True)] or [array("Q") for _ in range(width)]


def first_of(ranges: Iterable[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """The first `count` numbers of the ranges."""
    found: list[tuple[int, int]] = []
    for first, last in ranges:
        if count <= 0:
            break
        last = min(last, first + count - 1)
        found.append((first, last))
        count -= last - first + 1
    return found


def fronts(starts: array[int], ends: array[int], limit: int) -> list[tuple[int, int]]:
    """The first `limit` numbers of the ranges, or all, as ranges."""
    if native.NATIVE_FRONTS is not None:
        taken: list[tuple[int, int]] | None = native.NATIVE_FRONTS(starts, ends, limit)
        if taken is not None:
            return taken
    return first_of(zip(starts, ends, strict=True), limit)


def parts(
    at: int, first: int, last: int, starts: array[int], ends: array[int], *values: array[int]
) -> list[Any]:
    """The parts of the closed range that the ranges from index `at` on have: pairs, or triples with the value
    of each where there is a column of values.
    """
    if native.NATIVE_PARTS is not None:
        there: list[Any] | None = native.NATIVE_PARTS(at, first, last, starts, ends, *values)
        if there is not None:
            return there
    found: list[Any] = []
    for row in islice(zip(starts, ends, *values, strict=True), at, None):
        if row[0] > last:
            break
        found.append((max(row[0], first), min(row[1], last), *row[2:]))
    return found


def within(
    starts: array[int], ends: array[int], ranges: list[tuple[int, int]], *values: array[int]
) -> list[Any]:
    """As `parts` for several ranges, which are ascending and disjoint."""
    if native.NATIVE_WITHIN is not None:
        there: list[Any] | None = native.NATIVE_WITHIN(starts, ends, ranges, *values)
        if there is not None:
            return there
    return [
        part
        for first, last in ranges
        for part in parts(bisect_left(ends, first), first, last, starts, ends, *values)
    ]


def joined_columns(starts: array[int], ends: array[int], added: list[tuple[int, int]]) -> list[array[int]]:
    """New columns of the ranges joined with `added`, which are ascending."""
    if native.NATIVE_JOINED is not None:
        found: list[array[int]] | None = native.NATIVE_JOINED(starts, ends, added)
        if found is not None:
            return found
    new_starts, new_ends, i = array("Q"), array("Q"), 0
    for first, last in added:
        touching = bisect_left(ends, first - 1 if first else 0, i)
        if touching > i:
            new_starts += starts[i:touching]
            new_ends += ends[i:touching]
            i = touching
        if i < len(starts) and starts[i] <= last + 1:
            first = min(first, starts[i])
            i = bisect_right(starts, last + 1, i)
            last = max(last, ends[i - 1])
        if new_ends and new_ends[-1] + 1 >= first:
            new_ends[-1] = max(new_ends[-1], last)
        else:
            new_starts.append(first)
            new_ends.append(last)
    return [new_starts + starts[i:], new_ends + ends[i:]]


def cut_out(
    starts: array[int], ends: array[int], removed: list[tuple[int, int]], *columns: array[int]
) -> list[array[int]]:
    """New columns of the ranges without `removed`, which are ascending. `columns` have a value of each range,
    and are returned for the ranges that are left. There is at least one range.
    """
    if native.NATIVE_CUT_OUT is not None:
        found: list[array[int]] | None = native.NATIVE_CUT_OUT(starts, ends, removed, *columns)
        if found is not None:
            return found
    new_starts, new_ends, origins = _left(starts, ends, removed)
    return [new_starts, new_ends, *(array("Q", map(column.__getitem__, origins)) for column in columns)]


def _left(
    starts: array[int], ends: array[int], removed: list[tuple[int, int]]
) -> tuple[array[int], array[int], list[int]]:
    """The ranges without `removed`, and for each the index of the old range that it is a part of."""
    new_starts, new_ends = array("Q"), array("Q")
    origins: list[int] = []
    i, size = 0, len(starts)
    # The part of range i below `start` is done.
    start = starts[0]
    for first, last in removed:
        touched = bisect_left(ends, first, i)
        if touched > i:
            new_starts.append(start)
            new_starts += starts[i + 1 : touched]
            new_ends += ends[i:touched]
            origins += range(i, touched)
            if touched == size:
                break
            i, start = touched, starts[touched]
        if start < first:
            new_starts.append(start)
            new_ends.append(first - 1)
            origins.append(i)
        if ends[i] <= last:
            i = bisect_right(ends, last, i)
            if i == size:
                break
            start = starts[i]
        start = max(start, last + 1)
    else:
        new_starts.append(start)
        new_starts += starts[i + 1 :]
        new_ends += ends[i:]
        origins += range(i, size)
    return new_starts, new_ends, origins


def merged_pairs(numbers: array[int]) -> list[tuple[int, int]]:
    """Disjoint ranges in ascending order, with adjacent and overlapping ones joined. `numbers` has the first
    and the last number of each range in turn, in any order of the ranges.
    """
    if native.NATIVE_MERGED_PAIRS is not None:
        made: list[tuple[int, int]] = native.NATIVE_MERGED_PAIRS(numbers)
        return made
    found: list[tuple[int, int]] = []
    for first, last in sorted(zip(numbers[::2], numbers[1::2], strict=True)):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def by_slot(
    starts: array[int], ends: array[int], values: array[int], width: int
) -> list[tuple[int, array[int]]]:
    """(slot, first and last numbers in turn) of the spans with values in the slot, by ascending slots. A slot
    has the values above `width` times the number before it, up to `width` times its own number.
    """
    if native.NATIVE_BY_SLOT is not None:
        made: list[tuple[int, array[int]]] = native.NATIVE_BY_SLOT(starts, ends, values, width)
        return made
    found: dict[int, array[int]] = {}
    for first, last, value in zip(starts, ends, values, strict=True):
        numbers = found.setdefault(-(-value // width), array("Q"))
        numbers.append(first)
        numbers.append(last)
    return sorted(found.items())


def within_up_to(
    starts: array[int], ends: array[int], values: array[int], ranges: list[tuple[int, int]], most: int
) -> list[tuple[int, int]]:
    """The parts of ascending, disjoint ranges that the spans with values up to `most` have.
    Parts that touch are joined.
    """
    if native.NATIVE_WITHIN_UP_TO is not None:
        there: list[tuple[int, int]] | None = native.NATIVE_WITHIN_UP_TO(starts, ends, values, ranges, most)
        if there is not None:
            return there
    spans = within(starts, ends, ranges, values)
    return merged_pairs(array("Q", [number for span in spans if span[2] <= most for number in span[:2]]))


SpanColumns = tuple["array[int]", "array[int]", "array[int]"]
"""Columns of first numbers, last numbers and values."""


def overlaid(old: SpanColumns, news: SpanColumns) -> list[array[int]]:
    """The spans `old` with the spans `news` in place of any former values. Neighbours with one value are one
    span.
    """
    if native.NATIVE_OVERLAID is not None:
        built: list[array[int]] = native.NATIVE_OVERLAID(*old, *news)
        return built
    starts, ends, values = old
    removed = list(zip(news[0], news[1], strict=True))
    left = cut_out(starts, ends, removed, values) if starts else [*old]
    rows = sorted([*zip(*left, strict=True), *zip(*news, strict=True)])
    made = [array("Q"), array("Q"), array("Q")]
    for first, last, value in rows:
        if made[1] and made[1][-1] + 1 == first and made[2][-1] == value:
            made[1][-1] = last
            continue
        for column, number in zip(made, (first, last, value), strict=True):
            column.append(number)
    return made
