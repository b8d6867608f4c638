"""Answers that must be true under all faults: counts, names that others declare, room in a queue."""

from __future__ import annotations

from functools import partial

from node.wire.amqp091 import methods as m
from tests.simulation.scripts import Answer, RefusedError, Steps
from tests.simulation.trials.limits import numbered
from tests.simulation.trials.prover import Fate, Prover
from tests.simulation.trials.trial import PAUSE_S, Trial


class Counting:
    """Asks nodes in turn for the number of a queue's messages, each node with one question at a time."""

    def __init__(self, trial: Trial) -> None:
        self.published = self.confirmed = 0
        self._trial = trial
        self._asked: dict[Prover, Answer] = {}

    @property
    def idle(self) -> bool:
        return all(answer.given for answer in self._asked.values())

    def ask(self, provers: list[Prover]) -> None:
        """Have all provers with an answer ask again. The answer must count all messages confirmed by now."""
        for prover in provers:
            if prover not in self._asked or self._asked[prover].given:
                answer = self._asked[prover] = prover.ask(m.QueueDeclare(self._trial.name, passive=True))
                answer.then(partial(self._answered, prover, answer, self.confirmed, prover.now))

    def _answered(self, prover: Prover, answer: Answer, confirmed: int, asked: float) -> None:
        if answer.error is None:
            count = answer.value.message_count
            self._trial.expect(
                confirmed <= count <= self.published,
                f"{prover.node.name} counts {count} messages, asked at {asked:.4f} when {confirmed} were "
                f"confirmed; {self.published} are published",
            )


def counts(trial: Trial) -> Steps:
    """Every node counts all messages that were confirmed before the question, and finds one of them."""
    publisher = trial.prover()
    others = [trial.prover() for _ in range(4)]
    # A queue's first owner is on the node of the declaration; the publisher uses another node, as that one
    # may be cut off.
    yield trial.queue(others[0])
    counting = Counting(trial)
    for turn in range(trial.chance.randint(5, 40)):
        bodies = numbered(f"m {turn}", trial.chance.choice((1, 1, 3)))
        counting.published += len(bodies)
        fate: Fate = yield publisher.publish("", trial.name, bodies)
        trial.expect(not fate.refused, f"{fate.refused} are refused")
        counting.confirmed = counting.published
        counting.ask(others)
        yield from trial.pause(trial.chance.choice((0.0, 0.01, PAUSE_S)))
    while not counting.idle:
        yield from trial.pause()
    got = yield trial.chance.choice(others).get(trial.name)
    trial.expect(got is not None, f"nothing is there of {counting.confirmed} messages")


def redeclarations(trial: Trial) -> Steps:
    """An object that exists for one client exists for every other one, also while it is being declared."""
    first, second, third = trial.prover(), trial.prover(), trial.prover()
    for turn in range(trial.chance.randint(5, 20)):
        name = f"{trial.name} {turn}"
        trial.exchanges.append(name)
        declared = first.ask(m.ExchangeDeclare(name, "direct", durable=True))
        yield trial.chance.choice((0.0005, 0.002, 0.005)) * trial.chance.random()
        yield second.ask(m.ExchangeDeclare(name, "direct", durable=True))
        try:
            yield third.ask(m.ExchangeDeclare(name, passive=True))
        except RefusedError as error:
            known = f"{second.node.name} was told that {name} is there, but {third.node.name} hears {error}"
            trial.expect(False, known)
        yield declared
        first, second, third = trial.chance.sample((first, second, third), 3)


def room(trial: Trial) -> Steps:
    """An emptied queue has room for as many messages as its limit admits, however they come."""
    limit = trial.chance.randint(1, 4)
    # A queue's first owner is on the node of the declaration; the publisher uses another node.
    declarer, publisher = trial.prover(), trial.prover()
    yield trial.queue(declarer, max_length=limit, overflow="reject-publish")
    for turn in range(trial.chance.randint(20, 60)):
        fate: Fate = yield publisher.publish("", trial.name, numbered(f"m {turn}", limit))
        trial.expect(not fate.refused, f"{fate.refused} are refused by a queue with room for {limit}")
        yield publisher.ask(m.QueuePurge(trial.name))
