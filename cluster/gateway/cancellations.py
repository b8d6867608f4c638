"""Takes consumers away at their clients' wish, and an auto-delete queue with its last one (A15).

The client hears of it when it is so: what its channel published before has come to the consumer if that had
credit for it, and the queue is gone for every client of the cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from cluster.config.formats import SEALED_QUEUES
from cluster.gateway.link import PartitionLink
from cluster.gateway.local_queues import LocalQueues
from cluster.peers.ports import NOTHING_TO_GET, UNREACHABLE

if TYPE_CHECKING:
    from cluster.broker.broker import Broker

Done = Callable[[], None]


class Cancellations:
    """Of the clients of one node."""

    def __init__(self, broker: Broker, local: LocalQueues) -> None:
        self._broker = broker
        self._local = local

    def cancel(self, link: PartitionLink, queue: int, consumer: int, done: Done) -> None:
        """End a consumer behind what was published before; call `done` when its queue is gone, if it goes."""

        def stopped(value: Any = None, _: object = None) -> None:
            link.detach(consumer)
            self.left(link, queue, done)

        if link.unreachable:
            stopped()
        else:
            # An owner of the release before answers at once that there is no such queue.
            link.request("stop", [*NOTHING_TO_GET, queue, consumer], stopped)
            self._broker.wanted()

    def left(self, link: PartitionLink, queue: int, done: Done) -> None:
        """A consumer of the queue was taken away; call `done` when the queue is gone, if it goes at once."""
        polite = self._broker.auto_delete_after_s > 0
        if polite or link.unreachable or not self._goes(queue):
            done()
            return
        # Of a queue with a single active consumer what was given back goes before, and then the consumer.
        link.flush_waiting()
        if self._broker.formats.everywhere >= SEALED_QUEUES:
            link.request("close", [queue, True, False], partial(self._closed, queue, done))
        else:
            link.request("count", [queue], partial(self._counted, queue, done))
        self._broker.wanted()

    def _goes(self, queue: int) -> bool:
        definition = self._broker.catalog.state.queues_by_id.get(queue)
        return self._local.goes_unused(queue) if definition is None else definition.auto_delete

    def _counted(self, queue: int, done: Done, value: Any, _: object) -> None:
        absent, consumers = isinstance(value[1], str), value[1]
        if absent or consumers:
            done()
        else:
            self._delete(queue, done)

    def _closed(self, queue: int, done: Done, value: Any, _: object) -> None:
        # The log knows of the queue's end before the catalog does: it may be another client's doing.
        if value[0] and value != UNREACHABLE:
            self._delete(queue, done)
        else:
            done()

    def _delete(self, queue: int, done: Done) -> None:
        if self._local.goes_unused(queue):
            self._local.delete_unused(queue, done)
        else:
            self._broker.catalog.submit("delete_queue", {"id": queue}, lambda *_: done(), self._broker.now)
