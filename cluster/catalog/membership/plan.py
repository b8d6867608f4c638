"""Plans the moves of replicas and owners that give every node its share. Pure.

`next_moves` looks at the present placement, not at earlier plans: any node that leads the catalog may call
it at any time. Each move makes the placement better in an order without cycles, so the moves end.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cluster.catalog.definitions import MemberState, Move

MOVES_AT_ONCE: Final = 2
"""Partitions that move at a time: copying a partition takes disk and network that clients need."""


@dataclass(frozen=True, slots=True)
class MemberView:
    """A node. `reachable`: this node is connected to it, or was until lately. `domains` is None where the
    node has told none yet.
    """

    state: MemberState
    reachable: bool = True
    heir: str = ""
    domains: frozenset[str] | None = None

    def fits(self, domain: str) -> bool:
        """Whether the node may keep a replica of a partition in this domain; empty for no domain."""
        return not domain or self.domains is None or domain in self.domains


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition on disks. `owner` is None while it has no leader. The nodes of its `domain`, if it has one,
    alone may have replicas.
    """

    replicas: tuple[str, ...]
    owner: str | None
    size: int
    move: Move | None = None
    domain: str = ""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The planner's input. `spreading`: make the nodes' shares even; otherwise empty draining nodes only."""

    nodes: Mapping[str, MemberView]
    partitions: Mapping[int, PartitionView]
    spreading: bool


def next_moves(view: ClusterView) -> dict[int, Move]:
    """The moves to begin now, by partition: with those under way at most `MOVES_AT_ONCE`."""
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
    """The moves that replace moves under way which cannot be carried out, by partition.

    A replica on a node that cannot be used is removed again. An owner that cannot be used is dropped from the
    move.
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
    """How many moves are left, those under way included, until the planner has no more."""
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

    # -- the present placement ------------------------------------------------------------------

    def _free(self) -> list[tuple[int, PartitionView]]:
        """Partitions without a move that have an owner, in order of their ids."""
        return [
            (id, one)
            for id, one in sorted(self._partitions.items())
            if id not in self._busy and one.owner is not None
        ]

    def _targets(self) -> list[str]:
        return sorted(name for name, node in self._nodes.items() if _usable(node))

    def _targets_for(self, one: PartitionView) -> list[str]:
        """The nodes that may get a replica of a partition, and have none."""
        return [
            name
            for name in self._targets()
            if name not in one.replicas
            and (not one.domain or one.domain in (self._nodes[name].domains or ()))
        ]

    def _goes(self, name: str, one: PartitionView) -> bool:
        """Whether the node drains or leaves, or is not in the partition's domain any more."""
        node = self._nodes.get(name)
        if node is None or node.state in (MemberState.DRAINING, MemberState.LEAVING):
            return True
        return not node.fits(one.domain)

    def _replica_counts(self) -> Counter[str]:
        """The number of replicas on each node."""
        return Counter(name for one in self._partitions.values() for name in one.replicas)

    def _owner_counts(self) -> Counter[str]:
        return Counter(one.owner for one in self._partitions.values() if one.owner is not None)

    def _emptiest(self, nodes: Sequence[str]) -> str | None:
        counts = self._replica_counts()
        return min(nodes, key=lambda name: (counts[name], name), default=None)

    # -- draining -------------------------------------------------------------------------------

    def _ownership_of_the_leaving(self) -> tuple[int, Move] | None:
        """Move an owner off a node that drains or leaves. Owners move first: that takes moments."""
        counts = self._owner_counts()
        for id, one in self._free():
            if one.owner is not None and self._goes(one.owner, one):
                heirs = [
                    name
                    for name in one.replicas
                    if _usable(self._nodes.get(name)) and not self._goes(name, one)
                ]
                if heirs:
                    return id, Move(owner=min(heirs, key=lambda name: (counts[name], name)))
        return None

    def _replicas_of_the_leaving(self) -> tuple[int, Move] | None:
        for id, one in self._free():
            for name in one.replicas:
                move = self._away(name, one) if self._goes(name, one) else None
                if move is not None:
                    return id, move
        return None

    def _away(self, name: str, one: PartitionView) -> Move | None:
        """The move of a replica off a node: to its heir, to the node with the fewest replicas, or to none."""
        node = self._nodes.get(name, MemberView(MemberState.LEAVING, reachable=False))
        if len(one.replicas) == 1 and not node.reachable:
            return None
        targets = self._targets_for(one)
        if node.heir and node.heir not in one.replicas:
            heir = self._nodes.get(node.heir)
            if heir is not None and heir.fits(one.domain) and node.heir not in targets:
                return None
            targets = [node.heir] if node.heir in targets else targets
        target = self._emptiest(targets)
        if target is not None:
            return Move(add=target, remove=name)
        stay = [other for other in one.replicas if not self._goes(other, one)]
        leaves = node.state is MemberState.LEAVING or not node.fits(one.domain)
        # A node that is away, or joins, may take the replica later: the group shrinks only if there is none.
        return Move(remove=name) if leaves and stay and self._all_there() else None

    def _all_there(self) -> bool:
        """Whether no node is out of reach or joining that could take a replica."""
        return all(
            node.reachable and node.state is not MemberState.JOINING
            for node in self._nodes.values()
            if node.state in (MemberState.MEMBER, MemberState.JOINING)
        )

    # -- spreading ------------------------------------------------------------------------------

    def _missing(self) -> tuple[int, Move] | None:
        """Add a replica to a partition that has fewer than it should have."""
        for id, one in self._free():
            target = self._emptiest(self._targets_for(one))
            if len(one.replicas) < one.size and target is not None:
                return id, Move(add=target)
        return None

    def _uneven_replicas(self) -> tuple[int, Move] | None:
        """Move a replica from a node to one that has at least two replicas less."""
        counts = self._replica_counts()
        targets = self._targets()
        for target in sorted(targets, key=lambda name: (counts[name], name)):
            for source in sorted(targets, key=lambda name: (-counts[name], name)):
                if counts[source] < counts[target] + 2:
                    break
                movable = [
                    (id, one)
                    for id, one in self._free()
                    if source in one.replicas and len(one.replicas) > 1 and target in self._targets_for(one)
                ]
                if movable:
                    # Prefer replicas that are not the owner: an owner's move interrupts its queues.
                    id, _ = min(movable, key=lambda found: (found[1].owner == source, found[0]))
                    return id, Move(add=target, remove=source)
        return None

    def _uneven_owners(self) -> tuple[int, Move] | None:
        """Move an owner along the shortest path of replicas from a node to one that owns at least two less.

        The last step of the path comes first: the rest of the path is then shorter, or not needed.
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
    """The partition after the move."""
    replicas = [name for name in one.replicas if name != move.remove]
    if move.add and move.add not in replicas:
        replicas.append(move.add)
    owner = one.owner
    if move.owner in replicas:
        owner = move.owner
    elif owner is not None and owner not in replicas:
        owner = move.add or replicas[0]
    return PartitionView(tuple(replicas), owner, one.size, domain=one.domain)
