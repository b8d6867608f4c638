"""Messages that a queue keeps for a while when their consumer has gone (X5)."""

from __future__ import annotations

from functools import partial
from typing import Any

from node.delivery.deeds import Became, Deed
from node.ranges.range_set import Range
from node.refusal import Refusal
from node.wire.amqp091 import methods as m
from tests.simulation.scripts import Steps
from tests.simulation.trials.limits import numbered
from tests.simulation.trials.naming import UNDER_WAY_S, settle_named
from tests.simulation.trials.prover import Received
from tests.simulation.trials.trial import PAUSE_S, SLACK_S, Trial

DRIFT = 0.06
"""How much faster the clock of an owner may run."""


class Settler:
    """Acknowledges messages of the trial's queue by bookmark, at any node. `settled` has those of which a
    client was told so, with the time; `touched` those of which that may be so.
    """

    def __init__(self, trial: Trial) -> None:
        self.settled: dict[str, float] = {}
        self.touched: set[str] = set()
        self._trial = trial

    def settle(self, held: Received) -> None:
        self.touched.add(held.body)
        settle_named(self._trial, held, Deed.ACKNOWLEDGE, partial(self._answered, held.body))

    def _answered(self, body: str, became: dict[Became, list[Range]], refusal: Refusal | None) -> None:
        if refusal is None and Became.SETTLED in became:
            self.settled.setdefault(body, self._trial.now)


def lingering(trial: Trial) -> Steps:
    """No consumer gets what another one had, before that one's time is over; then all of it comes, but for
    messages that a client has acknowledged by bookmark meanwhile.
    """
    chance, settler = trial.chance, Settler(trial)
    publisher, holder, other = trial.prover(), trial.prover(), trial.prover()
    linger_s = chance.choice((1, 2))
    yield trial.queue(publisher)
    bodies = numbered("m", chance.randint(2, 10))
    yield publisher.publish("", trial.name, bodies)
    yield holder.ask(m.BasicQos(0, chance.randint(1, 8)))
    arguments: dict[str, Any] = {"x-lease-linger": linger_s * 1000, "x-tell": True}
    yield holder.ask(m.BasicConsume(trial.name, arguments=arguments))
    while not holder.deliveries:
        yield from trial.pause()
    yield from trial.pause(chance.choice((0.0, PAUSE_S)))
    held = list(holder.deliveries)
    acknowledged = held[: chance.randint(0, len(held) - 1)]
    for one in acknowledged:
        holder.ack(one)
    holder.leave()
    gone = trial.now
    kept = {one.body: one for one in held[len(acknowledged) :]}
    yield other.ask(m.BasicConsume(trial.name))
    wanted = set(bodies) - {one.body for one in acknowledged}
    came: dict[str, float] = {}
    while wanted - settler.touched - came.keys():
        for one in kept.values():
            if one.body not in settler.touched and chance.random() < 0.03:
                settler.settle(one)
        come, other.deliveries = other.deliveries, []
        for one in come:
            early = one.body in kept and one.time < gone + linger_s * (1 - DRIFT) - SLACK_S
            after = f"{one.body} comes {one.time - gone:.2f} s after its consumer has gone"
            trial.expect(not (early and trial.times_hold), after)
            late = one.time > settler.settled.get(one.body, one.time) + UNDER_WAY_S
            trial.expect(not late, f"{one.body} comes, which is settled by bookmark")
            came[one.body] = one.time
            other.ack(one)
        yield from trial.pause()
