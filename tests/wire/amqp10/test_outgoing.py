"""Transfers of the node: credit, the session's window, several frames (part 2, sections 2.5.6, 2.6.7)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from node.delivery.settlements import Outcome
from node.message.run import Run
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import Accepted, ReceiverSettleMode, SenderSettleMode
from node.wire.amqp10.effects import Credit, EndConsumer, SessionEnded, SettleEffect
from node.wire.amqp10.limits import ConnectionLimits
from tests.wire.amqp10.peer import Peer, begun, receiving
from tests.wire.amqp10.performatives import credit, octets_of, receiver, settled, window
from tests.wire.amqp10.runs import run_of
from tests.wire.amqp10.sections import message

ACCEPTED = Accepted()


def limits_told(peer: Peer) -> list[tuple[int, int]]:
    return [(one.consumer, one.limit) for one in peer.taken(Credit)]


def payloads(peer: Peer) -> list[bytes]:
    """The messages that the node has sent, put together, without those that are not complete."""
    found: list[bytes] = []
    pieces: dict[int, bytes] = {}
    for frame in peer.frames:
        one = frame.performative
        if isinstance(one, d.Transfer):
            whole = pieces.pop(one.handle, b"") + bytes(frame.payload)
            if one.more:
                pieces[one.handle] = whole
            else:
                found.append(whole)
    return found


# -- credit -----------------------------------------------------------------------------------------


@pytest.mark.requirement("B8.1")
def test_a_link_has_no_credit_before_the_peer_gives_some() -> None:
    peer = begun(receiver())
    assert limits_told(peer) == []
    peer.send(credit(10))
    assert limits_told(peer) == [(1, 10)]


@pytest.mark.requirement("B8.1")
@pytest.mark.sentence("1.0/2.6.7-2")
def test_credit_may_come_in_the_piece_that_attaches() -> None:
    peer = begun()
    peer.send(receiver(), credit(10, None))
    assert limits_told(peer) == [(1, 10)]


@pytest.mark.requirement("B8.1", "B8.5")
@pytest.mark.sentence("1.0/2.6.7-1")
def test_credit_is_raised_and_revoked_from_the_peers_delivery_count_on() -> None:
    peer = begun(receiver(), credit(10))
    peer.effects.clear()
    peer.deliver(message(), message(), message())
    assert limits_told(peer) == []
    peer.send(credit(10, 2))
    assert limits_told(peer) == [(1, 12)]
    peer.send(credit(1, 2))
    assert limits_told(peer) == [(1, 3)], "what is under way counts"
    peer.send(credit(0, 3))
    assert limits_told(peer) == []
    peer.send(credit(5, 3))
    assert limits_told(peer) == [(1, 8)]
    peer.send(credit(0, 3), credit(7, 3))
    assert limits_told(peer) == [(1, 10)], "the last flow of an input counts"
    peer.send(credit(0, 3))
    assert limits_told(peer) == [(1, 3)]


@pytest.mark.requirement("B8.1")
@pytest.mark.sentence("1.0/2.6.7-1")
def test_the_delivery_count_begins_again_at_0() -> None:
    peer = begun(receiver(), credit(0))
    link = peer.outgoing()
    link.delivered = link.advanced = link.credit_limit = 2**32 - 2
    peer.send(credit(4, 2**32 - 2))
    assert limits_told(peer) == [(1, 4)]
    tags = [one.delivery_tag for one in peer.deliver(message(), message(), message())]
    assert tags == [b"\xff\xff\xff\xfe", b"\xff\xff\xff\xff", b"\0\0\0\0"]
    (flow,) = peer.send(credit(4, 0, echo=True))
    assert (flow.delivery_count, flow.link_credit) == (1, 3), "the credit counts from the peer's count on"
    assert limits_told(peer) == [(1, 6)]


def test_a_delivery_count_ahead_of_the_nodes_gives_no_further_credit() -> None:
    peer = begun(receiver())
    (flow,) = peer.send(credit(2**32 - 1, 100, echo=True))
    assert (flow.delivery_count, flow.link_credit) == (0, 2**32 - 1)
    peer.send(credit(7, 100))
    assert limits_told(peer)[-1] == (1, 7)


@pytest.mark.parametrize("most", [7, 16])
def test_credit_is_bounded_by_the_windows_of_the_node(most: int) -> None:
    peer = begun(receiver(), limits=ConnectionLimits(first_window=most, delivery_window=50))
    peer.send(credit(1 << 31))
    assert limits_told(peer) == [(1, most)]
    peer.deliver(*[message()] * most)
    peer.answered()
    assert limits_told(peer)[-1] == (1, most + 50)


def test_no_consumer_has_credit_while_the_socket_takes_no_output() -> None:
    peer = begun(receiver(), credit(10))
    peer.effects.clear()
    peer.connection.pause_credit(True)
    peer.answered()
    assert limits_told(peer) == [(1, 0)]
    peer.send(credit(20))
    assert limits_told(peer) == []
    peer.connection.pause_credit(False)
    peer.answered()
    assert limits_told(peer) == [(1, 20)]


@pytest.mark.sentence("1.0/2.6.7-3", "1.0/2.7.4-4")
def test_a_flow_that_asks_for_the_links_state_is_answered() -> None:
    peer = receiving(10)
    peer.deliver(message(), message(), message())
    (flow,) = peer.send(credit(10, 1, echo=True, next_incoming_id=1, incoming_window=9))
    assert (flow.handle, flow.delivery_count, flow.link_credit, flow.drain) == (0, 3, 8, False)
    assert (flow.next_outgoing_id, flow.next_incoming_id) == (3, 0)


def test_links_have_their_own_credit() -> None:
    peer = begun(receiver(0), receiver(1))
    peer.send(credit(3), credit(8, handle=1))
    assert limits_told(peer) == [(1, 3), (2, 8)]
    found = peer.deliver(message(), consumer=2) + peer.deliver(message())
    assert [(one.handle, one.delivery_id, one.delivery_tag) for one in found] == [
        (1, 0, b"\0\0\0\0"), (0, 1, b"\0\0\0\0"),
    ]  # fmt: skip


# -- frames -----------------------------------------------------------------------------------------


@pytest.mark.requirement("B5.2", "B5.4", "B5.6")
@pytest.mark.sentence("1.0/2.7.5-6", "1.0/2.7.5-7", "1.0/2.7.5-11")
@pytest.mark.parametrize("mode", SenderSettleMode)
def test_deliveries_are_settled_or_not_as_the_link_has_it(mode: SenderSettleMode) -> None:
    peer = receiving(snd_settle_mode=mode)
    presettled = mode is SenderSettleMode.SETTLED
    (one,) = peer.deliver(message())
    assert one == d.Transfer(0, 0, b"\0\0\0\0", 0, presettled)
    assert peer.session().outgoing.unsettled.count == (0 if presettled else 1)
    outgoing = peer.session().outgoing
    assert (outgoing.sent, outgoing.sent_presettled) == (1, int(presettled))


@pytest.mark.requirement("B5.12")
@pytest.mark.sentence(
    "1.0/2.6.12-1", "1.0/2.6.14-1", "1.0/2.7.5-1", "1.0/2.7.5-2", "1.0/2.7.5-3", "1.0/2.7.5-6", "1.0/2.7.5-7"
)
@pytest.mark.parametrize("mode", SenderSettleMode)
def test_the_first_frame_of_a_delivery_identifies_it_and_every_frame_is_settled_alike(
    mode: SenderSettleMode,
) -> None:
    peer = begun(receiver(snd_settle_mode=mode), credit(99), max_frame_size=512)
    frames = peer.deliver(message(body=b"x" * 2000), message(body=b"y" * 2000))
    assert len(frames) == 10 and {one.settled for one in frames} == {mode is SenderSettleMode.SETTLED}
    assert [one.more for one in frames] == [True, True, True, True, False] * 2, "one after the other"
    for first in (frames[0], frames[5]):
        assert None not in (first.delivery_id, first.delivery_tag, first.message_format)
    assert frames[0].delivery_id != frames[5].delivery_id


@pytest.mark.sentence("1.0/2.6.12-2")
def test_delivery_tags_of_a_link_are_unique() -> None:
    peer = receiving(1000)
    tags = [one.delivery_tag for one in peer.deliver(*[message()] * 600)]
    peer.send(settled(0, 299, ACCEPTED))
    tags += [one.delivery_tag for one in peer.deliver(*[message()] * 300, first=601)]
    assert len(set(tags)) == 900 and None not in tags


@pytest.mark.requirement("B3.2", "B5.12", "B5.15")
@pytest.mark.sentence("1.0/2.4.1-2", "1.0/2.7.1-2")
@pytest.mark.parametrize("size", [512, 4096])
@pytest.mark.parametrize("octets", [0, 400, 512, 5000, 100_000])
def test_frames_are_cut_to_the_peers_max_frame_size(size: int, octets: int) -> None:
    peer = begun(receiver(), credit(99), max_frame_size=size)
    messages = [message(body=bytes([n]) * octets) for n in range(3)] + [message(), b""]
    peer.deliver(*messages)
    assert payloads(peer) == messages
    transfers = [frame for frame in peer.frames if isinstance(frame.performative, d.Transfer)]
    assert all(frame.end - frame.begin <= size for frame in transfers)
    ids: list[Any] = [getattr(frame.performative, "delivery_id", None) for frame in transfers]
    assert [one for one in ids if one is not None] == [0, 1, 2, 3, 4]
    assert peer.session().outgoing.next_id == len(transfers)
    if octets == 100_000:
        full = [frame.end - frame.begin for frame in transfers if getattr(frame.performative, "more", False)]
        assert min(full) >= size - 16, "frames are as full as they can be"


@pytest.mark.sentence("1.0/2.7.1-2")
@pytest.mark.parametrize("length", range(440, 480))
def test_messages_about_as_long_as_a_frame_arrive(length: int) -> None:
    peer = begun(receiver(), credit(99), max_frame_size=512)
    sent = [b"\0\x53\x75\xb0" + (length - 8).to_bytes(4, "big") + b"x" * (length - 8), message()]
    peer.deliver(*sent)
    assert payloads(peer) == sent
    assert all(frame.end - frame.begin <= 512 for frame in peer.frames)


def test_runs_with_octets_to_skip_and_of_equal_lengths_are_sent_alike() -> None:
    peer = receiving()
    peer.deliver_run(run_of(message(body=b"1"), message(body=b"22"), skip=b"to skip"))
    whole = message(body=b"three")
    run = run_of(whole, whole)
    peer.deliver_run(
        Run("", "q", 0, True, 2, 0, len(whole), None, len(whole), memoryview(run.raw), False, run.format), 3
    )
    peer.reads()
    assert payloads(peer) == [message(body=b"1"), message(body=b"22"), whole, whole]


# -- the window of the session ----------------------------------------------------------------------


def windowed(size: int, *more: Any, **fields: Any) -> Peer:
    """A peer with a receiving link, credit, and this window."""
    flow = credit(1000, incoming_window=size)
    return begun(receiver(), flow, *more, begins={"incoming_window": size}, **fields)


@pytest.mark.requirement("B3.8")
@pytest.mark.sentence("1.0/2.5.6-1")
def test_deliveries_wait_for_the_window_of_the_session() -> None:
    peer = windowed(3)
    messages = [message(body=b"%d" % n) for n in range(10)]
    assert len(peer.deliver(*messages[:2])) == 2
    assert len(peer.deliver(*messages[2:], first=3)) == 1
    assert peer.outgoing().waiting and peer.connection.held > 100
    assert peer.deliver(message(body=b"last"), first=11) == []
    peer.taken(Credit)
    assert len(peer.send(window(3, 3))) == 3
    assert len(peer.send(window(3, 5))) == 2, "counted from the peer's next-incoming-id on"
    assert limits_told(peer) == [], "no credit while deliveries wait"
    assert len(peer.send(window(1000, 8))) == 3
    assert payloads(peer) == [*messages, message(body=b"last")]
    assert limits_told(peer) == [(1, 1000)] and not peer.outgoing().waiting
    assert peer.send(window(0, 11)) == []
    peer.send(settled(0, 10, ACCEPTED))
    assert peer.taken(SettleEffect)[0].ranges == [(1, 11)]


@pytest.mark.requirement("B3.8")
@pytest.mark.sentence("1.0/2.5.6-1")
def test_every_frame_of_a_delivery_waits_for_the_window() -> None:
    peer = windowed(2, max_frame_size=512)
    messages = [message(body=b"a" * 2000), message(), message(body=b"b" * 600)]
    assert len(peer.deliver(*messages)) == 2
    sent = 2
    for _ in range(4):
        assert len(peer.send(window(1, sent))) == 1
        sent += 1
    assert len(peer.send(window(100, sent))) == 2
    assert payloads(peer) == messages
    assert peer.connection.sessions.numbered(1) is not None
    ids = [frame.performative for frame in peer.frames if isinstance(frame.performative, d.Transfer)]
    assert [one.delivery_id for one in ids] == [0, None, None, None, None, 1, 2, None]


def test_the_window_of_the_session_begins_again_at_0() -> None:
    peer = windowed(2)
    peer.session().outgoing.next_id = 2**32 - 1
    peer.session().outgoing.limit = 2**32 + 1
    assert len(peer.deliver(*[message()] * 5)) == 2
    assert len(peer.send(window(2, 1, echo=True))) == 3
    assert peer.last.next_outgoing_id == 3


@pytest.mark.parametrize("number", [2**31, 2**32 - 1, 2**31 - 1])
def test_a_window_from_nowhere_does_no_harm(number: int) -> None:
    peer = windowed(2)
    peer.deliver(*[message()] * 5)
    sent = len(payloads(peer))
    peer.send(window(0, number))
    peer.send(window(2**32 - 1, number))
    assert len(payloads(peer)) in (sent, 5)
    peer.send(window(100, len(payloads(peer))))
    assert len(payloads(peer)) == 5


def test_links_share_the_window_in_the_order_of_their_deliveries() -> None:
    peer = windowed(1, receiver(1), credit(9, handle=1, incoming_window=1))
    peer.deliver(message(body=b"1"), message(body=b"2"))
    peer.deliver(message(body=b"3"), consumer=2)
    assert peer.send(window(9, 1)) and payloads(peer) == [message(body=b"%d" % n) for n in (1, 2, 3)]


# -- what waits at the end --------------------------------------------------------------------------


def given_back(peer: Peer) -> list[int]:
    """The sequence numbers that the machine has returned, which are never returned twice."""
    ranges = [one for effect in peer.taken(SettleEffect) for one in effect.ranges]
    ranges += [
        one for effect in peer.effects if hasattr(effect, "unsettled") for _, all in effect.unsettled
        for one in all
    ]  # fmt: skip
    found = sorted(n for first, last in ranges for n in range(first, last + 1))
    assert all(one < other for one, other in pairwise(found))
    return found


ENDS = [d.Detach(0, True), d.End(), d.Close(), d.Detach(9), d.Begin(0, 1, 1)]


@pytest.mark.parametrize("end", ENDS, ids=["detach", "end", "close", "session-error", "connection-error"])
@pytest.mark.parametrize("sent", [0, 1, 3, 6])
def test_deliveries_that_wait_are_given_back_with_those_that_were_sent(end: Any, sent: int) -> None:
    peer = windowed(sent, max_frame_size=512)
    messages = [message(), message(body=b"x" * 1000), message(), message()]
    peer.deliver(*messages)
    assert peer.session().outgoing.next_id == sent
    peer.effects.clear()
    peer.send(end)
    assert given_back(peer) == [1, 2, 3, 4]
    assert peer.connection.held < 30_000


def test_presettled_deliveries_that_wait_are_not_given_back() -> None:
    """The queue has none of them any more."""
    peer = begun(
        receiver(snd_settle_mode=SenderSettleMode.SETTLED), credit(9, incoming_window=1),
        begins={"incoming_window": 1},
    )  # fmt: skip
    assert len(peer.deliver(message(), message())) == 1
    peer.send(d.Detach(0))
    assert given_back(peer) == [] and peer.connection.held < 30_000


def test_deliveries_of_other_links_wait_on() -> None:
    peer = windowed(1, receiver(1), credit(9, handle=1, incoming_window=1))
    peer.deliver(message(body=b"1"), message(body=b"2"))
    peer.deliver(message(body=b"3"), message(body=b"4"), first=50, consumer=2)
    peer.effects.clear()
    peer.send(d.Detach(0))
    assert given_back(peer) == [1, 2] and len(peer.taken(EndConsumer)) == 1
    peer.send(window(9, 1))
    assert payloads(peer) == [message(body=b"1"), message(body=b"3"), message(body=b"4")]
    peer.send(d.End())
    assert given_back(peer) == [50, 51] and peer.taken(SessionEnded)[0].awaited


def test_a_session_with_many_small_runs_holds_little_memory() -> None:
    peer = receiving(5000, rcv_settle_mode=ReceiverSettleMode.FIRST)
    before = peer.connection.held
    for number in range(1, 2001):
        peer.deliver(message(), first=number)
    assert peer.connection.held - before < 1000, "consecutive deliveries are one record"
    peer.send(octets_of(*(settled(number, None, ACCEPTED) for number in range(0, 2000, 2))))
    peer.send(settled(0, 2000, ACCEPTED))
    assert peer.connection.held == before and peer.session().outgoing.settled == 2000


# -- the peer's max-message-size --------------------------------------------------------------------

SMALL, LARGE = message(body=b"x" * 10), message(body=b"x" * 200)
LIMIT = len(SMALL)


def settled_by_node(peer: Peer) -> list[tuple[Outcome, list[tuple[int, int]]]]:
    return [(one.outcome, one.ranges) for one in peer.taken(SettleEffect)]


def test_a_message_that_is_larger_than_the_peer_accepts_ends_the_link() -> None:
    """Messages in front of it are sent; it counts as failed, and those behind it are not delivered."""
    peer = begun(receiver(max_message_size=LIMIT), credit(10))
    detach = peer.deliver(SMALL, SMALL, LARGE, SMALL, first=5)[-1]
    assert payloads(peer) == [SMALL, SMALL]
    assert isinstance(detach, d.Detach) and detach.closed
    assert detach.error is not None and detach.error.condition == "amqp:link:message-size-exceeded"
    assert settled_by_node(peer) == [
        (Outcome.LOST, [(7, 7)]), (Outcome.RELEASED, [(8, 8)]), (Outcome.LOST, [(5, 6)]),
    ]  # fmt: skip
    assert len(peer.taken(EndConsumer)) == 1
    assert peer.deliver(SMALL, first=9) == []
    assert settled_by_node(peer) == [(Outcome.RELEASED, [(9, 9)])]


@pytest.mark.parametrize(("size", "limit"), [(200, 0), (200, None), (10, LIMIT)])
def test_messages_up_to_the_max_message_size_are_sent(size: int, limit: int | None) -> None:
    """0, like no value at all, is no limit (section 2.7.3)."""
    peer = begun(receiver(max_message_size=limit), credit(10))
    fitting = message(body=b"x" * size)
    peer.deliver(fitting, fitting)
    assert payloads(peer) == [fitting, fitting]


def test_the_limit_is_for_a_message_as_it_is_sent() -> None:
    """RabbitMQ's clients get annotations that the message did not have."""
    peer = begun(receiver(max_message_size=len(SMALL), properties={"paired": True}), credit(10))
    (detach,) = peer.deliver(SMALL)
    assert isinstance(detach, d.Detach)


def test_a_presettled_link_gives_nothing_back() -> None:
    """The queue has removed the messages before."""
    peer = begun(receiver(max_message_size=LIMIT, snd_settle_mode=SenderSettleMode.SETTLED), credit(10))
    peer.deliver(SMALL, LARGE, SMALL)
    assert payloads(peer) == [SMALL] and settled_by_node(peer) == []
    assert len(peer.taken(EndConsumer)) == 1
