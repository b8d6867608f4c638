"""The table of entries against a dictionary."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from replication.journal.table import EntryTable, closed_ranges

INDEXES = st.lists(st.integers(1, 200), unique=True).map(sorted)


def filled(indexes: list[int]) -> EntryTable:
    table = EntryTable()
    for index in indexes:
        table.append(index, index * 2, index % 2, index // 10, index * 3, index + 5)
    return table


def rows(table: EntryTable) -> list[tuple[int, ...]]:
    return list(
        zip(
            table.indexes,
            table.terms,
            table.kinds,
            table.segments,
            table.offsets,
            table.lengths,
            strict=True,
        )
    )


def expanded(ranges: array[int]) -> list[int]:
    pairs = iter(ranges)
    return [index for first, last in zip(pairs, pairs, strict=True) for index in range(first, last + 1)]


@given(INDEXES, st.integers(0, 210))
def test_find(indexes: list[int], index: int) -> None:
    row = filled(indexes).find(index)
    assert (indexes[row] == index) if row >= 0 else (index not in indexes)


@given(INDEXES, INDEXES, st.integers(0, 210))
def test_divide(indexes: list[int], wanted: list[int], upto: int) -> None:
    pairs = iter(closed_ranges(array("Q", wanted), len(wanted)))
    living, dead, kept = filled(indexes).divide(list(zip(pairs, pairs, strict=True)), upto)
    stays = [index for index in indexes if index > upto or index in wanted]
    assert rows(living) == rows(filled(stays))
    assert rows(dead) == rows(filled([index for index in indexes if index not in stays]))
    assert kept == sum(index <= upto for index in stays)


@given(INDEXES, st.integers(0, 200))
def test_closed_ranges(indexes: list[int], count: int) -> None:
    count = min(count, len(indexes))
    ranges = closed_ranges(array("Q", indexes), count)
    assert expanded(ranges) == indexes[:count]
    assert all(ranges[i] > ranges[i - 1] + 1 for i in range(2, len(ranges), 2))


@given(INDEXES)
def test_tally_and_rows_in(indexes: list[int]) -> None:
    table = filled(indexes)
    sums: dict[int, list[int]] = {}
    table.tally(0, len(table), sums)
    for segment in range(21):
        inside = [index for index in indexes if index // 10 == segment]
        assert sums.get(segment, [0, 0]) == [len(inside), sum(index + 5 for index in inside)]
        assert [indexes[row] for row in table.rows_in(segment)] == inside
