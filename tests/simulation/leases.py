"""Checks of leases, at every moment: no node relies on a lease whose end another node does not wait for."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import partial

from cluster.catalog.replica import CATALOG
from tests.simulation.node import SimulatedNode
from tests.simulation.world import Violation, World

LOOK_S = 0.02


class Leases:
    """Declares virtual hosts at one node after the other, and checks the leases that all nodes rely on."""

    def __init__(self, world: World, nodes: Callable[[], Iterable[SimulatedNode]]) -> None:
        self.over = False
        """Declare nothing more."""
        self._world = world
        self._nodes = nodes
        self._chance: random.Random = world.chance("declarations")
        self._declare_s = 0.0
        self._declared = 0
        self._shown: list[str] = []
        self._known: dict[tuple[str, int], int] = {}

    def start(self, declare_s: float) -> None:
        """Check from now on until the end, and declare; the mean time between two declarations is `declare_s`
        seconds, 0 for none.
        """
        self._declare_s = declare_s
        if declare_s:
            self._declare()
        self._look()

    def _declare(self) -> None:
        ready = [node for node in self._nodes() if node.ready and not node.paused]
        if ready and not self.over:
            self._declared += 1
            self._submit(self._chance.choice(ready), f"v{self._declared}")
        self._world.after(self._declare_s * (0.5 + self._chance.random()), self._declare)

    def _submit(self, node: SimulatedNode, name: str) -> None:
        def answered(value: object, refusal: object) -> None:
            if refusal is None:
                self._shown.append(name)

        node.input(partial(node.broker.catalog.submit, "declare_vhost", {"vhost": name}, answered))

    def _look(self) -> None:
        for node in self._nodes():
            self.check(node)
        self._world.after(LOOK_S, self._look)

    def check(self, node: SimulatedNode) -> None:
        """Check the leases that the node would rely on if a client asked it now."""
        if node.up and node.broker.host.failed is None:
            self._check_catalog(node)
            self._check_owners(node)

    def _check_catalog(self, node: SimulatedNode) -> None:
        """A16: after the answer to a declaration no node with a catalog lease lacks the declaration."""
        known = self._known.get((node.name, node.life), 0)
        if known == len(self._shown):
            return
        while known < len(self._shown) and self._shown[known] in node.broker.catalog.state.vhosts:
            known += 1
        self._known[node.name, node.life] = known
        if known < len(self._shown) and node.broker.catalog_fresh():
            raise Violation(f"{node.name} relies on a catalog without {self._shown[known]}")

    def _check_owners(self, node: SimulatedNode) -> None:
        """No owner serves on a lease after a later owner has waited for the leases of former ones."""
        broker, others = node.broker, [other for other in self._nodes() if other.up and other is not node]
        owners = broker.owners
        for partition, group in broker.host.groups.items():
            owner = owners.get(partition)
            if partition == CATALOG or owner is None or not owner.active:
                continue
            term = group.raft.term
            for other in others:
                theirs = other.broker.host.groups.get(partition)
                if theirs is not None and theirs.raft.term > term:
                    self._check_successor(node, other, partition)

    @staticmethod
    def _check_successor(node: SimulatedNode, other: SimulatedNode, partition: int) -> None:
        """The other node, in a later term, may not give up deliveries of an owner that still serves."""
        if other.broker.former_leases_over(partition) and node.broker.may_serve(partition):
            raise Violation(f"{node.name} may serve partition {partition} after {other.name} succeeded it")
