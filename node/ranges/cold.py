"""Parts of range sets and range maps that lie outside of memory, in blocks of a store.

A store keeps octets for this process alone: they are a cache of the log, and gone with the process. A set or
a map that uses one keeps the ranges at hand in its chunks, the hot ones, and the others in cold blocks. No
hot range lies between the first and the last number of a cold block.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from node.ranges.range_columns import total
from node.ranges.range_set import Range

COLD_BLOCK_OCTETS: Final = 16_384
"""A block has at most so many octets."""

HOT_RANGES: Final = 32_768
"""A set or a map has about so many ranges in memory: 512 KiB of a set, 768 KiB of a map."""

_NUMBER_OCTETS: Final = 8
_ABOVE: Final = 1 << 64

Columns = list["array[int]"]
"""First numbers, last numbers and, in a map, values."""

Hot = Sequence[list["array[int]"]]
"""The same by chunks: the lists of a set or a map."""


class ColdStore(Protocol):
    """Keeps octets outside of memory."""

    def put(self, octets: bytes) -> int | None:
        """Keep up to COLD_BLOCK_OCTETS octets; returns the number of their block, or None where there is no
        room."""

    def read(self, block: int) -> bytes:
        """The octets of a block. Raises OSError where they cannot be read, or are not those that were put."""

    def drop(self, block: int) -> None:
        """The block is not needed any more."""


class ColdSpace:
    """The blocks of a store that the sets and maps of one queue have. `close` drops all of them.

    hot: about so many ranges of each set and map are in memory. block: a block has up to so many octets.
    recent: the blocks of each set and map that were needed last stay in memory, so many.
    """

    __slots__ = ("_blocks", "_store", "block", "hot", "recent")

    def __init__(
        self, store: ColdStore, hot: int = HOT_RANGES, block: int = COLD_BLOCK_OCTETS, recent: int = 8
    ) -> None:
        self._store, self.hot, self.block, self.recent = store, hot, block, recent
        self._blocks: set[int] = set()

    def __len__(self) -> int:
        """The number of blocks."""
        return len(self._blocks)

    def put(self, octets: bytes) -> int | None:
        """As `ColdStore.put`."""
        block = self._store.put(octets)
        if block is not None:
            self._blocks.add(block)
        return block

    def read(self, block: int) -> bytes:
        """As `ColdStore.read`. Raises KeyError behind `close`."""
        if block not in self._blocks:
            raise KeyError(block)
        return self._store.read(block)

    def drop(self, block: int) -> None:
        """As `ColdStore.drop`."""
        if block in self._blocks:
            self._blocks.remove(block)
            self._store.drop(block)

    def close(self) -> None:
        """Drop all blocks. Sets and maps that have some cannot be read any more."""
        for block in self._blocks:
            self._store.drop(block)
        self._blocks.clear()


class ColdBlocks:
    """The cold blocks of one set (`width` 2) or map (`width` 3), ascending, none overlapping another.

    Memory has the first and the last number of each block, how many numbers and ranges it has, its lowest and
    its highest value, and its number in the store.
    """

    __slots__ = (
        "_limit",
        "_places",
        "_recent",
        "_room",
        "_space",
        "_width",
        "counts",
        "firsts",
        "highs",
        "lasts",
        "lows",
        "sizes",
    )

    def __init__(self, space: ColdSpace, width: int) -> None:
        self._space, self._width = space, width
        self.firsts, self.lasts, self.counts = array("Q"), array("Q"), array("Q")
        self.lows, self.highs, self._places = array("Q"), array("Q"), array("Q")
        self.sizes = array("I")
        # The intervals of the blocks that were needed last.
        self._recent: list[Range] = []
        # More hot ranges than that are too many; so many may still come before they are counted again.
        self._limit = self._room = space.hot

    def __len__(self) -> int:
        return len(self.firsts)

    def touching(self, first: int, last: int) -> tuple[int, int]:
        """The blocks, from one index to before another, whose intervals overlap the closed range."""
        low = bisect_left(self.lasts, first)
        return low, max(low, bisect_right(self.firsts, last))

    def inside(self, first: int, last: int) -> tuple[int, int]:
        """As `touching`, for blocks whose whole intervals are in the closed range."""
        low = bisect_left(self.firsts, first)
        return low, max(low, bisect_right(self.lasts, last))

    def read(self, at: int) -> Columns:
        """The ranges of a block. Raises OSError."""
        octets = memoryview(self._space.read(self._places[at]))
        step, found = self.sizes[at] * _NUMBER_OCTETS, Columns()
        for start in range(0, self._width * step, step):
            column = array("Q")
            column.frombytes(octets[start : start + step])
            found.append(column)
        return found

    def drop(self, low: int, high: int) -> int:
        """Drop blocks; returns how many numbers they had."""
        for place in self._places[low:high]:
            self._space.drop(place)
        gone = sum(self.counts[low:high])
        for column in (self.firsts, self.lasts, self.counts, self.lows, self.highs, self._places, self.sizes):
            del column[low:high]
        return gone

    def drop_inside(self, first: int, last: int) -> int:
        """Drop the blocks that are wholly in the closed range; returns how many numbers they had."""
        low, high = self.inside(first, last)
        return self.drop(low, high) if low < high else 0

    def last_beside(self, hot: list[int]) -> int | None:
        """The last number, of blocks and of the hot ranges with these last numbers."""
        last = hot[-1] if hot else None
        if self.lasts and (last is None or self.lasts[-1] > last):
            return self.lasts[-1]
        return last

    # -- to memory, and out of it ---------------------------------------------------------------

    def spend(self, ranges: int, hot: Hot, lasts: list[int]) -> None:
        """So many ranges may come to the hot ones: first put others into blocks, where they are too many."""
        self._room -= ranges
        if self._room < 0:
            self._freeze(hot, lasts)

    def thaw(self, first: int, last: int, hot: Hot, lasts: list[int]) -> None:
        """Have the blocks that overlap the closed range in memory. Raises OSError, and changes nothing, where
        one of them cannot be read.
        """
        low, high = self.touching(first, last)
        if low == high:
            return
        for columns in [self.read(at) for at in range(low, high)]:
            self._recent.append((columns[0][0], columns[1][-1]))
            self._room -= len(columns[0])
            _install(columns, hot, lasts)
        self.drop(low, high)
        del self._recent[: -self._space.recent]

    def thaw_next(self, number: int, hot: Hot, lasts: list[int]) -> None:
        """Have the first range that ends at the number or behind in memory. Raises OSError."""
        low = bisect_left(self.lasts, number)
        if low < len(self.lasts):
            chunk = bisect_left(lasts, number)
            if chunk < len(lasts):
                i = bisect_left(hot[1][chunk], number)
                if hot[0][chunk][i] < self.firsts[low]:
                    return
            self.thaw(self.firsts[low], self.firsts[low], hot, lasts)

    def pieces(
        self, number: int, hot: Hot, lasts: list[int], least: int = 0, below: int = _ABOVE
    ) -> Iterator[Columns]:
        """All ranges that end at the number or behind, ascending, and some before these. Leaves out blocks
        without a value from `least` to `below`. Ranges in memory stay there. Ranges may go to blocks, and
        come back, meanwhile. Raises OSError.
        """
        while True:
            low, chunk = bisect_left(self.lasts, number), bisect_left(lasts, number)
            i = bisect_left(hot[1][chunk], number) if chunk < len(lasts) else 0
            if low < len(self.lasts) and (chunk == len(lasts) or self.firsts[low] < hot[0][chunk][i]):
                number = self.lasts[low] + 1
                if self.lows[low] < below and self.highs[low] >= least:
                    yield self.read(low)
            elif chunk < len(lasts):
                starts = hot[0][chunk]
                cut = bisect_left(starts, self.firsts[low]) if low < len(self.lasts) else len(starts)
                columns = [column[chunk][i:cut] for column in hot]
                number = columns[1][-1] + 1
                yield columns
            else:
                break

    def _freeze(self, hot: Hot, lasts: list[int]) -> None:
        count = sum(map(len, hot[0]))
        if count <= self._limit:
            self._room = max(self._limit - count, self._limit >> 3)
            return
        freezing = _Freezing(self, len(hot))
        for chunk in range(len(lasts)):
            columns = [column[chunk] for column in hot]
            if chunk == len(lasts) - 1:
                # New messages come behind the last ones.
                cut = max(0, len(columns[0]) - self.most)
                freezing.offer([column[:cut] for column in columns])
                freezing.keep([column[cut:] for column in columns])
            elif self._needed(columns[0][0], columns[1][-1]):
                freezing.keep(columns)
            else:
                freezing.offer(columns)
        freezing.flush()
        for chunks, kept in zip(hot, freezing.kept, strict=True):
            chunks[:] = kept
        lasts[:] = [ends[-1] for ends in hot[1]]
        left = sum(map(len, hot[0]))
        # Where there is no room in the store, the ranges stay in memory until they are twice as many.
        self._limit = max(self._space.hot, 2 * left) if freezing.full else self._space.hot
        self._room = max(self._limit - left, self._limit >> 3)

    @property
    def most(self) -> int:
        """A block has up to so many ranges."""
        return max(1, self._space.block // (self._width * _NUMBER_OCTETS))

    def _needed(self, first: int, last: int) -> bool:
        return any(start <= last and first <= end for start, end in self._recent)

    def put(self, columns: Columns) -> bool:
        """Put ranges into a block, up to `most` of them, between which no block lies. False where there is no
        room.
        """
        place = self._space.put(b"".join([column.tobytes() for column in columns]))
        if place is None:
            return False
        starts, ends = columns[0], columns[1]
        at = bisect_left(self.firsts, starts[0])
        self.firsts.insert(at, starts[0])
        self.lasts.insert(at, ends[-1])
        self.counts.insert(at, total(starts, ends))
        self.sizes.insert(at, len(starts))
        self.lows.insert(at, min(columns[2]) if self._width > 2 else 0)
        self.highs.insert(at, max(columns[2]) if self._width > 2 else 0)
        self._places.insert(at, place)
        return True


class _Freezing:
    """Puts the ranges that are offered into blocks, and keeps the others, both in ascending order. `kept` are
    the chunks that stay. `full`: there is no room.
    """

    __slots__ = ("_blocks", "_run", "full", "kept")

    def __init__(self, blocks: ColdBlocks, width: int) -> None:
        self._blocks = blocks
        self._run: Columns = []
        self.kept: list[list[array[int]]] = [[] for _ in range(width)]
        self.full = False

    def keep(self, columns: Columns) -> None:
        """These ranges stay in memory."""
        self.flush()
        if columns[0]:
            for chunks, column in zip(self.kept, columns, strict=True):
                chunks.append(column)

    def offer(self, columns: Columns) -> None:
        """These ranges may go into a block, with those offered before between which no block lies."""
        size = len(columns[0])
        if not size:
            return
        low, high = self._blocks.touching(columns[0][0], columns[1][-1])
        cuts = [bisect_left(columns[0], first) for first in self._blocks.firsts[low:high]]
        for start, end in zip([0, *cuts], [*cuts, size], strict=True):
            if start < end:
                self._join([column[start:end] for column in columns])

    def _join(self, columns: Columns) -> None:
        if self._run:
            low, high = self._blocks.touching(self._run[1][-1], columns[0][0])
            if low < high:
                self.flush()
        if not self._run:
            self._run = columns
            return
        for run, column in zip(self._run, columns, strict=True):
            run += column

    def flush(self) -> None:
        """Put what was offered into blocks."""
        run, most = self._run, self._blocks.most
        self._run = []
        for at in range(0, len(run[0]) if run else 0, most):
            piece = [column[at : at + most] for column in run]
            self.full = self.full or not self._blocks.put(piece)
            if self.full:
                for chunks, column in zip(self.kept, piece, strict=True):
                    chunks.append(column)


def _install(columns: Columns, hot: Hot, lasts: list[int]) -> None:
    """Make the ranges of a block a chunk among the hot ones."""
    starts = hot[0]
    first = columns[0][0]
    at = bisect_left(lasts, first)
    if at < len(lasts) and starts[at][0] < first:
        cut = bisect_left(starts[at], first)
        for chunks in hot:
            chunks.insert(at + 1, chunks[at][cut:])
            del chunks[at][cut:]
        lasts[at : at + 1] = [ends[-1] for ends in hot[1][at : at + 2]]
        at += 1
    for chunks, column in zip(hot, columns, strict=True):
        chunks.insert(at, column)
    lasts.insert(at, columns[1][-1])
