"""Reads the feed of each replica, and checks that it tells which messages are in each queue.

The reader counts single messages: it shares no code with the ranges that it checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from node.queue.operations import Applied, Aspect, Cause
from node.queue.queue import QueueState
from node.ranges.range_map import ABOVE_ALL
from tests.inside import machine_of
from tests.simulation.node import SimulatedNode
from tests.simulation.world import Violation


def numbers_in(ranges: Iterable[tuple[int, int]]) -> list[int]:
    """The numbers of closed ranges."""
    return [number for first, last in ranges for number in range(first, last + 1)]


@dataclass
class QueueFeed:
    """A queue as the feed tells of it. `failures` counts failed deliveries, of messages that are there.

    `undead`: messages that were dead-lettered, and the feed had not told that they were dead.
    """

    messages: set[int] = field(default_factory=set)
    dead: set[int] = field(default_factory=set)
    returned: set[int] = field(default_factory=set)
    failures: Counter[int] = field(default_factory=Counter)
    gone: dict[int, Cause] = field(default_factory=dict)
    undead: set[int] = field(default_factory=set)
    sealed: bool = False

    def came(self, numbers: list[int], others: Iterable[QueueFeed]) -> None:
        """A message that has left comes in again where one of the `others` keeps it."""
        if self.sealed or len({*numbers}) < len(numbers) or not self.messages.isdisjoint(numbers):
            raise Violation(f"{numbers} cannot come into {self}")
        again = self.gone.keys() & numbers
        if again.difference(*(other.messages for other in others)):
            raise Violation(f"{numbers} come in again")
        for number in again:
            del self.gone[number]
        self.messages.update(numbers)

    def came_back(self, numbers: list[int], *, failed: bool) -> None:
        if not self.messages.issuperset(numbers):
            raise Violation(f"{numbers} are returned, of {self.messages}")
        self.returned.update(numbers)
        if failed:
            self.failures.update(numbers)

    def died(self, numbers: list[int]) -> None:
        if not (self.messages - self.dead).issuperset(numbers):
            raise Violation(f"{numbers} die, of {self.messages - self.dead}")
        self.dead.update(numbers)

    def left(self, cause: Cause, numbers: list[int]) -> None:
        if not numbers or numbers != sorted({*numbers}) or not self.messages.issuperset(numbers):
            raise Violation(f"{numbers} are {cause}, of {self.messages}")
        if cause is Cause.DEAD_LETTERED:
            self.undead.update({*numbers} - self.dead)
        elif cause is not Cause.SETTLED and not self.dead.isdisjoint(numbers):
            raise Violation(f"{numbers} are {cause}, and dead letters: {self.dead}")
        self.gone.update(dict.fromkeys(numbers, cause))
        self.messages.difference_update(numbers)
        self.dead.difference_update(numbers)
        self.returned.difference_update(numbers)
        for number in numbers:
            self.failures.pop(number, None)

    def differences(self, there: QueueFeed) -> list[str]:
        """The differences between the feed, which is `self`, and the replica's own state."""
        pairs: dict[str, tuple[set[Any], set[Any]]] = {
            "messages": (self.messages, there.messages),
            "dead letters": (self.dead, there.dead),
            "returned": (self.returned, there.returned),
            "failures": ({*self.failures.items()}, {*there.failures.items()}),
            "sealed": ({self.sealed}, {there.sealed}),
        }
        return [
            f"{what}: told {sorted(told - real)}, not told {sorted(real - told)}"
            for what, (told, real) in pairs.items()
            if told != real
        ]


def queue_feed_of(state: QueueState) -> QueueFeed:
    """A queue as a replica has it."""
    messages = set(numbers_in(state.shown(0, ABOVE_ALL).ranges()))
    deaths = state.annotations.get(Aspect.DEATH)
    dead = set() if deaths is None else set(numbers_in(deaths.coverage().ranges()))
    failures = {one: count for count, held in state.failures.items() for one in numbers_in(held.ranges())}
    returned = set(numbers_in(state.returned.ranges()))
    return QueueFeed(messages, dead, returned, Counter(failures), sealed=state.sealed)


class FeedReader:
    """The queues of one replica, as its feed tells of them. Implements `PartitionObserver`."""

    def __init__(self) -> None:
        self.queues: dict[int, QueueFeed] = {}

    def proposed(self, index: int) -> None:
        """May never be committed."""

    def following(self) -> None:
        """Every replica goes on with the entries that are applied."""

    def restored(self, queues: Mapping[int, QueueState]) -> None:
        self.queues = {queue: queue_feed_of(state) for queue, state in queues.items()}

    def applied(self, term: int, data: bytes, applied: Applied) -> None:
        self.read(applied)

    def read(self, applied: Applied) -> None:
        """The next entry. Raises Violation if the feed contradicts itself."""
        for queue in applied.created:
            if queue in self.queues:
                raise Violation(f"queue {queue} is created twice")
            self.queues[queue] = QueueFeed()
        for queue, first, last in applied.appended:
            others = (feed for other, feed in self.queues.items() if other != queue)
            self.queues[queue].came(numbers_in([(first, last)]), others)
        for _, queue, first, last, failed in applied.returned:
            self.queues[queue].came_back(numbers_in([(first, last)]), failed=failed)
        for queue, first, last, _ in applied.dead:
            self.queues[queue].died(numbers_in([(first, last)]))
        for queue, cause, ranges in applied.removed:
            self.queues[queue].left(cause, numbers_in(ranges))
        for queue in applied.sealed:
            self.queues[queue].sealed = True
        for queue in applied.dropped:
            del self.queues[queue]

    def compare(self, queues: Mapping[int, QueueState]) -> None:
        """Raises Violation unless a replica has what the feed has told."""
        if self.queues.keys() != queues.keys():
            raise Violation(f"the feed tells of the queues {[*self.queues]}, there are {[*queues]}")
        for queue, state in queues.items():
            differences = self.queues[queue].differences(queue_feed_of(state))
            if differences:
                raise Violation(f"the feed of queue {queue} is wrong: {'; '.join(differences)}")


class SharedFeedReader(FeedReader):
    """Of a replica in a cluster: the feed of an entry is the same on every replica."""

    def __init__(
        self, name: str, partition: int, entries: dict[tuple[int, int], tuple[str, Applied]]
    ) -> None:
        super().__init__()
        self._name, self._partition, self._entries = name, partition, entries

    def applied(self, term: int, data: bytes, applied: Applied) -> None:
        name, first = self._entries.setdefault((self._partition, applied.index), (self._name, applied))
        if first != applied:
            where = f"entry {applied.index} of partition {self._partition}"
            raise Violation(f"{where} did {first} on {name} and {applied} on {self._name}")
        self.read(applied)
        for queue in self.queues:
            if self.queues[queue].undead:
                raise Violation(f"{self.queues[queue].undead} of queue {queue} are moved, and were not dead")


class Feeds:
    """Reads the feeds of all replicas of a cluster, during the whole run."""

    def __init__(self) -> None:
        self._readers: dict[tuple[str, int], FeedReader] = {}
        self._entries: dict[tuple[int, int], tuple[str, Applied]] = {}

    def reader(self, node: SimulatedNode, partition: int) -> FeedReader:
        """A new one, for a replica that is opened."""
        made = SharedFeedReader(node.name, partition, self._entries)
        self._readers[node.name, partition] = made
        return made

    def check(self, node: SimulatedNode) -> None:
        """Each replica of the node has what its feed has told."""
        for partition in node.broker.partitions.replicas:
            machine = machine_of(node.broker.owners[partition])
            self._readers[node.name, partition].compare(machine.queues)
