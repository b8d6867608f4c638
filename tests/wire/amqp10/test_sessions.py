"""Sessions: Begin and End, several on a connection, and the errors that end one (part 2, section 2.5)."""

from __future__ import annotations

from typing import Any

import pytest

from node.delivery.settlements import Outcome
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import Accepted, AmqpCondition, ConnectionCondition, SessionCondition
from node.wire.amqp10.effects import (
    EndConsumer,
    FindTarget,
    PublishEffect,
    SessionEnded,
    SettleEffect,
    StartConsumer,
)
from node.wire.amqp10.flow_writer import OUTGOING_WINDOW
from node.wire.amqp10.limits import ConnectionLimits
from node.wire.amqp10.states import SessionState
from tests.wire.amqp10.peer import ANSWERED, begun, error_in, opened, receiving, transfer
from tests.wire.amqp10.performatives import begin, credit, octets_of, receiver, sender, settled, window
from tests.wire.amqp10.runs import run_of
from tests.wire.amqp10.sections import message


@pytest.mark.sentence("1.0/2.5.1-2", "1.0/2.7.2-2")
def test_begin_is_answered_on_its_channel() -> None:
    peer = opened(ConnectionLimits(incoming_window=77, handle_max=31))
    assert peer.send(begin(), channel=5) == [d.Begin(0, 77, OUTGOING_WINDOW, 5, 31)]
    assert peer.frames[-1].channel == 5


@pytest.mark.requirement("B3.9")
def test_a_connection_has_several_sessions() -> None:
    peer = opened(ConnectionLimits(channel_max=3))
    for channel in (3, 0, 2, 1):
        assert len(peer.send(begin(), channel=channel)) == 1
    assert len(peer.connection.sessions) == 4
    assert peer.send(d.End(), channel=2) == [d.End()]
    assert len(peer.connection.sessions) == 3
    assert len(peer.send(begin(), channel=2)) == 1
    numbers = [one.number for one in peer.connection.sessions]
    assert len(set(numbers)) == 4 and max(numbers) == peer.connection.sessions.begun == 5


@pytest.mark.requirement("B3.9")
def test_sessions_have_their_own_links() -> None:
    peer = begun(sender(0))
    peer.send(begin(), sender(0, "r", "sender-0"), channel=1)
    peer.send(transfer(1), transfer(9, channel=1), transfer(2))
    runs = [(one.session, one.run.routing_key, one.first_tag) for one in peer.taken(PublishEffect)]
    assert runs == [(1, "q", 2), (1, "q", 3), (2, "r", 10)]


def test_end_gives_unsettled_deliveries_back() -> None:
    peer = receiving()
    peer.deliver(message(), message())
    assert peer.send(settled(1, None, Accepted()), d.End()) == [d.End()]
    ended = SessionEnded(1, 0, [(1, [(1, 1)])], True)
    assert [one for one in peer.effects if type(one) in (SettleEffect, SessionEnded)][1:] == [ended]
    assert not peer.taken(EndConsumer), "the session's end ends its consumers"
    assert peer.connection.sessions.numbered(1) is None
    assert peer.deliver(message(), first=9) == []
    assert peer.taken(SettleEffect)[-1] == SettleEffect(1, [(9, 9)], Outcome.RELEASED)


def test_end_is_answered_when_the_broker_has_everything_back() -> None:
    peer = begun(receiver(), answers=ANSWERED - {SessionEnded})
    assert peer.send(d.End()) == []
    peer.answer(peer.taken(SessionEnded)[0])
    assert peer.reads() == [d.End()]


def test_a_session_may_begin_right_behind_the_end_of_another_one_on_its_channel() -> None:
    """A peer's channel is free when its End is sent, and the node's when the node's End is sent."""
    peer = begun(receiver(), answers=ANSWERED - {SessionEnded})
    assert [type(one) for one in peer.send(d.End(), begin())] == [d.End, d.Begin]
    assert peer.send(d.End()) == []
    first, second = peer.taken(SessionEnded)
    assert (first.session, second.session) == (1, 2)
    peer.answer(first)
    peer.answer(second)
    assert peer.reads() == [d.End()]


