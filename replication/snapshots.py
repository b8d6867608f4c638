"""Streams a snapshot and the log entries that it refers to from a leader to a follower.

A snapshot holds a machine's state without its contents: these stay in the log entries that are
still live at the snapshot's index. The stream carries those entries in chunks and ends with the
snapshot itself. The follower stages each chunk in its journal as it comes and acknowledges it once
it is durable; until the snapshot follows, nothing of it counts. Neither side holds more in memory
than the window, however much waits in the queues, and a rebuild never floods the link that
replication shares.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import msgpack

from replication.forms import expect
from replication.journal import PartitionLog
from replication.raft import Entry, EntryKind, MessageError, SnapshotRequest, encode_message

CHUNK_BYTES = 512 * 1024
"""A chunk is closed once it has so many octets: it exceeds them by less than one entry."""
SNAPSHOT_WINDOW_BYTES = 4 * CHUNK_BYTES
"""No chunk is sent while so much is not acknowledged: the follower syncs one while the next ones travel."""
STALL_S = 5.0
"""Both sides give up a stream when no message of the peer has come for so long; the leader starts another."""

CHUNK = 0
FINAL = 1
ACKNOWLEDGED = 2
_ENTRY_KINDS = frozenset(map(int, EntryKind))

StreamId = tuple[int, int, int]
"""Term, index of the snapshot, and a number that the leader gives to no other stream of that term."""


@dataclass(frozen=True, slots=True)
class Part:
    """One message of a stream. `body` is entry data (CHUNK) or the encoded request (FINAL).

    ACKNOWLEDGED stands for the part of that number and all before it.
    """

    kind: int
    stream: StreamId
    number: int
    entries: tuple[tuple[int, int, int], ...] = ()
    body: Sequence[bytes] = ()

    @property
    def term(self) -> int:
        """The term of the leader that began the stream."""
        return self.stream[0]

    def encode(self) -> list[bytes]:
        return [msgpack.packb([self.kind, self.stream, self.number, self.entries]), *self.body]

    @classmethod
    def decode(cls, parts: Sequence[bytes]) -> Part:
        """Raises MessageError."""
        try:
            head = msgpack.unpackb(parts[0])
        except (ValueError, IndexError, msgpack.UnpackException) as error:
            raise MessageError(f"the head of a part does not decode: {error}") from error
        expect(head, (int, (int, int, int), int, [(int, int, int)]))
        kind, (term, index, attempt), number, entries = head
        if kind not in (CHUNK, FINAL, ACKNOWLEDGED) or not all(one[2] in _ENTRY_KINDS for one in entries):
            raise MessageError("a part, or an entry in it, is of an unknown kind")
        if kind != FINAL and len(parts) != 1 + len(entries):
            raise MessageError("a part has another number of entries than it says")
        return cls(kind, (term, index, attempt), number, tuple(map(tuple, entries)), parts[1:])


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A follower's answer, to be sent once the acknowledged entries are durable."""

    to: str
    part: Part


class SnapshotSender:
    """The leader's side of one stream."""

    def __init__(self, request: SnapshotRequest, attempt: int, log: PartitionLog, now: float) -> None:
        self.request = request
        self.stream: StreamId = (request.term, request.snapshot.index, attempt)
        self.delivered = False
        """Whether the follower has everything, the snapshot included."""
        self._log = log
        self._ranges = deque((low, min(high, request.snapshot.index)) for low, high in log.live())
        self._next = 0
        self._complete = False
        self._acknowledged = 0
        self._unacknowledged: deque[int] = deque()
        self._last_heard = now

    def stalled(self, now: float) -> bool:
        return now - self._last_heard > STALL_S

    def acknowledged(self, part: Part, now: float) -> None:
        """The follower has all parts up to that number."""
        if part.stream != self.stream:
            return
        self._last_heard = now
        while self._unacknowledged and self._acknowledged <= part.number:
            self._unacknowledged.popleft()
            self._acknowledged += 1
        self.delivered = self._complete and not self._unacknowledged

    def parts(self) -> list[Part]:
        """The messages to send now: as many as the window has room for, the snapshot at the end."""
        parts = []
        room = SNAPSHOT_WINDOW_BYTES - sum(self._unacknowledged)
        while room > 0 and not self._complete:
            part = self._part(self._acknowledged + len(self._unacknowledged))
            size = sum(map(len, part.body))
            self._unacknowledged.append(size)
            room -= size
            parts.append(part)
        return parts

    def _part(self, number: int) -> Part:
        entries = self._take()
        if entries:
            heads = tuple((entry.index, entry.term, int(entry.kind)) for entry in entries)
            return Part(CHUNK, self.stream, number, heads, [entry.data for entry in entries])
        self._complete = True
        return Part(FINAL, self.stream, number, (), encode_message(self.request))

    def _take(self) -> list[Entry]:
        taken: list[Entry] = []
        size = 0
        while self._ranges and size < CHUNK_BYTES:
            low, high = self._ranges[0]
            index = max(low, self._next)
            if index > high:
                self._ranges.popleft()
                continue
            entry = self._log.entry(index)
            self._next = index + 1
            taken.append(entry)
            size += len(entry.data)
        return taken


class SnapshotReceiver:
    """The follower's side of one stream: stages its entries in the log, which installs them at the end."""

    def __init__(self, peer: str, stream: StreamId, log: PartitionLog, now: float) -> None:
        self.peer = peer
        self.stream = stream
        self._log = log
        self._expected = 0
        self._last_heard = now
        log.abandon()
        self._reception = log.reception

    def stalled(self, now: float) -> bool:
        return now - self._last_heard > STALL_S

    def take(self, part: Part, now: float) -> bool:
        """Stage one part; False when it is not the next one, or the log has let go of those before it."""
        if part.number != self._expected or self._log.reception != self._reception:
            return False
        self._last_heard = now
        self._expected += 1
        if part.entries:
            self._log.receive(
                [
                    Entry(index, term, EntryKind(kind), bytes(data))
                    for (index, term, kind), data in zip(part.entries, part.body, strict=True)
                ]
            )
        return True

    def acknowledgement(self) -> Acknowledgement:
        """The acknowledgement of all parts taken so far. Send it only once these are durable."""
        return Acknowledgement(self.peer, Part(ACKNOWLEDGED, self.stream, self._expected - 1))
