"""The states of an open connection: every transition of the table, Close both ways, idle time-outs (part 2,
section 2.4).
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import pytest

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.connection import AMQP_HEADER, SASL_HEADER
from node.wire.amqp10.definitions import AmqpCondition, ConnectionCondition, Error
from node.wire.amqp10.effects import (
    CloseSocket,
    ConnectionClosed,
    EndConsumer,
    LogEffect,
    NegotiationFailed,
    SessionEnded,
    StartConsumer,
)
from node.wire.amqp10.errors import ConnectionForcedError, MemoryExhaustedError
from node.wire.amqp10.frames import EMPTY_FRAME
from node.wire.amqp10.limits import ConnectionLimits
from node.wire.amqp10.states import NEXT, ConnectionState, check_next
from tests.wire.amqp10.peer import MISSING, Peer, begun, error_in, opened, receiving, transfer
from tests.wire.amqp10.performatives import PLAIN, begin, credit, octets_of, receiver, sender, settled
from tests.wire.amqp10.runs import run_of
from tests.wire.amqp10.sections import message

S = ConnectionState
OPEN = d.Open("c")

# -- every transition -------------------------------------------------------------------------------


def empty_frame(channel: int) -> bytes:
    return EMPTY_FRAME[:6] + channel.to_bytes(2, "big")


def at(state: ConnectionState) -> Peer:
    """A peer whose connection is in this state, and answers nothing by itself."""
    peer = Peer(ConnectionLimits(stranger_bytes=5000), answers=frozenset())
    steps: dict[ConnectionState, Callable[[], Any]] = {
        S.SASL: lambda: peer.send(SASL_HEADER),
        S.LOG_IN: lambda: peer.send(PLAIN),
        S.LOGGED_IN: lambda: peer.connection.authenticated("guest"),
        S.OPENING: lambda: peer.send(AMQP_HEADER),
        S.ENTERING: lambda: peer.send(OPEN),
        S.OPEN: lambda: peer.connection.opened(),
        S.CLOSING: lambda: peer.connection.close(ConnectionForcedError("the end")),
        S.PARTED: lambda: peer.feed(octets_of(d.Close())),
    }
    if state is S.CHALLENGED:
        peer.send(SASL_HEADER, PLAIN)
        peer.connection.challenge(b"?")
    elif state is S.PAUSED:
        peer.send(AMQP_HEADER)
    elif state is S.CLOSED:
        peer.connection.disconnected()
    else:
        for reached, step in steps.items():
            if state is S.HEADER or (state is S.PARTED and reached is S.CLOSING):
                continue
            step()
            assert peer.connection.state is reached
            if reached is state:
                break
    assert peer.connection.state is state
    return peer


def forced(peer: Peer) -> None:
    peer.connection.close(ConnectionForcedError("the operator closes it"))


def timed_out(peer: Peer) -> None:
    peer.tick(20)


def swamped(peer: Peer) -> None:
    """More input waits than a stranger may have waiting."""
    peer.feed(octets_of(*[d.Open("x" * 4000)] * 3))


def part_of_a_frame(peer: Peer) -> None:
    peer.feed(octets_of(d.Open("x" * 7000))[:6000])


ACTS: dict[tuple[ConnectionState, ConnectionState], list[Callable[[Peer], Any]]] = {
    (S.HEADER, S.SASL): [lambda peer: peer.send(SASL_HEADER)],
    (S.HEADER, S.PAUSED): [lambda peer: peer.send(AMQP_HEADER), lambda peer: peer.send(OPEN)],
    (S.SASL, S.LOG_IN): [lambda peer: peer.send(PLAIN)],
    (S.SASL, S.PAUSED): [lambda peer: peer.send(d.SaslInit("X")), lambda peer: peer.send(SASL_HEADER)],
    (S.LOG_IN, S.LOGGED_IN): [lambda peer: peer.connection.authenticated("guest")],
    (S.LOG_IN, S.PAUSED): [lambda peer: peer.connection.login_refused("no"), swamped],
    (S.LOG_IN, S.CHALLENGED): [lambda peer: peer.connection.challenge(b"?")],
    (S.CHALLENGED, S.LOG_IN): [lambda peer: peer.send(d.SaslResponse(b"!"))],
    (S.CHALLENGED, S.PAUSED): [lambda peer: peer.send(PLAIN), lambda peer: peer.send(AMQP_HEADER)],
    (S.LOGGED_IN, S.OPENING): [lambda peer: peer.send(AMQP_HEADER)],
    (S.LOGGED_IN, S.PAUSED): [lambda peer: peer.send(OPEN), lambda peer: peer.send(b"\xff" * 8)],
    (S.OPENING, S.ENTERING): [lambda peer: peer.send(OPEN)],
    (S.OPENING, S.CLOSING): [lambda peer: peer.send(begin()), lambda peer: peer.send(SASL_HEADER)],
    (S.ENTERING, S.OPEN): [lambda peer: peer.connection.opened()],
    (S.ENTERING, S.CLOSING): [lambda peer: peer.connection.enter_refused(Error("x"))],
    (S.OPENING, S.PAUSED): [part_of_a_frame],
    (S.ENTERING, S.PAUSED): [swamped],
    (S.OPEN, S.CLOSING): [forced, lambda peer: peer.send(OPEN), lambda peer: peer.tick(150)],
    (S.OPEN, S.PARTED): [lambda peer: peer.feed(octets_of(d.Close()))],
    (S.CLOSING, S.CLOSED): [lambda peer: peer.send(d.Close()), lambda peer: peer.send(b"\xff" * 8), forced],
    (S.PARTED, S.CLOSED): [lambda peer: peer.reads()],
    (S.PAUSED, S.CLOSED): [timed_out],
}
for before in NEXT:
    if before is not S.CLOSED:
        # The socket may be lost at any time; a connection that is not open ends without a word.
        acts = ACTS.setdefault((before, S.CLOSED), [])
        acts.append(lambda peer: peer.connection.disconnected())
        if before not in (S.OPEN, S.PARTED):
            acts.append(timed_out)


@pytest.mark.parametrize(("before", "after"), ACTS)
def test_every_transition_is_reached(before: ConnectionState, after: ConnectionState) -> None:
    assert after in NEXT[before]
    for act in ACTS[before, after]:
        peer = at(before)
        act(peer)
        assert peer.connection.state is after


def test_the_table_has_no_other_transitions() -> None:
    reached = {(before, after) for before, following in NEXT.items() for after in following}
    assert reached == set(ACTS)
    for before in S:
        for after in S:
            if after not in NEXT[before]:
                with pytest.raises(AssertionError, match=f"{before.name} to {after.name}"):
                    check_next(before, after)


@pytest.mark.parametrize("state", [one for one in S if one not in (S.LOG_IN, S.ENTERING)])
def test_an_answer_that_comes_too_late_changes_nothing(state: ConnectionState) -> None:
    peer = at(state)
    peer.reads()
    state = peer.connection.state
    peer.effects.clear()
    peer.connection.challenge(b"late")
    peer.connection.authenticated("late", b"late")
    peer.connection.login_refused("late")
    peer.connection.opened()
    peer.connection.enter_refused(Error("late"))
    assert peer.reads() == [] and not peer.effects and peer.connection.state is state


# -- Close ------------------------------------------------------------------------------------------


@pytest.mark.sentence("1.0/2.7.9-1")
def test_the_peers_close_is_answered_and_gives_deliveries_back() -> None:
    peer = receiving()
    peer.deliver(message(), message())
    peer.feed(octets_of(settled(0, None, d.Accepted()), d.Close(), begin(), b"\xff" * 9))
    assert peer.taken(ConnectionClosed) == [ConnectionClosed([(1, [(2, 2)])])]
    assert not peer.taken(CloseSocket), "the answer is not written yet"
    assert peer.reads() == [d.Close()]
    assert peer.taken(CloseSocket) == [CloseSocket()]
    assert peer.connection.disconnected() == [] and peer.connection.held < 200


def test_a_close_with_an_error_is_answered_too() -> None:
    peer = begun()
    assert peer.send(d.Close(Error("amqp:internal-error", "sorry"))) == [d.Close()]
    assert peer.connection.state is S.CLOSED


@pytest.mark.sentence("1.0/2.4.3-1", "1.0/2.4.3-2", "1.0/2.4.3-3")
@pytest.mark.parametrize("how", ["forced", "error", "answer", "pipelined"])
def test_close_goes_on_channel_0_and_is_the_last_frame(how: str) -> None:
    peer = Peer() if how == "pipelined" else opened(idle_time_out=1000)
    if how == "forced":
        peer.send(begin(), receiver(), credit(9), channel=5)
        peer.connection.close(ConnectionForcedError("the end"))
        peer.reads()
    elif how == "error":
        peer.send(begin(), begin(), channel=5)
    elif how == "answer":
        peer.send(begin(), d.Close(), channel=5)
    else:
        peer.send(SASL_HEADER, PLAIN, AMQP_HEADER, d.Open("c", f"vhost:{MISSING}"), begin(), channel=0)
    assert isinstance(peer.last, d.Close) and peer.frames[-1].channel == 0
    peer.deliver(message())
    assert peer.tick(5) == [] and peer.send(begin(), channel=1) == [] and isinstance(peer.last, d.Close)


@pytest.mark.sentence("1.0/2.4.3-1", "1.0/2.4.6-1", "1.0/2.7.9-1")
def test_the_nodes_close_waits_for_the_peers() -> None:
    peer = receiving()
    peer.deliver(message())
    peer.connection.close(ConnectionForcedError("the node goes down"))
    (close,) = peer.reads()
    assert error_in(close, d.Close) == Error(ConnectionCondition.CONNECTION_FORCED, "the node goes down")
    assert peer.taken(ConnectionClosed) == [ConnectionClosed([(1, [(1, 1)])])]
    assert peer.send(settled(0), begin(), transfer(3), channel=9) == [] and not peer.taken(CloseSocket)
    assert peer.send(d.Close()) == []
    assert peer.taken(CloseSocket) == [CloseSocket()]


def test_both_peers_may_close_at_once() -> None:
    peer = begun()
    peer.connection.close(MemoryExhaustedError("too much"))
    peer.feed(octets_of(d.Close()))
    (close,) = peer.reads()
    assert error_in(close, d.Close).condition == AmqpCondition.RESOURCE_LIMIT_EXCEEDED
    assert len(peer.taken(ConnectionClosed)) == len(peer.taken(CloseSocket)) == 1


def test_a_peer_that_does_not_answer_close_loses_its_socket() -> None:
    peer = opened(ConnectionLimits(close_timeout=7.0))
    peer.connection.close(ConnectionForcedError("the end"))
    peer.reads()
    assert peer.connection.next_deadline() == peer.now + 7, "the idle time-outs have ended"
    assert peer.tick(7) == []
    assert [one.event for one in peer.taken(LogEffect)] == ["connection_exception", "close_timeout"]
    assert peer.taken(CloseSocket) == [CloseSocket()] and peer.connection.next_deadline() == inf


def test_a_lost_socket_gives_everything_back_at_once() -> None:
    peer = receiving()
    peer.deliver(*[message()] * 5)
    peer.connection.sessions.decided(1, 1, 1, d.Accepted())
    assert peer.connection.disconnected() == [ConnectionClosed([(1, [(1, 5)])])]
    assert peer.connection.take_output() == b"" and peer.connection.disconnected() == []
    assert peer.connection.receive(octets_of(begin()), 101.0) == []
    assert peer.connection.next_deadline() == inf and peer.connection.held < 200


# -- frames in wrong states -------------------------------------------------------------------------

ILLEGAL = AmqpCondition.ILLEGAL_STATE
FRAMING = ConnectionCondition.FRAMING_ERROR


@pytest.mark.sentence("1.0/2.4.6-1")
@pytest.mark.parametrize(
    ("frame", "channel", "condition"),
    [
        (d.Open("again"), 0, ILLEGAL), (d.End(), 4, ILLEGAL), (sender(), 4, ILLEGAL),
        (d.Detach(0), 4, ILLEGAL), (credit(1), 4, ILLEGAL), (settled(0), 4, ILLEGAL),
        (d.Transfer(0), 4, ILLEGAL), (begin(), 0, ILLEGAL), (begin(remote_channel=0), 4, ILLEGAL),
        (begin(), 8, FRAMING), (sender(16), 0, FRAMING), (PLAIN, 0, ILLEGAL), (AMQP_HEADER, 0, ILLEGAL),
        (SASL_HEADER, 0, ILLEGAL), (b"\0\0\0\x07\x02\0\0\0", 0, FRAMING),
        (b"\0\0\0\x09\x02\0\0\0\xff", 0, "amqp:decode-error"),
    ],
)  # fmt: skip
def test_a_frame_out_of_place_closes_the_connection(frame: Any, channel: int, condition: str) -> None:
    peer = begun(limits=ConnectionLimits(channel_max=7, handle_max=15))
    (close,) = peer.send(frame, sender(), channel=channel)
    assert error_in(close, d.Close).condition == condition
    (told,) = peer.taken(LogEffect)
    assert told.event == "connection_exception" and told.fields["condition"] == condition
    assert len(peer.taken(ConnectionClosed)) == 1 and not peer.effects
    assert not peer.send(begin(), channel=2), "all but Close is discarded"
    # Behind octets that are no frames no Close can be found.
    assert len(peer.effects) == (1 if type(frame) is bytes and frame[0] == 0 else 0)


@pytest.mark.requirement("B3.3")
@pytest.mark.sentence("1.0/2.7.1-6")
@pytest.mark.parametrize(
    "frame",
    [begin(), d.End(), sender(), credit(1), d.Transfer(0), settled(0), d.Detach(0), empty_frame(8)],
    ids=["begin", "end", "attach", "flow", "transfer", "disposition", "detach", "empty"],
)
def test_a_channel_that_is_not_supported_closes_the_connection(frame: Any) -> None:
    peer = opened(ConnectionLimits(channel_max=7))
    assert peer.last.channel_max == 7
    assert isinstance(peer.send(begin(), channel=7)[0], d.Begin)
    (close,) = peer.send(frame, channel=8)
    assert error_in(close, d.Close).condition == FRAMING


@pytest.mark.sentence("1.0/2.4.5-1")
@pytest.mark.parametrize("channel", [0, 3, 7], ids=["session", "no session", "highest"])
def test_an_empty_frame_may_come_on_any_channel(channel: int) -> None:
    peer = begun(limits=ConnectionLimits(channel_max=7, idle_time_out=10.0))
    assert peer.tick(19) == [] and peer.send(empty_frame(channel)) == []
    assert peer.tick(19) == [] and peer.connection.state is S.OPEN, "the peer is not silent"


@pytest.mark.requirement("B3.4")
@pytest.mark.sentence("1.0/2.4.1-2", "1.0/2.7.1-5", "1.0/2.7.1-6")
def test_the_lower_channel_max_holds() -> None:
    peer = opened(ConnectionLimits(channel_max=7), channel_max=3)
    assert isinstance(peer.send(begin(), channel=3)[0], d.Begin)
    (close,) = peer.send(begin(), channel=4)
    assert error_in(close, d.Close).condition == FRAMING


# -- idle time-outs ---------------------------------------------------------------------------------


@pytest.mark.requirement("B3.6")
@pytest.mark.sentence("1.0/2.4.1-2", "1.0/2.4.5-2")
def test_the_node_sends_empty_frames_within_the_peers_idle_time_out() -> None:
    peer = opened(ConnectionLimits(idle_time_out=0.0), idle_time_out=10_000)
    start = peer.now
    assert peer.connection.next_deadline() == start + 5
    assert peer.tick(4.9) == []
    assert peer.tick(0.1) == [None] and peer.frames[-1].channel == 0
    assert peer.connection.next_deadline() == start + 10
    peer.now += 3
    assert len(peer.send(begin())) == 1, "any other frame is as good"
    assert peer.connection.next_deadline() == peer.now + 5
    assert peer.tick(4.9) == [] and peer.tick(0.2) == [None]


@pytest.mark.parametrize("theirs", [None, 0])
def test_without_an_idle_time_out_the_node_sends_no_empty_frames(theirs: int | None) -> None:
    peer = opened(ConnectionLimits(idle_time_out=0.0), idle_time_out=theirs)
    assert peer.connection.next_deadline() == inf and peer.tick(1e6) == []
    assert peer.last.idle_time_out is None, "the node waits without a limit too"


@pytest.mark.requirement("B3.5")
@pytest.mark.sentence("1.0/2.4.3-1")
def test_a_silent_peer_is_closed_after_two_intervals() -> None:
    peer = opened(ConnectionLimits(idle_time_out=10.0))
    assert peer.last.idle_time_out == 10_000
    assert peer.tick(19.9) == []
    assert peer.send(EMPTY_FRAME) == []
    assert peer.tick(19.9) == []
    (close,) = peer.tick(0.2)
    assert error_in(close, d.Close).condition == AmqpCondition.RESOURCE_LIMIT_EXCEEDED
    assert len(peer.taken(ConnectionClosed)) == 1


def test_a_peer_is_not_silent_while_the_node_does_not_read() -> None:
    peer = opened(ConnectionLimits(idle_time_out=10.0))
    peer.connection.reading(False, peer.now)
    assert peer.connection.next_deadline() == inf and peer.tick(100) == []
    peer.connection.reading(True, peer.now)
    assert peer.tick(19) == [] and len(peer.tick(2)) == 1


@pytest.mark.sentence("1.0/2.4.3-2", "1.0/2.4.5-3")
@pytest.mark.parametrize("state", [S.CLOSING, S.PARTED, S.CLOSED])
def test_no_empty_frame_follows_close(state: ConnectionState) -> None:
    peer = opened(ConnectionLimits(idle_time_out=1.0, close_timeout=100.0), idle_time_out=1000)
    if state is S.CLOSING:
        peer.connection.close(ConnectionForcedError("the end"))
        peer.reads()
    elif state is S.PARTED:
        peer.feed(octets_of(d.Close()))
    else:
        peer.send(d.Close())
    assert peer.connection.state is state
    assert peer.connection.next_deadline() == (inf if state is S.CLOSED else peer.now + 100)
    assert None not in peer.tick(50)


def test_a_peer_that_reads_no_answer_to_its_close_is_cut_off() -> None:
    peer = receiving(limits=ConnectionLimits(close_timeout=10.0))
    peer.deliver_run(run_of(message()))
    peer.feed(octets_of(d.Close()))
    peer.connection.take_effects()
    peer.effects += peer.connection.tick(peer.now + 9.9)
    assert peer.connection.state is S.PARTED and not peer.taken(CloseSocket)
    peer.effects += peer.connection.tick(peer.now + 10)
    assert peer.connection.state is S.CLOSED and len(peer.taken(CloseSocket)) == 1


# -- effects ----------------------------------------------------------------------------------------


def test_nothing_is_asked_of_the_broker_twice_at_the_end() -> None:
    peer = begun(receiver(), receiver(1), sender(2), receiver(3, MISSING))
    peer.send(begin(), receiver(), channel=1)
    peer.effects.clear()
    peer.send(d.Close())
    assert [type(one) for one in peer.effects] == [ConnectionClosed, CloseSocket]
    assert not peer.taken(NegotiationFailed) and not peer.taken(SessionEnded) and not peer.taken(EndConsumer)


def test_a_consumer_that_starts_too_late_is_not_taken() -> None:
    peer = begun(answers=frozenset())
    peer.send(receiver())
    (asked,) = peer.taken(StartConsumer)
    peer.send(d.Close())
    assert not peer.connection.sessions.consuming(asked.link, 1, True)
    assert peer.reads() == []
