"""Messages that leave a queue without a consumer: limits, expiry, rejection, purge; and their dead
letters.
"""

from __future__ import annotations

from typing import Any

from node.wire.amqp091 import methods as m
from tests.simulation.scripts import Steps
from tests.simulation.trials.prover import Fate, Prover, Received
from tests.simulation.trials.trial import SLACK_S, Trial

BESIDE = (" a", " b", " c")
"""The ends of the names of queues beside the queue of a trial."""


def numbered(what: str, count: int) -> list[str]:
    return [f"{what} {number}" for number in range(count)]


def dead_lettered(
    trial: Trial, prover: Prover, wanted: list[str], reason: str, queue: str, settler: Prover | None = None
) -> Steps:
    """Check that each message is in the dead-letter queue once, with its reason.

    `settler` has settled the other messages, or these. Raises LostError where its node is lost, because its
    last settlements may be void.
    """
    graves: list[Received] = []
    yield from trial.take(prover, f"{trial.name} grave", wanted, graves, settler=settler)
    trial.check_taken(wanted, graves)
    for one in graves:
        [death] = one.headers["x-death"]
        told = death["queue"], death["reason"], death["count"], one.headers["x-first-death-reason"]
        trial.expect(told == (queue, reason, 1, reason), f"{one.body} says that it died of {told}")


def length_limit(trial: Trial) -> Steps:
    """Over its limit a queue drops the oldest message, or refuses the newest, and no other."""
    chance = trial.chance
    one, other = trial.prover(), trial.prover()
    limit, count = chance.randint(1, 6), chance.randint(2, 12)
    overflow = chance.choice((None, "drop-head", "reject-publish", "reject-publish-dlx"))
    answer, letters = trial.grave(one)
    yield answer
    letters = letters if overflow == "reject-publish-dlx" or chance.random() < 0.7 else {}
    yield trial.queue(one, max_length=limit, overflow=overflow, **letters)
    bodies = numbered("m", count)
    refused: set[str] = set()
    at = 0
    while at < count:
        size = chance.choice((1, 1, 3, count))
        fate: Fate = yield other.publish("", trial.name, bodies[at : at + size])
        refused |= fate.refused
        at += size
    keeps_first = overflow in ("reject-publish", "reject-publish-dlx")
    kept = bodies[:limit] if keeps_first else bodies[-limit:]
    gone = [body for body in bodies if body not in kept]
    trial.expect(
        refused == set(gone if keeps_first else ()),
        f"of {count} with a limit of {limit} {refused} are refused",
    )
    taken: list[Received] = []
    yield from trial.take(one, trial.name, kept, taken)
    spared = [] if keeps_first else trial.spared(gone, taken)
    trial.check_taken([*kept, *spared], taken)
    dropped = [body for body in gone if body not in spared]
    dead = dropped if letters and overflow != "reject-publish" else []
    yield from dead_lettered(trial, other, dead, "maxlen", trial.name)


def refusals(trial: Trial) -> Steps:
    """Of messages that come before the answers to those ahead of them, a full queue refuses all alike. Other
    queues take messages meanwhile.
    """
    chance = trial.chance
    one, other = trial.prover(), trial.prover()
    limit, count, share = chance.randint(1, 6), chance.randint(20, 60), chance.choice((0.0, 0.1, 0.3))
    yield trial.queue(one, max_length=limit, overflow="reject-publish")
    for suffix in BESIDE:
        yield trial.queue(one, suffix)
    bodies = numbered("m", count)
    answers = []
    for body in bodies:
        answers.append(other.publish("", trial.name, [body]))
        if chance.random() < share:
            other.publish("", trial.name + chance.choice(BESIDE), [f"beside {body}"])
        yield from trial.pause(chance.choice((0.002, 0.01)))
    refused: set[str] = set()
    for answer in answers:
        fate: Fate = yield answer
        refused |= fate.refused
    gone = bodies[limit:]
    trial.expect(refused == set(gone), f"of {count} with a limit of {limit} {refused} are refused")
    taken: list[Received] = []
    yield from trial.take(one, trial.name, bodies[:limit], taken)
    trial.check_taken(bodies[:limit], taken)


