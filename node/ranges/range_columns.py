"""Changes many ranges at once. Ranges are columns of first and last numbers, ascending and disjoint."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right


def joined_columns(starts: array[int], ends: array[int], added: list[tuple[int, int]]) -> list[array[int]]:
    """New columns of the ranges joined with `added`, which are ascending."""
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
    new_starts, new_ends = array("Q"), array("Q")
    # For each new range the index of the old range that it is a part of.
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
    return [new_starts, new_ends, *(array("Q", map(column.__getitem__, origins)) for column in columns)]
