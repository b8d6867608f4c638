"""The protocol that a client asks for is told by the octets that it sends first (A1)."""

from __future__ import annotations

import pytest

from node.wire.amqp091.codec import ACCEPTED_HEADERS
from node.wire.handshake import Handshake

HEADERS = {
    **dict.fromkeys(ACCEPTED_HEADERS, "first"),
    b"AMQP\x00\x01\x00\x00": "second",
    b"LINES001": "third",
}


def told(*pieces: bytes) -> list[str | None]:
    handshake = Handshake(HEADERS, "first")
    return [handshake.receive(piece) for piece in pieces]


@pytest.mark.requirement("A1.4")
@pytest.mark.parametrize(("header", "protocol"), HEADERS.items())
def test_every_header_has_its_protocol_wherever_it_is_cut(header: bytes, protocol: str) -> None:
    assert told(header) == [protocol]
    assert told(header + b"more") == [protocol]
    for cut in range(1, len(header)):
        before, after = told(header[:cut], header[cut:])
        assert before in (None, protocol)
        assert after == protocol


@pytest.mark.requirement("A1.4")
@pytest.mark.parametrize("beginning", [b"GET / HT", b"AMQP\x00\x09", b"LINES002", b"X"])
def test_any_other_beginning_is_for_the_first_protocol(beginning: bytes) -> None:
    assert told(beginning) == ["first"]


@pytest.mark.requirement("A1.4")
def test_nothing_is_told_while_there_are_several_that_it_may_be() -> None:
    assert told(b"AM", b"QP\x00", b"\x01\x00", b"\x00") == [None, None, "second", "second"]
