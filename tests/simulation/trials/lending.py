"""Queues with several owners: publishers at one node, consumers at others, and owners that lend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from cluster.owner.partition import PartitionOwner
from node.message.run import Run
from node.queue.dispatch import QueueOwner
from node.ranges.range_map import ABOVE_ALL
from node.ranges.range_set import Range
from tests.inside import askers_of, wishes_of
from tests.simulation.history import Outcome
from tests.simulation.scripts import Answer, LostError, Steps
from tests.simulation.trials.prover import Prover, Received
from tests.simulation.trials.sharing import Held, Sharing
from tests.simulation.trials.tastes import Tastes, kind_of
from tests.simulation.trials.trial import PAUSE_S, Trial

APPLIED_S = 1.0
"""So long after the last fault each part has an owner that has applied its log."""


TAKEN_BACK_S: Final = 0.5
"""The last consumer of a part has left, and so long after that no owner remembers the part's question."""

LENT_S: Final = 1.0
"""A message that waits, and that a consumer takes, comes to the consumer within so long."""

CONSUMERS: Final = 3

FILTERED: Final = 0.5
"""The share of trials whose consumers have filters."""
BARRIER: Final = "b"
"""The bodies of barriers, which are in all parts, begin with this text, and no others."""

PUBLISHES: Final = (1, 1, 3, 10)
"""Messages at a time."""


def lending(trial: Trial) -> Steps:
    """Every confirmed message comes, and comes once but for those that were given back, or lost on their way,
    wherever the owners of its queue are, and whatever they lend. It is in one part at each moment. Where
    consumers have filters, those messages come that a consumer takes, and the others are there at the end.
    """
    clients = Lending(trial, [trial.name], filtered=FILTERED)
    yield trial.queue(clients.publisher, owners=trial.chance.choice((2, 3, 3)))
    yield from lent(trial, clients, lambda: None)


def lent(trial: Trial, clients: Lending, change: Callable[[], None]) -> Steps:
    """Have the clients publish, and get every message. `change` is called again and again meanwhile."""
    questions, waiting = Questions(trial), Waiting(trial, clients.tastes)
    while clients.publishes() or clients.owed() or clients.sharing.unsettled():
        if clients.publisher.gone or len(clients.alive()) < CONSUMERS:
            try:
                yield from clients.replace()
            except LostError:
                trial.nodes.world.note(f"{trial.name}: a client is lost at once")
        clients.sharing.read()
        questions.check()
        waiting.check()
        change()
        if clients.alive():
            clients.sharing.act()
            clients.tastes.change(clients.alive())
        yield trial.chance.choice((0.01, PAUSE_S))
    check_parts(trial)
    sweeper, left = trial.prover(), list[Received]()
    yield from trial.take(sweeper, trial.name, clients.untaken(), left)
    for one in left:
        clients.check_left(one)


class Lending:
    """The clients of a trial. Those that are lost with their nodes are replaced, at other nodes. They publish
    to the queues `keys`, with the probability `pace` each time, and have some messages delayed by so many
    milliseconds. In the share `filtered` of trials consumers have filters.
    """

    def __init__(
        self,
        trial: Trial,
        keys: Sequence[str],
        delays: Sequence[int] = (),
        pace: float = 0.3,
        filtered: float = 0.0,
    ) -> None:
        self._trial, self._keys, self._consumers = trial, keys, list[Prover]()
        self._delays, self._pace = delays, pace
        self._left = [f"m{number:03};" for number in range(trial.chance.randint(6, 40))]
        self._answers: list[tuple[Answer, list[str]]] = []
        self._prefetch = trial.chance.randint(1, 6)
        self.publisher = trial.prover()
        self.tastes = Tastes(trial, filtered)
        self.sharing = Sharing(trial, [], self._check)

    def _check(self, held: Held) -> None:
        self.tastes.check(held)
        check_parts(self._trial)

    def alive(self) -> list[Prover]:
        """The consumers that are there."""
        return [prover for prover in self._consumers if prover.alive]

    def replace(self) -> Steps:
        """Replace the publisher, or add a consumer. Raises LostError."""
        prover = self._trial.prover()
        if self.publisher.gone:
            self.publisher = prover
        else:
            self._consumers.append(prover)
            self.sharing.join(prover)
            yield from self.tastes.begin(prover, self._prefetch)

    def publishes(self) -> bool:
        """Publish some of the messages that are left. Returns whether there were any."""
        left, chance = self._left, self._trial.chance
        if left and not self.publisher.gone and chance.random() < self._pace:
            some = [left.pop(0) for _ in range(min(len(left), chance.choice(PUBLISHES)))]
            key = self._keys[0] if len(self._keys) == 1 else chance.choice(self._keys)
            delay = chance.choice(self._delays) if self._delays else 0
            answer = self.publisher.publish("", key, some, headers=partial(self._headers, delay))
            self._answers.append((answer, some))
        return bool(left)

    def _headers(self, delay: int, body: str) -> dict[str, int]:
        kind = {"kind": kind_of(body)} if self.tastes.some else {}
        return kind | ({"x-delay": delay} if delay else {})

    def owed(self) -> bool:
        """Whether a message has still to come to a consumer, as far as the clients know."""
        unknown = self.tastes.some and not all(answer.given for answer, _ in self._answers)
        return unknown or bool(self.tastes.owed(self.sharing, self.confirmed(), self.alive()))

    def untaken(self) -> set[str]:
        """The messages that no consumer has taken, and that are in the queue."""
        return self.sharing.missing(self.confirmed()) if self.tastes.some else set()

    def confirmed(self) -> set[str]:
        """The messages that are confirmed, or about to be."""
        return {body for answer, some in self._answers if answer.error is None for body in some}

    def check_left(self, received: Received) -> None:
        """Check that a message which a consumer has settled is not left, unless the consumer was lost."""
        earlier = [one for one in self.sharing.deliveries if one.received.body == received.body]
        void = self.sharing.void
        kept = [one for one in earlier if not (void(one) or (self.tastes.some and _given_back(one)))]
        self._trial.expect(not kept, f"{received.body} is left, although it is settled")


