"""Requests to the management, their responses, and the links of both."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import AmqpCondition, LinkCondition, Role
from node.wire.amqp10.effects import PublishEffect, RequestEffect
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.errors import SectionError
from node.wire.amqp10.limits import ConnectionLimits
from node.wire.amqp10.management import (
    MANAGEMENT_ADDRESS,
    REQUEST_CREDIT,
    REQUEST_OCTETS,
    request_in,
    response,
)
from node.wire.amqp10.messages import application_pairs, sections_in
from node.wire.amqp10.sections import body_values, properties_of, scan_sections
from node.wire.amqp10.session_endpoint import LINK_OCTETS
from node.wire.amqp10.states import ConnectionState
from node.wire.amqp10.values import ULong
from tests.wire.amqp10.peer import ANSWERED, Peer, begun, error_in, transfer
from tests.wire.amqp10.performatives import LARGE, credit, octets_of, receiver, sender, window
from tests.wire.amqp10.sections import data, message

VALUE = b"\0\x53\x77"
NAME = "pair"


def request(path: str = "/queues/q", method: str = "GET", body: Any = None, **fields: Any) -> bytes:
    """A request as clients write it."""
    whole: dict[str, Any] = {"message_id": "id", "reply_to": "$me", "to": path, "subject": method}
    return d.Properties(**(whole | fields)).encode() + VALUE + encode_amqp(body)


# -- messages ---------------------------------------------------------------------------------------


def test_a_request_is_read() -> None:
    found = request_in(request("/queues/a%20b", "PUT", {"durable": True}))
    assert found == ("id", "PUT", "/queues/a%20b", {"durable": True})


@pytest.mark.parametrize("message_id", [ULong(7), b"octets", "text"])
def test_sections_may_stand_in_any_order(message_id: Any) -> None:
    """RabbitMQ's client for Python writes a body of null in front of the properties."""
    octets = request(message_id=message_id).removesuffix(VALUE + encode_amqp(None))
    for whole in (octets, VALUE + encode_amqp(None) + octets, d.Header(True).encode() + octets):
        assert request_in(whole) == (message_id, "GET", "/queues/q", None)


@pytest.mark.parametrize(
    "octets",
    [
        request(message_id=None), request(reply_to=None), request(reply_to="elsewhere"), request(to=None),
        request(subject=None), request()[:-1], request()[:9], d.Properties("id").encode() + data(b"body"),
        b"", request() + b"\0\x53\x99@",
    ],
)  # fmt: skip
def test_a_message_that_has_no_response_is_no_request(octets: bytes) -> None:
    with pytest.raises(SectionError):
        request_in(octets)


@given(st.binary(max_size=80) | st.binary(max_size=40).map(lambda behind: request()[:40] + behind))
def test_any_octets_are_a_request_or_none(octets: bytes) -> None:
    with suppress(SectionError):
        request_in(octets)


def test_a_response_says_to_which_request_it_belongs() -> None:
    octets = response(ULong(9), 200, {"message_count": ULong(3)})
    sections = scan_sections(octets, 0, len(octets))
    properties = properties_of(octets, sections)
    assert (properties.correlation_id, properties.subject) == (9, "200")
    assert application_pairs(octets, sections_in(octets)) == [("http:response", "1.1")]
    ((start, end),) = body_values(octets, sections)
    assert octets[start:end] == encode_amqp({"message_count": ULong(3)})


# -- links ------------------------------------------------------------------------------------------


def answered_by_hand(peer: Peer) -> None:
    """Attach what the peer has asked for as the session code does for the management."""
    for effect in list(peer.effects):
        if type(effect).__name__ == "FindTarget":
            effect.link.management = True
            peer.connection.sessions.accept(effect.link)
        elif type(effect).__name__ == "StartConsumer":
            peer.connection.sessions.responding(effect.link)
    peer.effects.clear()


def paired(given_credit: int = 10, limits: ConnectionLimits | None = None, begins: Any = None) -> Peer:
    """A peer with a link pair to the management, on handles 0 and 1."""
    peer = begun(limits=limits, answers=ANSWERED - {type(None)}, begins=begins)
    peer.answers = frozenset()
    peer.send(sender(0, MANAGEMENT_ADDRESS, NAME), receiver(1, MANAGEMENT_ADDRESS, NAME))
    answered_by_hand(peer)
    attaches = [one for one in peer.reads() if isinstance(one, d.Attach)]
    assert [one.role for one in attaches] == [Role.RECEIVER, Role.SENDER]
    peer.send(credit(given_credit, handle=1))
    return peer


def requests(peer: Peer) -> list[Any]:
    return [one.link for one in peer.taken(RequestEffect)]


def test_a_request_is_accepted_and_its_response_comes_settled() -> None:
    peer = paired()
    (told,) = peer.send(transfer(1, request()))
    assert (told.first, told.state) == (1, d.Accepted())
    (link,) = requests(peer)
    peer.connection.sessions.respond(link, b"response")
    (found,) = peer.reads()
    assert (found.handle, found.settled) == (1, True) and bytes(peer.frames[-1].payload) == b"response"
    assert not peer.taken(PublishEffect)


