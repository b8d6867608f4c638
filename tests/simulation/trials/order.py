"""Times, order, consumers and number of deliveries: delays, priorities, groups, duplicates."""

from __future__ import annotations

from typing import Any

from node.wire.amqp091 import methods as m
from tests.simulation.scripts import Steps
from tests.simulation.trials.limits import numbered
from tests.simulation.trials.prover import Fate, Prover, Received
from tests.simulation.trials.trial import PAUSE_S, SLACK_S, Trial


def delays(trial: Trial) -> Steps:
    """Every delayed message comes, and none early."""
    trial.timed = True
    chance = trial.chance
    one, other = trial.prover(), trial.prover()
    yield trial.queue(one)
    bodies = numbered("m", chance.randint(1, 6))
    due = {body: chance.choice((0.0, 0.2, 0.5, 1.0)) for body in bodies}
    fate: Fate = yield other.publish(
        "", trial.name, bodies, headers=lambda body: {"x-delay": int(due[body] * 1000)}
    )
    taken: list[Received] = []
    yield from trial.take(one, trial.name, bodies, taken)
    trial.check_taken(bodies, taken)
    for received in taken:
        early = fate.began + due[received.body] - received.time
        trial.expect(early < SLACK_S or not trial.times_hold, f"{received.body} comes {early:.3f} s early")


def duplicates(trial: Trial) -> Steps:
    """Of messages with one id within the window, from any node, the queue keeps one."""
    chance = trial.chance
    one, other = trial.prover(), trial.prover()
    yield trial.queue(one, deduplication_window=60_000)
    ids = numbered("id", chance.randint(1, 5))
    for _ in range(chance.randint(1, 3)):
        both = [
            one.publish("", trial.name, ids, message_id=str),
            other.publish("", trial.name, ids, message_id=str),
        ]
        for answer in both:
            fate: Fate = yield answer
            trial.expect(not fate.refused, "a duplicate is refused")
        yield chance.choice((0.0, 0.2, 0.6))
    taken: list[Received] = []
    yield from trial.take(one, trial.name, ids, taken)
    if trial.times_hold:
        trial.check_taken(ids, taken)


def priorities(trial: Trial) -> Steps:
    """Waiting messages come by priority, and within one priority in the order of their publishes."""
    chance = trial.chance
    one, other = trial.prover(), trial.prover()
    levels = chance.choice((2, 5, 10))
    yield trial.queue(one, max_priority=levels)
    bodies = numbered("m", chance.randint(3, 12))
    level = {body: chance.randint(0, levels) for body in bodies}
    yield other.publish("", trial.name, bodies, priority=level.get)
    taken: list[Received] = []
    yield from trial.take(one, trial.name, bodies, taken)
    trial.check_taken(bodies, taken)
    came = [received.body for received in taken]
    if trial.calm:
        wanted = sorted(bodies, key=lambda body: -level[body])
        trial.expect(came == wanted, f"{[(body, level[body]) for body in came]} came in this order")


def _consume(prover: Prover, queue: str, prefetch: int) -> Steps:
    yield prover.ask(m.BasicQos(0, prefetch))
    answer: Any = yield prover.ask(m.BasicConsume(queue))
    assert isinstance(answer, m.BasicConsumeOk)


