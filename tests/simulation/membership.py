"""Clusters that grow and shrink under faults: what an administrator wishes is said until it comes true."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cluster.catalog.definitions import MemberState, PartitionDefinition
from cluster.catalog.state import CatalogState
from tests.simulation.cluster import Cluster
from tests.simulation.history import Message, QueueTerms, Receipt
from tests.simulation.node import SimulatedNode
from tests.simulation.world import Violation

WISH_INTERVAL_S = 0.3
BLOWS = 5
"""How often, at most, nodes are killed while they catch up."""

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


def dismissing(name: str) -> Wish:
    """A node is to leave, and nothing else happens before it has gone."""
    return Wish("remove_member", {"name": name, "heir": ""}, lambda state: name not in state.nodes)


UNKNOWN_NODES = ("found_members", "add_member", "remove_member")
"""Commands that may have come true although the catalog does not have the node."""


def _goes(state: CatalogState, name: str) -> bool:
    return name not in state.nodes or state.nodes[name].state is MemberState.LEAVING


def wishes_of(chance: random.Random, founders: Sequence[str], newcomers: Sequence[str]) -> list[Wish]:
    """What an administrator wants of a seed's cluster, one after the other."""
    old = chance.choice(founders)
    one, other = newcomers
    return chance.choice(
        (
            [adding(one), adding(other)],
            [adding(one), removing(old, heir=one)],
            [adding(one), adding(other), removing(old)],
            [adding(one), draining(old)],
            [adding(one), draining(old), keeping(old)],
            [adding(one), removing(old), adding(other), removing(one)],
            [adding(one), emptying(old), keeping(old)],
            [adding(one), dismissing(old), adding(old)],
        )
    )


def needed_by(partitions: Iterable[PartitionDefinition]) -> set[str]:
    """The nodes whose disks must last: without one of two replicas, or of one, no majority is left that
    could give back what was lost.
    """
    return {name for one in partitions if _fewest_voters(one) <= 2 for name in one.hosts}


def _fewest_voters(partition: PartitionDefinition) -> int:
    """A replica that goes, and is not replaced, may have gone already. One that was to come, and is given
    up, may have replaced another one before.
    """
    move = partition.move
    return len(partition.replicas) - (move is not None and bool(move.remove) and not move.add)


class ChangingCluster(Cluster):
    """Founders, two nodes that may join, and an administrator who changes who belongs to the cluster."""

    new = 2

    def start(self) -> None:
        self._strikes = self.world.chance("strikes")
        self._blows = 0 if self.shape.faultless else BLOWS
        self._danger: dict[str, float] = {}
        super().start()
        self._wishes = self.wishes()
        self._wanted = {wish.arguments["name"]: wish for wish in self._wishes}
        """Of each node what the administrator wants in the end: a command may be carried out late, and undo
        what another one did since."""
        founders = {name: {"peers": name} for name in self.names}
        self._wishes.insert(
            0, Wish("found_members", {"nodes": founders}, lambda state: state.members.founded)
        )
        self._wish()

    def wishes(self) -> list[Wish]:
        """What the administrator wants."""
        return wishes_of(self.world.chance("wishes"), self.names, self.newcomers)

    def _wish(self) -> None:
        """Say again, to any node, what did not come true: a node may be behind, but not ahead."""
        ready = [node for node in self.nodes.values() if node.ready and not node.paused]
        if ready:
            node = self.chance.choice(ready)
            state = node.broker.catalog.state
            while self._wishes and self._came_true(self._wishes[0], state):
                self.world.note(f"came true: {self._wishes[0].command} {self._wishes[0].arguments}")
                del self._wishes[0]
            wish = self._wishes[0] if self._wishes else self._undone()
            for wanted in self._wanted.values():
                if wanted not in self._wishes[1:]:
                    self._prepare(wanted)
            if wish is not None:
                node.input(lambda: self._say(node, wish))
        self.world.after(WISH_INTERVAL_S * (0.5 + self.chance.random()), self._wish)

    def _undone(self) -> Wish | None:
        """What has come true, and does not hold any more."""
        state = self._newest()
        return next((wish for wish in self._wanted.values() if not self._came_true(wish, state)), None)

    def _came_true(self, wish: Wish, state: CatalogState) -> bool:
        name = wish.arguments.get("name", "")
        return wish.came_true(state) if name in state.nodes or wish.command in UNKNOWN_NODES else False

    def _say(self, node: SimulatedNode, wish: Wish) -> None:
        node.broker.catalog.submit(wish.command, wish.arguments, lambda value, refusal: None, node.clock())
        node.wanted()

    def _prepare(self, wish: Wish) -> None:
        """A node that was removed is started again before it is added again, with its old disk or without."""
        node = self.nodes.get(wish.arguments.get("name", ""))
        if node is None or wish.command != "add_member" or not node.retired:
            return
        if self._strikes.random() < 0.5 and not any(one.lost_disk for one in self.nodes.values()):
            node.lose_disk()
        node.retired = False
        node.start()

    def turned(self, node: SimulatedNode) -> None:
        if self.agreement.leaders(node):
            self._danger[node.name] = self._danger_of(node)
        danger = self._danger[node.name]
        if danger:
            self._strike(node, danger)

    def _danger_of(self, node: SimulatedNode) -> float:
        """How likely the node is killed after a turn: it may be catching up in some group."""
        groups = node.broker.host.groups.values()
        if any(self.agreement.lacks(node, group) for group in groups):
            return 0.2
        return 0.0 if all(group.raft.may_vote for group in groups) else 0.001

    def _strike(self, node: SimulatedNode, chance: float) -> None:
        """A node that is catching up in some group is killed, and starts again."""
        if not self._blows or self._strikes.random() >= chance:
            return
        self._blows -= 1

        def strike() -> None:
            node.stop(power=self._strikes.random() < 0.5)
            self.world.after(self._strikes.uniform(0.001, 0.2), lambda: None if node.up else node.start())

        self.world.after(0.0, strike)

    def indispensable(self) -> set[str]:
        """As any node knows it, or did when it went: nodes that are up may all be behind."""
        tables = [node.broker.catalog.state.table for node in self.nodes.values() if node.life]
        return {host for table in tables for host in needed_by(table.replicated())}

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
        """First everything is where it was wished to be; then a node of those that moved starts again."""
        self._wait(lambda: any(node.ready for node in self.nodes.values()), "no node comes back")
        self._until(self._unfulfilled, MOVING_S)
        self._restart_one()
        self._until(self._unfulfilled, MOVING_S)
        self._blows = 0
        state = self._newest()
        for node in self.nodes.values():
            if node.name not in state.nodes:
                # It may have been down when it was told, or never have been added.
                node.retire()
        self._check_placement(state)
        super().settle()

    def _restart_one(self) -> None:
        """Also where nothing else happens a node replays what the catalog told when it was another one."""
        moved = [node for name, node in self.nodes.items() if name in self._wanted and node.up]
        if moved and not self.shape.faultless:
            node = self._strikes.choice(moved)
            node.stop(power=False)
            node.start()

    def _newest(self) -> CatalogState:
        nodes = [node for node in self.nodes.values() if node.up]
        return max(nodes, key=lambda node: node.broker.catalog.applied_index).broker.catalog.state

    def _unfulfilled(self) -> str | None:
        state = self._newest()
        wish = self._wishes[0] if self._wishes else self._undone()
        if wish is not None:
            return f"{wish.command} {wish.arguments} does not come true"
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
