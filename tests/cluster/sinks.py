"""Clients that write epochs of a sink at the nodes of a site."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cluster.owner.partition import PartitionOwner
from node.queue.epoch_operations import BranchName
from node.queue.epochs import Ledger
from node.session.permissions import Scope
from tests.cluster.lives import owner_of
from tests.inside import machine_of, state_of
from tests.messages import content, run_of
from tests.site import Site

USER = Scope("guest", "/")


class Asked:
    """A request to a node, and its answer."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.told: list[list[Any]] = []

    def take(self, value: list[Any]) -> None:
        self.told.append(value)

    @property
    def answer(self) -> Any:
        """The first item of the answer, once there is one."""
        self._site.until(lambda: self.told)
        return self.told[0][0]


class OwnedQueue:
    """A replicated queue, which exists, at the nodes of a site."""

    def __init__(self, site: Site, name: str) -> None:
        self.site, self.name = site, name

    @property
    def definition(self) -> Any:
        node = next(node for node in self.site.nodes.values() if node.up)
        return node.broker.catalog.state.queues["/", self.name]

    @property
    def owner(self) -> str:
        """The node that owns the queue."""
        partition = self.definition.partition
        self.site.until(lambda: owner_of(self.site, partition))
        return str(owner_of(self.site, partition))

    def replica(self, node: str) -> PartitionOwner:
        return self.site.nodes[node].broker.owners[self.definition.partition]


class Sink(OwnedQueue):
    """A sink, whose ledger is the queue."""

    def ledger(self, node: str) -> Ledger:
        """The ledger as a node's replica has it."""
        return machine_of(self.replica(node)).transactions.epochs.ledgers.get(self.definition.id) or Ledger()

    def stage(
        self, node: str, epoch: int, name: Sequence[int], messages: Sequence[tuple[str, bytes]]
    ) -> Asked:
        """Stage a branch of messages for queues, at a node."""
        port, asked = self.site.front_end(node), Asked(self.site)

        def begin() -> None:
            found = [
                (run_of([content(body, delivery_mode=2)], key=queue), port.route(USER, "", queue))
                for queue, body in messages
            ]
            port.epochs.stage(port.queue("/", self.name, 0), epoch, BranchName(*name), found, asked.take)

        self.site.nodes[node].input(begin)
        return asked

    def commit(
        self, node: str, epoch: int, *branches: tuple[int, int, int], after: int | None = None
    ) -> Asked:
        """Commit an epoch with branches, at a node; see `Epochs.commit`."""
        port, asked = self.site.front_end(node), Asked(self.site)
        self.site.nodes[node].input(
            lambda: port.epochs.commit(port.queue("/", self.name, 0), epoch, branches, after, asked.take)
        )
        return asked

    def drop(self, node: str, epoch: int) -> Asked:
        """Abort an epoch, at a node."""
        port, asked = self.site.front_end(node), Asked(self.site)
        self.site.nodes[node].input(
            lambda: port.epochs.drop(port.queue("/", self.name, 0), epoch, asked.take)
        )
        return asked

    def at_rest(self) -> bool:
        """Whether no partition has state of a branch."""
        owners = [one for node in self.site.nodes.values() if node.up for one in node.broker.owners.values()]
        active = [one for one in owners if one.active]
        tables = [machine_of(one).transactions for one in active]
        kept = any(table.prepared or table.decided or table.epochs.dropped for table in tables)
        return not kept and not any(state_of(one).upcoming for one in active)
