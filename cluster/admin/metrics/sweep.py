"""One walk over all queues and clients of a node, for one page of metrics: in steps, with rests between."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field, fields
from operator import add, attrgetter
from typing import Final

from cluster.admin.metrics.metric import label_text
from cluster.admin.views import NodeView, PartitionsView
from cluster.catalog.definitions import FIRST_LOCAL_ID, REPLY_QUEUE_PREFIX
from node.queue.delivery_state import Tally
from node.queue.dispatch import QueueOwner
from node.session.client_views import NO_LINKS, LinkTotals
from node.session.listener import Client
from node.session.traffic import Traffic

SWEEP_STEP: Final = 32
"""Queues or clients between two moments at which the walk may rest."""

_TALLY: Final = tuple(one.name for one in fields(Tally))
_counts = attrgetter(*_TALLY)


@dataclass(slots=True)
class Sums:
    """Tallies added up."""

    counts: Sequence[int] = (0,) * len(_TALLY)

    def add(self, tally: Tally) -> None:
        self.counts = tuple(map(add, self.counts, _counts(tally)))

    def tally(self) -> Tally:
        return Tally(*self.counts)


@dataclass(slots=True)
class Depths:
    """Figures added up over queues that a node owns."""

    queues: int = 0
    consumers: int = 0
    ready: int = 0
    leased: int = 0
    scheduled: int = 0

    def add(self, queue: QueueOwner) -> None:
        self.queues += 1
        self.consumers += queue.delivery.consumers.count
        self.ready += queue.delivery.waiting_count
        self.leased += queue.delivery.leased_count
        self.scheduled += queue.delivery.scheduled_count


@dataclass(slots=True)
class Sweep:
    """The result of a walk. Queues and clients that end during the walk may still be in it."""

    declared: list[tuple[str, QueueOwner]] = field(default_factory=list)
    """Queues of the catalog that are owned here, with their labels written out."""
    exclusive: list[tuple[str, QueueOwner]] = field(default_factory=list)
    """Server-named queues of this node's clients, with labels. A queue behind direct reply-to is not among
    them: any client that knows its name may reply."""

    clients: list[Client] = field(default_factory=list)
    """The clients with an open connection to the virtual hosts asked for."""

    replicated: Sums = field(default_factory=Sums)
    local: Sums = field(default_factory=Sums)
    owned: Depths = field(default_factory=Depths)
    """Of all queues."""
    listed: Depths = field(default_factory=Depths)
    """Of the queues that may be listed, in every virtual host."""
    traffic: Traffic = field(default_factory=Traffic)
    connections: int = 0
    channels: int = 0
    channels_opened: int = 0
    consumers: int = 0
    publishers: int = 0
    """Channels that have published."""
    incoming: LinkTotals = NO_LINKS
    outgoing: LinkTotals = NO_LINKS
    """The links on which clients send, and those on which the node sends."""

    @property
    def queues(self) -> list[tuple[str, QueueOwner]]:
        return self.declared + self.exclusive

    def tally(self) -> Tally:
        total = self.replicated.tally()
        total.add(self.local.tally())
        return total


def swept(
    node: NodeView, vhosts: Sequence[str] = (), *, only_sums: bool = False
) -> Generator[None, None, Sweep]:
    """Walk; yields where the walk may rest. `vhosts`: their queues and clients are listed; empty: all.
    `only_sums`: no queue is listed.
    """
    found = Sweep()
    yield from _queues(node.partitions, vhosts, only_sums, found)
    yield from _clients(node.listener.clients.values(), vhosts, found)
    found.traffic.add(node.listener.past)
    found.channels_opened += node.listener.past_channels
    return found


def _queues(
    partitions: PartitionsView, vhosts: Sequence[str], only_sums: bool, found: Sweep
) -> Generator[None, None, None]:
    for owner in list(partitions.owners.values()):
        definition = partitions.state.partitions.get(owner.partition)
        replicated = definition is not None and len(definition.replicas) > 1
        sums = found.replicated if replicated else found.local
        sums.add(owner.past)
        for number, (id, queue) in enumerate(list(owner.queues.items())):
            sums.add(queue.delivery.tally)
            if owner.active:
                found.owned.add(queue)
                named = partitions.queue_name(id)
                if named is not None and not named[1].startswith(REPLY_QUEUE_PREFIX):
                    if not only_sums and (not vhosts or named[0] in vhosts):
                        rows = found.exclusive if id >= FIRST_LOCAL_ID else found.declared
                        rows.append((label_text({"queue": named[1], "vhost": named[0]}), queue))
                    found.listed.add(queue)
            if number % SWEEP_STEP == SWEEP_STEP - 1:
                yield


def _clients(clients: Iterable[Client], vhosts: Sequence[str], found: Sweep) -> Generator[None, None, None]:
    for number, client in enumerate(list(clients)):
        session = client.session
        found.traffic.add(session.traffic)
        found.connections += 1
        found.channels += session.channel_count
        found.channels_opened += session.channels_opened
        totals = session.channel_totals()
        found.consumers += totals.consumers
        found.publishers += totals.publishers
        found.incoming = _sum(found.incoming, totals.incoming)
        found.outgoing = _sum(found.outgoing, totals.outgoing)
        if session.is_open and (not vhosts or session.vhost in vhosts):
            found.clients.append(client)
        if number % SWEEP_STEP == SWEEP_STEP - 1:
            yield


def _sum(one: LinkTotals, other: LinkTotals) -> LinkTotals:
    return LinkTotals(one.links + other.links, one.credit + other.credit)
