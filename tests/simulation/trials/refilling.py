"""Queues over a stream that get another recovery point by a policy (D13)."""

from __future__ import annotations

from typing import Final

from tests.simulation.scripts import Steps
from tests.simulation.trials.filling import FORMS, LOOK_S, Filling, Form
from tests.simulation.trials.prover import Received
from tests.simulation.trials.trial import Trial

PLAIN: Final = "plain"

REFILLED: Final = {PLAIN: Form({}), **{name: FORMS[name] for name in ("filter", "group", "rank")}}
"""The forms of queues whose messages do not leave for each other."""

POINTS: Final = ("epoch", "now", "1h", "epoch")


def refilling(trial: Trial) -> Steps:
    """A queue has each message of its stream once that it takes, of before its declaration as well, when a
    policy has given it a recovery point: whichever owner is lost, and whatever points the policy states
    later. The queue gives messages away meanwhile.
    """
    chance, clients = trial.chance, Filling(trial)
    clients.form_name = chance.choice(sorted(REFILLED))
    clients.form = REFILLED[clients.form_name]
    yield from clients.begin()
    yield from clients.write_all(chance.randint(2, 9))
    yield from clients.written()
    taker, taken = trial.prover(), list[Received]()
    yield trial.queue(taker, " over", underlying_topic=trial.name, **clients.form.argument)
    for point in POINTS[: chance.randint(1, len(POINTS))]:
        answer = trial.put_policy({"recovery-point": point}, " over")
        yield from _move(clients)
        yield answer
        yield from clients.write_all(chance.randint(0, len(clients.left)))
        wanted = clients.wanted(0) if point == "epoch" and not clients.left else []
        came = {one.body for one in taken}
        yield from trial.take(taker, clients.queue, set(wanted) - came, taken)
    yield from clients.write_all()
    yield from clients.written()
    left = set(clients.wanted(0)) - {one.body for one in taken}
    yield from trial.take(taker, clients.queue, left, taken)
    trial.check_taken(clients.wanted(0), taken)


def _move(clients: Filling) -> Steps:
    """Have the owner change around the entry with the past, in most cases."""
    trial = clients.trial
    if trial.chance.random() < 0.3:
        return
    yield from trial.pause(trial.chance.randint(0, 12) * LOOK_S / 2)
    owned = trial.owner_of(clients.queue)
    if owned is not None:
        trial.move(*owned)
