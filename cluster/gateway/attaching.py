"""Starts the consumers of a front end, and gives them other terms while they go on.

A consumer with other terms is attached again under its number: the owner has the consumer, and takes the
attach for a change. A consumer that goes on with another queue has another number there, and counts on
(docs/decisions/0056-replaced-subscriptions.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from cluster.catalog.definitions import PartitionKind
from cluster.catalog.effective import settings_of
from cluster.gateway.backlogs import Backlogs
from cluster.gateway.commits import Attached
from cluster.gateway.context import GatewayContext
from cluster.gateway.link import PartitionLink
from cluster.gateway.local_queues import LocalQueues
from cluster.gateway.refusals import refusal_of
from cluster.gateway.state import NO_HOLDER, LinkConsumer
from cluster.peers.link_messages import Delivery
from node.delivery.backlog import NO_BACKLOG
from node.delivery.link_terms import OWN, LinkTerms, link_terms
from node.delivery.settlements import consumer_of
from node.names import X_LEASE_LINGER, X_REPLACE
from node.queue.features.registry import rules_of
from node.queue.settings import PLAIN, QueueSettings
from node.refusal import PreconditionFailedError, Refusal
from node.session.ports import ConsumerOptions, QueueRef
from node.session.subscriber import Subscriber

Consumed = Callable[[int, Refusal | None], None]


class Attaching:
    """Attaches the `consumers` to their queues' owners."""

    def __init__(
        self,
        context: GatewayContext,
        local: LocalQueues,
        consumers: dict[int, Attached],
        new_consumer: Callable[[PartitionLink, int], int],
        cancel: Callable[[PartitionLink, int, int, Callable[[], None]], None],
    ) -> None:
        """`new_consumer` adds to the consumers; `cancel`: see `Cancellations.cancel`."""
        self._state, self._links, self._local = context.catalog.state, context.links, local
        self._consumers, self._formats = consumers, context.formats
        self._front_end = context.config.front_end
        self._new_consumer, self._cancel = new_consumer, cancel
        self.backlogs = Backlogs(self._state, local, consumers)

    def begin(
        self,
        subscriber: Subscriber,
        queue: QueueRef,
        options: ConsumerOptions,
        answer: Consumed,
        received: int | None = None,
        number: int = 0,
    ) -> None:
        """Start a consumer. Answers its number, or a refusal. One that has `received` so many messages from
        another queue counts on from there, without credit. A consumer that goes on at another part of its
        queue has a `number`. Raises PreconditionFailedError where the queue cannot keep the consumer's
        messages.
        """
        if options.link and not link_terms(options.link).identity:
            self._check_keeps(queue)
        link = self._links.to(queue.partition)
        if number:
            self._consumers[number] = Attached(link, queue.id)
        else:
            number = self._new_consumer(link, queue.id)
        attached = self._consumers[number]
        backlog = self.backlogs.begin(attached, options.backlog, no_ack=options.no_ack)
        consumer = self._with_terms(number, subscriber, queue, options)
        if received is not None:
            consumer.limit = consumer.delivered = received
        elif backlog != NO_BACKLOG:
            consumer.limit = min(options.limit, backlog)
        self._links.attach(attached.link, consumer, partial(self._attached, queue, consumer, answer))

    def _with_terms(
        self, number: int, subscriber: Subscriber, queue: QueueRef, options: ConsumerOptions
    ) -> LinkConsumer:
        described = rules_of(self.settings_of(queue) or PLAIN).described
        return LinkConsumer(
            number,
            queue.id,
            subscriber,
            options.limit,
            options.no_ack,
            options.exclusive,
            options.priority,
            holder=number if described.by_consumer else NO_HOLDER,
            single_active=described.takes_turns,
            known=consumer_of(number),
            filter=options.filter,
            link=self._link_of(number, options.link),
            tells=options.tells,
            backlog=options.backlog if self._formats.know_backlogs() else NO_BACKLOG,
        )

    def _link_of(self, number: int, octets: bytes) -> bytes:
        """A link without a name is the consumer's own: no other consumer of the cluster attaches it."""
        if not octets or link_terms(octets).identity:
            return octets
        identity = OWN + b"%d %d" % (self._front_end, number)
        return LinkTerms(identity, link_terms(octets).kept_s).encode()

    def _check_keeps(self, queue: QueueRef) -> None:
        """Raises PreconditionFailedError where the queue keeps no messages for links."""
        defined = self._state.queues_by_id.get(queue.id)
        settings = PLAIN if defined is None else settings_of(self._state, defined)
        described = rules_of(settings).described
        partition = None if defined is None else self._state.partitions[defined.partition]
        in_memory = partition is None or partition.kind is PartitionKind.TRANSIENT
        if in_memory or not described.keeps_for_links(settings.semantics):
            wrong = f"invalid arg '{X_LEASE_LINGER}' for {queue}"
            raise PreconditionFailedError(f"{wrong}: the queue keeps no messages of consumers that are gone")

    def _attached(
        self, queue: QueueRef, consumer: LinkConsumer, answer: Consumed, value: Any, _: Delivery | None
    ) -> None:
        """The owner has answered the attach of a consumer."""
        refusal = refusal_of(queue, value)
        if refusal is not None:
            del self._consumers[consumer.id]
        else:
            self._consumers[consumer.id].for_link = consumer.kept is not None
        answer(consumer.id, refusal)

    def settings_of(self, queue: QueueRef) -> QueueSettings | None:
        """The settings of a queue in the catalog or of this node; None if there is none such."""
        defined = self._state.queues_by_id.get(queue.id)
        return self._local.settings.get(queue.id) if defined is None else defined.settings

    # -- other terms ----------------------------------------------------------------------------

    def replace(
        self, subscriber: Subscriber, queue: QueueRef, options: ConsumerOptions, answer: Consumed
    ) -> None:
        """Have a consumer go on with these options. Answers once no message comes by its former ones.

        Raises PreconditionFailedError.
        """
        number = options.replaces
        attached = self._consumers.get(number)
        consumer = None if attached is None else attached.link.consumers.get(number)
        self._check(queue, options, consumer)
        assert attached is not None and consumer is not None
        # The session gives credit by the new backlog after the answer, and what it gives before does not
        # count: the consumer may have more messages than that backlog.
        consumer.limit, attached.replacing = consumer.delivered, True
        if consumer.queue != queue.id:
            moved = partial(self._moved, subscriber, queue, options, consumer, answer)
            self._cancel(attached.link, attached.queue, number, moved)
            return
        self.backlogs.begin(attached, options.backlog, no_ack=options.no_ack)
        # A new owner that is greeted before the answer gets the new terms at once.
        consumer.filter, consumer.priority = options.filter, options.priority
        consumer.backlog = options.backlog
        replaced = partial(self._replaced, queue, options, attached, consumer, answer)
        self._links.attach(attached.link, consumer, replaced)

    def _check(self, queue: QueueRef, options: ConsumerOptions, consumer: LinkConsumer | None) -> None:
        """Raises PreconditionFailedError where the consumer cannot have these options."""
        if not self._formats.know_changed_terms():
            raise _unfit(
                queue, f"a node of the cluster runs a release without {X_REPLACE}; upgrade all nodes first"
            )
        if consumer is None:
            raise _unfit(queue, "the consumer has ended, or is shown copies")
        kept = consumer.queue != queue.id or consumer.exclusive == options.exclusive
        if not kept or consumer.no_ack != options.no_ack:
            raise _unfit(queue, "the consumer has another value of no-ack or exclusive")

    def _moved(
        self,
        subscriber: Subscriber,
        queue: QueueRef,
        options: ConsumerOptions,
        former: LinkConsumer,
        answer: Consumed,
    ) -> None:
        """The former queue delivers no more: what it has delivered counts in the next one."""
        self.begin(subscriber, queue, options, answer, former.delivered)

    def _replaced(
        self,
        queue: QueueRef,
        options: ConsumerOptions,
        attached: Attached,
        consumer: LinkConsumer,
        answer: Consumed,
        value: Any,
        _: Delivery | None,
    ) -> None:
        attached.replacing = False
        refusal = refusal_of(queue, value)
        known: Mapping[int, Attached] = self._consumers
        if known.get(consumer.id) is not attached:
            # Its session has ended meanwhile.
            attached.link.detach(consumer.id)
        elif refusal is None:
            consumer.tells = options.tells
        answer(consumer_of(consumer.id), refusal)


def _unfit(queue: QueueRef, reason: str) -> PreconditionFailedError:
    return PreconditionFailedError(f"invalid arg '{X_REPLACE}' for {queue}: {reason}")
