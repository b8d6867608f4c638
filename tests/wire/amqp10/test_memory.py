"""The memory that a peer takes up is bounded, and is freed with its connection (decision 0018)."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from node.delivery.unsettled import RUN_OCTETS
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.connection import AMQP_HEADER, SASL_HEADER
from node.wire.amqp10.definitions import AmqpCondition
from node.wire.amqp10.effects import Authenticate, ConnectionClosed, Credit, EnterVhost
from node.wire.amqp10.limits import ConnectionLimits
from node.wire.amqp10.states import ConnectionState
from tests.wire.amqp10.peer import Peer, begun, error_in, transfer
from tests.wire.amqp10.performatives import PLAIN, begin, credit, octets_of, receiver, sender, settled, window
from tests.wire.amqp10.runs import run_of
from tests.wire.amqp10.sections import message

KIB = 1024
SMALL = ConnectionLimits(memory_bytes=1, message_size=1, first_window=2000)
"""The budget is room for one message."""

EMPTY_CONNECTION = 2 * KIB
"""A connection that has ended may hold so many octets: the frames that tell of its end."""


def let_go(peer: Peer) -> bool:
    """Whether the connection is closed for its memory, has told its end once, and holds nothing more."""
    closes = [frame.performative for frame in peer.frames if isinstance(frame.performative, d.Close)]
    assert [error_in(one, d.Close).condition for one in closes] == [AmqpCondition.RESOURCE_LIMIT_EXCEEDED]
    assert len(peer.taken(ConnectionClosed)) == 1
    return peer.connection.state is ConnectionState.CLOSING and peer.connection.held < EMPTY_CONNECTION


# -- before Open ------------------------------------------------------------------------------------


@pytest.mark.parametrize("answers", [0, 1], ids=["the password", "the virtual host"])
def test_a_peer_that_is_not_in_yet_is_granted_little(answers: int) -> None:
    """The frames that it sends ahead wait for the answer, but not without end."""
    limits = ConnectionLimits(stranger_bytes=20 * KIB)
    peer = Peer(limits, frozenset((Authenticate, EnterVhost)[:answers]))
    peer.send(SASL_HEADER, PLAIN)
    peer.feed(octets_of(AMQP_HEADER, d.Open("c")))
    ahead, sent = octets_of(begin()), 0
    while peer.connection.state is not ConnectionState.PAUSED:
        peer.feed(ahead)
        sent += len(ahead)
        assert sent <= 20 * KIB + len(ahead)
    assert peer.connection.held < EMPTY_CONNECTION


# -- deliveries that have not come whole ------------------------------------------------------------


def unfinished(peer: Peer, octets: int = 100 * KIB) -> int:
    """Begin a delivery on each of many links, until the connection is closed; returns their number."""
    for handle in range(200):
        peer.send(sender(handle))
        peer.send(transfer(handle, bytes(octets), handle, more=True))
        if peer.connection.state is not ConnectionState.OPEN:
            return handle + 1
    raise AssertionError("the node takes deliveries without end")


def test_unfinished_deliveries_of_all_links_count_together() -> None:
    limits = replace(SMALL, message_size=200 * KIB)
    peer = begun(limits=limits)
    begun_deliveries = unfinished(peer)
    assert limits.budget - 300 * KIB < begun_deliveries * 100 * KIB <= limits.budget + 100 * KIB
    assert let_go(peer)


ENDS: dict[str, Callable[[Peer], object]] = {
    "aborted": lambda peer: peer.send(transfer(None, b"", more=False, aborted=True)),
    "detach": lambda peer: peer.send(d.Detach(0, True)),
    "end": lambda peer: peer.send(d.End()),
    "close": lambda peer: peer.send(d.Close()),
    "connection loss": lambda peer: peer.connection.disconnected(),
}


@pytest.mark.parametrize("end", ENDS)
def test_an_unfinished_delivery_is_freed_with_what_it_is_on(end: str) -> None:
    peer = begun(sender())
    before = peer.connection.held
    for number in range(5):
        peer.send(transfer(None if number else 1, bytes(100 * KIB), more=True))
    assert peer.connection.held >= before + 500 * KIB
    ENDS[end](peer)
    assert peer.connection.held <= before


def test_half_a_frame_counts() -> None:
    peer = begun(sender())
    before = peer.connection.held
    octets = transfer(1, bytes(100 * KIB))
    peer.feed(octets[:-1])
    assert peer.connection.held >= before + 100 * KIB
    peer.send(octets[-1:])
    assert peer.connection.held <= before


# -- output that the peer does not read -------------------------------------------------------------


def test_answers_that_are_not_read_count() -> None:
    peer = begun(limits=SMALL)
    asked = octets_of(window(100, echo=True)) * 1000
    answers, size = 0, len(octets_of(d.Flow(9, 0, 9, 9)))
    while peer.connection.state is ConnectionState.OPEN:
        peer.feed(asked)
        answers += 1000
        assert answers * size < 2 * SMALL.budget
    assert peer.connection.held <= SMALL.budget + 1000 * 2 * size
    peer.reads()
    assert let_go(peer)


def test_receivers_get_no_credit_while_too_much_waits_for_the_peer() -> None:
    limits = ConnectionLimits(pending_bytes=100 * KIB, first_window=16)
    receivers = [receiver(handle) for handle in range(5)]
    peer = begun(*receivers, *(credit(1000, handle=handle) for handle in range(5)), limits=limits)
    peer.effects.clear()
    before = peer.connection.held
    peer.deliver_run(run_of(*[message(body=bytes(30 * KIB))] * 4))
    peer.answered()
    told = {one.consumer: one.limit for one in peer.taken(Credit)}
    assert told == {1: 4, 2: 0, 3: 0, 4: 0, 5: 0}
    assert 120 * KIB < peer.connection.held - before < 122 * KIB
    peer.reads()
    assert {one.consumer for one in peer.taken(Credit)} == {1, 2, 3, 4, 5}
    assert peer.connection.held - before <= RUN_OCTETS


# -- records of deliveries --------------------------------------------------------------------------

WIDE = 2**31 - 1


def consuming(limits: ConnectionLimits = SMALL) -> Peer:
    """A peer with a receiving link, and credit and a window for any number of deliveries."""
    flow = credit(WIDE, incoming_window=WIDE)
    return begun(receiver(), flow, limits=limits, begins={"incoming_window": WIDE})


def test_a_peer_with_more_unsettled_records_than_its_budget_is_let_go() -> None:
    """Each delivery is a record where the peer settles every second one."""
    peer, number = consuming(), 0
    while peer.connection.state is ConnectionState.OPEN:
        peer.deliver(*[message()] * 200, first=number + 1)
        ids = range(number, number + 200, 2)
        peer.send(octets_of(*(settled(one, None, d.Accepted()) for one in ids)))
        number += 200
        assert number // 2 * RUN_OCTETS <= SMALL.budget + 200 * RUN_OCTETS
    assert let_go(peer)


def test_a_peer_that_sends_nothing_is_let_go_too() -> None:
    """Other consumers of the queue have the messages between those that the peer gets."""
    peer, number = consuming(), 0
    while peer.connection.state is ConnectionState.OPEN:
        number += 1
        peer.deliver(message(), first=2 * number)
        assert number * RUN_OCTETS <= SMALL.budget
    peer.reads()
    assert number * RUN_OCTETS > SMALL.budget // 2
    assert let_go(peer)


# -- nothing is left --------------------------------------------------------------------------------


def leave(peer: Peer) -> None:
    peer.connection.disconnected()


@pytest.mark.parametrize("end", [leave, lambda peer: peer.send(d.Close())], ids=["loss", "close"])
def test_nothing_of_a_connection_is_left_for_the_collector(end: Callable[[Peer], Any]) -> None:
    """The collector runs seldom, and peers come and go all the time."""
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(50):
            peer = begun(sender(), receiver(1), credit(9, handle=1))
            peer.send(transfer(1, bytes(1000), more=True))
            peer.deliver(message(), first=1)
            end(peer)
            del peer
        left = len(gc.get_objects()) - before
    finally:
        gc.enable()
    assert left < 200
