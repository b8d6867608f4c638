"""Checks that the log has the operations that make the ways of messages durable.

It looks at the owners of simulated nodes after each message and each turn, and before each round of
deliveries. A message whose place has changed since the last look must have gone by a transition of the
table of a message's life. A transition with durable operations takes one of its alternatives out of the
operations that name the message, in entries that are applied, proposed, or about to be proposed. A
transition without them takes none. An applied operation that no transition takes is an error as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from cluster.catalog.replica import CATALOG
from cluster.owner.partition import PartitionOwner
from node.queue.delivery_state import DeliveryState
from node.queue.life import LIFE, Place, Transition
from node.queue.operations import OWNER, Applied, Aspect
from node.queue.queue import QueueState
from tests.inside import machine_of, state_of
from tests.simulation.feed import numbers_in
from tests.simulation.named import NamedMessages
from tests.simulation.node import SimulatedNode
from tests.simulation.world import Violation

NEW_OWNER: Final = "new owner"
"""How events begin that only happen when a partition has a new owner."""

Message = tuple[int, int]
"""A queue, and the number of a message in it."""


class Move(NamedTuple):
    """The places of a message at two looks, and the operations that name it, without those that its earlier
    transitions took: `applied` ones, and ones that are `coming`, which are on their way into the log.
    """

    place: Place
    to: Place
    applied: tuple[str, ...]
    coming: tuple[str, ...]
    new_owner: bool
    """Whether the partition has a new owner since the first look."""


class Step(NamedTuple):
    """A way of a message by one transition, and the operations that the transition took."""

    place: Place
    to: Place
    taken: tuple[str, ...]


def steps_of(row: Transition) -> list[Step]:
    """The step by each alternative of a row."""
    return [Step(row.place, row.to, tuple(one.split(" + "))) for one in row.durable] or [
        Step(row.place, row.to, ())
    ]


class Table:
    """A table of a message's life, to look for ways in."""

    def __init__(self, rows: Iterable[Transition]) -> None:
        self._steps: dict[Place, list[tuple[Step, bool]]] = {}
        for row in rows:
            of_new_owner = row.event.startswith(NEW_OWNER)
            self._steps.setdefault(row.place, []).extend((step, of_new_owner) for step in steps_of(row))
        self._ways: dict[Move, list[Step] | None] = {}

    def way(self, move: Move) -> list[Step] | None:
        """The way of a message, which takes all applied operations, and may take those that are coming; None
        where the table has none. It is one transition, or two of a message that one entry publishes and
        removes. Transitions of a new owner need a new owner.
        """
        if move not in self._ways:
            self._ways[move] = self._find(move)
        return self._ways[move]

    def _find(self, move: Move) -> list[Step] | None:
        ends = [(move.place, Counter(move.applied), Counter(move.coming), move.new_owner, list[Step]())]
        for _ in range(2 if move.place is Place.NEW and move.to is Place.GONE else 1):
            further = []
            for at, must, may, new, way in ends:
                for step, of_new_owner in self._steps.get(at, ()):
                    taken = Counter(step.taken)
                    if taken <= must + may and new >= of_new_owner:
                        end = step.to, must - taken, may - (taken - must), new > of_new_owner, [*way, step]
                        if step.to is move.to and not end[1]:
                            return end[4]
                        further.append(end)
            ends = further
        return None


@dataclass
class Lives:
    """Watches all partitions of some nodes. `moves` has what it saw, each kind of move once."""

    rows: Iterable[Transition] = LIFE
    moves: set[Move] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.table = Table(self.rows)
        self._partitions: dict[int, PartitionLives] = {}
        self._owners: set[PartitionOwner] = set()

    def watch(self, node: SimulatedNode) -> None:
        """Watch a node that has not started yet."""
        node.observers = lambda node, partition: (self._of(partition),)
        node.after_turn = node.after_message = self.look

    def _of(self, partition: int) -> PartitionLives:
        if partition not in self._partitions:
            self._partitions[partition] = PartitionLives(self)
        return self._partitions[partition]

    def look(self, node: SimulatedNode) -> None:
        """Look at the owners on a node. Raises Violation."""
        for partition, owner in node.broker.owners.items():
            if partition != CATALOG:
                if owner not in self._owners:
                    self._owners.add(owner)
                    setattr(owner, "serve", partial(self._serve, node, owner, owner.serve))  # noqa: B010
                self._look(node, owner)

    def _serve(
        self, node: SimulatedNode, owner: PartitionOwner, serve: Callable[[float], None], now: float
    ) -> None:
        self._look(node, owner)
        serve(now)

    def _look(self, node: SimulatedNode, owner: PartitionOwner) -> None:
        if owner.active:
            group = node.broker.host.groups.get(owner.partition)
            entries = []
            if group is not None:
                ahead = range(machine_of(owner).applied_index + 1, group.log.last_index() + 1)
                entries = [group.log.entry(index).data for index in ahead]
            self._of(owner.partition).look(owner, entries)


