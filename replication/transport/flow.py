"""The queue and the batches in flight to one peer, and the numbers received from it. Pure.

Both directions are bounded in octets: `PeerOutbox` holds at most `queue_bytes` that have not been given
to the network and lets at most `window_bytes` be between here and the peer's acknowledgement, which its
own batches carry. Octets that the kernel holds for a connection do not count: it takes more than a window.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from replication.transport.envelope import Envelope

Parts = Sequence[bytes | memoryview]

MESSAGE_OVERHEAD = 256
"""Octets that a message counts for beyond its parts, so that many small ones are bounded too."""
REPORTS_PER_WINDOW = 4
"""A receiver acknowledges at the latest when more than this part of the sender's window has arrived."""


@dataclass(init=False, slots=True)
class _Queued:
    size: int
    parts: Parts
    after_loss: bool
    """Whether a message was dropped between this one and the one before it."""

    def __init__(self, size: int, parts: Parts, after_loss: bool) -> None:
        self.size = size
        self.parts = parts
        self.after_loss = after_loss


class PeerOutbox:
    """Messages for one peer, in order, each dropped one remembered as a hole in the numbering."""

    __slots__ = (
        "_batch_bytes",
        "_flying",
        "_lost",
        "_queue",
        "_queue_bytes",
        "dropped_bytes",
        "dropped_messages",
        "in_flight",
        "queued",
        "sequence",
        "window_bytes",
    )

    def __init__(self, queue_bytes: int, window_bytes: int, batch_bytes: int) -> None:
        self._queue_bytes = queue_bytes
        self.window_bytes = window_bytes
        self._batch_bytes = batch_bytes
        self._queue: deque[_Queued] = deque()
        self._flying: deque[tuple[int, int]] = deque()
        self._lost = False
        self.sequence = 0
        self.queued = 0
        self.in_flight = 0
        self.dropped_messages = 0
        self.dropped_bytes = 0

    def put(self, parts: Parts) -> bool:
        """Queue one message. False: it was dropped, because it did not fit.

        A message larger than the whole queue is taken when nothing else waits.
        """
        size = MESSAGE_OVERHEAD + sum(map(len, parts))
        if self._queue and self.queued + size > self._queue_bytes:
            self.drop(parts)
            return False
        self._queue.append(_Queued(size, parts, self._lost))
        self._lost = False
        self.queued += size
        return True

    def drop(self, parts: Parts) -> None:
        """Count a message as lost; the next batch after it leaves a hole in the sequence."""
        self.dropped_messages += 1
        self.dropped_bytes += sum(map(len, parts))
        self._lost = True

    @property
    def sendable(self) -> bool:
        """Whether `take` would return a batch now."""
        if not self._queue:
            return False
        return (
            self.in_flight + self._queue[0].size <= self.window_bytes
            or self.in_flight <= self.window_bytes // REPORTS_PER_WINDOW
        )

    def take(self) -> list[Parts] | None:
        """The messages of the next batch, numbered `sequence` and now in flight; None: nothing may leave.

        A batch never spans a loss, since the hole in the sequence is what tells the peer of it.
        Whatever its size, a message leaves once so little is in flight that the peer does not report it.
        """
        if not self.sendable:
            return None
        queue = self._queue
        first = queue.popleft()
        self.sequence += 2 if first.after_loss else 1
        room = min(self._batch_bytes, self.window_bytes - self.in_flight)
        size = first.size
        messages = [first.parts]
        while queue and not queue[0].after_loss and size + queue[0].size <= room:
            item = queue.popleft()
            size += item.size
            messages.append(item.parts)
        self.queued -= size
        self._fly(size)
        return messages

    def take_empty(self) -> None:
        """Number a batch without messages, which only acknowledges; the window does not hold it back."""
        self.sequence += 1
        self._fly(MESSAGE_OVERHEAD)

    def acknowledge(self, sequence: int) -> None:
        """The peer has taken every batch up to `sequence`."""
        flying = self._flying
        while flying and flying[0][0] <= sequence:
            self.in_flight -= flying.popleft()[1]

    def reset(self) -> None:
        """The connection is gone: messages that were queued or in flight may never arrive."""
        for item in self._queue:
            self.drop(item.parts)
        self._queue.clear()
        self._flying.clear()
        self.queued = 0
        self.in_flight = 0

    def _fly(self, size: int) -> None:
        self._flying.append((self.sequence, size))
        self.in_flight += size


class BatchOrder(Enum):
    """The kind of a received batch by its number."""

    NEXT = auto()
    AFTER_GAP = auto()
    """In order, but something before it was lost, or the peer has been restarted."""
    STALE = auto()
    """Of an earlier connection, or there already; to be dropped."""


class Inbox:
    """The order of one peer's batches, and the acknowledgements that are due to the peer."""

    __slots__ = ("_connection", "_unreported", "_window_bytes", "incarnation", "sequence")

    def __init__(self) -> None:
        self._window_bytes = 0
        self._unreported = 0
        self._connection = 0
        self.incarnation = 0
        self.sequence = 0

    def arrived(self, envelope: Envelope, size: int, connection: int) -> BatchOrder:
        """Classify a batch that counts for `size` octets; one that is not stale becomes the newest.

        Of two connections of the peer the one that was accepted later has the higher number. A batch over an
        earlier connection is stale once a batch has come over a later one. Incarnations have no order: a late
        batch of an ended run of the peer would look like one of a new run.
        A first batch that is not numbered 1 counts as after a gap: batches of the peer were lost on their way
        here, if only to an earlier run of this node.
        """
        if connection < self._connection:
            return BatchOrder.STALE
        self._connection = connection
        incarnation, sequence = envelope.incarnation, envelope.sequence
        if incarnation == self.incarnation:
            if sequence <= self.sequence:
                return BatchOrder.STALE
            arrival = BatchOrder.NEXT if sequence == self.sequence + 1 else BatchOrder.AFTER_GAP
        else:
            first_contact = self.incarnation == 0
            arrival = BatchOrder.NEXT if first_contact and sequence == 1 else BatchOrder.AFTER_GAP
            self.incarnation = incarnation
        self.sequence = sequence
        self._window_bytes = envelope.window_bytes
        self._unreported += size
        return arrival

    @property
    def report_due(self) -> bool:
        """Whether so much arrived since the last report that the peer's window may run short."""
        return self._unreported > self._window_bytes // REPORTS_PER_WINDOW

    def reported(self) -> None:
        """A batch that carries `incarnation` and `sequence` was sent to the peer."""
        self._unreported = 0
