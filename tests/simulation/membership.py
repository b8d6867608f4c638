"""Clusters that grow and shrink under faults: an administrator repeats each command until it has taken
effect.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cluster.catalog.definitions import MemberState, PartitionDefinition
from cluster.catalog.state import CatalogState
from node.wire.amqp091 import methods as m
from tests.simulation.cluster import Cluster
from tests.simulation.history import Message, QueueTerms
from tests.simulation.node import SimulatedNode
from tests.simulation.scripts import Caller, LostError, Script, Steps
from tests.simulation.world import Violation

WISH_INTERVAL_S = 0.3
BLOWS = 5
"""The largest number of kills of nodes that are catching up."""

DOMAINS_EVERY = 4
"""One in so many seeds has a domain, of three founders and one node that may join, with a queue."""

DOMAIN = "east"

MOVING_S = 120.0
"""The time within which all replicas must be in their places after the faults."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A command of an administrator, and the check that the catalog has carried it out."""

    command: str
    arguments: dict[str, Any]
    came_true: Callable[[CatalogState], bool]


def adding(name: str) -> Wish:
    """Add a node."""
    return Wish("add_member", {"name": name, "peers": name}, lambda state: name in state.nodes)


def removing(name: str, heir: str = "") -> Wish:
    """Remove a node."""
    return Wish("remove_member", {"name": name, "heir": heir}, lambda state: _goes(state, name))


def draining(name: str) -> Wish:
    """Drain a node."""
    return Wish(
        "drain_member", {"name": name}, lambda state: state.nodes[name].state is not MemberState.MEMBER
    )


def emptying(name: str) -> Wish:
    """Drain a node, and wait until it is empty."""
    return Wish(
        "drain_member",
        {"name": name},
        lambda state: not any(name in one.hosts for one in state.table.replicated()),
    )


def keeping(name: str) -> Wish:
    """Undo the draining of a node."""
    return Wish("keep_member", {"name": name}, lambda state: state.nodes[name].state is MemberState.MEMBER)


def dismissing(name: str) -> Wish:
    """Remove a node, and wait until the catalog does not have it any more."""
    return Wish("remove_member", {"name": name, "heir": ""}, lambda state: name not in state.nodes)


UNKNOWN_NODES = ("found_members", "add_member", "remove_member")
"""Commands that may have taken effect where the catalog does not have the node."""


def _goes(state: CatalogState, name: str) -> bool:
    return name not in state.nodes or state.nodes[name].state is MemberState.LEAVING


def wishes_of(chance: random.Random, founders: Sequence[str], newcomers: Sequence[str]) -> list[Wish]:
    """The commands of the administrator of a seed's cluster, in order."""
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
    """The nodes whose disks must not be lost: of a partition with one or two replicas, no majority would be
    left to give the data back.
    """
    return {name for one in partitions if _fewest_voters(one) <= 2 for name in one.hosts}


def _fewest_voters(partition: PartitionDefinition) -> int:
    """The smallest number of voters that a partition may have now. A replica that is to be removed may be
    removed already, and a replica whose addition was given up may have replaced another one before.
    """
    move = partition.move
    return len(partition.replicas) - (move is not None and bool(move.remove) and not move.add)


