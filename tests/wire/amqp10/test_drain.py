"""Drains: the peer asks for what is ready, and that the credit left over is used up (part 2, section 2.6.7).

The tests answer `Drain` as the broker does, which has delivered what is ready within the limit before.
"""

from __future__ import annotations

from typing import Any

import pytest

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import Accepted
from node.wire.amqp10.effects import Credit, Drain, EndConsumer
from node.wire.amqp10.limits import ConnectionLimits
from tests.wire.amqp10.peer import ANSWERED, Peer, begun
from tests.wire.amqp10.performatives import credit, receiver, settled, window
from tests.wire.amqp10.sections import message

ACCEPTED = Accepted()
SMALL = ConnectionLimits(first_window=4, delivery_window=4)


def asked(peer: Peer) -> list[Any]:
    """The credit and the drains of consumer 1, in their order."""
    found = [one for one in peer.effects if type(one) in (Credit, Drain)]
    peer.effects.clear()
    return found


def drained(peer: Peer) -> list[Any]:
    """The broker has nothing more; returns what the node writes."""
    peer.connection.sessions.drained(1)
    return peer.reads()


def answer(flow: Any, count: int, *, drain: bool = True) -> bool:
    """Whether a flow says that the credit is used up, and the delivery-count is this one."""
    assert isinstance(flow, d.Flow) and flow.handle == 0
    return (flow.delivery_count, flow.link_credit, flow.drain) == (count, 0, drain)


def test_without_credit_a_drain_is_over_at_once() -> None:
    peer = begun(receiver())
    (flow,) = peer.send(credit(0, drain=True))
    assert answer(flow, 0) and asked(peer) == []


@pytest.mark.requirement("B8.3")
@pytest.mark.sentence("1.0/2.6.7-3", "1.0/2.6.7-5")
def test_a_drain_of_an_empty_queue_uses_the_credit_up() -> None:
    peer = begun(receiver())
    assert peer.send(credit(10, drain=True)) == []
    assert asked(peer) == [Drain(1, 10)]
    (flow,) = drained(peer)
    assert answer(flow, 10)
    assert asked(peer) == [] and peer.outgoing().room() == 0
    assert peer.send(credit(5, 10)) == [] and asked(peer) == [Credit(1, 5)]
    assert len(peer.deliver(message())) == 1
    assert peer.last.delivery_tag == b"\0\0\0\x0a"


@pytest.mark.requirement("B8.3")
@pytest.mark.sentence("1.0/2.6.7-5")
def test_a_drain_gets_what_is_ready_first() -> None:
    peer = begun(receiver())
    peer.send(credit(10, drain=True))
    peer.deliver(message(), message(), message())
    (flow,) = drained(peer)
    assert answer(flow, 10)
    peer.send(settled(0, 2, ACCEPTED), credit(4, 10))
    assert asked(peer)[-1] == Credit(1, 7), "three were delivered, and four may be"


@pytest.mark.requirement("B8.3")
def test_a_drain_is_over_with_the_last_of_the_credit() -> None:
    peer = begun(receiver())
    peer.send(credit(2, drain=True))
    peer.deliver(message(), message())
    (flow,) = drained(peer)
    assert answer(flow, 2)


@pytest.mark.requirement("B8.3")
def test_a_drain_takes_over_the_credit_that_is_there() -> None:
    peer = begun(receiver())
    peer.send(credit(10))
    assert asked(peer) == [Credit(1, 10)]
    peer.deliver(message())
    asked(peer)
    peer.send(credit(10, 0, drain=True))
    assert asked(peer) == [Drain(1, 10)]
    assert answer(drained(peer)[0], 10)


@pytest.mark.requirement("B8.3")
def test_a_drain_that_comes_with_attach_waits_for_the_consumer() -> None:
    peer = begun()
    found = peer.send(receiver(), credit(6, None, drain=True))
    assert [type(one) for one in found] == [d.Attach]
    assert asked(peer) == [Drain(1, 6)]
    assert answer(drained(peer)[0], 6)


