"""A session takes a share of its client's input in a turn, and asks for the next one by itself (0028)."""

from __future__ import annotations

from typing import Any

from node.delivery.shares import REQUEST_WORK
from node.session.amqp091.session import Session
from node.session.permissions import Right
from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import encode_method
from node.wire.amqp091.limits import ConnectionLimits
from tests.session.answering import AnsweringBroker, Connected, Socket

ASKED = 1000
A_TURN = ConnectionLimits().turn_work // REQUEST_WORK
REQUESTS = [encode_method(1, m.QueueBind("q", "e", str(number))) for number in range(ASKED)]


class Turns(Socket):
    """Counts how often a turn is asked for."""

    asked = 0

    def wanted(self) -> None:
        self.asked += 1


class Broker(AnsweringBroker):
    """Counts bindings; may not be relied upon while `behind`, and takes `seconds` for a permission."""

    def __init__(self) -> None:
        super().__init__()
        self.bound: list[str] = []
        self.behind = False
        self.now = self.seconds = 0.0
        self.waiting: list[Any] = []

    def ready(self) -> bool:
        return not self.behind

    def wait_ready(self, subscriber: Any) -> None:
        self.waiting.append(subscriber)

    def check_queue(self, scope: Any, right: Right, name: str) -> None:
        self.now += self.seconds

    def bind(self, vhost: str, binding: Any, arguments: Any, answer: Any) -> None:
        self.bound.append(binding.key)
        answer(None)


class OfTurns(Connected):
    """A client whose session's turns the test takes one by one."""

    broker: Broker

    def __init__(self) -> None:
        super().__init__(broker := Broker())
        self.output()
        self.turns = Turns()
        self.session._transport = self.turns
        self.session._clock = lambda: broker.now

    def turn(self) -> int:
        """The bindings of one turn, that was asked for."""
        assert self.turns.asked
        self.turns.asked = 0
        before = len(self.broker.bound)
        self.session.take_output()
        return len(self.broker.bound) - before


def in_order(session: Session, broker: Broker) -> bool:
    return not session.connection.has_input and broker.bound == [str(number) for number in range(ASKED)]


def test_the_turns_of_a_pipeline_come_without_new_input() -> None:
    client = OfTurns()
    client.send(*REQUESTS)
    assert 0 < len(client.broker.bound) <= A_TURN
    assert not client.turns.reading
    while client.session.connection.has_input:
        assert 0 < client.turn() <= A_TURN
    assert in_order(client.session, client.broker)
    assert client.turns.reading


def test_a_client_that_reads_nothing_is_taken_from_all_the_same() -> None:
    """It may be waiting for room itself before it reads."""
    client = OfTurns()
    client.send(*REQUESTS)
    while client.session.connection.has_input:
        assert client.turns.asked
        client.turns.asked = 0
        assert client.session.take_output(writes=False) == b""
    assert in_order(client.session, client.broker)


def test_input_that_was_left_waits_for_the_catalog() -> None:
    client = OfTurns()
    client.send(*REQUESTS)
    client.broker.behind = True
    assert client.turn() == 0
    assert not client.turns.asked
    client.send(b"")
    client.broker.behind = False
    (waiting,) = client.broker.waiting
    waiting.unblocked()
    while client.session.connection.has_input:
        assert client.turn()
    assert in_order(client.session, client.broker)
    assert client.turns.reading


def test_requests_that_take_long_use_up_a_turn() -> None:
    """A permission's pattern may need milliseconds for a name that the client has chosen.

    The one behind a request is on its way when the request's time is known.
    """
    client = OfTurns()
    client.broker.seconds = 0.005
    client.send(*REQUESTS[:20])
    assert len(client.broker.bound) == 2
    while client.session.connection.has_input:
        assert client.turn() <= 2
    assert len(client.broker.bound) == 20
