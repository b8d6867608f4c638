"""Streams a snapshot and the log entries that it refers to from a leader to a follower.

A snapshot holds a machine's state without its contents: these stay in the log entries that are
still live at the snapshot's index. The stream carries those entries in chunks, one chunk in flight,
so that a rebuild never floods the link that replication shares, and ends with the snapshot itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack

from replication.journal import PartitionLog
from replication.raft import Entry, EntryKind, SnapshotRequest, encode_message

CHUNK_BYTES = 512 * 1024
STALL_S = 5.0
"""A stream whose peer acknowledges nothing for so long is given up; the leader starts another."""

CHUNK = 0
FINAL = 1
ACKNOWLEDGED = 2


@dataclass(frozen=True, slots=True)
class Part:
    """One message of a stream. `body` is entry data (CHUNK) or the encoded request (FINAL)."""

    kind: int
    term: int
    snapshot_index: int
    number: int
    entries: tuple[tuple[int, int, int], ...]
    body: Sequence[bytes]

    def encode(self) -> list[bytes]:
        header = [self.kind, self.term, self.snapshot_index, self.number, self.entries]
        return [msgpack.packb(header), *self.body]

    @classmethod
    def decode(cls, parts: Sequence[bytes]) -> Part:
        kind, term, index, number, entries = msgpack.unpackb(parts[0])
        return cls(kind, term, index, number, tuple((i, t, k) for i, t, k in entries), parts[1:])

    def matches(self, other: Any) -> bool:
        return (self.term, self.snapshot_index) == (other.term, other.snapshot_index)


class SnapshotSender:
    """The leader's side of one stream."""

    def __init__(self, request: SnapshotRequest, log: PartitionLog, now: float) -> None:
        self.request = request
        self.term = request.term
        self.snapshot_index = request.snapshot.index
        self.finished = False
        self._log = log
        self._ranges = [(low, min(high, self.snapshot_index)) for low, high in log.live()]
        self._next = 0
        self._number = 0
        self._last_heard = now

    def stalled(self, now: float) -> bool:
        return now - self._last_heard > STALL_S

    def first(self) -> Part:
        return self._part()

    def acknowledged(self, part: Part, now: float) -> Part | None:
        """The follower has part `number`: the next one, or None when it was the last."""
        if not part.matches(self) or part.number != self._number:
            return None
        self._last_heard = now
        if self.finished:
            return None
        self._number += 1
        return self._part()

    def _part(self) -> Part:
        entries = self._take()
        if entries:
            heads = tuple((entry.index, entry.term, int(entry.kind)) for entry in entries)
            bodies = [entry.data for entry in entries]
            return Part(CHUNK, self.term, self.snapshot_index, self._number, heads, bodies)
        self.finished = True
        return Part(
            FINAL, self.term, self.snapshot_index, self._number, (), encode_message(self.request)
        )  # fmt: skip

    def _take(self) -> list[Entry]:
        taken: list[Entry] = []
        size = 0
        while self._ranges and size < CHUNK_BYTES:
            low, high = self._ranges[0]
            index = max(low, self._next)
            if index > high:
                self._ranges.pop(0)
                continue
            entry = self._log.entry(index)
            self._next = index + 1
            taken.append(entry)
            size += len(entry.data)
        return taken


@dataclass(slots=True)
class SnapshotReceiver:
    """The follower's side: collects the live entries until the snapshot itself arrives."""

    term: int
    snapshot_index: int
    last_heard: float
    expected: int = 0
    kept: list[Entry] = field(default_factory=list)

    def stalled(self, now: float) -> bool:
        """Whether the stream was given up, or is over and its snapshot was not needed any more."""
        return now - self.last_heard > STALL_S

    def take(self, part: Part, now: float) -> bool:
        """Add one part; False when it is not the next one of this stream."""
        if not part.matches(self) or part.number != self.expected:
            return False
        self.last_heard = now
        self.expected += 1
        for (index, term, kind), data in zip(part.entries, part.body, strict=False):
            self.kept.append(Entry(index, term, EntryKind(kind), bytes(data)))
        return True

    def acknowledgement(self, part: Part) -> Part:
        return Part(ACKNOWLEDGED, self.term, self.snapshot_index, part.number, (), ())