@pytest.mark.requirement("B8.3")
@pytest.mark.sentence("1.0/2.6.7-5")
def test_a_drain_goes_on_beyond_the_window_of_the_node() -> None:
    """The node's window admits four deliveries at a time."""
    peer = begun(receiver(), limits=SMALL)
    assert peer.send(credit(10, drain=True)) == []
    number = 1
    for limit in (4, 8, 10):
        assert asked(peer) == [Drain(1, limit)]
        count = limit - number + 1
        assert len(peer.deliver(*[message()] * count, first=number)) == count
        number += count
        found = drained(peer)
        assert len(found) == (1 if limit == 10 else 0)
    assert answer(found[0], 10) and asked(peer) == []


@pytest.mark.requirement("B8.3")
def test_a_drain_beyond_the_window_ends_where_the_queue_ends() -> None:
    peer = begun(receiver(), limits=SMALL)
    peer.send(credit(10, drain=True))
    asked(peer)
    peer.deliver(message(), message())
    assert answer(drained(peer)[0], 10) and asked(peer) == []


def test_a_drain_whose_limit_was_changed_looks_again() -> None:
    peer = begun(receiver(), limits=SMALL)
    peer.send(credit(10, drain=True))
    peer.connection.pause_credit(True)
    peer.answered()
    assert asked(peer) == [Drain(1, 4), Credit(1, 0)]
    assert drained(peer) == [] and asked(peer) == []
    peer.connection.pause_credit(False)
    peer.answered()
    assert asked(peer) == [Drain(1, 4)]
    assert answer(drained(peer)[0], 10)


@pytest.mark.requirement("B8.3")
def test_a_drain_waits_while_deliveries_wait_for_the_sessions_window() -> None:
    peer = begun(receiver(), credit(5, incoming_window=1), begins={"incoming_window": 1})
    assert len(peer.deliver(message(), message())) == 1
    asked(peer)
    assert peer.send(credit(5, 0, incoming_window=0, next_incoming_id=1, drain=True)) == []
    assert asked(peer) == [], "no drain while deliveries wait"
    assert len(peer.send(window(9, 1))) == 1
    assert asked(peer) == [Drain(1, 5)]
    assert answer(drained(peer)[0], 5)


@pytest.mark.requirement("B8.3")
def test_a_drain_is_not_over_while_a_delivery_of_it_waits() -> None:
    peer = begun(receiver(), begins={"incoming_window": 1})
    peer.send(credit(5, incoming_window=1, drain=True))
    assert len(peer.deliver(message(), message())) == 1
    assert drained(peer) == []
    asked(peer)
    found = peer.send(window(9, 1))
    assert [type(one) for one in found] == [d.Transfer]
    assert asked(peer) == [Drain(1, 5)]
    assert answer(drained(peer)[0], 5)


@pytest.mark.requirement("B8.3")
def test_a_drain_waits_while_the_socket_takes_no_output() -> None:
    peer = begun(receiver())
    peer.connection.pause_credit(True)
    assert peer.send(credit(5, drain=True)) == []
    assert asked(peer) == []
    peer.connection.pause_credit(False)
    peer.answered()
    assert asked(peer) == [Drain(1, 5)]
    assert answer(drained(peer)[0], 5)


def test_credit_is_revoked_within_a_drain_when_the_socket_takes_no_output() -> None:
    peer = begun(receiver())
    peer.send(credit(5, drain=True))
    assert asked(peer) == [Drain(1, 5)]
    peer.connection.pause_credit(True)
    peer.answered()
    assert asked(peer) == [Credit(1, 0)]
    assert answer(drained(peer)[0], 5), "the broker has looked within the limit before"
    peer.connection.pause_credit(False)
    peer.send(credit(3, 5))
    assert asked(peer) == [Credit(1, 3)]


