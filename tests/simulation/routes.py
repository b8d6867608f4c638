"""Paths of messages to their queues: exchanges of every type, and further routing keys."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from node.wire.amqp091 import methods as m
from node.wire.amqp091.primitives import Method

KINDS = ("direct", "fanout", "topic", "headers", "copies", "chain")

OWN_KEYS = tuple(f"{kind} to " for kind in ("fanout", "topic", "chain"))
"""The names of exchanges begin so whose messages each have a routing key of their own."""


@dataclass(frozen=True, slots=True)
class Path:
    """The exchange, keys and headers with which a message goes to certain queues."""

    exchange: str
    key: str
    headers: Mapping[str, Any] = field(default_factory=dict)
    mandatory: bool = False


def key_of(exchange: str, publisher: int, number: int) -> str:
    """The routing key of a message of its own, through an exchange whose routes allow that; empty for
    others.
    """
    return f"to.{publisher}.{number}" if exchange.startswith(OWN_KEYS) else ""


def path_of(queues: tuple[str, ...], chance: random.Random) -> tuple[Path, list[Method]]:
    """A path to these queues, and the methods that declare it."""
    mandatory = chance.random() < 0.3
    if len(queues) == 1:
        return Path("", queues[0], mandatory=mandatory), []
    kind = chance.choice(KINDS)
    name = f"{kind} to {' and '.join(queues)}"
    if kind == "copies":
        return Path("", queues[0], {"CC": list(queues[1:])}, mandatory), []
    if kind == "chain":
        return Path(name, "", mandatory=mandatory), list(_chain(name, queues))
    declared: list[Method] = [m.ExchangeDeclare(name, kind, durable=True)]
    key, pattern = {"topic": ("", "to.*.#"), "direct": ("here", "here")}.get(kind, ("", ""))
    headers: dict[str, Any] = {"to": name} if kind == "headers" else {}
    declared += [m.QueueBind(queue, name, pattern, arguments=headers) for queue in queues]
    return Path(name, key, headers, mandatory), declared


def _chain(name: str, queues: Iterable[str]) -> Iterator[Method]:
    """Declare a chain of exchanges, each bound to a queue of its own."""
    before = ""
    for number, queue in enumerate(queues):
        exchange = f"{name} {number}" if before else name
        yield m.ExchangeDeclare(exchange, "fanout", durable=True)
        yield m.QueueBind(queue, exchange, "")
        if before:
            yield m.ExchangeBind(exchange, before, "")
        before = exchange
