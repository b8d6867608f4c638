"""A session asks for a turn when it has something to write, and for no other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from node.session.amqp091.session import Session
from node.wire.amqp091.limits import ConnectionLimits


class CountedTurns:
    """A socket that counts how often a turn was asked for."""

    remote = "127.0.0.1"

    def __init__(self) -> None:
        self.turns_wanted = 0

    clients_waiting = 0

    def wanted(self) -> None:
        self.turns_wanted += 1

    def pause_reading(self) -> None:
        raise AssertionError("nothing is full")

    def resume_reading(self) -> None:
        raise AssertionError("nothing was full")

    def close_after_flush(self) -> None:
        raise AssertionError("nothing is wrong")

    def log(self, event: str, fields: Mapping[str, str | int]) -> None:
        raise AssertionError(event)


class ReadyBroker:
    """All of the broker that a handshake's first step asks for."""

    def ready(self) -> bool:
        return True


def test_taking_output_asks_for_no_further_turn() -> None:
    """A turn that asks for the next one by writing would never let the node rest."""
    socket = CountedTurns()
    port: Any = ReadyBroker()
    session = Session(port, socket, ConnectionLimits(), lambda: 1.0)
    session.receive(b"AMQP\x00\x00\x09\x01")
    asked = socket.turns_wanted
    assert asked > 0
    assert session.take_output()
    assert socket.turns_wanted == asked
    assert session.take_output() == b""
    assert socket.turns_wanted == asked