def expiry(trial: Trial) -> Steps:
    """No message is delivered after its time to live, and none expires before; expired ones are
    dead letters.
    """
    trial.timed = True
    chance = trial.chance
    one, other = trial.prover(), trial.prover()
    answer, letters = trial.grave(one)
    yield answer
    ttl_s = chance.choice((0.3, 0.6, 1.0))
    own = chance.random() < 0.5
    yield trial.queue(one, message_ttl=None if own else int(ttl_s * 1000), **letters)
    bodies = numbered("m", chance.randint(1, 6))
    given: dict[str, Any] = {"expiration": str(int(ttl_s * 1000))} if own else {}
    fate: Fate = yield other.publish("", trial.name, bodies, **given)
    taken: list[Received] = []
    for _ in range(chance.randint(0, len(bodies))):
        got = yield one.get(trial.name)
        _check_time(trial, got, trial.now, fate, ttl_s, nothing_else=len(taken) < len(bodies))
        if got is None:
            break
        one.ack(got)
        taken.append(got)
    yield max(0.0, fate.ended + ttl_s + SLACK_S - trial.now)
    late = yield one.get(trial.name)
    _check_time(trial, late, trial.now, fate, ttl_s, nothing_else=False)
    if late is not None:
        one.ack(late)
        taken.append(late)
    trial.check_taken(bodies, taken)
    there = {received.body for received in taken}
    yield from dead_lettered(
        trial, other, [body for body in bodies if body not in there], "expired", trial.name, one
    )


def _check_time(
    trial: Trial, got: Received | None, answered: float, fate: Fate, ttl_s: float, nothing_else: bool
) -> None:
    if got is not None:
        in_time = got.asked < fate.ended + ttl_s + SLACK_S
        trial.expect(
            in_time or not trial.times_hold,
            f"{got.body} comes {got.asked - fate.ended:.3f} s after its confirm, but may wait {ttl_s} s",
        )
    elif nothing_else and trial.calm and trial.times_hold:
        trial.expect(answered > fate.began + ttl_s - SLACK_S, "a message is gone before its time")


def rejection(trial: Trial) -> Steps:
    """A rejected message is a dead letter once; an acknowledged one is removed."""
    chance = trial.chance
    one, other = trial.prover(), trial.prover()
    answer, letters = trial.grave(one)
    yield answer
    yield trial.queue(one, **letters)
    bodies = numbered("m", chance.randint(2, 8))
    yield other.publish("", trial.name, bodies)
    rejected: set[str] = set()
    taken: list[Received] = []
    while len({one.body for one in taken}) < len(bodies):
        got = yield one.get(trial.name)
        if got is None:
            yield from trial.pause()
            continue
        taken.append(got)
        if chance.random() < 0.6:
            rejected.add(got.body)
            one.nack(got, requeue=False)
        else:
            one.ack(got)
    trial.check_taken(bodies, taken)
    if len(taken) == len(bodies):
        # A message that was delivered twice may have been settled in either way.
        yield from dead_lettered(trial, other, sorted(rejected), "rejected", trial.name, one)


def late_graves(trial: Trial) -> Steps:
    """A dead letter goes by a binding of which a client has just been told, whether or not the owner of the
    message's queue can reach the leader of the catalog.
    """
    at_owner, editor = trial.prover(), trial.prover()
    exchange, grave = trial.name, f"{trial.name} grave"
    trial.exchanges.append(exchange)
    yield trial.queue(at_owner, dead_letter_exchange=exchange)
    yield trial.queue(editor, " grave")
    bodies = numbered("m", trial.chance.randint(1, 4))
    yield editor.publish("", trial.name, bodies)
    yield editor.ask(m.ExchangeDeclare(exchange, "fanout", durable=True))
    yield editor.ask(m.QueueBind(grave, exchange))
    left = len(bodies)
    while left:
        got = yield editor.get(trial.name)
        if got is None:
            yield from trial.pause()
            continue
        editor.nack(got, requeue=False)
        left -= 1
    yield from dead_lettered(trial, editor, bodies, "rejected", trial.name)