@pytest.mark.requirement("B8.3")
def test_a_later_flow_without_drain_ends_the_drain() -> None:
    peer = begun(receiver())
    peer.send(credit(5, drain=True))
    assert asked(peer) == [Drain(1, 5)]
    assert peer.send(credit(7)) == []
    assert asked(peer) == [Credit(1, 7)]
    assert drained(peer) == [], "the peer does not wait for it any more"
    assert asked(peer) == [], "the credit stands"
    assert len(peer.deliver(message())) == 1


def test_a_flow_without_drain_and_with_the_same_credit_leaves_it_with_the_broker() -> None:
    """The broker takes the credit away when the drain is over, and is told of it again."""
    peer = begun(receiver())
    peer.send(credit(5, drain=True))
    assert asked(peer) == [Drain(1, 5)]
    assert peer.send(credit(5)) == [] and asked(peer) == []
    assert drained(peer) == []
    assert asked(peer) == [Credit(1, 5)]


@pytest.mark.requirement("B8.3")
@pytest.mark.parametrize("ready", [False, True])
def test_more_credit_within_a_drain_is_drained_too(ready: bool) -> None:
    peer = begun(receiver())
    peer.send(credit(5, drain=True))
    assert peer.send(credit(9, drain=True)) == []
    assert asked(peer) == [Drain(1, 5)]
    if ready:
        peer.deliver(*[message()] * 5)
        assert drained(peer) == [] and asked(peer) == [Drain(1, 9)]
    assert answer(drained(peer)[0], 9)


@pytest.mark.requirement("B8.3", "B8.5")
def test_less_credit_within_a_drain_is_told_to_the_broker() -> None:
    peer = begun(receiver())
    peer.send(credit(9, drain=True))
    asked(peer)
    peer.send(credit(2, drain=True))
    assert asked(peer) == [Credit(1, 2)]
    assert answer(drained(peer)[0], 2)


@pytest.mark.requirement("B8.3")
def test_one_drain_follows_the_other() -> None:
    peer = begun(receiver())
    for count in (3, 6, 9):
        peer.send(credit(3, count - 3, drain=True))
        assert asked(peer) == [Drain(1, 3)]
        assert answer(drained(peer)[0], count)
    assert peer.send(credit(0, 9)) == [] and asked(peer) == []
    (flow,) = peer.send(credit(0, 9, echo=True))
    assert answer(flow, 9, drain=False)


@pytest.mark.parametrize("end", [d.Detach(0), d.End(), d.Close(), d.Detach(5)])
def test_a_drain_ends_with_its_link(end: Any) -> None:
    peer = begun(receiver())
    peer.send(credit(5, drain=True))
    peer.send(end)
    asked(peer)
    assert drained(peer) == [] and asked(peer) == []


def test_a_link_that_the_broker_has_ended_is_not_drained() -> None:
    peer = begun(receiver())
    peer.send(credit(5, drain=True))
    peer.connection.sessions.cancelled(1, d.Error("x"))
    assert [type(one) for one in peer.reads()] == [d.Detach]
    asked(peer)
    assert drained(peer) == [] and peer.send(credit(9, drain=True)) == [] and asked(peer) == []


def test_a_drain_that_crosses_the_detach_is_not_answered() -> None:
    """The peer knows the handle no more when the answer comes, and the broker still ends the consumer."""
    peer = begun(receiver(), answers=ANSWERED - {EndConsumer})
    peer.send(credit(2))
    peer.deliver(message(), message())
    peer.connection.sessions.cancelled(1, d.Error("x"))
    assert [type(one) for one in peer.reads()] == [d.Detach]
    assert peer.send(credit(2, drain=True)) == []


def test_a_drain_ends_with_a_link_that_another_one_takes_over() -> None:
    peer = begun(receiver(name="a"), answers=ANSWERED - {EndConsumer})
    peer.send(credit(2, drain=True))
    peer.deliver(message(), message())
    assert peer.send(receiver(1, name="a"))[0].error.condition == "amqp:link:stolen"
    assert drained(peer) == [] and peer.send(window(9)) == []