class ChangingCluster(Cluster):
    """Founders, two nodes that may join, and an administrator who changes the members."""

    new = 2

    def start(self) -> None:
        self._strikes = self.world.chance("strikes")
        self._blows = 0 if self.shape.faultless else BLOWS
        self._danger: dict[str, float] = {}
        domain = self.world.seed % DOMAINS_EVERY == DOMAINS_EVERY - 1
        self._inside = set(self.names[:3] + self.newcomers[:1]) if domain else set[str]()
        for name in self._inside:
            self.nodes[name].domains = (DOMAIN,)
        super().start()
        if domain:
            enclosed = Script(self.world, self._declare_enclosed())
            self._wait(lambda: enclosed.done, "the queue of the domain is not declared")
        self._wishes = self.wishes()
        self._wanted = {wish.arguments["name"]: wish for wish in self._wishes}
        """Of each node what the administrator wants in the end: a command may be carried out late, and undo
        what another one did since."""
        founders = {name: {"peers": name} for name in self.names}
        self._wishes.insert(
            0, Wish("found_members", {"nodes": founders}, lambda state: state.members.founded)
        )
        self._wish()

    def _declare_enclosed(self) -> Steps:
        """Declare a queue of the domain, which no client uses: its replicas are checked."""
        declaration = m.QueueDeclare("enclosed", durable=True, arguments={"x-domain": DOMAIN})
        while True:
            inside = [node for node in self.ready_nodes() if node.name in self._inside]
            try:
                if inside:
                    client = Caller(self.place(inside[0]))
                    yield client.ask(declaration)
                    client.leave()
                    return
            except LostError:
                pass
            yield 0.1

    def wishes(self) -> list[Wish]:
        """The administrator's commands."""
        return wishes_of(self.world.chance("wishes"), self.names, self.newcomers)

    def _wish(self) -> None:
        """Repeat a command without effect, at any node: a node's catalog may be behind, but not ahead."""
        ready = [node for node in self.nodes.values() if node.ready and not node.paused]
        if ready:
            node = self.chance.choice(ready)
            state = node.broker.catalog.state
            self._check_domains(state)
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

    def _check_domains(self, state: CatalogState) -> None:
        """Check that no replica is, or is to be, outside the domain of its partition (requirement D20)."""
        for one in state.table.replicated():
            if one.domain and not one.hosts <= self._inside:
                raise Violation(f"partition {one.id} of {sorted(self._inside)} has replicas on {one.hosts}")

    def _undone(self) -> Wish | None:
        """A command that had taken effect, and whose effect is gone."""
        state = self._newest()
        return next((wish for wish in self._wanted.values() if not self._came_true(wish, state)), None)

    def _came_true(self, wish: Wish, state: CatalogState) -> bool:
        name = wish.arguments.get("name", "")
        return wish.came_true(state) if name in state.nodes or wish.command in UNKNOWN_NODES else False

    def _say(self, node: SimulatedNode, wish: Wish) -> None:
        node.broker.catalog.submit(wish.command, wish.arguments, lambda value, refusal: None)
        node.wanted()

    def _prepare(self, wish: Wish) -> None:
        """Before a removed node is added again, start it, with its old disk or without."""
        node = self.nodes.get(wish.arguments.get("name", ""))
        if node is None or wish.command != "add_member" or not node.retired:
            return
        if self._strikes.random() < 0.5 and not any(one.lost_disk for one in self.nodes.values()):
            node.lose_disk()
        node.retired = False
        node.start()

    def turned(self, node: SimulatedNode) -> None:
        self.look(node)
        if self.agreement.leaders(node):
            self._danger[node.name] = self._danger_of(node)
        danger = self._danger[node.name]
        if danger:
            self._strike(node, danger)

    def _danger_of(self, node: SimulatedNode) -> float:
        """The probability that the node is killed after a turn, while it catches up in a group."""
        groups = node.broker.host.groups.values()
        if any(self.agreement.lacks(node, group) for group in groups):
            return 0.2
        return 0.0 if all(group.raft.may_vote for group in groups) else 0.001

    def _strike(self, node: SimulatedNode, chance: float) -> None:
        """Kill a node that is catching up in a group, and start it again."""
        if not self._blows or self._strikes.random() >= chance:
            return
        self._blows -= 1

        def strike() -> None:
            node.stop(power=self._strikes.random() < 0.5)
            self.world.after(self._strikes.uniform(0.001, 0.2), lambda: None if node.up else node.start())

        self.world.after(0.0, strike)

    def indispensable(self) -> set[str]:
        """By the catalogs of all nodes, also of stopped ones: running nodes may all be behind."""
        tables = [node.broker.catalog.state.table for node in self.nodes.values() if node.life]
        return {host for table in tables for host in needed_by(table.replicated())}

    # -- circumstances --------------------------------------------------------------------------

    def given_up(self, node: str, since: float) -> bool:
        return self._forgotten(node) or super().given_up(node, since)

    def _forgotten(self, node: str) -> bool:
        """Whether the others have removed a node, which ends when it learns of that, maybe a moment later."""
        nodes = self._newest().nodes
        return bool(nodes) and node not in nodes

    # -- the end --------------------------------------------------------------------------------

    def _keeps(self, queue: QueueTerms, message: Message) -> bool:
        """Owners change without faults, too, and so may lose the messages that a failover may lose."""
        return message.persistent and not queue.removing and not queue.transient

    def members(self) -> list[SimulatedNode]:
        return [node for node in self.nodes.values() if not node.retired]

    def settle(self) -> None:
        """First all replicas have to be in their places. Then a node with moved replicas is restarted."""
        self._wait(lambda: any(node.ready for node in self.nodes.values()), "no node comes back")
        self._until(self._unfulfilled, MOVING_S)
        self._restart_one()
        self._until(self._unfulfilled, MOVING_S)
        self._blows = 0
        state = self._newest()
        for node in self.nodes.values():
            if node.name not in state.nodes:
                # The node may have been down at its removal, or may never have been added.
                node.retire()
        self._check_placement(state)
        super().settle()

    def _restart_one(self) -> None:
        """Restart a node, which replays the catalog's history of changes."""
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
        """Check that no replica is on a removed node, or twice on one, and that nodes have about equal
        shares.
        """
        for one in state.table.replicated():
            if not set(one.replicas) <= state.nodes.keys() or len(set(one.replicas)) < len(one.replicas):
                raise Violation(
                    f"partition {one.id} is on {one.replicas}, but the nodes are {set(state.nodes)}"
                )
            there = set(state.members.eligible)
            if one.domain:
                there &= self._inside
            if len(one.replicas) < min(one.size, len(there)):
                raise Violation(f"partition {one.id} should have {one.size} replicas, and has {one.replicas}")
