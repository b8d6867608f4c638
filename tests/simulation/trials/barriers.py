"""Barriers, which all consumers of a queue get at once (D11)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from node.wire.amqp091 import methods as m
from tests.simulation.history import Outcome
from tests.simulation.scripts import Answer, Steps
from tests.simulation.trials.limits import numbered
from tests.simulation.trials.prover import Prover, Received
from tests.simulation.trials.sharing import Held, Sharing
from tests.simulation.trials.trial import PAUSE_S, Trial


class Meeting:
    """The barriers among messages that consumers share."""

    def __init__(
        self, trial: Trial, sharing: Sharing, provers: Sequence[Prover], bodies: list[str], barriers: set[str]
    ) -> None:
        self._trial, self._sharing, self._provers = trial, sharing, provers
        self._bodies, self._barriers = bodies, barriers
        self._had: dict[Prover, set[str]] = {prover: set() for prover in provers}

    def read(self) -> None:
        """Check what has come, and leave the messages that are no barriers."""
        for prover in self._provers:
            come, prover.deliveries = prover.deliveries, []
            for received in come:
                if received.body in self._barriers:
                    self._check_barrier(prover, received)
                    prover.ack(received)
                else:
                    self._check_behind(prover, received)
                    prover.deliveries.append(received)
        self._sharing.read()

    def _check_barrier(self, prover: Prover, received: Received) -> None:
        """It comes once, and when every message before it is settled."""
        body, where = received.body, f"on {prover.node.name}"
        self._trial.expect(body not in self._had[prover], f"{body} comes twice to a consumer {where}")
        self._had[prover].add(body)
        if self._sharing.void(Held(prover, received)):
            return
        settled = {one.received.body for one in self._sharing.deliveries if one.outcome is Outcome.SETTLED}
        before = set(self._bodies[: self._bodies.index(body)]) - self._barriers
        self._trial.expect(before <= settled, f"{body} comes {where} before {sorted(before - settled)[:3]}")

    def _check_behind(self, prover: Prover, received: Received) -> None:
        """No message comes before a barrier that stands in front of it."""
        if self._sharing.void(Held(prover, received)) or self._away(prover):
            return
        ahead = set(self._bodies[: self._bodies.index(received.body)]) & self._barriers
        missing = ahead - self._had[prover]
        self._trial.expect(
            not missing, f"{received.body} comes on {prover.node.name} before {sorted(missing)[:3]}"
        )

    def _away(self, prover: Prover) -> bool:
        """Whether the consumer was given up once: it is no consumer then."""
        return self._trial.nodes.given_up(prover.node.name, self._trial.began)

    @property
    def missing(self) -> bool:
        """Whether a barrier has still to come."""
        there = [one for one in self._provers if one.alive and not one.connection.gone]
        return any(not self._away(one) and self._had[one] < self._barriers for one in there)


def barriers(trial: Trial) -> Steps:
    """Each consumer gets each barrier once, behind all that stands before it and ahead of all behind it."""
    chance = trial.chance
    publisher, *provers = (trial.prover() for _ in range(chance.randint(3, 5)))
    yield trial.queue(publisher, barrier_expression="barrier = TRUE")
    for prover in provers:
        yield prover.ask(m.BasicQos(0, chance.choice((1, 2, 8))))
        answer: Any = yield prover.ask(m.BasicConsume(trial.name))
        assert isinstance(answer, m.BasicConsumeOk)
    bodies = numbered("m", chance.randint(4, 30))
    marked = {body for body in bodies if chance.random() < 0.25}
    sharing = Sharing(trial, provers)
    meeting = Meeting(trial, sharing, provers, bodies, marked)
    answers: list[Answer] = []
    left, plain = list(bodies), set(bodies) - marked
    while left or sharing.missing(plain) or sharing.unsettled() or meeting.missing:
        if left and chance.random() < 0.3:
            size = chance.choice((1, 1, 3, 10))
            some, left = left[:size], left[size:]
            answers.append(
                publisher.publish("", trial.name, some, headers=lambda body: {"barrier": body in marked})
            )
        meeting.read()
        sharing.act()
        yield from trial.pause(chance.choice((0.0, PAUSE_S)))
    while answers:
        yield answers.pop(0)
