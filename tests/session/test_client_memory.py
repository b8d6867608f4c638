"""All clients of a node together make it hold no more than is granted to them; what is gone holds nothing."""

from __future__ import annotations

import gc
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.session.amqp091.protocol import amqp091
from node.session.client_memory import ClientMemory
from node.session.client_session import ClientProtocol
from node.session.gate import Gate, GateLimits
from node.session.listener import Client, Listener
from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import PROTOCOL_HEADER, encode_frame, encode_method
from node.wire.amqp091.lifecycle import ConnectionState
from node.wire.amqp091.limits import ConnectionLimits
from tests.session.answering import AnsweringBroker
from tests.wire.client import frames, header, publish, run_of

KIB = 1024


class Pipe:
    """A socket that takes as much as it is told to; the rest stays in its buffer."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.taken = bytearray()
        self.buffer = bytearray()
        self.stuck = False
        self.aborted = self.closed = False
        self.reading = True
        client.connection_made(cast(Any, self))

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else None

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        self.high = high

    def write(self, data: bytes) -> None:
        before = len(self.buffer)
        (self.buffer if self.stuck else self.taken).extend(data)
        if before <= self.high < len(self.buffer):
            self.client.pause_writing()

    def get_write_buffer_size(self) -> int:
        return len(self.buffer)

    def is_reading(self) -> bool:
        return self.reading

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = self.closed = True

    def methods(self) -> list[Any]:
        taken, self.taken = bytes(self.taken), bytearray()
        return [payload for kind, _, payload in frames(taken) if kind == m.FRAME_METHOD]


class Logged:
    """Counts what is logged."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def info(self, event: str, **fields: object) -> None:
        self.events.append(event)

    warning = info

    def error(self, event: str, error: BaseException | None = None, **fields: object) -> None:
        raise AssertionError(event) from error


class Port:
    """A listener without a port, whose turns the test takes."""

    def __init__(self, granted: int, limits: ConnectionLimits | None = None) -> None:
        self.log = Logged()
        self.broker = AnsweringBroker()
        port: Any = self.broker
        self.listen(amqp091(port, limits or ConnectionLimits(), lambda: 1.0), granted)

    def listen(self, protocol: ClientProtocol, granted: int) -> None:
        """Take clients of this protocol, which share so many octets."""
        self.listener = Listener(
            (protocol,), 1.0, Gate(GateLimits()), ClientMemory(granted), self.log,
            lambda: 1.0, lambda: None,
        )  # fmt: skip

    def connect(self) -> Pipe:
        pipe = Pipe(self.listener.new_client())
        pipe.client.data_received(
            PROTOCOL_HEADER
            + encode_method(0, m.ConnectionStartOk({}, "PLAIN", b"\0guest\0guest"))
            + encode_method(0, m.ConnectionTuneOk(0, 0, 0))
            + encode_method(0, m.ConnectionOpen("/"))
            + encode_method(1, m.ChannelOpen())
        )
        self.listener.flush()
        pipe.taken.clear()
        return pipe

    def lose(self, pipe: Pipe) -> None:
        """The socket breaks."""
        client = pipe.client
        del pipe.client
        client.connection_lost(None)

    def accounted(self) -> int:
        """The expected sum, over all clients that are not being closed."""
        return sum(
            client.session.held + client._transport.get_write_buffer_size()
            for client in self.listener.clients.values()
            if client._transport is not None and not client._exhausted
        )


def begin(octets: int) -> bytes:
    """A message that is larger, and so many octets of it."""
    return (
        encode_method(1, m.BasicPublish("", "q"))
        + encode_frame(m.FRAME_HEADER, 1, header(1 << 26))
        + encode_frame(m.FRAME_BODY, 1, bytes(octets))
    )


