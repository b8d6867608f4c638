"""The requests of sessions about the consumers that a front end has attached: credit, drains, ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from cluster.gateway.attaching import Attaching, Consumed
from cluster.gateway.barriers import with_dropped
from cluster.gateway.browsing_consumers import BrowsingConsumers
from cluster.gateway.cancellations import Cancellations
from cluster.gateway.commits import Attached
from cluster.gateway.context import GatewayContext
from cluster.gateway.drains import Drains
from cluster.gateway.giving_back import GivingBack
from cluster.gateway.moving_consumers import MovingConsumers
from cluster.gateway.queue_placing import QueuePlacing
from cluster.gateway.state import LinkConsumer
from node.refusal import PreconditionFailedError
from node.session.ports import ConsumerOptions, QueueRef
from node.session.subscriber import Subscriber


class AttachedConsumers:
    """The consumers of one front end, by the numbers that sessions know. Consumers without an entry in
    `consumers` are shown copies.
    """

    def __init__(
        self,
        context: GatewayContext,
        placing: QueuePlacing,
        attaching: Attaching,
        consumers: dict[int, Attached],
        browsing: BrowsingConsumers,
        cancellations: Cancellations,
    ) -> None:
        self._consumers, self._browsing, self._cancellations = consumers, browsing, cancellations
        self._placing, self._attaching = placing, attaching
        self._moving = MovingConsumers(context, placing, consumers, attaching, cancellations)
        self.giving_back = GivingBack(consumers, context.links, context.formats)
        self._drains = Drains(context.links)

    def tick(self, now: float) -> None:
        """Move consumers. Called every few milliseconds."""
        self._moving.tick(now)

    def present(self, consumer: int) -> int:
        """The number under which a consumer is attached, or was last."""
        return self._moving.present(consumer)

    def find(self, consumer: int) -> LinkConsumer | None:
        """A consumer with its terms; None if it is gone, or moves."""
        number = self._moving.present(consumer)
        attached = self._consumers.get(number)
        return None if attached is None else attached.link.consumers.get(number)

    def replace(
        self, subscriber: Subscriber, queue: QueueRef, options: ConsumerOptions, answer: Consumed
    ) -> None:
        """Have a consumer go on with these options: see `Attaching.replace`. One of a queue with several
        owners stays at its part. Raises PreconditionFailedError.
        """
        consumer = options.replaces
        if self._moving.postponed(consumer, partial(self._replace_later, subscriber, queue, options, answer)):
            return
        found, parts = self.find(consumer), self._placing.parts(queue)
        part = next((one for one in parts if found is not None and one.id == found.queue), parts[0])
        present = replace(options, replaces=self._moving.present(consumer))
        self._attaching.replace(subscriber, part, present, answer)

    def _replace_later(
        self, subscriber: Subscriber, queue: QueueRef, options: ConsumerOptions, answer: Consumed
    ) -> None:
        try:
            self.replace(subscriber, queue, options, answer)
        except PreconditionFailedError as error:
            answer(options.replaces, error)

    def cancel(self, consumer: int, done: Callable[[], None]) -> None:
        """See `node.session.ports.BrokerPort.cancel`."""
        if self._moving.postponed(consumer, partial(self.cancel, consumer, done), ends=True):
            return
        number = self._moving.present(consumer)
        attached = self._consumers.get(number)
        if attached is None:
            self._browsing.end(consumer)
            done()
        elif attached.for_link:
            self.giving_back.client_gone(number)
            self._cancellations.cancel(attached.link, attached.queue, number, done)
        else:
            attached.link.detach(number)
            self._cancellations.left(attached.link, attached.queue, done)

    def leave(self, consumer: int, done: Callable[[], None], closed: bool) -> None:
        """See `node.session.ports.BrokerPort.leave`."""
        if self._moving.postponed(consumer, partial(self.leave, consumer, done, closed), ends=True):
            return
        number = self._moving.present(consumer)
        attached = self._consumers.get(number)
        if attached is None:
            self._browsing.end(consumer)
            done()
        else:
            self._cancellations.cancel(attached.link, attached.queue, number, done, closed)

    def credit(self, consumer: int, limit: int) -> None:
        """See `node.session.ports.BrokerPort.credit`."""
        if self._moving.credited(consumer, limit):
            return
        number = self._moving.present(consumer)
        attached = self._consumers.get(number)
        if attached is None:
            self._browsing.credit(consumer, limit)
        elif not attached.replacing:
            attached.link.credit(number, with_dropped(attached.link.consumers.get(number), limit))

    def drain(self, consumer: int, limit: int, done: Callable[[], None]) -> None:
        """See `node.session.ports.BrokerPort.drain`."""
        if self._moving.postponed(consumer, partial(self.drain, consumer, limit, done)):
            return
        number = self._moving.present(consumer)
        attached = self._consumers.get(number)
        if attached is None:
            self._browsing.drain(consumer, limit, done)
        else:
            told = with_dropped(attached.link.consumers.get(number), limit)
            self._drains.drain(attached.link, attached.queue, number, told, done)

    def forget(self, consumer: int) -> None:
        """See `node.session.ports.BrokerPort.forget`."""
        self._moving.forget(consumer)
        self._browsing.forget(consumer)
