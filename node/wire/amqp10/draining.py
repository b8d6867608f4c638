"""Drains of the links on which a session sends (part 2, section 2.6.7)."""

from __future__ import annotations

from collections.abc import Callable

from node.delivery.credit import Credits
from node.wire.amqp10.effects import Credit, Drain, Outbox
from node.wire.amqp10.links import LinkState, OutgoingLink


class Draining:
    """`tell` writes a flow with the link's credit to the peer."""

    def __init__(self, credits: Credits, outbox: Outbox, tell: Callable[[OutgoingLink], None]) -> None:
        self._credits, self._outbox, self._tell = credits, outbox, tell

    def granted(self, link: OutgoingLink, limit: int) -> None:
        """A consumer of a link may take `limit` messages in all. During a drain the broker hears only of
        lower limits, because a new limit would stand when the drain is over.
        """
        consumer = link.consumer
        assert consumer is not None
        if link.drain_due and link.drain_limit is None:
            self.drain(link)
        elif link.drain_due and link.drain_limit is not None and limit >= link.drain_limit:
            consumer.announced = link.drain_limit
        else:
            link.regranted = True
            self._outbox.emit(Credit(consumer.number, limit))

    def drain(self, link: OutgoingLink) -> None:
        """Ask the broker for what is ready, as far as the windows admit it now; `granted` goes on."""
        consumer = link.consumer
        if not link.drain_due or link.drain_limit is not None or link.waiting or consumer is None:
            return
        limit, _ = self._credits.limit(consumer)
        if link.limit <= consumer.received or consumer.full:
            # A link whose backlog is full gets no message, and its peer may settle none before the answer.
            self.end(link)
        elif limit > consumer.received:
            link.drain_limit = consumer.announced = limit
            link.regranted = False
            self._outbox.emit(Drain(consumer.number, limit))

    def drained(self, link: OutgoingLink) -> None:
        """The queue has nothing more for the link within the limit of the drain."""
        limit, link.drain_limit = link.drain_limit or 0, None
        consumer = link.consumer
        if consumer is None or link.state is not LinkState.ATTACHED:
            return
        # A limit that was not reached, and stood all the time, says that the queue had no further message.
        empty = consumer.received < limit and not link.regranted
        if not link.regranted:
            consumer.announced = consumer.received
        self._credits.touch(consumer)
        if link.drain_due and not link.waiting and (empty or limit >= link.limit):
            self.end(link)
        else:
            self.drain(link)

    def end(self, link: OutgoingLink) -> None:
        """Use up the credit for which the queue has no messages, and tell the peer (section 2.6.7)."""
        link.drain_due = False
        unused = max(0, link.credit_limit - link.delivered)
        link.advanced += unused
        link.delivered += unused
        self._tell(link)
