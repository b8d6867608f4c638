"""A check of the owners of queues with groups: no consumer gets more of a group that others have messages
of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cluster.catalog.definitions import QueueDefinition
from node.queue.dispatch import QueueOwner
from node.queue.group_table import NO_GROUP
from node.queue.operations import Aspect
from node.ranges.range_set import Range, RangeSet
from tests.inside import state_of
from tests.simulation.node import SimulatedNode
from tests.simulation.world import Violation

VHOST = "/"


@dataclass(slots=True)
class Sight:
    """A look at a queue's owner: the leased messages by front end, and how many messages the owner has
    delivered.
    """

    owner: QueueOwner
    leases: dict[int, RangeSet]
    served: int


class Groups:
    """Looks at the owners of the watched queues whenever an owner may have delivered something."""

    def __init__(self) -> None:
        self.watched: set[str] = set()
        """The names of the queues with groups."""
        self._seen: dict[tuple[str, str], Sight] = {}
        # The messages that each front end has ever had, by queue: an owner that takes over such a lease, or
        # gives a lost one back, delivers nothing.
        self._had: dict[tuple[str, int], RangeSet] = {}

    def check(self, node: SimulatedNode) -> None:
        """Check the owners on the node against the last look at them."""
        for name in self.watched if node.up else ():
            queue = node.broker.catalog.state.queues.get((VHOST, name))
            if queue is not None:
                self._check_owner(name, node, queue)
                self._note(name, node, queue)

    def forget(self, name: str) -> None:
        """The queue is watched no more."""
        self.watched.discard(name)
        self._seen = {key: sight for key, sight in self._seen.items() if key[0] != name}
        self._had = {key: had for key, had in self._had.items() if key[0] != name}

    def _note(self, name: str, node: SimulatedNode, queue: QueueDefinition) -> None:
        """Note the messages that the consumers on the node have."""
        link = node.broker.links.by_partition.get(queue.partition)
        held = None if link is None else link.held.leases.get(queue.id)
        if held:
            self._had.setdefault((name, node.front_end), RangeSet()).update(held.ranges())

    def _check_owner(self, name: str, node: SimulatedNode, queue: QueueDefinition) -> None:
        key = name, node.name
        owner = node.broker.owners.get(queue.partition)
        found = state_of(owner).queues.get(queue.id) if owner is not None and owner.active else None
        if found is None:
            self._seen.pop(key, None)
            return
        leases = {one: lease.copy() for one, lease in found.delivery.leases.items() if lease}
        tally = found.delivery.tally
        sight = Sight(found, leases, tally.delivered + tally.redelivered)
        before = self._seen.get(key)
        self._seen[key] = sight
        if before is not None and before.owner is found and before.served != sight.served:
            self._compare(name, node, before, sight)

    def _compare(self, name: str, node: SimulatedNode, before: Sight, now: Sight) -> None:
        """The messages that are leased to a front end since the last look, and that it never had, were
        delivered: no other front end may have messages of these groups, then and now.
        """
        nothing = RangeSet()
        for front_end, leased in now.leases.items():
            new = leased.copy()
            for known in (before.leases.get(front_end, nothing), self._had.get((name, front_end), nothing)):
                new.remove_all(list(known.ranges()))
            for number, group in _groups_of(now.owner, new.ranges()):
                for other in (before.leases.keys() & now.leases.keys()) - {front_end}:
                    kept = _common(before.leases[other], now.leases[other])
                    if any(group == their_group for _, their_group in _groups_of(now.owner, kept)):
                        raise Violation(
                            f"{node.name} delivers message {number} of {name} to front end {front_end}, and "
                            f"{other} has messages of its group"
                        )


def _common(one: RangeSet, other: RangeSet) -> list[Range]:
    return [part for each in one.ranges() for part in other.intersection(*each)]


def _groups_of(owner: QueueOwner, ranges: Iterable[Range]) -> Iterator[tuple[int, int]]:
    """(first message, group) of each stretch of the ranges that is of a group."""
    for part in ranges:
        for first, _, group in owner.delivery.annotations.cover(Aspect.GROUP, *part):
            if group != NO_GROUP:
                yield first, group
