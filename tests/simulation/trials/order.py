"""Times, order, consumers and number of deliveries: delays, priorities, groups, duplicates."""

from __future__ import annotations

from itertools import count
from typing import Any

from node.wire.amqp091 import methods as m
from tests.simulation.links import LATEST, LinkReceiver, marks_of
from tests.simulation.scripts import Answer, Steps
from tests.simulation.trials.limits import numbered
from tests.simulation.trials.prover import Fate, Prover, Received
from tests.simulation.trials.sharing import Consuming, Held, Sharing
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
    asked = {"max_priority": levels}, {"priority_expression": "amqp.priority * 1000000007"}
    yield trial.queue(one, **chance.choice(asked))
    bodies = numbered("m", chance.randint(3, 12))
    level = {body: chance.randint(0, levels) for body in bodies}
    yield other.publish("", trial.name, bodies, priority=level.get)
    taken: list[Received] = []
    yield from trial.take(one, trial.name, bodies, taken)
    trial.check_taken(bodies, taken)
    _check_priorities(trial, bodies, level, taken)


def _check_priorities(trial: Trial, bodies: list[str], level: dict[str, int], taken: list[Received]) -> None:
    """A message that was lost on its way, or with its owner, comes later, and marked redelivered."""
    came = [one.body for one in taken if trial.calm or not one.redelivered]
    wanted = sorted(came, key=lambda body: (-level[body], bodies.index(body)))
    trial.expect(came == wanted, f"{[(body, level[body]) for body in came]} came in this order")


def consume(prover: Prover, queue: str, prefetch: int, **arguments: Any) -> Steps:
    """Arguments have underscores for hyphens."""
    given = {key: value for key, value in arguments.items() if value is not None}
    named: dict[str, Any] = {f"x-{key.replace('_', '-')}": value for key, value in given.items()}
    yield prover.ask(m.BasicQos(0, prefetch))
    answer: Any = yield prover.ask(m.BasicConsume(queue, arguments=named))
    assert isinstance(answer, m.BasicConsumeOk)


def groups(trial: Trial) -> Steps:
    """Messages of a group come in order, and to one consumer as long as it has unsettled ones."""
    chance = trial.chance
    bodies, keys = numbered("m", chance.randint(4, 40)), chance.choice(("x", "xy", "xyz"))
    group = {body: chance.choice(keys) for body in bodies}
    publisher, *provers = (trial.prover() for _ in range(chance.randint(3, 5)))
    yield trial.queue(publisher, group_by="g")
    trial.nodes.groups.watched.add(trial.name)
    sharing = Sharing(trial, provers, lambda held: sharing.check_group(held, group, bodies))
    for prover in provers:
        yield from consume(prover, trial.name, chance.randint(1, 6))
    yield from _share(trial, sharing, publisher, bodies, headers=lambda body: {"g": group[body]})


def returns(trial: Trial) -> Steps:
    """A message that a consumer has goes to no other one, whatever the others give back."""
    chance = trial.chance
    publisher, *provers = (trial.prover() for _ in range(7))
    yield trial.queue(publisher)
    for prover in provers:
        yield from consume(prover, trial.name, chance.randint(5, 12))
    sharing = Sharing(trial, provers, given_back=0.7)
    yield from _share(trial, sharing, publisher, numbered("m", chance.randint(4, 24)))


def lapses(trial: Trial) -> Steps:
    """A message whose lease has lapsed goes to one other consumer, whatever the first one answers late. No
    lease lapses before its consumer was told, whatever becomes of the owner (D3).
    """
    chance = trial.chance
    period_s = chance.choice((0.8, 1.2, 2.5))
    publisher, *provers = (trial.prover() for _ in range(7))
    yield trial.queue(publisher, lease_period=round(1000 * period_s))
    for prover in provers:
        yield from consume(prover, trial.name, chance.randint(2, 6), tell=True)
    sharing = Sharing(trial, provers, given_back=0.7, period_s=period_s)
    yield from _share(trial, sharing, publisher, numbered("m", chance.randint(4, 24)))


