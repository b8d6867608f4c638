"""Clusters that grow and shrink under faults: what an administrator wishes is said until it comes true."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cluster.catalog.definitions import MemberState
from cluster.catalog.state import CatalogState
from tests.simulation.cluster import NAMES, Cluster
from tests.simulation.history import Message, QueueTerms, Receipt
from tests.simulation.node import SimulatedNode
from tests.simulation.world import Violation

WISH_INTERVAL_S = 0.3
MOVING_S = 120.0
"""How long everything may take to be where it should be once the faults are over."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A command, and how the catalog shows that it was taken."""

    command: str
    arguments: dict[str, Any]
    came_true: Callable[[CatalogState], bool]


def adding(name: str) -> Wish:
    """A node is to join."""
    return Wish("add_member", {"name": name, "peers": name}, lambda state: name in state.nodes)


def removing(name: str, heir: str = "") -> Wish:
    """A node is to leave."""
    return Wish("remove_member", {"name": name, "heir": heir}, lambda state: _goes(state, name))


def draining(name: str) -> Wish:
    """A node is to be emptied."""
    return Wish(
        "drain_member", {"name": name}, lambda state: state.nodes[name].state is not MemberState.MEMBER
    )


def emptying(name: str) -> Wish:
    """A node is to be emptied, and nothing else happens before it is."""
    return Wish(
        "drain_member",
        {"name": name},
        lambda state: not any(name in one.hosts for one in state.table.replicated()),
    )


def keeping(name: str) -> Wish:
    """It is not to be emptied after all."""
    return Wish("keep_member", {"name": name}, lambda state: state.nodes[name].state is MemberState.MEMBER)


def _goes(state: CatalogState, name: str) -> bool:
    return name not in state.nodes or state.nodes[name].state is MemberState.LEAVING


def wishes_of(chance: random.Random) -> list[Wish]:
    """What an administrator wants of a seed's cluster, one after the other."""
    old = chance.choice(NAMES)
    both = [adding("n4"), adding("n5")]
    return chance.choice(
        (
            both,
            [adding("n4"), removing(old, heir="n4")],
            [*both, removing(old)],
            [adding("n4"), draining(old)],
            [adding("n4"), draining(old), keeping(old)],
            [adding("n4"), removing(old), adding("n5"), removing("n4")],
        )
    )


class ChangingCluster(Cluster):
    """Three nodes, two that may join, and somebody who changes who belongs to the cluster."""

    newcomers = ("n4", "n5")

    def start(self) -> None:
        super().start()
        self._wishes = self.wishes()
        founders = {name: {"peers": name} for name in NAMES}
        self._wishes.insert(
            0, Wish("found_members", {"nodes": founders}, lambda state: state.members.founded)
        )
        self._wish()

    def wishes(self) -> list[Wish]:
        """What the administrator wants."""
        return wishes_of(self.world.chance("wishes"))

    def _wish(self) -> None:
        """Say again, to any node, what did not come true: a node may be behind, but not ahead."""
        ready = [node for node in self.nodes.values() if node.ready and not node.paused]
        if ready and self._wishes:
            node = self.chance.choice(ready)
            state = node.broker.catalog.state
            while self._wishes and self._came_true(self._wishes[0], state):
                self.world.note(f"came true: {self._wishes[0].command} {self._wishes[0].arguments}")
                del self._wishes[0]
            if self._wishes:
                wish = self._wishes[0]
                node.input(lambda: self._say(node, wish))
        self.world.after(WISH_INTERVAL_S * (0.5 + self.chance.random()), self._wish)

    def _came_true(self, wish: Wish, state: CatalogState) -> bool:
        name = wish.arguments.get("name", "")
        return wish.came_true(state) if name in state.nodes or wish.command != "drain_member" else False

    def _say(self, node: SimulatedNode, wish: Wish) -> None:
        node.broker.catalog.submit(wish.command, wish.arguments, lambda value, refusal: None, node.clock())
        node.wanted()

    # -- circumstances --------------------------------------------------------------------------

    def cut_off(self, receipt: Receipt) -> bool:
        return self._forgotten(receipt.node) or super().cut_off(receipt)

    def lost(self, receipt: Receipt) -> bool:
        return self._forgotten(receipt.node) or super().lost(receipt)

    def _forgotten(self, node: str) -> bool:
        """Whether the others have let a node go: it ends when it hears of that, maybe a moment later."""
        nodes = self._newest().nodes
        return bool(nodes) and node not in nodes

    # -- the end --------------------------------------------------------------------------------

    def _keeps(self, queue: QueueTerms, message: Message) -> bool:
        """Owners change also where nothing fails, and with them goes what a failover may lose."""
        return message.persistent and not queue.removing and not queue.transient

    def members(self) -> list[SimulatedNode]:
        return [node for node in self.nodes.values() if not node.retired]

    def settle(self) -> None:
        """First everything is where it was wished to be."""
        self._wait(lambda: any(node.ready for node in self.nodes.values()), "no node comes back")
        self._until(self._unfulfilled, MOVING_S)
        state = self._newest()
        for node in self.nodes.values():
            if node.name not in state.nodes:
                # It may have been down when it was told, or never have been added.
                node.retire()
        self._check_placement(state)
        super().settle()

    def _newest(self) -> CatalogState:
        nodes = [node for node in self.nodes.values() if node.up]
        return max(nodes, key=lambda node: node.broker.catalog.applied_index).broker.catalog.state

    def _unfulfilled(self) -> str | None:
        state = self._newest()
        if self._wishes:
            return f"{self._wishes[0].command} {self._wishes[0].arguments} does not come true"
        unsettled = [node for node in state.nodes.values() if node.state.value in ("joining", "leaving")]
        if unsettled:
            return f"{unsettled[0].name} is {unsettled[0].state.value}: {state.partitions}"
        moving = [one for one in state.partitions.values() if one.move is not None]
        if moving:
            return f"{moving[0]} does not end"
        return "replicas are being spread" if state.members.spreading else None

    def _check_placement(self, state: CatalogState) -> None:
        """No replica is on a node that has gone, or twice on one; nobody has much more than others."""
        for one in state.table.replicated():
            if not set(one.replicas) <= state.nodes.keys() or len(set(one.replicas)) < len(one.replicas):
                raise Violation(
                    f"partition {one.id} is on {one.replicas}, but the nodes are {set(state.nodes)}"
                )
            if len(one.replicas) < min(one.size, len(state.members.eligible)):
                raise Violation(f"partition {one.id} should have {one.size} replicas, and has {one.replicas}")
