"""Cuts the messages of a large entry out of the log as blocks, without the entry or a block being in memory
as a whole (docs/decisions/0088-large-entries-in-slices.md). Pure but for the reads of the journal.

A reader asks for one slice after the other, and states how much it has. `KnownEntries` alone is kept between
two questions.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Final, NamedTuple

from cluster.owner.log_reading import (
    BLOCK_OCTETS,
    BlockMaking,
    Wanted,
    matching_pieces,
    within_blocks,
)
from cluster.owner.walking import EntriesGoneError
from node.message.run import Run
from node.queue.block_format import LargeBlock, encode_block_run
from node.queue.entry_format import PUBLISH_HEAD, read_run
from node.queue.entry_windows import ENTRY_BEGIN, EntryPlace, PublishPlace, publishes_from
from node.queue.filtering import Looking
from node.ranges.range_set import Range
from replication.journal import SLICE_OCTETS, EntrySlices, PartitionLog

LARGE_OCTETS: Final = 1024 * 1024
"""Entries of more octets are read in slices. Smaller ones take one read, where slices take two."""

SUM_OCTETS: Final = 4 * SLICE_OCTETS
"""Octets of a large message that are read at a time for the CRC of its block."""

_KNOWN_ENTRIES: Final = 64


def is_large(log: PartitionLog, wanted: Wanted) -> bool:
    """Whether a step is to read a large entry: such a step reads no other."""
    return len(wanted.rows) == 1 and log.table.lengths[wanted.rows[0]] > LARGE_OCTETS


class LogSlice(NamedTuple):
    """Octets of blocks. The reading goes on at the message `next`, whose block has `within` octets in front
    of what is to come: none but in the middle of a large block.
    """

    octets: bytes
    next: int
    within: int


class KnownEntry:
    """Some places in a large entry, in ascending order, and the CRCs of its large blocks, by message and
    time. Readers have found them.
    """

    def __init__(self) -> None:
        self.places = [ENTRY_BEGIN]
        self.crcs: dict[tuple[int, int], int] = {}

    def place_before(self, message: int) -> EntryPlace:
        """A place in front of a message."""
        return self.places[max(0, bisect_right(self.places, message, key=lambda one: one.sequence) - 1)]

    def note(self, place: EntryPlace) -> None:
        """Keep a place, about one for each slice."""
        last = self.places[-1]
        if place.offset - last.offset >= SLICE_OCTETS and place.sequence > last.sequence:
            self.places.append(place)


class KnownEntries:
    """The large entries of a node that were read last, by the key of their records."""

    def __init__(self) -> None:
        self._entries: OrderedDict[int, KnownEntry] = OrderedDict()

    def of(self, key: int) -> KnownEntry:
        """The places and CRCs of an entry."""
        known = self._entries.setdefault(key, KnownEntry())
        self._entries.move_to_end(key)
        if len(self._entries) > _KNOWN_ENTRIES:
            self._entries.popitem(last=False)
        return known


class StoredPublish:
    """A publish operation of a large entry. `lengths` are those of its messages."""

    def __init__(self, slices: Callable[[], EntrySlices], place: PublishPlace) -> None:
        entry = slices()
        head = entry.read(place.start, place.start + PUBLISH_HEAD.size)
        octets: int = PUBLISH_HEAD.unpack(head)[-1]
        self._slices, self._octets_at = slices, place.end - octets
        # All of the run but its octets.
        self._run = read_run(entry.read(place.start, self._octets_at), 0)
        self.lengths = self._run.each_length()
        self._offsets = array("Q", accumulate(self.lengths, initial=0))

    def octets(self, indexes: Range) -> int:
        """The octets of messages of the run."""
        return self._offsets[indexes[1] + 1] - self._offsets[indexes[0]]

    def read(self, index: int, start: int, end: int) -> bytes:
        """The octets between two offsets in a message and those behind it."""
        at = self._octets_at + self._offsets[index]
        return self._slices().read(at + start, at + end)

    def run(self, indexes: Range, octets: bytes = b"") -> Run:
        """Messages of the run, with their octets."""
        first, last = indexes
        bare = self._run.slice(first, last - first + 1)
        return Run(
            bare.exchange,
            bare.routing_key,
            bare.channel,
            bare.persistent,
            bare.count,
            bare.skip,
            bare.stride,
            bare.lengths,
            bare.largest_frame,
            octets,
            bare.special,
            bare.format,
        )


class WantedPiece(NamedTuple):
    """Messages that are wanted of a publish, no more than a block has unless it is one message: the number
    and the time of the first, and their indexes in the publish.
    """

    first: int
    time_ms: int
    publish: StoredPublish
    indexes: Range

    @property
    def octets(self) -> int:
        return self.publish.octets(self.indexes)

    def run(self) -> Run:
        """The messages, read whole."""
        return self.publish.run(self.indexes, self.publish.read(self.indexes[0], 0, self.octets))


class SliceCutting:
    """Cuts the answer to one question. `slices` gives the entry where its record is now, and raises where the
    record has moved.
    """

    def __init__(
        self, slices: Callable[[], EntrySlices], known: KnownEntry, wanted: Wanted, looking: Looking | None
    ) -> None:
        """looking: only messages that its selector takes come into blocks."""
        self._slices, self._known, self._wanted, self._looking = slices, known, wanted, looking
        self._making = BlockMaking(wanted.queue)

    def steps(self, within: int) -> Iterator[LogSlice | None]:
        """The answer, behind steps after each of which the work may be interrupted. `within`: octets of the
        first message's block that the reader has. Raises EntriesGoneError, EntryFormatError,
        DamagedEntryError and what `slices` raises.
        """
        while not (entry := self._slices()).verified:
            entry.verify()
            yield None
        for piece in self._pieces():
            if piece is None:
                yield None
                continue
            if within and piece.octets <= BLOCK_OCTETS:
                raise EntriesGoneError(f"message {piece.first} is no large one")
            for told in self._large(piece, within) if piece.octets > BLOCK_OCTETS else self._small(piece):
                yield told
                if told is not None:
                    return
        making, behind = self._making, self._wanted.next
        whole = making.messages or self._looking is not None
        yield LogSlice(making.block(behind) if whole else b"", behind, 0)

    def _pieces(self) -> Iterator[WantedPiece | None]:
        """The wanted pieces of the entry. None: the work may be interrupted."""
        spans, at = self._wanted.spans, 0
        place = self._known.place_before(spans[0][0])
        while at < len(spans) and place.offset < (entry := self._slices()).size:
            found, place = publishes_from(entry.read, entry.size, place)
            self._known.note(place)
            yield None
            for one in found:
                while at < len(spans) and spans[at][1] < one.first:
                    at += 1
                if at == len(spans) or spans[at][0] >= one.first + one.messages:
                    continue
                publish = StoredPublish(self._slices, one)
                for number in range(at, len(spans)):
                    low, high, time_ms = spans[number]
                    low, high = max(low, one.first) - one.first, min(high - one.first, one.messages - 1)
                    if low > high:
                        break
                    for indexes in within_blocks(publish.lengths, low, high):
                        yield WantedPiece(one.first + indexes[0], time_ms, publish, indexes)

    def _small(self, piece: WantedPiece) -> Iterator[LogSlice | None]:
        """Add a piece to the block that is being made. The answer is that block, if it has no room."""
        making, looking = self._making, self._looking
        pieces = iter([(piece.first, piece.time_ms, piece.run())])
        for first, time_ms, run in pieces if looking is None else matching_pieces(pieces, looking):
            if not run.count:
                yield None
                continue
            if making.full(len(run.raw)):
                yield LogSlice(making.block(first), first, 0)
                return
            making.add(first, run.count, len(run.raw), encode_block_run(first, time_ms, run))

    def _large(self, piece: WantedPiece, within: int) -> Iterator[LogSlice | None]:
        """The answer is a slice of the block of a large message; or the block in front, if there is one."""
        first, time_ms, publish, indexes = piece
        if self._making.messages:
            yield LogSlice(self._making.block(first), first, 0)
            return
        if self._looking is not None and not within and not self._taken(piece):
            return
        size = piece.octets
        block = LargeBlock(self._wanted.queue, first, time_ms, publish.run(indexes), size)
        crc = self._known.crcs.get((first, time_ms))
        if crc is None:
            for start in range(0, size, SUM_OCTETS):
                block.add(publish.read(indexes[0], start, min(start + SUM_OCTETS, size)))
                yield None
            crc = self._known.crcs[first, time_ms] = block.crc
        lead = block.lead(crc)
        end = min(within + SLICE_OCTETS, len(lead) + size)
        octets = publish.read(indexes[0], max(0, within - len(lead)), max(0, end - len(lead)))
        whole = end == len(lead) + size
        yield LogSlice(lead[within:end] + octets, first + whole, 0 if whole else end)

    def _taken(self, piece: WantedPiece) -> bool:
        """Whether the selector takes a large message, which is in memory for as long as that is found out."""
        assert self._looking is not None
        whole = [(piece.first, 0, piece.run())]
        return any(run.count for _, _, run in matching_pieces(whole, self._looking))
