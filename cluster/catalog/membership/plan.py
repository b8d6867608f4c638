"""Which replicas and owners to move next, so that every node has its share. Pure.

`next_moves` looks at what is, not at what was planned before: it may be asked again at any time, by
whichever node leads the catalog then. Each move makes the placement better by an order that has no cycles, so
that repeating it ends.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cluster.catalog.definitions import MemberState, Move

MOVES_AT_ONCE: Final = 2
"""Partitions that move at a time: copying them takes disk and network that clients need."""


@dataclass(frozen=True, slots=True)
class MemberView:
    """A node. `reachable`: the planner has had a connection to it until lately."""

    state: MemberState
    reachable: bool = True
    heir: str = ""


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition on disks. `owner` is None while it has no leader."""

    replicas: tuple[str, ...]
    owner: str | None
    size: int
    move: Move | None = None


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What there is. `spreading`: shares are to be made even; otherwise only what must move does."""

    nodes: Mapping[str, MemberView]
    partitions: Mapping[int, PartitionView]
    spreading: bool


def next_moves(view: ClusterView) -> dict[int, Move]:
    """The moves to begin now, for partitions that have none, at most `MOVES_AT_ONCE` with those under way."""
    planner = _Planner(view)
    room = MOVES_AT_ONCE - sum(one.move is not None for one in view.partitions.values())
    moves: dict[int, Move] = {}
    while len(moves) < room:
        found = planner.next()
        if found is None:
            break
        partition, move = found
        moves[partition] = move
        planner.begin(partition, move)
    return moves


def revised_moves(view: ClusterView) -> dict[int, Move]:
    """Moves under way that cannot be carried out as they are, and what to do instead.

    A replica that was to come to a node that is gone is given up; an owner that cannot be is not waited for.
    """
    revised = {}
    for partition, shown in view.partitions.items():
        move = shown.move
        if move is None:
            continue
        if move.add and not _usable(view.nodes.get(move.add)):
            revised[partition] = Move(remove=move.add)
        elif move.owner and not _usable(view.nodes.get(move.owner)):
            revised[partition] = replace(move, owner="")
    return revised


def steps_left(view: ClusterView) -> int:
    """How many moves are left until all is done, those under way included, if nothing else happens."""
    count = sum(one.move is not None for one in view.partitions.values())
    planner = _Planner(view)
    for partition, shown in view.partitions.items():
        if shown.move is not None:
            planner.begin(partition, shown.move)
    planner.settle()
    while count < 10_000 and (found := planner.next()) is not None:
        planner.begin(*found)
        planner.settle()
        count += 1
    return count


def _usable(node: MemberView | None) -> bool:
    return node is not None and node.state is MemberState.MEMBER and node.reachable


class _Planner:
    """The placement with the moves that have begun counted as done."""

    def __init__(self, view: ClusterView) -> None:
        self._nodes = view.nodes
        self._spreading = view.spreading
        self._partitions = dict(view.partitions)
        self._busy = {id for id, one in view.partitions.items() if one.move is not None}
        for partition in self._busy:
            move = self._partitions[partition].move
            if move is not None:
                self._partitions[partition] = moved(self._partitions[partition], move)

    def begin(self, partition: int, move: Move) -> None:
        self._partitions[partition] = moved(self._partitions[partition], move)
        self._busy.add(partition)

    def settle(self) -> None:
        self._busy.clear()

    def next(self) -> tuple[int, Move] | None:
        """The most urgent move."""
        return (
            self._ownership_of_the_leaving()
            or self._replicas_of_the_leaving()
            or (
                self._missing() or self._uneven_replicas() or self._uneven_owners()
                if self._spreading
                else None
            )
        )

    # -- what there is --------------------------------------------------------------------------

    def _free(self) -> list[tuple[int, PartitionView]]:
        """Partitions that may move, in order."""
        return [
            (id, one)
            for id, one in sorted(self._partitions.items())
            if id not in self._busy and one.owner is not None
        ]

    def _targets(self) -> list[str]:
        return sorted(name for name, node in self._nodes.items() if _usable(node))

    def _goes(self, name: str) -> bool:
        node = self._nodes.get(name)
        return node is None or node.state in (MemberState.DRAINING, MemberState.LEAVING)

    def _replica_counts(self) -> Counter[str]:
        """Of replicas that may be anywhere: a group of one is where its clients wanted it."""
        return Counter(name for one in self._partitions.values() for name in one.replicas)

    def _owner_counts(self) -> Counter[str]:
        return Counter(one.owner for one in self._partitions.values() if one.owner is not None)

    def _emptiest(self, nodes: Sequence[str]) -> str | None:
        counts = self._replica_counts()
        return min(nodes, key=lambda name: (counts[name], name), default=None)

    # -- draining -------------------------------------------------------------------------------

    def _ownership_of_the_leaving(self) -> tuple[int, Move] | None:
        """Ownership goes first: it takes moments."""
        counts = self._owner_counts()
        for id, one in self._free():
            if one.owner is not None and self._goes(one.owner):
                heirs = [name for name in one.replicas if _usable(self._nodes.get(name))]
                if heirs:
                    return id, Move(owner=min(heirs, key=lambda name: (counts[name], name)))
        return None

    def _replicas_of_the_leaving(self) -> tuple[int, Move] | None:
        for id, one in self._free():
            for name in filter(self._goes, one.replicas):
                move = self._away(name, one)
                if move is not None:
                    return id, move
        return None

    def _away(self, name: str, one: PartitionView) -> Move | None:
        """From a node to its heir, or to the node with the fewest replicas, or to none."""
        node = self._nodes.get(name, MemberView(MemberState.LEAVING, reachable=False))
        if len(one.replicas) == 1 and not node.reachable:
            return None
        targets = [target for target in self._targets() if target not in one.replicas]
        if node.heir and node.heir not in one.replicas:
            if node.heir in self._nodes and node.heir not in targets:
                return None
            targets = [node.heir] if node.heir in targets else targets
        target = self._emptiest(targets)
        if target is not None:
            return Move(add=target, remove=name)
        stay = [other for other in one.replicas if not self._goes(other)]
        leaves = node.state is MemberState.LEAVING
        # Others that may come back later would have to be counted upon: only nodes that are there are.
        return Move(remove=name) if leaves and stay and self._all_there() else None

    def _all_there(self) -> bool:
        """Whether no node is out of reach, or on its way in, that could take a replica."""
        return all(
            node.reachable and node.state is not MemberState.JOINING
            for node in self._nodes.values()
            if node.state in (MemberState.MEMBER, MemberState.JOINING)
        )

    # -- spreading ------------------------------------------------------------------------------

    def _missing(self) -> tuple[int, Move] | None:
        """A replica where a partition has fewer than it should have."""
        for id, one in self._free():
            target = self._emptiest([name for name in self._targets() if name not in one.replicas])
            if len(one.replicas) < one.size and target is not None:
                return id, Move(add=target)
        return None

    def _uneven_replicas(self) -> tuple[int, Move] | None:
        """From a node that has at least two more than another."""
        counts = self._replica_counts()
        targets = self._targets()
        for target in sorted(targets, key=lambda name: (counts[name], name)):
            for source in sorted(targets, key=lambda name: (-counts[name], name)):
                if counts[source] < counts[target] + 2:
                    break
                movable = [
                    (id, one)
                    for id, one in self._free()
                    if source in one.replicas and target not in one.replicas and len(one.replicas) > 1
                ]
                if movable:
                    # Owners stay where they are if others can go.
                    id, _ = min(movable, key=lambda found: (found[1].owner == source, found[0]))
                    return id, Move(add=target, remove=source)
        return None

    def _uneven_owners(self) -> tuple[int, Move] | None:
        """Along the shortest way from a node that owns at least two more than another.

        The last part of the way goes first: what is left of it is shorter then, or gone.
        """
        counts = self._owner_counts()
        targets = self._targets()
        for source in sorted(targets, key=lambda name: (-counts[name], name)):
            reached: dict[str, tuple[int, str]] = {}
            waiting = deque([source])
            while waiting:
                node = waiting.popleft()
                for id, one in self._free():
                    if one.owner != node or len(one.replicas) == 1:
                        continue
                    for name in one.replicas:
                        if name in targets and name != source and name not in reached:
                            reached[name] = (id, node)
                            waiting.append(name)
                            if counts[name] <= counts[source] - 2:
                                return id, Move(owner=name)
        return None


def moved(one: PartitionView, move: Move) -> PartitionView:
    """The partition once the move is settled."""
    replicas = [name for name in one.replicas if name != move.remove]
    if move.add and move.add not in replicas:
        replicas.append(move.add)
    owner = one.owner
    if move.owner in replicas:
        owner = move.owner
    elif owner is not None and owner not in replicas:
        owner = move.add or replicas[0]
    return PartitionView(tuple(replicas), owner, one.size)
