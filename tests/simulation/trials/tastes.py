"""Consumers of one queue that have filters, and change them while they go on (D9, D18)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from node.expressions.condition import encoded_condition
from node.queue.consumers import Consumer
from node.wire.amqp091 import methods as m
from tests.simulation.history import Outcome
from tests.simulation.scripts import Answer, Steps
from tests.simulation.trials.prover import Prover
from tests.simulation.trials.sharing import Consuming, Held, Sharing
from tests.simulation.trials.trial import Trial

KINDS: Final = frozenset(range(4))
"""The kinds of the messages, which stand in their headers."""

CHANGES: Final = 0.01
"""The probability that a consumer changes its filter, each time that consumers act."""

TAG: Final = "taster"


def kind_of(body: str) -> int:
    """The kind of the message with a body such as `m012;`."""
    return int(body[1:4]) % len(KINDS)


class Tastes:
    """The kinds of messages that each consumer of a trial takes: all of them, unless the trial is one of the
    `share` of trials whose consumers have filters.
    """

    def __init__(self, trial: Trial, share: float) -> None:
        self._trial = trial
        # Trials without filters do what they would do if there were none with filters.
        self._chance = trial.nodes.world.chance(f"filters of {trial.name}")
        self.some = self._chance.random() < share
        self._since: dict[Consuming, list[tuple[float, frozenset[int]]]] = {}
        """Since when each consumer has taken which kinds, as its client knows."""
        self._changing, self._kinds = set[Prover](), dict[bytes, frozenset[int]]()

    def begin(self, prover: Prover, prefetch: int) -> Steps:
        """Start the consumer of a client."""
        kinds = self._choice() if self.some else KINDS
        self._since[prover] = [(self._trial.now, kinds)]
        yield prover.ask(m.BasicQos(0, prefetch))
        answer: Any = yield self._consume(prover, kinds)
        assert isinstance(answer, m.BasicConsumeOk)

    def change(self, provers: Iterable[Prover]) -> None:
        """Sometimes have a consumer take other kinds."""
        for prover in provers if self.some else ():
            started = prover in self._since and prover not in self._changing
            if started and self._chance.random() < CHANGES:
                kinds = self._choice()
                self._changing.add(prover)
                answer = self._consume(prover, kinds, **{"x-replace": True})
                answer.then(partial(self._changed, prover, kinds, answer))

    def _changed(self, prover: Prover, kinds: frozenset[int], answer: Answer) -> None:
        self._changing.discard(prover)
        if answer.error is None:
            self._since[prover].append((self._trial.now, kinds))

    def taken_by(self, consumer: Consumer) -> frozenset[int]:
        """The kinds of messages that a consumer takes, as its owner knows."""
        return KINDS if consumer.selector is None else self._kinds[consumer.selector.data]

    def _choice(self) -> frozenset[int]:
        some = self._chance.sample(sorted(KINDS), self._chance.choice((1, 1, 2, len(KINDS))))
        return frozenset(some)

    def _consume(self, prover: Prover, kinds: frozenset[int], **arguments: Any) -> Answer:
        if kinds != KINDS:
            text = " OR ".join(f"kind = {kind}" for kind in sorted(kinds))
            self._kinds[encoded_condition(text)], arguments["x-filter"] = kinds, text
        return prover.ask(m.BasicConsume(self._trial.name, TAG, arguments=arguments))

    def check(self, held: Held) -> None:
        """D9, D18: a consumer gets what its filter takes, and after the answer to a change nothing that only
        the former one takes.
        """
        body, time, since = held.received.body, held.received.time, self._since[held.prover]
        ends = [*(begin for begin, _ in since[1:]), time]
        valid = [kinds for (begin, kinds), end in zip(since, ends, strict=True) if begin <= time <= end]
        taken = any(kind_of(body) in kinds for kinds in valid)
        self._trial.expect(taken, f"{body} comes on {held.prover.node.name}, whose filter does not take it")

    def owed(self, sharing: Sharing, bodies: Iterable[str], provers: Iterable[Prover]) -> list[str]:
        """The messages that wait, as far as the clients know, and that one of the consumers takes. A consumer
        that is about to change may take any.
        """
        if not self.some:
            return sorted(sharing.missing(bodies))
        latest = {held.received.body: held for held in sharing.deliveries}
        taken, there = set[int](), list(provers)
        for prover in there:
            taken |= KINDS if prover in self._changing else self._since[prover][-1][1]
        waiting = (body for body in bodies if _waits(latest.get(body)))
        return [body for body in waiting if kind_of(body) in taken]


def _waits(latest: Held | None) -> bool:
    """Whether a message has never come, or was given back at last."""
    return latest is None or latest.outcome is Outcome.RETURNED
