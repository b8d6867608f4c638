"""Cancels consumers for their clients, and deletes an auto-delete queue with its last consumer (A15).

The client is answered when that is done: the consumer has got the messages that the channel published before
and for which it had credit, and no client of the cluster sees the deleted queue any more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from cluster.config.formats import SEALED_QUEUES
from cluster.gateway.context import GatewayContext
from cluster.gateway.link import PartitionLink
from cluster.gateway.local_queues import LocalQueues
from cluster.peers.link_messages import NOTHING_TO_GET, UNREACHABLE

Cancelled = Callable[[], None]


class Cancellations:
    """The cancellations of one node's clients."""

    def __init__(self, context: GatewayContext, local: LocalQueues) -> None:
        self._catalog, self._formats = context.catalog, context.formats
        self._links, self._local = context.links, local
        # An auto-delete queue waits for another consumer.
        self._waits = context.config.auto_delete_after_s > 0

    def cancel(
        self, link: PartitionLink, queue: int, consumer: int, done: Cancelled, closed: bool = False
    ) -> None:
        """Cancel a consumer behind the messages published before. Calls `done` when its queue is deleted, or
        at once if the queue stays. `closed`: the queue is to keep no message for the consumer's link.
        """
        found = link.consumers.get(consumer)
        closes = closed and found is not None and found.kept is not None

        def ended() -> None:
            link.detach(consumer)
            self.left(link, queue, done)

        def stopped(value: Any = None, _: object = None) -> None:
            if closes:
                self._close_link(link, consumer, ended)
            else:
                ended()

        if link.unreachable:
            stopped()
        else:
            # An owner of the release before answers that there is no such queue, and cancels nothing.
            self._links.request(link, "stop", [*NOTHING_TO_GET, queue, consumer], stopped)

    def _close_link(self, link: PartitionLink, consumer: int, ended: Cancelled) -> None:
        """Have the queue keep nothing for the link of a consumer. Calls `ended` when that is so.

        While the queue's only node is away, the node alone knows what is kept: ask when it is back. A client
        must not hear that its link is closed before, because the node would keep the messages without end.
        """
        found = link.consumers.get(consumer)
        if found is None:
            ended()
            return
        # The consumer gets no more, also where its front end greets before the owner has answered.
        link.credit(consumer, found.delivered)

        def answered(value: Any, _: object) -> None:
            if value == UNREACHABLE:
                self._links.request(link, "close_link", arguments, answered)
            else:
                ended()

        arguments = [*NOTHING_TO_GET, found.queue, consumer, found.link]
        self._links.request(link, "close_link", arguments, answered)

    def left(self, link: PartitionLink, queue: int, done: Cancelled) -> None:
        """A consumer of the queue is detached. Calls `done` when the queue is deleted, or at once if it
        stays.
        """
        if self._waits or link.unreachable or not self._goes(queue):
            done()
            return
        # A queue with a single active consumer gets the returned messages first, and then the detach.
        link.flush_waiting()
        if self._formats.everywhere >= SEALED_QUEUES:
            self._links.request(link, "close", [queue, True, False], partial(self._closed, queue, done))
        else:
            self._links.request(link, "count", [queue], partial(self._counted, queue, done))

    def _goes(self, queue: int) -> bool:
        definition = self._catalog.state.queues_by_id.get(queue)
        return self._local.goes_unused(queue) if definition is None else definition.auto_delete

    def _counted(self, queue: int, done: Cancelled, value: Any, _: object) -> None:
        absent, consumers = isinstance(value[1], str), value[1]
        if absent or consumers:
            done()
        else:
            self._delete(queue, done)

    def _closed(self, queue: int, done: Cancelled, value: Any, _: object) -> None:
        # "Not found" may be another client's deletion, which the catalog does not have yet: wait for that
        # too.
        if value[0] and value != UNREACHABLE:
            self._delete(queue, done)
        else:
            done()

    def _delete(self, queue: int, done: Cancelled) -> None:
        if self._local.goes_unused(queue):
            self._local.delete_unused(queue, done)
        else:
            self._catalog.submit("delete_queue", {"id": queue}, lambda *_: done())
