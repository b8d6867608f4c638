"""Queues with a history: the logs of all replicas tell what has happened to each message (X8)."""

from __future__ import annotations

from collections import Counter

from cluster.owner.walking import Walk
from node.message.bookmarks import number_in
from node.queue.events import Happened, Lead, LeadKind, Occurrence
from node.queue.explaining import Trace
from node.queue.sought import Sought
from node.wire.amqp091 import methods as m
from tests.inside import machine_of
from tests.simulation.node import SimulatedNode
from tests.simulation.scripts import Steps
from tests.simulation.trials.limits import numbered
from tests.simulation.trials.prover import Prover, Received
from tests.simulation.trials.trial import PAUSE_S, Trial


def occurrences(trial: Trial, node: SimulatedNode, number: int) -> list[Occurrence] | None:
    """The events of a message of the trial's queue, as the log of a node tells them; None where the node has
    no replica, or does not know the queue yet.
    """
    broker = node.broker
    definition = broker.catalog.state.queues.get(("/", trial.name))
    owner = None if definition is None else broker.owners.get(definition.partition)
    if definition is None or owner is None or owner.partition not in broker.host.groups:
        return None
    trace = Trace(owner.partition, Sought(Lead(owner.partition, LeadKind.NUMBER, number)))
    walk = Walk(machine_of(owner), broker.host.groups[owner.partition].log, trace)
    while not walk.step():
        pass
    return [one for one in trace.events if one.queue in (0, definition.id)]


def histories(trial: Trial) -> Steps:
    """Clients take messages, give some of them back, and acknowledge each in the end. Every replica tells one
    publish and one settlement of each, in this order, and no lease or return behind the settlement.
    """
    chance, publisher = trial.chance, trial.prover()
    yield trial.queue(publisher, history="7D")
    bodies = numbered("m", chance.randint(3, 12))
    for body in bodies:
        yield publisher.publish("", trial.name, [body])
        yield from trial.pause(chance.choice((0.0, PAUSE_S)))
    marks, came = dict[str, int](), Counter[str]()
    taker = trial.prover()
    yield taker.ask(m.BasicQos(0, chance.choice((1, 3, 10))))
    yield taker.ask(m.BasicConsume(trial.name, arguments={"x-tell": True}))
    acknowledged = set[str]()
    while acknowledged != set(bodies):
        yield from _act(trial, taker, marks, came, acknowledged)
    taker.leave()
    for body in bodies:
        yield from _check(trial, body, marks[body], came[body])


def _act(
    trial: Trial, taker: Prover, marks: dict[str, int], came: Counter[str], acknowledged: set[str]
) -> Steps:
    """Take some messages, and give them back or acknowledge them."""
    come: list[Received] = taker.deliveries
    taker.deliveries = []
    for one in come:
        marks[one.body] = number_in(one.headers["x-bookmark"])
        came[one.body] += 1
        if trial.chance.random() < 0.4:
            taker.nack(one, requeue=True)
            acknowledged.discard(one.body)
        else:
            taker.ack(one)
            acknowledged.add(one.body)
    yield from trial.pause()


def _check(trial: Trial, body: str, number: int, came: int) -> Steps:
    """Wait until a replica tells the settlement, and look at all events before."""
    while True:
        ready = trial.nodes.ready_nodes()
        told = occurrences(trial, trial.chance.choice(ready), number) if ready else None
        kinds = [one.happened for one in told or ()]
        if Happened.SETTLED in kinds:
            break
        yield from trial.pause()
    trial.expect(kinds.count(Happened.PUBLISHED) == 1, f"{body} is published in {kinds}")
    trial.expect(kinds[0] is Happened.PUBLISHED, f"{body} begins with {kinds}")
    trial.expect(kinds[-1] is Happened.SETTLED, f"{body} ends with {kinds}")
    trial.expect(kinds.count(Happened.SETTLED) == 1, f"{body} is settled in {kinds}")
    leased = kinds.count(Happened.LEASED)
    trial.expect(not trial.calm or leased == came, f"{body} came {came} times, and is told in {kinds}")