def test_a_session_of_a_lost_connection_is_not_answered() -> None:
    peer = begun(answers=ANSWERED - {SessionEnded})
    peer.send(d.End(), d.Close())
    peer.answer(peer.taken(SessionEnded)[0])
    assert peer.reads() == []


# -- errors -----------------------------------------------------------------------------------------

UNATTACHED = SessionCondition.UNATTACHED_HANDLE


@pytest.mark.sentence(
    "1.0/2.5.4-1",
    "1.0/2.5.4-2",
    "1.0/2.5.5-1",
    "1.0/2.7.3-1",
    "1.0/2.7.3-2",
    "1.0/2.7.4-2",
    "1.0/2.7.5-1",
    "1.0/2.7.5-2",
)
@pytest.mark.parametrize(
    ("frame", "condition"),
    [
        (transfer(1, handle=7), UNATTACHED), (credit(1, handle=7), UNATTACHED), (d.Detach(7), UNATTACHED),
        (sender(1), SessionCondition.HANDLE_IN_USE), (receiver(0), SessionCondition.HANDLE_IN_USE),
        (transfer(1, handle=1), UNATTACHED), (transfer(None, handle=0), AmqpCondition.INVALID_FIELD),
        (transfer(1, handle=0, delivery_tag=None), AmqpCondition.INVALID_FIELD),
    ],
    ids=[
        "transfer", "flow", "detach", "attach", "attach-other-role", "transfer-to-a-receiver",
        "transfer-without-id", "transfer-without-tag",
    ],
)  # fmt: skip
def test_an_error_of_a_session_ends_the_session_alone(frame: Any, condition: str) -> None:
    peer = begun(sender(0), receiver(1), begins={"next_outgoing_id": 5})
    peer.send(begin(), sender(), channel=1)
    peer.effects.clear()
    (end,) = peer.send(frame)
    assert error_in(end, d.End).condition == condition and peer.frames[-1].channel == 0
    assert peer.taken(SessionEnded) == [SessionEnded(1, 0, [], False)] and not peer.effects
    assert peer.session().state is SessionState.END_SENT
    found = peer.send(sender(3), transfer(1), credit(1), settled(0), d.Detach(0), window(3, echo=True))
    assert found == [] and not peer.effects, "all but End is discarded"
    assert peer.send(transfer(1, channel=1)) == [] and len(peer.taken(PublishEffect)) == 1
    assert peer.send(d.End()) == [], "the node has sent End before"
    assert len(peer.send(begin())) == 1


@pytest.mark.sentence("1.0/2.7.2-3", "1.0/2.7.2-4")
@pytest.mark.parametrize(
    "frame",
    [sender(4), receiver(4), transfer(1, handle=4), credit(1, handle=4), d.Detach(4)],
    ids=["sender", "receiver", "transfer", "flow", "detach"],
)
@pytest.mark.parametrize(("ours", "theirs"), [(3, 100), (100, 3)])
def test_a_handle_that_is_not_supported_closes_the_connection(frame: Any, ours: int, theirs: int) -> None:
    """The node's handles are the peer's, so the lower handle-max holds."""
    peer = begun(sender(3), limits=ConnectionLimits(handle_max=ours), begins={"handle_max": theirs})
    (close,) = peer.send(frame)
    assert error_in(close, d.Close).condition == ConnectionCondition.FRAMING_ERROR


@pytest.mark.requirement("B3.7")
@pytest.mark.sentence("1.0/2.5.4-1")
def test_a_transfer_beyond_the_window_ends_the_session() -> None:
    peer = begun(sender(), limits=ConnectionLimits(incoming_window=4))
    (end,) = peer.send(*(transfer(number) for number in range(1, 7)))
    assert error_in(end, d.End).condition == SessionCondition.WINDOW_VIOLATION
    effects = [(type(one), getattr(one, "first_tag", None)) for one in peer.effects]
    assert effects == [(PublishEffect, 2), (SessionEnded, None)], "what came within the window is published"
    assert peer.effects[0].run.count == 4


def test_a_begin_on_a_channel_that_was_ended_with_an_error_has_to_wait_for_the_peers_end() -> None:
    peer = begun()
    peer.send(d.Detach(7))
    (close,) = peer.send(begin())
    assert error_in(close, d.Close).condition == AmqpCondition.ILLEGAL_STATE