def delivery_limit(trial: Trial) -> Steps:
    """A message whose deliveries fail is delivered once more than the limit, and then discarded."""
    chance = trial.chance
    one, other = trial.prover(), trial.prover()
    answer, letters = trial.grave(one)
    yield answer
    limit = chance.randint(1, 3)
    yield trial.queue(one, delivery_limit=limit, **letters)
    bodies = numbered("m", chance.randint(1, 4))
    yield other.publish("", trial.name, bodies)
    times = dict.fromkeys(bodies, 0)
    while True:
        got = yield one.get(trial.name)
        if got is None:
            depth = yield other.ask(m.QueueDeclare(f"{trial.name} grave", passive=True))
            if depth.message_count == len(bodies):
                break
            yield from trial.pause()
            continue
        failed = got.headers.get("x-delivery-count", 0)
        times[got.body] += 1
        trial.expect(
            failed >= times[got.body] - 1,
            f"{got.body} has failed {times[got.body] - 1} times, and says {failed}",
        )
        trial.expect(
            times[got.body] <= limit + 1,
            f"{got.body} comes for the {times[got.body]}. time, with a limit of {limit}",
        )
        one.nack(got, requeue=True)
    if trial.calm:
        trial.expect(set(times.values()) == {limit + 1}, f"with a limit of {limit} messages came {times}")
    yield from dead_lettered(trial, other, bodies, "delivery_limit", trial.name)


def cancels(trial: Trial) -> Steps:
    """A message expires when clients have given it back as often as the queue admits, and no earlier. A
    delivery that is lost with its node is no cancel (D4).
    """
    chance = trial.chance
    one, other = trial.prover(), trial.prover()
    answer, letters = trial.grave(one)
    yield answer
    most = chance.randint(1, 4)
    yield trial.queue(one, max_cancels=most, **letters)
    bodies = numbered("m", chance.randint(1, 4))
    yield other.publish("", trial.name, bodies)
    times = dict.fromkeys(bodies, 0)
    while True:
        got = yield one.get(trial.name)
        if got is not None:
            times[got.body] += 1
            one.nack(got, requeue=True)
            continue
        depth = yield other.ask(m.QueueDeclare(f"{trial.name} grave", passive=True))
        if depth.message_count == len(bodies):
            break
        yield from trial.pause()
    shown = f"with a limit of {most} cancels messages came {times}"
    trial.expect(min(times.values()) >= most, shown)
    trial.expect(not trial.calm or set(times.values()) == {most}, shown)
    yield from dead_lettered(trial, other, bodies, "expired", trial.name)


def purge(trial: Trial) -> Steps:
    """After a purge the queue has no message that was confirmed before, and all that were published
    after it.
    """
    one, other = trial.prover(), trial.prover()
    yield trial.queue(one)
    for turn in range(trial.chance.randint(1, 3)):
        old = numbered(f"old {turn}", trial.chance.randint(1, 6))
        new = numbered(f"new {turn}", trial.chance.randint(1, 6))
        yield one.publish("", trial.name, old)
        answer: Any = yield other.ask(m.QueuePurge(trial.name))
        if trial.calm:
            trial.expect(answer.message_count == len(old), f"{answer.message_count} of {len(old)} are purged")
        yield one.publish("", trial.name, new)
        taken: list[Received] = []
        yield from trial.take(other, trial.name, new, taken)
        trial.check_taken(new, taken)


def policies(trial: Trial) -> Steps:
    """A limit counts from the answer to its policy on, on every node, until the policy is deleted."""
    one, other = trial.prover(), trial.prover()
    limit = trial.chance.randint(1, 4)
    yield trial.queue(one)
    before = numbered("before", limit + 2)
    yield one.publish("", trial.name, before)
    yield trial.put_policy({"max-length": limit})
    with_it = numbered("with", limit + 2)
    yield other.publish("", trial.name, with_it)
    yield trial.drop_policy()
    after = numbered("after", limit + 2)
    yield one.publish("", trial.name, after)
    wanted = [*with_it[-limit:], *after]
    taken: list[Received] = []
    yield from trial.take(other, trial.name, wanted, taken)
    # A new owner drops messages over the limit after front ends have reported their leases. A policy that is
    # deleted before that drops nothing.
    trial.check_taken(wanted if trial.calm else [*before, *with_it, *after], taken)