def backlogs(trial: Trial) -> Steps:
    """No consumer has more unsettled messages than its backlog, however the queue divides its messages."""
    chance = trial.chance
    publisher, *provers = (trial.prover() for _ in range(chance.randint(3, 5)))
    cap = chance.randint(1, 6)
    fairness = chance.choice((None, "fast", "round-robin", "proportional"))
    by_policy = chance.random() < 0.4
    yield trial.queue(publisher, fairness=fairness, max_per_subscription_backlog=None if by_policy else cap)
    if by_policy:
        yield trial.put_policy({"max-per-subscription-backlog": cap})
    most: dict[Consuming, int] = {}
    for prover in provers:
        asked = chance.choice((None, 1, 3, 8))
        most[prover] = min(asked or 1, cap)
        yield from consume(prover, trial.name, chance.choice((0, 2, 20)), max_backlog=asked)
    marks = count(1)
    for _ in range(chance.randint(0, 2)):
        asked = chance.choice((None, 2, 8))
        receiver = trial.receiver(trial.name, chance.choice((2, 20)), marks, asked)
        most[receiver] = min(asked or 1, cap)
    sharing = Sharing(trial, list(most), backlogs=most)
    yield from _share(trial, sharing, publisher, numbered("m", chance.randint(4, 40)))


def modifications(trial: Trial) -> Steps:
    """A message that a consumer gives back with annotations has them in each later delivery."""
    chance = trial.chance
    publisher = trial.prover()
    yield trial.queue(publisher)
    marks = count(1)
    receivers = [trial.receiver(trial.name, chance.randint(1, 8), marks) for _ in range(chance.randint(2, 4))]
    sharing = Sharing(trial, receivers, lambda held: _check_marks(trial, sharing, held), given_back=0.7)
    yield from _share(trial, sharing, publisher, numbered("m", chance.randint(2, 12)))


def _check_marks(trial: Trial, sharing: Sharing, held: Held) -> None:
    """B6: the marks of all deliveries before, and those with which the message was given back since, unless
    the client that gave it back had been given up, or has lost the message to one that had been. A client
    that was given up may come back, and have the message again that others have given back meanwhile: its
    mark may be the latest, whatever its number.
    """
    body, marks = held.received.body, marks_of(held.received)
    wanted: set[int] = set()
    late: set[int] = set()
    for one in sharing.deliveries:
        if one.received.body == body and isinstance(one.prover, LinkReceiver):
            wanted |= marks_of(one.received)
            given = {one.prover.given[one.received.tag]} if one.received.tag in one.prover.given else set()
            (late if sharing.void(one) or sharing.contested(one) else wanted).update(given)
    shown = f"{body} comes with the marks {marks}"
    trial.expect(wanted <= marks <= wanted | late, f"{shown}, and should with {wanted}")
    latest = held.received.headers.get(LATEST)
    trial.expect(latest == max(marks, default=None) or latest in late, f"{shown}, the latest {latest}")


def single_active(trial: Trial) -> Steps:
    """One consumer gets all messages until it ends or is given up; then the next one gets the rest."""
    chance = trial.chance
    publisher, *provers = (trial.prover() for _ in range(chance.randint(3, 5)))
    yield trial.queue(publisher, single_active_consumer=True)
    sharing = Sharing(trial, provers, lambda held: sharing.check_turn(held))
    for prover in provers:
        yield from consume(prover, trial.name, chance.randint(1, 3))
    yield from _share(trial, sharing, publisher, numbered("m", chance.randint(4, 16)))


def _share(trial: Trial, sharing: Sharing, publisher: Prover, bodies: list[str], **properties: Any) -> Steps:
    """Publish little by little, while consumers settle messages, give some back, and leave, until all
    messages have come and are settled.
    """
    chance = trial.chance
    answers: list[Answer] = []
    left = list(bodies)
    while left or sharing.missing(bodies) or sharing.unsettled():
        if left and chance.random() < 0.3:
            size = chance.choice((1, 1, 3, 10))
            answers.append(publisher.publish("", trial.name, left[:size], **properties))
            del left[:size]
        sharing.read()
        sharing.act()
        yield from trial.pause(chance.choice((0.0, PAUSE_S)))
    while answers:
        yield answers.pop(0)


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
