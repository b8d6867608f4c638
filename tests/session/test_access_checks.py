"""RabbitMQ's access control table: which rights each method asks for, and in which order (A11)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from node.refusal import AccessRefusedError, NotFoundError
from node.routing.exchange import Exchange, ExchangeKind
from node.routing.matching import Destination, DestinationKind
from node.session.access_checks import AccessChecks
from node.session.amqp091.translation import command_of
from node.session.commands import ListBindings
from node.session.permissions import Right, Scope
from node.session.ports import QueueRef
from node.wire.amqp091 import methods as m
from node.wire.amqp091.effects import Request
from node.wire.amqp091.primitives import Method

SCOPE = Scope("alice", "v")


class Broker:
    """Has the topic exchange `t`, the direct exchange `d` and the queue `old`; grants what it is told to."""

    def __init__(self, granted: set[str] | None = None) -> None:
        self.permissions = self.views = self
        self.asked: list[str] = []
        self._granted = granted

    def _check(self, scope: Scope, what: str) -> None:
        assert scope is SCOPE
        self.asked.append(what)
        if self._granted is not None and what not in self._granted:
            raise AccessRefusedError(what)

    def check_exchange(self, scope: Scope, right: Right, name: str) -> None:
        self._check(scope, f"{right} exchange {name}")

    def check_queue(self, scope: Scope, right: Right, name: str) -> None:
        self._check(scope, f"{right} queue {name}")

    def queue_of(self, vhost: str, view: str) -> str:
        return f"under {view}"

    def check_pattern(self, scope: Scope, right: Right, pattern: str) -> None:
        self._check(scope, f"{right} pattern {pattern}")

    def check_topic(self, scope: Scope, right: Right, exchange: str, key: str) -> None:
        self._check(scope, f"{right} topic {exchange} {key}")

    def read_filter(self, scope: Scope) -> bytes:
        return b""

    def exchange(self, vhost: str, name: str) -> Exchange:
        kinds = {"t": ExchangeKind.TOPIC, "d": ExchangeKind.DIRECT}
        if name not in kinds:
            raise NotFoundError(name)
        return Exchange(name, kinds[name])

    def queue(self, vhost: str, name: str, holder: int) -> QueueRef:
        if name != "old":
            raise NotFoundError(name)
        return QueueRef(name, 1, 1, vhost)


def asked(method: Method) -> list[str]:
    broker: Any = Broker()
    AccessChecks(broker).check(SCOPE, 1, command_of(Request(1, method)))
    return broker.asked


GENERATED = "amq.gen-0000000000000000000000"
ALTERNATE = {"alternate-exchange": "ae"}
DEAD_LETTERS = {"x-dead-letter-exchange": "dlx"}

TABLE: list[tuple[Method, list[str]]] = [
    (m.ExchangeDeclare("e"), ["configure exchange e"]),
    (
        m.ExchangeDeclare("e", arguments=ALTERNATE),
        ["configure exchange e", "read exchange e", "write exchange ae"],
    ),
    (m.ExchangeDeclare("t", arguments=ALTERNATE), ["configure exchange t"]),
    (m.ExchangeDelete("e"), ["configure exchange e"]),
    (m.ExchangeDeclare(""), []),
    (m.ExchangeDelete(""), []),
    (m.QueueBind("q", "", "k"), ["write queue q"]),
    (
        m.QueueDeclare("q", arguments={"x-dead-letter-exchange": ""}),
        ["configure queue q", "read queue q", "write exchange "],
    ),
    (m.ExchangeBind("to", "d", "k"), ["write exchange to", "read exchange d"]),
    (m.ExchangeBind("to", "t", "k"), ["write exchange to", "read exchange t", "read topic t k"]),
    (m.ExchangeUnbind("to", "t", "k"), ["write exchange to", "read exchange t", "read topic t k"]),
    (m.QueueDeclare("q"), ["configure queue q"]),
    (m.QueueDeclare(""), [f"configure queue {GENERATED}"]),
    (
        m.QueueDeclare("q", arguments=DEAD_LETTERS),
        ["configure queue q", "read queue q", "write exchange dlx"],
    ),
    (m.QueueDeclare("old", arguments=DEAD_LETTERS), ["configure queue old"]),
    (m.QueueDeclare("q", arguments={"x-underlying-topic": "s"}), ["configure queue q", "read queue s"]),
    (m.QueueDeclare("q", arguments={"x-underlying-topic": "^s$"}), ["configure queue q", "read pattern ^s$"]),
    (m.QueueDeclare("old", arguments={"x-underlying-topic": "^s$"}), ["configure queue old"]),
    (m.QueueDeclare("s", arguments={"x-view": "v"}), ["configure queue s", "read queue under v"]),
    (m.QueueDeclare("old", arguments={"x-view": "v"}), ["configure queue old"]),
    (m.QueueDelete("q"), ["configure queue q"]),
    (m.QueueBind("q", "d", "k"), ["write queue q", "read exchange d"]),
    (m.QueueBind("q", "t", "k"), ["write queue q", "read exchange t", "read topic t k"]),
    (m.QueueUnbind("q", "t", "k"), ["write queue q", "read exchange t", "read topic t k"]),
    (m.QueuePurge("q"), ["read queue q"]),
    (m.BasicGet("q"), ["read queue q"]),
    (m.BasicConsume("q"), ["read queue q"]),
    (m.BasicConsume("amq.rabbitmq.reply-to"), []),
]


@pytest.mark.parametrize(("method", "rights"), TABLE, ids=lambda value: repr(value)[:60])
def test_rights_that_a_method_asks_for(method: Method, rights: list[str]) -> None:
    assert asked(method) == rights


@pytest.mark.parametrize(("method", "rights"), TABLE, ids=lambda value: repr(value)[:60])
def test_each_right_is_needed(method: Method, rights: list[str]) -> None:
    for missing in rights:
        broker: Any = Broker(set(rights) - {missing})
        with pytest.raises(AccessRefusedError, match=re.escape(missing)):
            AccessChecks(broker).check(SCOPE, 1, command_of(Request(1, method)))


@pytest.mark.parametrize(
    "method", [m.QueueDeclare("q", passive=True), m.ExchangeDeclare("e", passive=True)], ids=repr
)
def test_no_right_is_needed_to_look(method: Method) -> None:
    broker: Any = Broker(set())
    AccessChecks(broker).check(SCOPE, 1, command_of(Request(1, method)))


def test_listing_bindings_needs_the_rights_of_binding() -> None:
    for kind, asked_for in (
        (DestinationKind.QUEUE, "write queue"),
        (DestinationKind.EXCHANGE, "write exchange"),
    ):
        broker: Any = Broker()
        AccessChecks(broker).check(SCOPE, 1, ListBindings("t", Destination(kind, "old")))
        assert broker.asked == [f"{asked_for} old", "read exchange t"]
    refusing: Any = Broker(granted={"write queue old"})
    with pytest.raises(AccessRefusedError, match="read exchange t"):
        AccessChecks(refusing).check(SCOPE, 1, ListBindings("t", Destination(DestinationKind.QUEUE, "old")))
