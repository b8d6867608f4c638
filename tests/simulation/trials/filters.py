"""Filters by the content of messages: of a queue, and of its consumers (D9)."""

from __future__ import annotations

import json

from node.wire.amqp091 import methods as m
from tests.simulation.scripts import Steps
from tests.simulation.trials.prover import Fate, Prover, Received
from tests.simulation.trials.trial import Trial


def filters(trial: Trial) -> Steps:
    """A queue has the messages that its filter takes. A consumer gets those of them that its own filter
    takes, and leaves the others. No message is refused, and none that matches is lost.
    """
    chance = trial.chance
    publisher, taker, other = trial.prover(), trial.prover(), trial.prover()
    part, border = chance.randint(2, 4), chance.randint(0, 12)
    yield trial.queue(other, filter=chance.choice((f"/n % {part} = 0", "rest = 0 AND x_exchange = ''")))
    yield taker.ask(m.BasicQos(0, chance.choice((1, 3, 20))))
    yield taker.ask(m.BasicConsume(trial.name, arguments={"x-filter": f"/n < {border}"}))
    numbers = range(chance.randint(4, 24))
    bodies = [_body(number) for number in numbers]
    left = 0
    while left < len(bodies):
        some = bodies[left : left + chance.choice((1, 3, 7))]
        fate: Fate = yield publisher.publish(
            "", trial.name, some, headers=lambda body: {"rest": json.loads(body)["n"] % part}
        )
        trial.expect(not fate.refused, f"{fate.refused} are refused, which would not enter")
        left += len(some)
    entering = {_body(number) for number in numbers if number % part == 0}
    mine = {_body(number) for number in range(border)} & entering
    yield from _consume_all(trial, taker, mine)
    # The owner may change while messages wait that the consumer's filter does not take.
    yield from trial.pause(chance.choice((0.02, 0.3, 1.0)))
    _check_taking(trial, taker, mine)
    taken: list[Received] = []
    yield from trial.take(other, trial.name, entering - mine, taken, settler=taker)
    trial.check_taken(entering, taken)
    trial.check_taken(mine, taker.deliveries)


def _body(number: int) -> str:
    return json.dumps({"n": number})


def _consume_all(trial: Trial, taker: Prover, wanted: set[str]) -> Steps:
    """Acknowledge deliveries until all wanted messages have come."""
    done = 0
    while True:
        for delivery in taker.deliveries[done:]:
            taker.ack(delivery)
        done = len(taker.deliveries)
        _check_taking(trial, taker, wanted)
        if wanted <= {one.body for one in taker.deliveries}:
            return
        yield from trial.pause()


def _check_taking(trial: Trial, taker: Prover, wanted: set[str]) -> None:
    """A message that its filter does not take would wait for this consumer, and so would the trial."""
    others = {one.body for one in taker.deliveries} - wanted
    trial.expect(not others, f"{others} came, which the filter of the consumer does not take")
