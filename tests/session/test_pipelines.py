"""Pipelined requests are answered one after the other, whatever their number; nothing is left behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import encode_method
from node.wire.amqp091.limits import ConnectionLimits
from node.wire.amqp091.primitives import Method
from tests.session.answering import AnsweringBroker, Connected
from tests.wire.client import publish, run_of

PIPELINED = 4000

REQUESTS: dict[str, Any] = {
    "exchange.declare": lambda n: m.ExchangeDeclare(f"e{n}"),
    "exchange.declare passive": lambda n: m.ExchangeDeclare(f"e{n}", passive=True),
    "exchange.delete": lambda n: m.ExchangeDelete("e"),
    "exchange.bind": lambda n: m.ExchangeBind("e", "f", str(n)),
    "exchange.unbind": lambda n: m.ExchangeUnbind("e", "f", str(n)),
    "queue.declare": lambda n: m.QueueDeclare(f"q{n}"),
    "queue.declare passive": lambda n: m.QueueDeclare("q", passive=True),
    "queue.declare for replies": lambda n: m.QueueDeclare("amq.rabbitmq.reply-to"),
    "queue.bind": lambda n: m.QueueBind("q", "e", str(n)),
    "queue.unbind": lambda n: m.QueueUnbind("q", "e", str(n)),
    "queue.purge": lambda n: m.QueuePurge("q"),
    "queue.delete": lambda n: m.QueueDelete("q"),
    "basic.consume": lambda n: m.BasicConsume("q", f"t{n}"),
    "basic.get": lambda n: m.BasicGet("q"),
    "basic.cancel": lambda n: m.BasicCancel("absent"),
    "basic.qos": lambda n: m.BasicQos(0, n % 100),
    "basic.recover": lambda n: m.BasicRecover(True),
    "confirm.select": lambda n: m.ConfirmSelect(),
    "channel.flow": lambda n: m.ChannelFlow(True),
}


@pytest.mark.parametrize("asked", REQUESTS)
def test_the_stack_is_no_deeper_for_thousands_of_requests_than_for_two(asked: str) -> None:
    deepest = []
    for count in (2, PIPELINED):
        broker = AnsweringBroker()
        client = Connected(broker)
        client.output()
        client.send(*(encode_method(1, REQUESTS[asked](n)) for n in range(count)))
        answers = [payload for _, _, payload in client.output() if isinstance(payload, Method)]
        assert len(answers) == count
        assert not client.socket.failures
        deepest.append(broker.deepest)
        client.session.lost()
        assert not broker.consumers and not broker.leased and not broker.holders
    assert deepest[0] == deepest[1]


def test_transactions_that_are_pipelined_end_one_after_the_other() -> None:
    broker = AnsweringBroker()
    client = Connected(broker)
    client.send(encode_method(1, m.TxSelect()))
    client.output()
    one = publish(1, b"x") + encode_method(1, m.TxCommit())
    client.send(one * PIPELINED)
    assert [payload for _, _, payload in client.output()] == [m.TxCommitOk()] * PIPELINED
    assert broker.deepest < 100
    client.session.lost()
    assert not broker.holders


def test_an_answer_that_frees_what_was_parked_has_the_socket_read_again() -> None:
    """However deep in the loop the answer came."""
    client = Connected(AnsweringBroker(), ConnectionLimits(parked_bytes=100, turn_work=1 << 30))
    client.send(*(encode_method(1, m.QueueDeclare(f"q{n}")) for n in range(1000)))
    assert client.socket.reading
    assert len(client.output()) == 1000 + 4


STEPS = st.sampled_from(["declare", "consume", "get", "publish", "ack", "deliver", "open", "close", "cancel"])


def take(client: Connected, step: str, number: int) -> None:
    """One thing that a client or the broker does."""
    session = client.session
    channel = 1 + number % 2
    match step:
        case "declare":
            client.send(encode_method(channel, m.QueueDeclare(f"q{number}", exclusive=True)))
        case "consume":
            client.send(
                *(encode_method(channel, m.BasicConsume("q", f"t{number}.{each}")) for each in range(3))
            )
        case "get":
            client.send(encode_method(channel, m.BasicGet("q")) * 3)
        case "publish":
            client.send(publish(channel, b"x") * 3)
        case "ack":
            client.send(encode_method(channel, m.BasicAck(0, True)))
        case "open":
            if channel not in {each.number for each in session.connection.channels}:
                client.send(encode_method(channel, m.ChannelOpen()))
        case "close":
            client.send(encode_method(channel, m.ChannelClose(200)))
        case "cancel":
            client.send(encode_method(channel, m.BasicCancel(f"t{number - 1}.1")))
        case "deliver":
            for consumer in list(client.broker.consumers):
                numbers = client.broker.lease(consumer, 2)
                session.deliver(consumer, run_of([b"a", b"b"]), numbers, False, consumer)


@given(st.integers(1, 60), st.lists(STEPS, min_size=1, max_size=30))
@settings(max_examples=150)
def test_a_session_that_fails_anywhere_ends_alone_and_leaves_nothing(fails_at: int, steps: list[str]) -> None:
    """No exception reaches the broker; each message that was leased to it went back exactly once."""
    broker = AnsweringBroker(fails_at)
    client = Connected(broker)
    for number, step in enumerate(steps):
        if client.session.closed:
            break
        take(client, step, number)
        client.output()
    if client.socket.failures:
        assert client.session.closed
        assert not broker.consumers and not broker.leased and not broker.holders
    client.session.lost()
    assert not broker.consumers and not broker.leased and not broker.holders


def test_what_is_delivered_to_a_session_whose_encoder_fails_goes_back() -> None:
    broker = AnsweringBroker()
    client = Connected(broker)
    client.send(encode_method(1, m.BasicConsume("q", "t")))
    (consumer,) = broker.consumers
    broken = replace(run_of([b"a"]), stride=-1)
    client.socket.session_failed = client.socket.failures.append  # type: ignore[method-assign]
    client.session.deliver(consumer, broken, broker.lease(consumer, 1), False, consumer)
    assert len(client.socket.failures) == 1
    assert not broker.consumers and not broker.leased and not broker.holders