def test_an_error_gives_unsettled_deliveries_back_once() -> None:
    peer = receiving()
    peer.deliver(message(), message(), message())
    peer.send(settled(1, None, Accepted()), d.Detach(7))
    assert [type(one) for one in peer.effects] == [SettleEffect, SessionEnded]
    assert sorted(one for _, ranges in peer.effects[1].unsettled for one in ranges) == [(1, 1), (3, 3)]
    peer.effects.clear()
    peer.send(d.End(), d.Close())
    assert [one.unsettled for one in peer.effects if hasattr(one, "unsettled")] == [[]]


def test_answers_for_a_session_that_has_ended_are_dropped() -> None:
    peer = begun(answers=frozenset())
    peer.send(sender(0), receiver(1), d.End())
    (target,), (consumer,) = peer.taken(FindTarget), peer.taken(StartConsumer)
    sessions = peer.connection.sessions
    sessions.accept(target.link)
    sessions.refuse(target.link, d.Error("x"))
    assert not sessions.consuming(consumer.link, 4, True)
    sessions.consumer_ended(consumer.link)
    sessions.decided(1, 1, 4, Accepted())
    sessions.refuse_publish(PublishEffect(target.link, run_of(message()), 1, 0), 0, d.Error("x"))
    sessions.granted(4, 9)
    sessions.drained(4)
    sessions.cancelled(4, d.Error("x"))
    assert peer.reads() == []
    sessions.released(0)
    assert peer.reads() == [d.End()]


# -- the window of the session ----------------------------------------------------------------------


def test_the_window_opens_again_when_half_of_it_is_used_up() -> None:
    peer = begun(
        sender(), limits=ConnectionLimits(incoming_window=10), begins={"next_outgoing_id": 2**32 - 3}
    )
    assert peer.send(*(transfer(number) for number in range(1, 5))) == []
    (flow,) = peer.send(transfer(5))
    assert flow == d.Flow(10, 0, OUTGOING_WINDOW, 2), "next-incoming-id begins again at 0"
    found = [flow for number in range(6, 60) for flow in peer.send(transfer(number))]
    assert len(found) == 10 and all(flow.incoming_window == 10 for flow in found)


@pytest.mark.sentence("1.0/2.7.4-1", "1.0/2.7.4-3")
def test_a_flow_that_asks_for_the_sessions_state_is_answered() -> None:
    peer = begun(sender(), limits=ConnectionLimits(incoming_window=10))
    peer.send(transfer(1))
    flow = window(100, echo=True)
    flow.next_outgoing_id = 1
    assert peer.send(flow) == [d.Flow(9, 0, OUTGOING_WINDOW, 1)]
    assert peer.send(window(100)) == []


@pytest.mark.sentence("1.0/2.5.6-3")
@pytest.mark.parametrize("number", [0, 77, 2**31, 2**32 - 1])
def test_the_next_incoming_id_is_what_the_peer_tells(number: int) -> None:
    """The node counts on from there, and begins again at 0."""
    peer = begun(sender(), limits=ConnectionLimits(incoming_window=10))
    flow = window(100, echo=True)
    flow.next_outgoing_id = number
    assert peer.send(flow) == [d.Flow(10, 0, OUTGOING_WINDOW, number)]
    told = peer.send(*(transfer(one) for one in range(1, 6)))
    assert [one.next_incoming_id for one in told] == [(number + 5) % 2**32]


def test_a_window_that_the_peer_tells_before_it_has_seen_begin_counts_from_the_start() -> None:
    peer = begun(receiver(), credit(9, incoming_window=0), begins={"incoming_window": 0})
    assert peer.deliver(message(), message()) == []
    assert len(peer.send(window(1, None))) == 1
    assert peer.session().outgoing.next_id == 1


def test_octets_of_a_session_are_freed_with_it() -> None:
    peer = opened()
    before = peer.connection.held
    peer.send(begin(), sender(0), sender(1))
    peer.send(transfer(1, b"x" * 5000, more=True))
    assert peer.connection.held > before + 5000
    peer.send(d.Detach(9))
    assert peer.connection.held < before + 7000
    assert peer.session().held == 0
    peer.send(octets_of(d.End()))
    assert peer.connection.held == before
