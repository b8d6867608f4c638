"""Barriers of queues with several owners: publishers and consumers at any nodes, and owners that lend."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Final

from node.wire.amqp091 import methods as m
from tests.simulation.history import Outcome
from tests.simulation.scripts import Answer, LostError, Steps
from tests.simulation.trials.lending import BARRIER, check_parts
from tests.simulation.trials.order import consume
from tests.simulation.trials.prover import Prover, Received
from tests.simulation.trials.sharing import Held, Sharing
from tests.simulation.trials.trial import PAUSE_S, Trial

PUBLISHERS: Final = 3
CONSUMERS: Final = 3
PUBLISHES: Final = (1, 1, 2, 5)
"""Messages at a time."""

PACE: Final = 0.2
"""The probability that a publisher publishes, each time."""

MOVING: Final = 0.03
"""The probability that some part gets another owner, each time."""


@dataclass(eq=False)
class _Publish:
    """Messages of one publish. `began` and `confirmed` are times."""

    bodies: list[str]
    began: float
    answer: Answer

    @property
    def confirmed(self) -> float:
        return self.answer.value.ended if self.answer.given and self.answer.error is None else inf

    @property
    def barriers(self) -> list[str]:
        return [body for body in self.bodies if body.startswith(BARRIER)]


@dataclass(eq=False)
class _Consumer:
    """A consumer, and the barriers that it has got."""

    prover: Prover
    since: float
    had: set[str] = field(default_factory=set)


class Gathering:
    """The clients of a trial. Those that are lost with their nodes are replaced."""

    def __init__(self, trial: Trial) -> None:
        chance = trial.chance
        self._trial = trial
        numbers = range(chance.randint(6, 40))
        self._left = [f"{'b' if chance.random() < 0.2 else 'm'}{number:03};" for number in numbers]
        self._published: list[_Publish] = []
        self._publishers: list[Prover] = [trial.prover()]
        self._consumers: list[_Consumer] = []
        self._prefetch = chance.randint(1, 6)
        self.sharing = Sharing(trial, [], lambda held: check_parts(trial))

    @property
    def first(self) -> Prover:
        """The publisher that declares the queue."""
        return self._publishers[0]

    def alive(self) -> bool:
        """Whether a consumer is there."""
        return any(one.prover.alive for one in self._consumers)

    def replace(self) -> Steps:
        """Add a publisher or a consumer, where one is missing. Raises LostError."""
        self._publishers = [one for one in self._publishers if not one.gone]
        if len(self._publishers) < PUBLISHERS:
            self._publishers.append(self._trial.prover())
        elif sum(one.prover.alive for one in self._consumers) < CONSUMERS:
            prover = self._trial.prover()
            yield from consume(prover, self._trial.name, self._prefetch)
            self._consumers.append(_Consumer(prover, self._trial.now))
            self.sharing.join(prover)

    def publish(self) -> bool:
        """Publish some of the messages that are left. Returns whether there were any."""
        left, chance = self._left, self._trial.chance
        for publisher in self._publishers:
            if left and not publisher.gone and chance.random() < PACE:
                some = [left.pop(0) for _ in range(min(len(left), chance.choice(PUBLISHES)))]
                answer = publisher.publish(
                    "", self._trial.name, some, headers=lambda body: {"barrier": body.startswith(BARRIER)}
                )
                self._published.append(_Publish(some, self._trial.now, answer))
        return bool(left)

    def missing(self) -> bool:
        """Whether a message that is confirmed, or about to be, has not come, or a barrier that is confirmed
        has not come to each consumer.
        """
        sent = [one for one in self._published if one.answer.error is None]
        plain = {body for one in sent for body in one.bodies if not body.startswith(BARRIER)}
        if self.sharing.missing(plain) or any(not one.answer.given for one in sent):
            return True
        return any(not self._expected(one, publish) <= one.had for one in self._consumers for publish in sent)

    def _expected(self, consumer: _Consumer, publish: _Publish) -> set[str]:
        """The barriers of a publish that have to come to a consumer."""
        prover = consumer.prover
        there = prover.alive and not prover.connection.gone and consumer.since < publish.began
        if not there or self._trial.nodes.given_up(prover.node.name, consumer.since):
            return set()
        return set(publish.barriers) if publish.confirmed < inf else set()

    def read(self) -> None:
        """Check what has come, and leave the messages that are no barriers to `sharing`."""
        come = [(received, one) for one in self._consumers for received in one.prover.deliveries]
        for received, consumer in sorted(come, key=lambda each: each[0].time):
            self._check_before(consumer, received)
            if received.body.startswith(BARRIER):
                again = received.body in consumer.had
                self._trial.expect(not again, f"{received.body} comes twice on {received.node}")
                consumer.had.add(received.body)
                consumer.prover.deliveries.remove(received)
                consumer.prover.ack(received)
            else:
                self._check_behind(consumer, received)
        self.sharing.read()

    def _of(self, body: str) -> _Publish:
        return next(one for one in self._published if body in one.bodies)

    def _check_before(self, consumer: _Consumer, received: Received) -> None:
        """All messages that were confirmed before a barrier was published are settled, when the barrier
        comes, or a message that was published when the barrier was confirmed.
        """
        if self.sharing.void(Held(consumer.prover, received)):
            return
        mine = self._of(received.body)
        ahead = [one for one in self._published if one.barriers and one.confirmed < mine.began]
        if received.body.startswith(BARRIER):
            ahead.append(mine)
        upto = max((one.began for one in ahead), default=0.0)
        before = {body for one in self._published if one.confirmed < upto for body in one.bodies}
        settled = {one.received.body for one in self.sharing.deliveries if one.outcome is Outcome.SETTLED}
        left = sorted(body for body in before - settled if not body.startswith(BARRIER))
        self._trial.expect(not left, f"{received.body} comes on {received.node} before {left[:3]}")

    def _check_behind(self, consumer: _Consumer, received: Received) -> None:
        """No message comes to a consumer before a barrier that was confirmed when it was published."""
        began = self._of(received.body).began
        for one in self._published:
            if one.confirmed < began and not self.sharing.void(Held(consumer.prover, received)):
                missing = self._expected(consumer, one) - consumer.had
                self._trial.expect(
                    not missing, f"{received.body} comes on {received.node} before {sorted(missing)[:3]}"
                )

    def move(self) -> None:
        """Have another node own some part, sometimes."""
        trial = self._trial
        if trial.chance.random() < MOVING:
            number = trial.chance.choice((1, 2, 3))
            found = trial.owner_of(trial.name if number == 1 else f"amq.part-{number}.{trial.name}")
            if found is not None:
                trial.move(*found)


def gathering(trial: Trial) -> Steps:
    """The consumers of all parts get each barrier once, behind all that was confirmed before it, and ahead of
    all that was published behind it, wherever the owners are, and whatever they lend.
    """
    clients = Gathering(trial)
    owners = trial.chance.choice((2, 3, 3))
    answer = yield trial.queue(clients.first, owners=owners, barrier_expression="barrier = TRUE")
    assert isinstance(answer, m.QueueDeclareOk)
    while clients.publish() or clients.missing() or clients.sharing.unsettled():
        try:
            yield from clients.replace()
        except LostError:
            trial.nodes.world.note(f"{trial.name}: a client is lost at once")
        clients.read()
        clients.move()
        if clients.alive():
            clients.sharing.act()
        yield trial.chance.choice((0.01, PAUSE_S))
    check_parts(trial)
