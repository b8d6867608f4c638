"""Asks the nodes of a site why a message is where it is, as an HTTP client's node does."""

from __future__ import annotations

import asyncio
from typing import Any

from cluster.admin.api.explain_answers import DIGESTS, EXPLAIN, ExplainAnswers
from cluster.admin.api.message_lives import Life, Lives, owner_first
from cluster.owner.partition import PartitionOwner
from node.queue.events import Happened, Lead, LeadKind
from tests.inquiries import inquiries
from tests.inside import machine_of
from tests.site import Site


class Asking:
    """The running nodes of a site, which ask each other in octets, without a network."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.running = [name for name, node in site.nodes.items() if node.up]
        self.inquiries = inquiries(self.running)
        for name, inquiry in self.inquiries.items():
            broker = site.nodes[name].broker
            answers = ExplainAnswers(broker.owners, broker.host, lambda: site.world.now, broker.wanted)
            inquiry.answer(EXPLAIN, answers.explain)
            inquiry.answer(DIGESTS, answers.digests)

    def lives(self, name: str) -> Lives:
        state = self._site.nodes[name].broker.catalog.state

        def replicas(partition: int) -> list[str]:
            owner = owner_of(self._site, partition)
            return owner_first(owner, state.partitions[partition].replicas, self.running)

        return Lives(self.inquiries[name], replicas)


def owner_of(site: Site, partition: int) -> str | None:
    """The node that owns a partition."""
    found = [
        name
        for name, node in site.nodes.items()
        if node.up and partition in node.broker.owners and node.broker.owners[partition].active
    ]
    return found[0] if found else None


def chain(site: Site, name: str, queue: str, number: int) -> list[Life]:
    """The lives of a message of a queue, as a node tells them."""
    partition = site.nodes[name].broker.catalog.state.queues["/", queue].partition
    return asyncio.run(Asking(site).lives(name).chain(Lead(partition, LeadKind.NUMBER, number)))


def told(site: Site, life: Life, *queues: str) -> list[str]:
    """The events of a life in these queues, or in all."""
    state = next(node for node in site.nodes.values() if node.up).broker.catalog.state
    wanted = {state.queues["/", queue].id for queue in queues} | {0}
    return [
        str(one.happened)
        for one in life.events
        if (not queues or one.queue in wanted) and one.happened is not Happened.EXPIRES
    ]


def digests(site: Site, name: str, queue: str) -> dict[str, Any]:
    """The digests of all replicas of a queue's partition, as a node tells them."""
    partition = site.nodes[name].broker.catalog.state.queues["/", queue].partition
    found = asyncio.run(Asking(site).lives(name).digests(partition))
    return {node: (one["digest"], one["differs"]) for node, one in found.items()}


def replica(site: Site, name: str, queue: str) -> PartitionOwner:
    """A node's replica of a queue's partition."""
    broker = site.nodes[name].broker
    return broker.owners[broker.catalog.state.queues["/", queue].partition]


def numbers(site: Site, queue: str) -> list[int]:
    """The numbers of the messages that a queue has."""
    state = site.nodes["n1"].broker.catalog.state
    owner = owner_of(site, state.queues["/", queue].partition)
    assert owner is not None
    alive = machine_of(replica(site, owner, queue)).queues[state.queues["/", queue].id].alive
    return [number for first, last in alive.ranges() for number in range(first, last + 1)]