def groups(trial: Trial) -> Steps:
    """Messages of a group come in order, and to one consumer as long as it has unsettled ones."""
    chance = trial.chance
    provers = [trial.prover(), trial.prover()]
    yield trial.queue(provers[0], group_by="g")
    bodies = numbered("m", chance.randint(4, 16))
    group = {body: chance.choice("xyz") for body in bodies}
    for prover in provers:
        yield from _consume(prover, trial.name, chance.randint(1, 4))
    yield provers[0].publish("", trial.name, bodies, headers=lambda body: {"g": group[body]})
    held: dict[str, list[tuple[Prover, Received]]] = {one: [] for one in "xyz"}
    came: list[Received] = []
    while len({one.body for one in came}) < len(bodies):
        for prover in provers:
            for received in _drained(prover):
                came.append(received)
                mine = held[group[received.body]]
                if trial.calm:
                    others = [one.body for who, one in mine if who is not prover]
                    trial.expect(not others, f"{received.body} comes while another consumer has {others}")
                mine.append((prover, received))
        for each in held.values():
            while each and chance.random() < 0.6:
                prover, received = each.pop(0)
                prover.ack(received)
        yield from trial.pause(chance.choice((0.0, PAUSE_S)))
    for each in held.values():
        for prover, received in each:
            prover.ack(received)
    if trial.calm:
        trial.check_taken(bodies, came)
        for one in "xyz":
            order = [each.body for each in came if group[each.body] == one]
            wanted = [body for body in bodies if group[body] == one]
            trial.expect(order == wanted, f"the group {one} came as {order}")


def _drained(prover: Prover) -> list[Received]:
    found, prover.deliveries = prover.deliveries, []
    return found


def single_active(trial: Trial) -> Steps:
    """One consumer gets all messages until it ends; then the next one gets the rest."""
    chance = trial.chance
    first, second, publisher = trial.prover(), trial.prover(), trial.prover()
    yield trial.queue(first, single_active_consumer=True)
    for prover in (first, second):
        yield from _consume(prover, trial.name, chance.randint(1, 3))
    bodies = numbered("m", chance.randint(2, 8))
    yield publisher.publish("", trial.name, bodies)
    came: list[Received] = []
    enough = chance.randint(1, len(bodies))
    while len(came) < enough and not second.deliveries:
        for received in _drained(first):
            came.append(received)
            first.ack(received)
        yield from trial.pause()
    # An owner that gives up the first consumer's node makes the second consumer the active one.
    trial.expect(
        not (trial.calm and second.deliveries), "a consumer that is not the active one gets messages"
    )
    first.leave()
    while len({one.body for one in came}) < len(bodies):
        for received in _drained(second):
            came.append(received)
            second.ack(received)
        yield from trial.pause()
    strange = {one.body for one in came}.difference(bodies)
    trial.expect(not strange, f"{strange} came, which nobody published")


def gets(trial: Trial) -> Steps:
    """A message of a get that is not settled comes back marked; a settled one does not come back."""
    chance = trial.chance
    one, other = trial.prover(), trial.prover()
    yield trial.queue(one)
    bodies = numbered("m", chance.randint(2, 8))
    yield other.publish("", trial.name, bodies)
    settled: set[str] = set()
    kept: set[str] = set()
    for _ in range(chance.randint(1, len(bodies))):
        got = yield one.get(trial.name)
        if got is None:
            continue
        if chance.random() < 0.5:
            one.ack(got)
            settled.add(got.body)
        else:
            kept.add(got.body)
    one.leave()
    taken: list[Received] = []
    no_ack = chance.random() < 0.7
    yield from trial.take(other, trial.name, set(bodies) - settled, taken, no_ack=no_ack)
    if trial.calm:
        trial.check_taken(set(bodies) - settled, taken)
        marked = {received.body for received in taken if received.redelivered}
        trial.expect(marked == kept, f"{sorted(kept)} were given back, but {sorted(marked)} say so")


def removals(trial: Trial) -> Steps:
    """A message of a get without acknowledgement comes once, also where the queue's owner is lost."""
    publisher, *getters = (trial.prover() for _ in range(3))
    yield trial.queue(getters[0])
    taken: list[Received] = []
    for turn in range(trial.chance.randint(5, 40)):
        bodies = numbered(f"m {turn}", trial.chance.choice((1, 1, 3)))
        yield publisher.publish("", trial.name, bodies)
        yield from trial.take(trial.chance.choice(getters), trial.name, bodies, taken, no_ack=True)
