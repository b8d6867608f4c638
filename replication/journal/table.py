"""Where the entries of a partition's log are, in 29 octets an entry."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import compress

_FRAGMENT_ROWS = 16
"""With fewer rows a span than this, dividing by a mask is faster than slicing."""

_INVERTED = b"\1\0" + bytes(254)


class EntryTable:
    """Rows sorted by log index: term, entry kind, and the record's segment, offset and length.

    Up to the snapshot the indexes have gaps, behind it they have none.
    """

    __slots__ = ("indexes", "kinds", "lengths", "offsets", "segments", "terms")

    def __init__(self) -> None:
        self.indexes = array("Q")
        self.terms = array("Q")
        self.kinds = array("B")
        self.segments = array("I")
        self.offsets = array("I")
        self.lengths = array("I")

    def __len__(self) -> int:
        return len(self.indexes)

    def append(self, index: int, term: int, kind: int, segment: int, offset: int, length: int) -> None:
        """Add a row behind all others; `index` must be greater than every index here."""
        self.indexes.append(index)
        self.terms.append(term)
        self.kinds.append(kind)
        self.segments.append(segment)
        self.offsets.append(offset)
        self.lengths.append(length)

    def find(self, index: int) -> int:
        """Row of `index`, or -1."""
        indexes = self.indexes
        if not indexes:
            return -1
        row = len(indexes) - 1 - (indexes[-1] - index)
        if 0 <= row < len(indexes) and indexes[row] == index:
            return row
        row = bisect_left(indexes, index)
        return row if row < len(indexes) and indexes[row] == index else -1

    def row_from(self, index: int) -> int:
        """First row whose index is not below `index`; the number of rows if there is none."""
        return bisect_left(self.indexes, index)

    def key(self, row: int) -> int:
        """A number for the record of this row that no other record ever gets."""
        return self.segments[row] << 32 | self.offsets[row]

    def move(self, row: int, segment: int, offset: int, length: int) -> None:
        """Note that the entry's record is elsewhere now."""
        self.segments[row] = segment
        self.offsets[row] = offset
        self.lengths[row] = length

    def copy_rows(self, source: EntryTable, low: int, high: int) -> None:
        """Append rows [low, high) of another table."""
        self.indexes.extend(source.indexes[low:high])
        self.terms.extend(source.terms[low:high])
        self.kinds.extend(source.kinds[low:high])
        self.segments.extend(source.segments[low:high])
        self.offsets.extend(source.offsets[low:high])
        self.lengths.extend(source.lengths[low:high])

    def cut(self, row: int) -> None:
        """Remove all rows from `row` on."""
        del self.indexes[row:]
        del self.terms[row:]
        del self.kinds[row:]
        del self.segments[row:]
        del self.offsets[row:]
        del self.lengths[row:]

    def tally(self, low: int, high: int, into: dict[int, list[int]]) -> None:
        """Add the number of rows [low, high) and their octets to `into`, per segment."""
        row = low
        segments = self.segments
        while row < high:
            segment = segments[row]
            end = row + 1
            while end < high and segments[end] == segment:
                end += 1
            sums = into.setdefault(segment, [0, 0])
            sums[0] += end - row
            sums[1] += sum(self.lengths[row:end])
            row = end

    def rows_in(self, segment: int) -> Iterator[int]:
        """Rows whose record is in `segment`. Rows may be moved, but not removed, meanwhile."""
        row = -1
        while True:
            try:
                row = self.segments.index(segment, row + 1)
            except ValueError:
                return
            yield row

    def divide(self, ranges: Sequence[tuple[int, int]], upto: int) -> tuple[EntryTable, EntryTable, int]:
        """Rows that stay and rows that go, if of the indexes up to `upto` only the closed ranges stay.

        Also returns how many of those up to `upto` stay. Ranges must be sorted and disjoint.
        """
        behind = bisect_right(self.indexes, upto)
        spans = self._spans(ranges, behind)
        kept = sum(high - low for low, high in spans)
        spans.append((behind, len(self)))
        if len(spans) * _FRAGMENT_ROWS > len(self):
            return *self._divide_by_mask(spans), kept
        living, dead = EntryTable(), EntryTable()
        dead_from = 0
        for low, high in spans:
            dead.copy_rows(self, dead_from, low)
            living.copy_rows(self, low, high)
            dead_from = high
        return living, dead, kept

    def octets_besides(self, ranges: Sequence[tuple[int, int]], upto: int) -> int:
        """Octets of the rows of the indexes up to `upto` that are in none of the closed ranges, which must be
        sorted and disjoint.
        """
        behind = bisect_right(self.indexes, upto)
        inside = sum(sum(self.lengths[low:high]) for low, high in self._spans(ranges, behind))
        return sum(self.lengths[:behind]) - inside

    def _spans(self, ranges: Sequence[tuple[int, int]], behind: int) -> list[tuple[int, int]]:
        """Rows [low, high) below `behind` of each range."""
        indexes = self.indexes
        spans = []
        low = 0
        for first, last in ranges:
            if low >= behind:
                break
            if indexes[low] < first:
                low = bisect_left(indexes, first, low, behind)
            high = low + last - first + 1
            if high > behind or indexes[high - 1] != last:
                high = bisect_right(indexes, last, low, behind)
            if low < high:
                spans.append((low, high))
            low = high
        return spans

    def _divide_by_mask(self, spans: Sequence[tuple[int, int]]) -> tuple[EntryTable, EntryTable]:
        """Many short spans: one pass over each column instead of a slice for each span."""
        mask = bytearray(len(self))
        for low, high in spans:
            mask[low:high] = b"\1" * (high - low)
        return self._masked(mask), self._masked(mask.translate(_INVERTED))

    def _masked(self, mask: bytearray) -> EntryTable:
        table = EntryTable()
        table.indexes = array("Q", compress(self.indexes, mask))
        table.terms = array("Q", compress(self.terms, mask))
        table.kinds = array("B", compress(self.kinds, mask))
        table.segments = array("I", compress(self.segments, mask))
        table.offsets = array("I", compress(self.offsets, mask))
        table.lengths = array("I", compress(self.lengths, mask))
        return table


def closed_ranges(indexes: array[int], count: int) -> array[int]:
    """First and last, in turn, of the runs of consecutive numbers in indexes[:count]."""
    ranges = array("Q")
    low = 0
    while low < count:
        first = indexes[low]
        end = low + 1
        if end < count and indexes[end] == first + 1:
            end = _run_end(indexes, low, count)
        ranges.append(first)
        ranges.append(indexes[end - 1])
        low = end
    return ranges


def _run_end(indexes: array[int], low: int, high: int) -> int:
    """First row behind the run of consecutive numbers that begins at `low`, by bisection."""
    first = indexes[low]
    inside, outside = low, high
    while outside - inside > 1:
        middle = (inside + outside) // 2
        if indexes[middle] - first == middle - low:
            inside = middle
        else:
            outside = middle
    return outside