@pytest.mark.requirement("A5.18")
def test_who_holds_most_goes_when_all_together_hold_too_much() -> None:
    port = Port(granted=512 * KIB)
    small, large, other = port.connect(), port.connect(), port.connect()
    small.client.data_received(begin(20 * KIB))
    for _ in range(6):
        large.client.data_received(encode_frame(m.FRAME_BODY, 1, bytes(50 * KIB)) if _ else begin(50 * KIB))
    other.client.data_received(begin(100 * KIB))
    assert not port.log.events
    other.client.data_received(encode_frame(m.FRAME_BODY, 1, bytes(100 * KIB)))
    port.listener.flush()
    (closed,) = large.methods()
    assert isinstance(closed, m.ConnectionClose) and closed.reply_code == 506
    assert "client_memory_exhausted" in port.log.events
    assert port.listener.memory.total == port.accounted() < 512 * KIB
    assert other.client.session.connection.life.state is small.client.session.connection.life.state
    assert small.client.session.connection.life.state is ConnectionState.OPEN


def test_who_reads_nothing_of_what_it_asked_for_is_cut_off() -> None:
    port = Port(granted=1024 * KIB)
    good, bad = port.connect(), port.connect()
    bad.stuck = True
    bad.client.data_received(encode_method(1, m.BasicConsume("q", "t")))
    for _ in range(40):
        if bad.aborted:
            break
        (consumer,) = port.broker.consumers
        numbers = port.broker.lease(consumer, 1)
        bad.client.session.deliver(consumer, run_of([bytes(50 * KIB)]), numbers, False, consumer)
        port.listener.flush()
    assert bad.aborted and not good.aborted
    assert port.listener.memory.total < 100 * KIB


STEPS = st.sampled_from(["connect", "begin", "more", "publish", "ask", "deliver", "stick", "turn", "lose"])


@given(st.lists(st.tuples(STEPS, st.integers(0, 5)), max_size=40))
@settings(max_examples=200)
def test_what_is_accounted_is_what_clients_hold_and_nothing_when_they_are_gone(
    steps: list[tuple[str, int]],
) -> None:
    port = Port(granted=400 * KIB, limits=ConnectionLimits(unread_bytes=50 * KIB))
    pipes: list[Pipe] = []
    for step, number in steps:
        pipe = pipes[number % len(pipes)] if pipes else None
        if step == "connect" or pipe is None:
            pipes.append(port.connect())
        elif step == "lose":
            pipes.remove(pipe)
            port.lose(pipe)
        elif step == "turn":
            port.listener.flush()
        elif step == "stick":
            pipe.stuck = True
        elif pipe.client.session.connection.life.state is ConnectionState.OPEN:
            act(port, pipe, step)
        if step in ("turn", "lose"):
            port.listener.flush()
            assert port.listener.memory.total == port.accounted() <= 400 * KIB
    for pipe in pipes:
        port.lose(pipe)
    assert port.listener.memory.total == 0
    assert not port.listener.memory._by_client and not port.broker.holders and not port.broker.leased


def act(port: Port, pipe: Pipe, step: str) -> None:
    """The actions of a client, and of the node on it."""
    session = pipe.client.session
    match step:
        case "begin":
            pipe.client.data_received(begin(30 * KIB))
        case "more":
            pipe.client.data_received(encode_frame(m.FRAME_HEARTBEAT, 0, b"")[:5])
        case "publish":
            pipe.client.data_received(publish(1, bytes(10 * KIB)))
        case "ask":
            pipe.client.data_received(encode_method(1, m.BasicQos(0, 1)) * 2000)
        case "deliver":
            pipe.client.data_received(encode_method(1, m.BasicConsume("q")))
            for consumer in session.connection.life.credits.consumers:
                numbers = port.broker.lease(consumer, 1)
                session.deliver(consumer, run_of([bytes(20 * KIB)]), numbers, False, consumer)
                break


def test_a_client_that_is_gone_leaves_nothing_for_the_collector() -> None:
    """The collector runs seldom, and clients come and go all the time."""
    port = Port(granted=1 << 30)
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(50):
            pipe = port.connect()
            pipe.client.data_received(encode_method(1, m.BasicConsume("q", "t")) + begin(100))
            (consumer,) = pipe.client.session.connection.life.credits.consumers
            held = port.broker.lease(consumer, 1)
            pipe.client.session.deliver(consumer, run_of([b"x"]), held, False, consumer)
            port.lose(pipe)
            del pipe
        left = len(gc.get_objects()) - before
    finally:
        gc.enable()
    assert left < 200