def _given_back(held: Held) -> bool:
    return held.outcome is Outcome.RETURNED


def check_parts(trial: Trial) -> None:
    """Check that no message is in two parts, where the owners of all parts have applied what is committed."""
    if trial.nodes.world.disturbed + APPLIED_S > trial.now:
        return
    queues = [owner.queues[part] for owner, part in _parts(trial)]
    living = ((queue, queue.delivery.state.living(0, ABOVE_ALL).ranges()) for queue in queues)
    bodies = (body for queue, ranges in living for body in _bodies(queue, ranges))
    found = Counter(body for body in bodies if not body.startswith(BARRIER.encode()))
    double = sorted(body for body, count in found.items() if count > 1)
    trial.expect(not double, f"{double[:5]} are in two parts")


class Questions:
    """The questions for loans of the owners of a trial's queue."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._left: dict[int, float] = {}
        """Since when a part has no consumer, as far as the trial has seen."""
        self._unfiltered: dict[tuple[int, bytes], float] = {}
        """Since when a part has no consumer with a filter that another owner looks for."""

    def check(self) -> None:
        """Check that an owner without consumers waits for no loan, and that no other owner looks for a filter
        that none of its consumers has, where no fault holds the owners up.
        """
        trial = self._trial
        if trial.nodes.world.disturbed + APPLIED_S > trial.now:
            self._left.clear()
            self._unfiltered.clear()
            return
        waiting, wishes, filters = set[int](), set[tuple[int, bytes]](), set[tuple[int, bytes]]()
        for owner, part in _parts(trial):
            waiting.update(askers_of(owner, part))
            wishes.update(wishes_of(owner, part))
            filters.update((part, filter) for filter in _filters(owner.queues[part]))
            if owner.queues[part].delivery.consumers.count:
                self._left.pop(part, None)
            else:
                self._left.setdefault(part, trial.now)
        for part in waiting & self._left.keys():
            seconds = trial.now - self._left[part]
            trial.expect(seconds < TAKEN_BACK_S, f"{part} waits for a loan for {seconds:.1f} s")
        since, self._unfiltered = self._unfiltered, {}
        for wish in wishes - filters:
            self._unfiltered[wish] = since.get(wish, trial.now)
            seconds = trial.now - self._unfiltered[wish]
            trial.expect(seconds < TAKEN_BACK_S, f"{wish} is looked for without need for {seconds:.1f} s")


class Waiting:
    """The messages that wait in the parts of a trial's queue although a consumer of some part takes them."""

    def __init__(self, trial: Trial, tastes: Tastes) -> None:
        self._trial, self._tastes = trial, tastes
        self._since: dict[bytes, float] = {}

    def check(self) -> None:
        """Check that each message comes soon to the part of a consumer with room that takes it."""
        trial, since = self._trial, self._since
        self._since = {}
        if not self._tastes.some or trial.nodes.world.disturbed + APPLIED_S > trial.now:
            return
        taken, ready = set[int](), list[bytes]()
        for owner, part in _parts(trial):
            queue = owner.queues[part]
            ready += _bodies(queue, queue.delivery.ready.ranges())
            for consumer in (one for line in queue.delivery.consumers.lines for one in line):
                taken |= self._tastes.taken_by(consumer)
        for body in ready:
            if kind_of(body.decode()) in taken:
                self._since[body] = since.get(body, trial.now)
                seconds = trial.now - self._since[body]
                trial.expect(seconds < LENT_S, f"{body!r} waits for {seconds:.1f} s, and a consumer takes it")


def _filters(part: QueueOwner) -> set[bytes]:
    """The filters of the consumers of a part."""
    consumers = part.delivery.consumers
    found = (consumers.get(*key) for key in consumers)
    return {one.selector.data for one in found if one is not None and one.selector is not None}


def _parts(trial: Trial) -> Iterator[tuple[PartitionOwner, int]]:
    """The owners of the parts of the trial's queue, and the parts."""
    for node in trial.nodes.ready_nodes():
        state = node.broker.catalog.state
        queue = state.queues.get(("/", trial.name))
        for part in [] if queue is None else state.owner_parts.of(queue):
            owner = node.broker.owners.get(part.partition)
            if owner is not None and owner.active and part.id in owner.queues:
                yield owner, part.id


def _bodies(part: QueueOwner, ranges: Iterable[Range]) -> Iterator[bytes]:
    """The bodies of messages of a part."""
    for first, last in ranges:
        while first <= last:
            for start, run in part.read_messages(first, last):
                yield from _bodies_of(run)
                first = start + run.count


def _bodies_of(run: Run) -> Iterator[bytes]:
    """The body of each message, which is the only text of its form there."""
    for index in range(run.count):
        octets = bytes(run.slice(index, 1).raw)
        at = octets.rindex(b";")
        yield octets[at - 4 : at]