class PartitionLives:
    """The messages of one partition: implements `PartitionObserver` for all its replicas.

    `_applied` counts, for each message, the applied operations that name it, by kind, and `_taken` those that
    transitions took.
    """

    def __init__(self, lives: Lives) -> None:
        self._lives = lives
        self._named = NamedMessages()
        self._index = self._term = 0
        self._places: dict[Message, Place] = {}
        self._applied: dict[Message, Counter[str]] = {}
        self._taken: dict[Message, Counter[str]] = {}

    def proposed(self, index: int) -> None:
        """The look at the end of the turn reads the entry."""

    def following(self) -> None:
        """The next owner's term tells."""

    def restored(self, queues: Mapping[int, QueueState]) -> None:
        """A replica that was behind, and is no owner."""

    def applied(self, term: int, data: bytes, applied: Applied) -> None:
        """Count the operations of an entry when the first replica applies it."""
        if applied.index <= self._index:
            return
        self._index = applied.index
        named = [
            (kind, (queue, number))
            for kind, queue, ranges in self._named.read(data)
            for number in numbers_in(ranges)
        ]
        came = {
            (queue, number)
            for queue, first, last in applied.appended
            for number in numbers_in([(first, last)])
        }
        came.update(message for kind, message in named if kind == "PREPARED")
        for message in came - self._places.keys():
            self._places[message] = Place.NEW
            self._applied[message], self._taken[message] = Counter(), Counter()
        for kind, message in named:
            if message in self._applied:
                self._applied[message][kind] += 1
                if kind == "TRANSFERRED":
                    # A dead letter for several partitions leaves with the last of its transfers.
                    self._applied[message][kind] = 1
        for queue in applied.dropped:
            self._forget([message for message in self._places if message[0] == queue])

    def _forget(self, messages: list[Message]) -> None:
        for message in messages:
            for kept in (self._places, self._applied, self._taken):
                kept.pop(message, None)

    def look(self, owner: PartitionOwner, entries: list[bytes]) -> None:
        """Compare the places that the owner knows with those before. `entries` are proposed, not applied."""
        if owner.term < self._term or machine_of(owner).applied_index < self._index:
            # Another node has taken over.
            return
        new_owner, self._term = owner.term > self._term, owner.term
        if new_owner:
            # Entries that the former owner had proposed are applied by now, or never.
            self._taken = {message: taken & self._applied[message] for message, taken in self._taken.items()}
        coming = self._coming(owner, entries)
        places = dict(places_of(owner))
        for message in list(self._places):
            to = places.get(message, Place.GONE)
            # The owner of a sealed queue is gone before its messages.
            if message[0] in owner.queues and to is not None:
                self._goes(message, to, coming.get(message, Counter()), new_owner=new_owner)
        self._forget([message for message, place in self._places.items() if place is Place.GONE])

    def _coming(self, owner: PartitionOwner, entries: list[bytes]) -> dict[Message, Counter[str]]:
        """The operations that are not applied yet, by message and kind."""
        proposal, coming = state_of(owner).proposal, dict[Message, Counter[str]]()
        for data in [*entries, proposal.encode()] if proposal else entries:
            for kind, queue, ranges in self._named.read(data):
                for number in numbers_in(ranges):
                    coming.setdefault((queue, number), Counter())[kind] += 1
        return coming

    def _goes(self, message: Message, to: Place, coming: Counter[str], *, new_owner: bool) -> None:
        place, applied, taken = self._places[message], self._applied[message], self._taken[message]
        left, ahead = applied - taken, coming - (taken - applied)
        if place is to and not left.keys() - {"TRANSFERRED"}:
            return
        move = Move(place, to, tuple(sorted(left.elements())), tuple(sorted(ahead.elements())), new_owner)
        self._lives.moves.add(move)
        way = self._lives.table.way(move)
        if way is None:
            raise Violation(f"the table has no way of message {message[1]} of queue {message[0]}: {move}")
        for step in way:
            taken.update(step.taken)
        self._places[message] = to


def places_of(owner: PartitionOwner) -> Iterator[tuple[Message, Place | None]]:
    """The place of each message in the log, as the owner has it; None for one that is about to leave its
    place.
    """
    for queue, its_owner in owner.queues.items():
        state = machine_of(owner).queues[queue]
        found: dict[int, Place | None] = dict.fromkeys(numbers_in(state.alive.ranges()))
        for place, ranges in _ranges_of(its_owner.delivery):
            for number in numbers_in(ranges):
                if number in found:
                    found[number] = place
        yield from (((queue, number), place) for number, place in found.items())


def _ranges_of(delivery: DeliveryState) -> Iterator[tuple[Place, list[tuple[int, int]]]]:
    """The places of messages; where a message is in two, the later one counts."""
    yield Place.READY, list(delivery.ready.ranges())
    yield Place.HELD, list(delivery.held.ranges())
    if delivery.scheduled is not None:
        yield Place.SCHEDULED, list(delivery.scheduled.all())
    for front_end, lease in delivery.leases.items():
        yield Place.REMOVING if front_end == OWNER else Place.LEASED, list(lease.ranges())
    yield Place.WITHHELD, list(delivery.state.withheld.ranges())
    dead = delivery.state.annotations.get(Aspect.DEATH)
    yield Place.DEAD, [] if dead is None else list(dead.coverage().ranges())
