"""The backlogs of a front end's consumers: what each asks for, within its queue's cap.

The sessions hold the consumers to their backlogs, because they alone know at every moment what a client has
not settled. The cap is a setting of the queue, which each node knows from its replica of the catalog
(docs/decisions/0050-backlog-and-fairness.md).
"""

from __future__ import annotations

from collections.abc import Mapping

from cluster.catalog.effective import settings_of
from cluster.catalog.observer import Observer
from cluster.catalog.state import CatalogState
from cluster.gateway.commits import Attached
from cluster.gateway.local_queues import LocalQueues
from node.delivery.backlog import NO_BACKLOG, backlog_of
from node.queue.features.registry import rules_of


class Backlogs(Observer):
    """Sets `Attached.backlog` of the `consumers`, and tells their sessions when policies have changed it."""

    def __init__(self, state: CatalogState, local: LocalQueues, consumers: Mapping[int, Attached]) -> None:
        self._state, self._local, self._consumers = state, local, consumers

    def begin(self, attached: Attached, asked: int, *, no_ack: bool) -> int:
        """A consumer begins, and asks for a backlog. Returns the one that it has."""
        attached.asked, attached.no_ack = asked, no_ack
        attached.backlog = backlog_of(asked, self._cap(attached.queue), no_ack=no_ack)
        return attached.backlog

    def of(self, consumer: int) -> int:
        """See `node.session.ports.BrokerPort.backlog_of`."""
        attached = self._consumers.get(consumer)
        return NO_BACKLOG if attached is None else attached.backlog

    def policies_changed(self, vhost: str) -> None:
        self._cap_again(vhost)

    def replaced(self) -> None:
        self._cap_again(None)

    def _cap_again(self, vhost: str | None) -> None:
        """Find the backlogs of the consumers in a virtual host, or in all, anew."""
        caps: dict[int, int] = {}
        for number, attached in list(self._consumers.items()):
            queue = attached.queue
            defined = self._state.queues_by_id.get(queue)
            if vhost is not None and defined is not None and defined.vhost != vhost:
                continue
            if queue not in caps:
                caps[queue] = self._cap(queue)
            before = attached.backlog
            attached.backlog = backlog_of(attached.asked, caps[queue], no_ack=attached.no_ack)
            consumer = attached.link.consumers.get(number)
            if attached.backlog != before and consumer is not None:
                consumer.subscriber.backlog_changed(consumer.known or number, attached.backlog)

    def _cap(self, queue: int) -> int:
        """The most that a queue lets the backlog of a consumer be."""
        defined = self._state.queues_by_id.get(queue)
        settings = self._local.settings.get(queue) if defined is None else settings_of(self._state, defined)
        return NO_BACKLOG if settings is None else rules_of(settings).described.backlog_cap
