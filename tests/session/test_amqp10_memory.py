"""Clients of AMQP 1.0 share the memory that is granted to all clients; what is gone holds nothing."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

from node.session.amqp10.protocol import amqp10
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.connection import AMQP_HEADER, SASL_HEADER
from node.wire.amqp10.definitions import AmqpCondition
from node.wire.amqp10.limits import ConnectionLimits
from node.wire.amqp10.states import ConnectionState
from tests.session.attached import NodeBroker
from tests.session.test_client_memory import KIB, Pipe, Port
from tests.wire.amqp10.peer import transfer
from tests.wire.amqp10.performatives import LARGE, PLAIN, begin, credit, octets_of, receiver, sender, window
from tests.wire.amqp10.runs import run_of
from tests.wire.amqp10.sections import message


class Amqp10Port(Port):
    """A listener for clients of AMQP 1.0."""

    broker: NodeBroker

    def __init__(self, granted: int) -> None:
        super().__init__(granted)
        self.broker = NodeBroker()
        port: Any = self.broker
        self.listen(amqp10(port, ConnectionLimits(), lambda: 1.0), granted)

    def connect(self) -> Pipe:
        """A client with a link in each direction."""
        pipe = Pipe(self.listener.new_client())
        self.feed(pipe, SASL_HEADER, PLAIN, AMQP_HEADER, d.Open("c", max_frame_size=LARGE), begin())
        self.feed(pipe, sender(0), receiver(1), credit(9, handle=1))
        pipe.taken.clear()
        return pipe

    def feed(self, pipe: Pipe, *sent: Any) -> None:
        """Octets from the client, and the ends of the turns that they take."""
        pipe.client.data_received(octets_of(*sent))
        self.listener.flush()
        while self.listener.clients_waiting:
            self.listener.flush()

    def deliver(self, pipe: Pipe, body: bytes) -> None:
        """A message to the client's latest consumer, and the end of the turn."""
        consumer = max(number for number in self.broker.consumers)
        pipe.client.session.deliver(
            consumer, run_of(message(body=body)), self.broker.lease(consumer, 1), False, consumer
        )
        self.listener.flush()


ACTS: dict[str, Callable[[Amqp10Port, Pipe], object]] = {
    "an unfinished delivery": lambda port, pipe: port.feed(pipe, transfer(1, bytes(60 * KIB), more=True)),
    "half a frame": lambda port, pipe: port.feed(pipe, transfer(1, bytes(60 * KIB))[:-1]),
    "output that is not read": lambda port, pipe: port.feed(pipe, *[window(99, echo=True)] * 2000),
    "a delivery that is not read": lambda port, pipe: port.deliver(pipe, bytes(60 * KIB)),
}


@pytest.mark.parametrize("act", ACTS)
def test_what_a_client_holds_is_counted_until_the_client_is_gone(act: str) -> None:
    port = Amqp10Port(granted=1 << 30)
    pipe = port.connect()
    idle = port.listener.memory.total
    pipe.stuck = True
    ACTS[act](port, pipe)
    assert port.listener.memory.total == port.accounted() > idle + 50 * KIB
    port.lose(pipe)
    assert port.listener.memory.total == 0
    assert not port.broker.leased and not port.broker.consumed


@pytest.mark.parametrize("act", ACTS)
def test_the_client_that_holds_most_is_closed_where_all_together_hold_too_much(act: str) -> None:
    port = Amqp10Port(granted=700 * KIB)
    first, small = port.connect(), port.connect()
    port.feed(small, transfer(1, bytes(40 * KIB), more=True))
    for number in range(4):
        port.feed(first, transfer(None if number else 1, bytes(100 * KIB), more=True))
    others = []
    while AmqpCondition.RESOURCE_LIMIT_EXCEEDED.encode() not in first.taken:
        others.append(port.connect())
        others[-1].stuck = True
        ACTS[act](port, others[-1])
        assert len(others) < 10
    assert all(one.client.session.connection.state is ConnectionState.OPEN for one in (small, *others))
    assert port.listener.memory.total == port.accounted() <= 700 * KIB


@pytest.mark.parametrize("act", ACTS)
def test_a_client_that_is_gone_leaves_nothing_for_the_collector(act: str) -> None:
    """The collector runs seldom, and clients come and go all the time."""
    port = Amqp10Port(granted=1 << 30)
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(50):
            pipe = port.connect()
            ACTS[act](port, pipe)
            port.lose(pipe)
            del pipe
            port.broker.returned.clear()
        left = len(gc.get_objects()) - before
    finally:
        gc.enable()
    assert left < 200
