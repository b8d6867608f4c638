"""A16: a catalog change that is answered counts on every node, for exchanges of every type."""

from __future__ import annotations

from typing import Any

from node.wire.amqp091 import methods as m
from tests.simulation.scripts import Steps
from tests.simulation.trials.prover import Fate, Prover
from tests.simulation.trials.trial import Trial

TYPES = ("direct", "fanout", "topic", "headers")
WORDS = ("a", "b", "c")
Binding = tuple[str, str]
"""(queue, key); with headers exchanges the key stands for a header."""


def matches(kind: str, pattern: str, key: str) -> bool:
    """Whether a binding matches a message (0-9-1 §3.1.3)."""
    if kind == "topic":
        return _topic(pattern.split("."), key.split("."))
    return kind == "fanout" or pattern == key


def _topic(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(_topic(pattern[1:], words[at:]) for at in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and _topic(pattern[1:], words[1:])


def catalog_changes(trial: Trial) -> Steps:
    """One node binds and unbinds, and other nodes publish directly after the answers."""
    chance = trial.chance
    kind = chance.choice(TYPES)
    editor, publisher = trial.prover(), trial.prover()
    exchange = trial.name
    trial.exchanges.append(exchange)
    yield editor.ask(m.ExchangeDeclare(exchange, kind, durable=True))
    for suffix in (" one", " two"):
        yield trial.queue(editor, suffix)
    bound: set[Binding] = set()
    expected: dict[str, list[str]] = {queue: [] for queue in trial.queues}
    for turn in range(chance.randint(4, 10)):
        if chance.random() < 0.3:
            editor, publisher = publisher, editor
        yield from _change(trial, editor, exchange, kind, bound)
        key = _key(trial)
        body = f"{turn}"
        targets = {queue for queue, pattern in bound if matches(kind, pattern, key)}
        for queue in targets:
            expected[queue].append(body)
        given: dict[str, Any] = {"headers": {"h": key}} if kind == "headers" else {}
        fate: Fate = yield publisher.publish(exchange, key, [body], mandatory=True, **given)
        told = f"a {kind} exchange with {sorted(bound)}, changed on {editor.node.name}"
        where = f"the message {key!r} on {publisher.node.name}"
        trial.expect(bool(targets) is not bool(fate.returned), f"{told}: {where} returned: {fate.returned}")
    yield from _see(trial, publisher, expected)


def _key(trial: Trial) -> str:
    return ".".join(trial.chance.choice(WORDS) for _ in range(trial.chance.choice((1, 2))))


def _change(trial: Trial, editor: Prover, exchange: str, kind: str, bound: set[Binding]) -> Steps:
    """Bind or unbind, or delete a queue and declare it again, and record the change with its answer."""
    draw = trial.chance.random()
    if draw < 0.15:
        queue = trial.chance.choice(trial.queues)
        if not any(bound_queue == queue for bound_queue, _ in bound):
            return
        kept = {binding for binding in bound if binding[0] == queue}
        for _, pattern in sorted(kept):
            yield editor.ask(m.QueueUnbind(queue, exchange, pattern, _arguments(kind, pattern)))
        bound -= kept
    elif draw < 0.4 and bound:
        binding = trial.chance.choice(sorted(bound))
        queue, pattern = binding
        yield editor.ask(m.QueueUnbind(queue, exchange, pattern, _arguments(kind, pattern)))
        bound.discard(binding)
    else:
        queue, pattern = trial.chance.choice(trial.queues), _pattern(trial, kind)
        yield editor.ask(m.QueueBind(queue, exchange, pattern, arguments=_arguments(kind, pattern)))
        bound.add((queue, pattern))


def _pattern(trial: Trial, kind: str) -> str:
    words = (*WORDS, "*", "#") if kind == "topic" else WORDS
    return ".".join(trial.chance.choice(words) for _ in range(trial.chance.choice((1, 2))))


def _arguments(kind: str, pattern: str) -> dict[str, Any]:
    return {"x-match": "all", "h": pattern} if kind == "headers" else {}


def _see(trial: Trial, prover: Prover, expected: dict[str, list[str]]) -> Steps:
    """Each queue has the messages that were routed to it, and no others."""
    for queue, bodies in expected.items():
        taken: list[Any] = []
        yield from trial.take(prover, queue, bodies, taken)
        trial.check_taken(bodies, taken)


def names_come_and_go(trial: Trial) -> Steps:
    """A queue deleted on one node exists on no other one, and is empty when it is declared again."""
    one, other = trial.prover(), trial.prover()
    name = trial.name
    for turn in range(trial.chance.randint(2, 5)):
        yield trial.queue(one)
        fate: Fate = yield other.publish("", name, [f"old {turn}"], mandatory=True)
        trial.expect(not fate.returned, f"{other.node.name} does not know what {one.node.name} has declared")
        yield other.ask(m.QueueDelete(name))
        fate = yield one.publish("", name, ["nowhere"], mandatory=True)
        trial.expect(bool(fate.returned), f"{one.node.name} knows what {other.node.name} has deleted")
        yield trial.queue(other)
        fate = yield one.publish("", name, [f"new {turn}"], mandatory=True)
        trial.expect(not fate.returned, f"{one.node.name} does not know what {other.node.name} has declared")
        taken: list[Any] = []
        yield from trial.take(one, name, [f"new {turn}"], taken)
        trial.check_taken([f"new {turn}"], taken)
        one, other = other, one