def test_requests_wait_for_credit_until_they_are_answered() -> None:
    peer = paired(given_credit=0)
    assert peer.incoming().credit == REQUEST_CREDIT
    peer.send(*[transfer(number, request(), settled=True) for number in range(1, 1 + REQUEST_CREDIT)])
    links = requests(peer)
    assert len(links) == REQUEST_CREDIT and peer.incoming().credit == 0
    for link in links:
        peer.connection.sessions.respond(link, b"r" * 10)
    assert peer.reads() == [] and peer.incoming().credit == 0, (
        "responses wait for credit, and hold requests back"
    )
    found = peer.send(credit(REQUEST_CREDIT, handle=1))
    assert sum(isinstance(one, d.Transfer) for one in found) == REQUEST_CREDIT
    assert peer.incoming().credit == REQUEST_CREDIT
    (detach,) = peer.send(*[transfer(17 + n, request(), settled=True) for n in range(REQUEST_CREDIT + 1)])
    assert error_in(detach, d.Detach).condition == LinkCondition.TRANSFER_LIMIT_EXCEEDED


def test_responses_wait_for_the_window() -> None:
    peer = paired()
    peer.send(window(1))
    for number in range(1, 4):
        peer.send(transfer(number, request(), settled=True))
    for link in requests(peer):
        peer.connection.sessions.respond(link, b"response")
    assert len(peer.reads()) == 1
    assert len(peer.send(window(2, 1))) == 2


@pytest.mark.parametrize("partly", [False, True])
def test_responses_that_wait_end_with_their_link(partly: bool) -> None:
    peer = paired(given_credit=1)
    held = peer.connection.held
    peer.send(window(1 if partly else 0))
    peer.send(*[transfer(number, request(), settled=True) for number in (1, 2)])
    response = b"r" * (2 * LARGE)
    for link in requests(peer):
        peer.connection.sessions.respond(link, response)
    assert len(peer.reads()) == int(partly) and peer.connection.held > held + len(response)
    assert peer.send(d.Detach(1, True)) == [d.Detach(1, True)]
    assert peer.connection.held == held - LINK_OCTETS
    assert peer.send(window(9, int(partly))) == [], "the handle has no link any more"


def test_a_shortage_holds_back_no_request() -> None:
    peer = paired()
    peer.connection.sessions.alarm(True)
    for number in range(1, 2 * REQUEST_CREDIT):
        peer.send(transfer(number, request(), settled=True))
        (link,) = requests(peer)
        peer.connection.sessions.respond(link, b"response")
        peer.send(credit(10 + number, handle=1))
    assert peer.incoming().credit > 0


def test_requests_take_up_memory_until_they_are_answered() -> None:
    peer = paired()
    held = peer.connection.held
    peer.send(transfer(1, request(body="x" * 60_000), settled=True), d.Detach(0, True))
    (link,) = requests(peer)
    assert peer.connection.held > held + 60_000 - LINK_OCTETS
    peer.connection.sessions.respond(link, b"response")
    assert len(peer.reads()) == 1 and peer.connection.held == held - LINK_OCTETS


def test_links_that_come_and_go_leave_no_more_requests_than_the_memory_takes() -> None:
    peer = paired(limits=ConnectionLimits(message_size=REQUEST_OCTETS, memory_bytes=0))
    long, sent = request(body="x" * 60_000), 0
    while peer.connection.state is ConnectionState.OPEN:
        peer.send(*[transfer(sent + number, long, settled=True) for number in range(REQUEST_CREDIT)])
        sent += REQUEST_CREDIT
        assert sent * 60_000 < 8 << 20
        peer.send(d.Detach(0, True), sender(0, MANAGEMENT_ADDRESS, NAME))
        answered_by_hand(peer)
    assert peer.connection.state is ConnectionState.CLOSING


def test_a_drain_of_responses_is_answered_at_once() -> None:
    peer = paired(given_credit=0)
    (flow,) = peer.send(credit(5, handle=1, drain=True))
    assert (flow.handle, flow.link_credit, flow.delivery_count) == (1, 0, 5)


@pytest.mark.parametrize("handle", [0, 1])
def test_links_to_the_management_are_detached(handle: int) -> None:
    peer = paired()
    assert peer.send(d.Detach(handle, True)) == [d.Detach(handle, True)]
    assert not peer.effects


def test_a_response_without_its_link_is_dropped() -> None:
    peer = paired()
    peer.send(transfer(1, request(), settled=True), d.Detach(1, True))
    (link,) = requests(peer)
    peer.connection.sessions.respond(link, b"response")
    assert peer.reads() == []
    peer.send(transfer(2, request(), settled=True), d.End())
    (link,) = requests(peer)
    peer.connection.sessions.respond(link, b"response")
    assert peer.reads() == []


def test_a_request_that_is_too_large_closes_its_link() -> None:
    peer = paired()
    (detach,) = peer.send(transfer(1, message(body=b"x" * REQUEST_OCTETS)))
    assert error_in(detach, d.Detach).condition == LinkCondition.MESSAGE_SIZE_EXCEEDED


def test_a_message_that_is_no_request_closes_its_link() -> None:
    peer = paired()
    peer.feed(octets_of(transfer(1, b"\0", settled=True)))
    (link,) = requests(peer)
    peer.connection.sessions.bad_request(link, SectionError("no request"))
    (detach,) = peer.reads()
    assert error_in(detach, d.Detach).condition == AmqpCondition.DECODE_ERROR
