"""The AMQP port's timers and the end of a failed session, without sockets (`node.session.listener`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from node.session.amqp091.protocol import amqp091
from node.session.client_memory import ClientMemory
from node.session.gate import Gate, GateLimits
from node.session.listener import TICKS_A_ROUND, Client, Listener
from node.wire.amqp091.limits import ConnectionLimits
from node.wire.amqp091.methods import ConnectionClose
from tests.wire.client import frames


@dataclass
class Ticked:
    """Stands for a client; counts the ticks of its session."""

    counts: Counter[int] = field(default_factory=Counter)
    number: int = 0

    @property
    def session(self) -> Ticked:
        return self

    def tick(self) -> None:
        self.counts[self.number] += 1


@pytest.mark.parametrize("clients", [1, 9, 10, 95, 1000])
def test_every_session_is_looked_at_once_a_round_and_no_tick_has_much_to_do(clients: int) -> None:
    listener = listener_of(cast(Any, None), ClientMemory(1))
    counts: Counter[int] = Counter()
    for number in range(clients):
        listener.clients[number] = cast(Client, Ticked(counts, number))
    rounds = 3
    for _ in range(rounds * TICKS_A_ROUND):
        before = counts.total()
        listener.tick()
        assert counts.total() - before <= -(-clients // TICKS_A_ROUND) + 1
    assert set(counts) == set(range(clients))
    assert min(counts.values()) >= rounds


class Pipe:
    """A socket's transport: keeps what is written to it."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = self.aborted = False

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 40000) if name == "peername" else None

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        """As much as is wanted."""

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True


def listener_of(
    gate: Gate, memory: ClientMemory, judged: Callable[[BaseException], bool] = lambda error: True
) -> Listener:
    absent = cast(Any, None)
    protocols = (amqp091(absent, ConnectionLimits(), lambda: 0.0),)
    return Listener(protocols, 1.0, gate, memory, Silent(), lambda: 0.0, lambda: None, judged)


def failed_client(*, open_before: bool, spares_node: bool) -> tuple[Pipe, list[BaseException]]:
    """The socket of a client whose session has failed, and what the node was asked about."""
    asked = list[BaseException]()
    gate, memory = Gate(GateLimits()), ClientMemory(1 << 20)

    def judged(error: BaseException) -> bool:
        asked.append(error)
        if not spares_node:
            client.abort()
        return spares_node

    listener = listener_of(gate, memory, judged)
    client, pipe = listener.new_client(), Pipe()
    client.connection_made(cast(Any, pipe))
    if open_before:
        client.entered()
    client.session.failed(ZeroDivisionError("planted"))
    return pipe, asked


def test_a_socket_that_was_accepted_before_the_ports_closed_is_turned_away() -> None:
    gate, memory = Gate(GateLimits()), ClientMemory(1 << 20)
    listener = listener_of(gate, memory)
    staying, late = Pipe(), Pipe()
    listener.new_client().connection_made(cast(Any, staying))
    client = listener.new_client()
    listener.close_ports()
    client.connection_made(cast(Any, late))
    assert (staying.closed, late.aborted) == (False, True)
    assert len(listener.clients) == 1


class Silent:
    def warning(self, event: str, **fields: object) -> None:
        """The test does not read it."""

    def info(self, event: str, **fields: object) -> None:
        """The test does not read it."""

    def error(self, event: str, error: BaseException | None = None, **fields: object) -> None:
        """The test does not read it."""


@pytest.mark.requirement("A5.21")
@pytest.mark.interpreted
def test_a_client_whose_session_fails_is_told_so_where_the_protocol_allows_it() -> None:
    pipe, asked = failed_client(open_before=True, spares_node=True)
    ((_, channel, close),) = frames(pipe.written)
    assert isinstance(close, ConnectionClose)
    assert (channel, close.reply_code, pipe.closed, pipe.aborted) == (0, 541, True, False)
    assert asked


@pytest.mark.interpreted
@pytest.mark.parametrize(("open_before", "spares_node"), [(False, True), (True, False)])
def test_no_word_leaves_before_a_connection_is_open_nor_when_the_node_ends(
    open_before: bool, spares_node: bool
) -> None:
    pipe, asked = failed_client(open_before=open_before, spares_node=spares_node)
    assert (pipe.written, pipe.aborted, bool(asked)) == (b"", True, True)
