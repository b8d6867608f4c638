"""Where the entries of a partition's log are, in 29 octets an entry."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence


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

    def selected(self, ranges: Sequence[tuple[int, int]], upto: int) -> tuple[list[tuple[int, int]], int]:
        """Row spans [low, high) of the closed index ranges up to `upto`, and the first row behind that.

        Ranges must be sorted and disjoint.
        """
        behind = bisect_right(self.indexes, upto)
        spans = []
        low = 0
        for first, last in ranges:
            low = bisect_left(self.indexes, first, low, behind)
            high = bisect_right(self.indexes, last, low, behind)
            if low < high:
                spans.append((low, high))
            low = high
        return spans, behind


def closed_ranges(indexes: array[int], low: int, high: int) -> Iterator[tuple[int, int]]:
    """The runs of consecutive numbers in indexes[low:high], as closed ranges."""
    while low < high:
        first = indexes[low]
        end = high
        if indexes[high - 1] - first != high - 1 - low:
            end = _run_end(indexes, low, high)
        yield first, indexes[end - 1]
        low = end


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
