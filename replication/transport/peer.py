"""The state of one peer: its queue, its received batches, and its counters."""

from __future__ import annotations

from replication.transport.envelope import Envelope, encode
from replication.transport.flow import Inbox, Parts, PeerOutbox
from replication.transport.stream import Stream


class Peer:
    """Another node: the link to it, what has come from it, and their counters (all since start)."""

    def __init__(
        self,
        name: str,
        address: str,
        routes: tuple[bytes, bytes],
        outbox: PeerOutbox,
        inbox: Inbox,
    ) -> None:
        self.name = name
        self.address = address
        self.stream: Stream | None = None
        """The connection to the peer, while messages may flow."""
        self.outbox = outbox
        self.inbox = inbox
        self.stalled = False
        """Whether messages are left that the window or the network held back."""
        self.outward, self.inward = routes
        self.sent_batches = 0
        self.sent_bytes = 0
        self.received_batches = 0
        self.received_messages = 0
        self.received_bytes = 0
        self.gaps = 0
        self.stale_batches = 0
        self.connections = 0
        self.handshake_failures = 0
        self.last_failure: str | None = None

    @property
    def up(self) -> bool:
        return self.stream is not None

    def flush(self, incarnation: int) -> None:
        """Send batches as long as the window and the network take them."""
        outbox, stream = self.outbox, self.stream
        while stream is not None and not stream.congested and (messages := outbox.take()) is not None:
            self._send(stream, incarnation, messages)
        self.stalled = outbox.queued > 0

    def report(self, incarnation: int) -> None:
        """Acknowledge the peer's batches, in a batch of its own unless one has just carried that."""
        if self.inbox.report_due and self.stream is not None:
            self.outbox.take_empty()
            self._send(self.stream, incarnation, [])

    def _send(self, stream: Stream, incarnation: int, messages: list[Parts]) -> None:
        inbox, outbox = self.inbox, self.outbox
        envelope = Envelope(
            incarnation,
            outbox.sequence,
            inbox.incarnation,
            inbox.sequence,
            outbox.window_bytes,
            self.outward,
        )
        frames = encode(envelope, messages)
        stream.send(frames)
        self.sent_batches += 1
        self.sent_bytes += sum(map(len, frames))
        inbox.reported()
