"""The whole entries that a partition keeps for the histories of its queues, and the chain of their digests: a
part of the partition's replicated state (requirement X8).

The digest after an entry covers the digest before it, the entry's log index and its octets. So equal digests
at one index mean equal entries from the beginning of the chain on. A chain begins with SHA-256, and goes on
with BLAKE3 from the entry on that says so. Marks are the digests after some entries: from any mark on, the
digests that follow are computed again without the entries before it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable
from hashlib import sha256
from struct import Struct
from typing import Final

from blake3 import blake3

from node.queue.history_notes import HistoryNote, NoteKind
from node.ranges.range_set import decode_array, encode_array

MARK_ENTRIES: Final = 256
"""So many entries behind a mark there is another one."""

MARK_OCTETS: Final = 4 * 1024 * 1024
"""The same for octets of entries."""

_OCTETS: Final = 32

NO_DIGEST: Final = bytes(_OCTETS)
"""The digest before the first entry of a chain."""

_SHA256, _BLAKE3 = 1, 2
"""The versions of a chronicle in a snapshot, by the digests of its last entry."""
_INDEX = Struct("<Q")
_HEAD = Struct("<BIIIQ32s")


def next_digest(digest: bytes, index: int, data: bytes | memoryview) -> bytes:
    """The digest after an entry, whose predecessor's is `digest`: SHA-256 over that, the entry's log index
    (u64) and its octets.
    """
    chain = sha256(digest + _INDEX.pack(index))
    chain.update(data)
    return chain.digest()


def blake3_digest(digest: bytes, index: int, data: bytes | memoryview) -> bytes:
    """As `next_digest`, with BLAKE3: the chunks of one entry are digested side by side."""
    chain = blake3(digest + _INDEX.pack(index))
    chain.update(data)
    return chain.digest()


class Chronicle:
    """See the module's docstring. `kept` has the stream of each queue with a history; while it is empty, the
    partition keeps no whole entries and has no digests. `blake3_from` is the log index from which on digests
    are those of BLAKE3; 0 while none is.
    """

    __slots__ = ("_digests", "_entries", "_indexes", "_octets", "blake3_from", "digest", "kept")

    def __init__(self) -> None:
        self.kept: dict[int, int] = {}
        self.digest = NO_DIGEST
        """The digest after the last entry."""
        self.blake3_from = 0
        self._indexes = array("Q")
        self._digests: list[bytes] = []
        # Behind the last mark.
        self._entries = self._octets = 0

    @property
    def whole_from(self) -> int:
        """The log index from which on the partition keeps all entries whole."""
        return self._indexes[0] + 1

    def covers(self, index: int) -> bool:
        """Whether the partition keeps the entry whole."""
        return bool(self.kept) and index >= self.whole_from

    def take(self, note: HistoryNote, index: int) -> None:
        """Apply a note in the entry `index`. With the first queue that has a history the chain begins. After
        a restart the chain goes on, and the partition keeps whole entries from this one on only.
        """
        if note.kind is NoteKind.KEEP:
            if not self.kept:
                self._begin(index, NO_DIGEST)
            self.kept[note.queue] = note.first
        elif note.kind is NoteKind.RESTART and self.kept:
            self._begin(index, self.digest)
        elif note.kind is NoteKind.BLAKE3 and self.kept:
            self.blake3_from = self.blake3_from or index

    def drop(self, queue: int) -> None:
        """The queue is deleted."""
        if self.kept.pop(queue, None) is not None and not self.kept:
            self.digest, self._digests, self.blake3_from = NO_DIGEST, [], 0
            self._indexes, self._entries, self._octets = array("Q"), 0, 0

    def _begin(self, index: int, digest: bytes) -> None:
        self.digest = digest
        self._indexes, self._digests = array("Q", [index - 1]), [digest]
        self._entries = self._octets = 0

    def after(self, digest: bytes, index: int, data: bytes | memoryview) -> bytes:
        """The digest after an entry of the chain, whose predecessor's is `digest`."""
        by_blake3 = 0 < self.blake3_from <= index
        return (blake3_digest if by_blake3 else next_digest)(digest, index, data)

    def add(self, index: int, data: bytes | memoryview, needed: Callable[[], int | None]) -> None:
        """An entry is applied. `needed` gives the index of the first entry that histories reach back to, None
        for none.
        """
        self.digest = self.after(self.digest, index, data)
        self._entries += 1
        self._octets += len(data)
        if self._entries >= MARK_ENTRIES or self._octets >= MARK_OCTETS:
            self._indexes.append(index)
            self._digests.append(self.digest)
            self._entries = self._octets = 0
            past = self._before(needed() or index + 1)
            del self._indexes[:past], self._digests[:past]

    def mark_before(self, index: int) -> tuple[int, bytes] | None:
        """The index and the digest of the last mark before an entry; None where the chain begins later."""
        if not self._indexes or index <= self._indexes[0]:
            return None
        mark = self._before(index)
        return self._indexes[mark], self._digests[mark]

    def marks(self) -> list[tuple[int, bytes]]:
        """All marks, as index and digest."""
        return list(zip(self._indexes, self._digests, strict=True))

    def _before(self, index: int) -> int:
        """The place of the last mark before an entry; 0 where there is none."""
        return max(0, bisect_left(self._indexes, index) - 1)

    def with_whole(self, live: list[tuple[int, int]], applied_index: int) -> list[tuple[int, int]]:
        """Closed ranges of log indexes, with those of all whole entries added."""
        if not self.kept or self.whole_from > applied_index:
            return live
        whole = self.whole_from
        return [(low, min(high, whole - 1)) for low, high in live if low < whole] + [(whole, applied_index)]

    # -- snapshots ------------------------------------------------------------------------------

    def encode(self) -> bytes:
        """Canonical bytes: equal states, and only they, give equal bytes. Empty while no queue has a history:
        earlier releases read the snapshots of such partitions.
        """
        if not self.kept:
            return b""
        pairs = sorted(self.kept.items())
        version = _BLAKE3 if self.blake3_from else _SHA256
        head = _HEAD.pack(version, len(pairs), len(self._indexes), self._entries, self._octets, self.digest)
        since = _INDEX.pack(self.blake3_from) if self.blake3_from else b""
        columns = (array("Q", column) for column in zip(*pairs, strict=True))
        return b"".join((head, since, *map(encode_array, (*columns, self._indexes)), *self._digests))

    @classmethod
    def decode(cls, data: bytes, offset: int) -> tuple[Chronicle, int]:
        """The chronicle encoded at `offset`, and the offset behind; an empty one, and `offset`, where there
        is none. Raises ValueError or struct.error.
        """
        made = cls()
        if offset == len(data) or data[offset] not in (_SHA256, _BLAKE3):
            return made, offset
        version, queues, marks, made._entries, made._octets, made.digest = _HEAD.unpack_from(data, offset)
        if not queues or not marks:
            raise ValueError("a chronicle of no queue, or without a mark")
        offset += _HEAD.size
        if version == _BLAKE3:
            (made.blake3_from,) = _INDEX.unpack_from(data, offset)
            offset += _INDEX.size
        ids, offset = decode_array("Q", data, offset, queues)
        streams, offset = decode_array("Q", data, offset, queues)
        made.kept = dict(zip(ids, streams, strict=True))
        made._indexes, offset = decode_array("Q", data, offset, marks)
        end = offset + marks * _OCTETS
        made._digests = [data[at : at + _OCTETS] for at in range(offset, end, _OCTETS)]
        if len(data) < end:
            raise ValueError("digests are cut short")
        return made, end
