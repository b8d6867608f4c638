"""Queues with several owners: publishers at one node, consumers at others, and owners that lend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from cluster.owner.partition import PartitionOwner
from node.message.run import Run
from node.queue.dispatch import QueueOwner
from node.ranges.range_map import ABOVE_ALL
from tests.inside import askers_of
from tests.simulation.scripts import Answer, LostError, Steps
from tests.simulation.trials.order import consume
from tests.simulation.trials.prover import Prover, Received
from tests.simulation.trials.sharing import Sharing
from tests.simulation.trials.trial import PAUSE_S, Trial

APPLIED_S = 1.0
"""So long after the last fault each part has an owner that has applied its log."""


TAKEN_BACK_S: Final = 0.5
"""The last consumer of a part has left, and so long after that no owner remembers the part's question."""

CONSUMERS: Final = 3

PUBLISHES: Final = (1, 1, 3, 10)
"""Messages at a time."""


def lending(trial: Trial) -> Steps:
    """Every confirmed message comes, and comes once but for those that were given back, or lost on their way,
    wherever the owners of its queue are, and whatever they lend. It is in one part at each moment.
    """
    clients = Lending(trial, [trial.name])
    yield trial.queue(clients.publisher, owners=trial.chance.choice((2, 3, 3)))
    yield from lent(trial, clients, lambda: None)


def lent(trial: Trial, clients: Lending, change: Callable[[], None]) -> Steps:
    """Have the clients publish, and get every message. `change` is called again and again meanwhile."""
    questions = Questions(trial)
    while clients.publishes() or clients.sharing.missing(clients.confirmed()) or clients.sharing.unsettled():
        if clients.publisher.gone or len(clients.alive()) < CONSUMERS:
            try:
                yield from clients.replace()
            except LostError:
                trial.nodes.world.note(f"{trial.name}: a client is lost at once")
        clients.sharing.read()
        questions.check()
        change()
        if clients.alive():
            clients.sharing.act()
        yield trial.chance.choice((0.01, PAUSE_S))
    check_parts(trial)
    sweeper, left = trial.prover(), list[Received]()
    yield from trial.take(sweeper, trial.name, (), left)
    for one in left:
        clients.check_left(one)


class Lending:
    """The clients of a trial. Those that are lost with their nodes are replaced, at other nodes. They publish
    to the queues `keys`, with the probability `pace` each time, and have some messages delayed by so many
    milliseconds.
    """

    def __init__(
        self, trial: Trial, keys: Sequence[str], delays: Sequence[int] = (), pace: float = 0.3
    ) -> None:
        self._trial, self._keys, self._consumers = trial, keys, list[Prover]()
        self._delays, self._pace = delays, pace
        self._left = [f"m{number:03};" for number in range(trial.chance.randint(6, 40))]
        self._answers: list[tuple[Answer, list[str]]] = []
        self._prefetch = trial.chance.randint(1, 6)
        self.publisher = trial.prover()
        self.sharing = Sharing(trial, [], lambda held: check_parts(trial))

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
            yield from consume(prover, self._trial.name, self._prefetch)

    def publishes(self) -> bool:
        """Publish some of the messages that are left. Returns whether there were any."""
        left, chance = self._left, self._trial.chance
        if left and not self.publisher.gone and chance.random() < self._pace:
            some = [left.pop(0) for _ in range(min(len(left), chance.choice(PUBLISHES)))]
            key = self._keys[0] if len(self._keys) == 1 else chance.choice(self._keys)
            delay = chance.choice(self._delays) if self._delays else 0
            headers = {"x-delay": delay} if delay else {}
            answer = self.publisher.publish("", key, some, headers=headers)
            self._answers.append((answer, some))
        return bool(left)

    def confirmed(self) -> set[str]:
        """The messages that are confirmed, or about to be."""
        return {body for answer, some in self._answers if answer.error is None for body in some}

    def check_left(self, received: Received) -> None:
        """Check that a message which a consumer has settled is not left, unless the consumer was lost."""
        earlier = [one for one in self.sharing.deliveries if one.received.body == received.body]
        kept = [one for one in earlier if not self.sharing.void(one)]
        self._trial.expect(not kept, f"{received.body} is left, although it is settled")


def check_parts(trial: Trial) -> None:
    """Check that no message is in two parts, where the owners of all parts have applied what is committed."""
    if trial.nodes.world.disturbed + APPLIED_S > trial.now:
        return
    found = Counter(body for owner, part in _parts(trial) for body in _bodies(owner.queues[part]))
    double = sorted(body for body, count in found.items() if count > 1)
    trial.expect(not double, f"{double[:5]} are in two parts")


class Questions:
    """The questions for loans of the owners of a trial's queue."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._left: dict[int, float] = {}
        """Since when a part has no consumer, as far as the trial has seen."""

    def check(self) -> None:
        """Check that an owner without consumers waits for no loan, where no fault holds the owners up."""
        trial = self._trial
        if trial.nodes.world.disturbed + APPLIED_S > trial.now:
            self._left.clear()
            return
        waiting = set[int]()
        for owner, part in _parts(trial):
            waiting.update(askers_of(owner, part))
            if owner.queues[part].delivery.consumers.count:
                self._left.pop(part, None)
            else:
                self._left.setdefault(part, trial.now)
        for part in waiting & self._left.keys():
            seconds = trial.now - self._left[part]
            trial.expect(seconds < TAKEN_BACK_S, f"{part} waits for a loan for {seconds:.1f} s")


def _parts(trial: Trial) -> Iterator[tuple[PartitionOwner, int]]:
    """The owners of the parts of the trial's queue, and the parts."""
    for node in trial.nodes.ready_nodes():
        state = node.broker.catalog.state
        queue = state.queues.get(("/", trial.name))
        for part in [] if queue is None else state.owner_parts.of(queue):
            owner = node.broker.owners.get(part.partition)
            if owner is not None and owner.active and part.id in owner.queues:
                yield owner, part.id


def _bodies(part: QueueOwner) -> Iterator[bytes]:
    """The bodies of the messages of a part that are not lent."""
    for first, last in part.delivery.state.living(0, ABOVE_ALL).ranges():
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
