"""Numbers in the order of their ranks: the highest rank first, within a rank the lowest number first.

Made for millions of numbers of which hardly two have the same rank. A number takes some 80 octets. Adding,
removing and taking cost the logarithm of the size, and moves within one chunk.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import Final

from node.ranges.range_columns import chunks_of
from node.ranges.range_map import RangeMap, Span
from node.ranges.range_set import MANY_RANGES, Range, merged

HIGHEST_RANK: Final = (1 << 64) - 1

NUMBER_BITS: Final = 64

_NUMBERS: Final = (1 << NUMBER_BITS) - 1

CHUNK_KEYS: Final = 512
"""A chunk with more than twice as many keys is cut in two."""


def _key(rank: int, number: int) -> int:
    return (HIGHEST_RANK - rank) << NUMBER_BITS | number


def _rank(key: int) -> int:
    return HIGHEST_RANK - (key >> NUMBER_BITS)


class RankedNumbers:
    """Numbers below 2^64 with a rank from 0 to HIGHEST_RANK each."""

    __slots__ = ("_chunks", "_count", "_lasts", "_ranks")

    def __init__(self) -> None:
        # Ascending keys, in chunks that are never empty, and the last key of each chunk.
        self._chunks: list[list[int]] = []
        self._lasts: list[int] = []
        self._ranks = RangeMap()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def load(self, spans: Iterable[Span]) -> None:
        """Fill an empty object at once. Spans (first, last, rank) are sorted and disjoint."""
        known = list(spans)
        self._ranks = RangeMap(known)
        keys = sorted(_key(rank, number) for first, last, rank in known for number in range(first, last + 1))
        self._chunks = [keys[i : i + CHUNK_KEYS] for i in range(0, len(keys), CHUNK_KEYS)]
        self._lasts = [chunk[-1] for chunk in self._chunks]
        self._count = len(keys)

    def copy(self) -> RankedNumbers:
        made = RankedNumbers()
        made._chunks = [chunk[:] for chunk in self._chunks]
        made._lasts = self._lasts[:]
        made._ranks = self._ranks.copy()
        made._count = self._count
        return made

    # -- changing -------------------------------------------------------------------------------

    def add(self, first: int, last: int, rank: int) -> int:
        """Add the numbers of the closed range that are not there yet; return how many."""
        before = self._count
        known = self._ranks.spans(first, last)
        for start, end, _ in [*known, (last + 1, last, 0)]:
            if first < start:
                self._ranks.set(first, start - 1, rank)
                for number in range(first, start):
                    self._insert(_key(rank, number))
            first = end + 1
        return self._count - before

    def add_all(self, spans: list[Span]) -> int:
        """As `add` for each of the spans (first, last, rank), which are ascending and disjoint."""
        if len(spans) < MANY_RANGES or self._ranks.spans(spans[0][0], spans[-1][1]):
            return sum([self.add(first, last, rank) for first, last, rank in spans])
        self._ranks.set_all(spans)
        keys = [_key(rank, number) for first, last, rank in spans for number in range(first, last + 1)]
        keys.sort()
        self._insert_all(keys)
        return len(keys)

    def _insert_all(self, keys: list[int]) -> None:
        """Insert keys, which are ascending, into each chunk at once."""
        if not self._chunks:
            self._chunks.append([])
            self._lasts.append(0)
        self._count += len(keys)
        at = 0
        while at < len(keys):
            place = min(bisect_left(self._lasts, keys[at]), len(self._lasts) - 1)
            behind = len(keys)
            if place + 1 < len(self._lasts):
                behind = bisect_left(keys, self._lasts[place], at)
            chunk = self._chunks[place]
            chunk += keys[at:behind]
            # Two ascending parts: the sort only merges them.
            chunk.sort()
            cuts = chunks_of(len(chunk), CHUNK_KEYS)
            self._chunks[place : place + 1] = [chunk[cut] for cut in cuts]
            self._lasts[place : place + 1] = [chunk[cut][-1] for cut in cuts]
            at = behind

    def _insert(self, key: int) -> None:
        self._count += 1
        if not self._chunks:
            self._chunks.append([key])
            self._lasts.append(key)
            return
        at = min(bisect_left(self._lasts, key), len(self._lasts) - 1)
        chunk = self._chunks[at]
        insort(chunk, key)
        if len(chunk) > 2 * CHUNK_KEYS:
            self._chunks[at : at + 1] = [chunk[:CHUNK_KEYS], chunk[CHUNK_KEYS:]]
            self._lasts[at : at + 1] = [chunk[CHUNK_KEYS - 1], chunk[-1]]
        else:
            self._lasts[at] = chunk[-1]

    def remove(self, first: int, last: int) -> int:
        """Remove the numbers of the closed range; return how many were there."""
        before = self._count
        for start, end, rank in self._ranks.spans(first, last):
            for number in range(start, end + 1):
                self._delete(_key(rank, number))
        self._ranks.remove(first, last)
        return before - self._count

    def _delete(self, key: int) -> None:
        at = bisect_left(self._lasts, key)
        chunk = self._chunks[at]
        del chunk[bisect_left(chunk, key)]
        self._count -= 1
        if chunk:
            self._lasts[at] = chunk[-1]
        else:
            del self._chunks[at], self._lasts[at]

    def drop(self, ranges: list[Range], count: int) -> None:
        """Remove the first `count` numbers, which are those of `ranges`."""
        self._count -= count
        left = count
        whole = 0
        while whole < len(self._chunks) and len(self._chunks[whole]) <= left:
            left -= len(self._chunks[whole])
            whole += 1
        del self._chunks[:whole], self._lasts[:whole]
        if left:
            del self._chunks[0][:left]
        self._ranks.remove_all(merged(ranges))

    def clear(self) -> None:
        self._chunks, self._lasts, self._count = [], [], 0
        self._ranks = RangeMap()

    # -- asking ---------------------------------------------------------------------------------

    def first(self, limit: int) -> list[Range]:
        """The first `limit` numbers in their order."""
        return _ranges_of(self._first(limit))

    def _first(self, limit: int) -> list[int]:
        """The keys of the first `limit` numbers."""
        found: list[int] = []
        for chunk in self._chunks:
            if len(found) + len(chunk) >= limit:
                return found + chunk[: limit - len(found)]
            found += chunk
        return found

    def lowest(self) -> Range | None:
        """The first number of the lowest rank; None when empty."""
        if not self._chunks:
            return None
        low = _key(_rank(self._lasts[-1]), 0)
        chunk = self._chunks[bisect_left(self._lasts, low)]
        number = chunk[bisect_left(chunk, low)] & _NUMBERS
        return number, number

    def behind(self, rank: int, number: int) -> Iterator[tuple[int, Range]]:
        """(rank, number as a range) in their order, for those of `rank` above `number`, and of lower ranks.
        The set must not change meanwhile.
        """
        key = _key(rank, number) + 1
        at = bisect_left(self._lasts, key)
        start = bisect_left(self._chunks[at], key) if at < len(self._chunks) else 0
        for chunk in self._chunks[at:]:
            for one in chunk[start:]:
                yield _rank(one), (one & _NUMBERS, one & _NUMBERS)
            start = 0

    def intersection(self, first: int, last: int) -> list[Range]:
        """The parts of the closed range that are there, ascending."""
        return merged([(start, end) for start, end, _ in self._ranks.spans(first, last)])

    def ranges(self) -> Iterator[Range]:
        """All numbers, ascending."""
        return self._ranks.coverage().ranges()


def _ranges_of(keys: list[int]) -> list[Range]:
    """The numbers of the keys in their order, numbers that follow each other as one range."""
    found: list[Range] = []
    if not keys:
        return found
    first = last = keys[0] & _NUMBERS
    for key in keys[1:]:
        number = key & _NUMBERS
        if number == last + 1:
            last = number
        else:
            found.append((first, last))
            first = last = number
    found.append((first, last))
    return found
