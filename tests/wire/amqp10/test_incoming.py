"""Transfers of the peer: credit, deliveries of several frames, runs of publishes (part 2, sections 2.6.7,
2.6.12 to 2.6.14).
"""

from __future__ import annotations

from typing import Any

import pytest

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import AmqpCondition, LinkCondition
from node.wire.amqp10.effects import PublishEffect
from node.wire.amqp10.limits import ConnectionLimits
from tests.wire.amqp10.peer import ANSWERED, Peer, begun, error_in, transfer
from tests.wire.amqp10.performatives import octets_of, sender
from tests.wire.amqp10.sections import annotated, data, message

SMALL = ConnectionLimits(link_credit=4, message_size=100)
SENDERS = d.Disposition(d.Role.SENDER, 1, settled=True)
PASSING = d.Header(durable=False).encode()


def bodies(peer: Peer) -> list[bytes]:
    """The messages that were published."""
    return [one for effect in peer.taken(PublishEffect) for one in effect.run.contents()]


def published(peer: Peer) -> list[tuple[int, int]]:
    """The first tag and the number of messages of each run."""
    return [(one.first_tag, one.run.count) for one in peer.taken(PublishEffect)]


def sending(*attaches: d.Attach, limits: ConnectionLimits | None = None) -> Peer:
    peer = begun(*(attaches or (sender(),)), limits=limits)
    peer.effects.clear()
    return peer


# -- runs -------------------------------------------------------------------------------------------


def test_frames_that_are_alike_make_one_publish() -> None:
    peer = sending()
    messages = [message(body=b"m%03d" % n) for n in range(100)]
    octets = [transfer(n + 1, one, delivery_tag=b"%04d" % n) for n, one in enumerate(messages)]
    assert peer.send(*octets) == []
    (effect,) = peer.effects
    run = effect.run
    assert (effect.session, effect.first_tag, run.count) == (1, 2, 100)
    assert (run.exchange, run.routing_key, run.persistent, run.special) == ("", "q", True, False)
    assert list(run.contents()) == messages and run.largest_frame == len(octets[0])
    assert (run.lengths, run.stride) == (None, len(octets[0])) and len(run.raw) == 100 * run.stride


def test_a_run_of_the_whole_input_is_the_input() -> None:
    peer = sending()
    octets = b"".join(transfer(n, delivery_tag=b"t") for n in range(1, 9))
    peer.feed(octets)
    assert peer.effects[0].run.raw is octets


@pytest.mark.parametrize(
    ("frames", "runs"),
    [
        ([transfer(1), transfer(2, message(PASSING)), transfer(3, message(PASSING))], [(2, 1), (3, 2)]),
        ([transfer(1), transfer(2, settled=True), transfer(3, settled=True)], [(2, 1), (0, 2)]),
        ([transfer(1), transfer(2, handle=1), transfer(3)], [(2, 1), (3, 1), (4, 1)]),
        ([transfer(1), octets_of(SENDERS), transfer(2)], [(2, 1), (3, 1)]),
        ([transfer(1), transfer(2, b"", aborted=True), transfer(3)], [(2, 1), (4, 1)]),
        ([transfer(1), transfer(2, delivery_tag=b"longer"), transfer(3)], [(2, 1), (3, 1), (4, 1)]),
        ([transfer(1), transfer(2, data(b"a"), more=True), transfer(None, data(b"b"))], [(2, 1), (3, 1)]),
    ],
    ids=["durability", "settled", "links", "disposition", "aborted", "tags", "multi-frame"],
)  # fmt: skip
def test_frames_that_differ_make_several_publishes_in_their_order(
    frames: list[bytes], runs: list[tuple[int, int]]
) -> None:
    peer = sending(sender(0), sender(1))
    assert peer.send(*frames) == []
    assert published(peer) == runs


def test_runs_end_with_their_input() -> None:
    peer = sending()
    octets = transfer(1)
    for _ in range(2):
        peer.feed(octets)
        octets = transfer(2)
    assert published(peer) == [(2, 1), (3, 1)]


def test_runs_do_not_depend_on_where_the_input_is_cut() -> None:
    octets = b"".join(transfer(n, message(body=b"%d" % n)) for n in range(1, 8))
    for cut in range(1, len(octets)):
        peer = sending()
        peer.send(octets[:cut])
        peer.send(octets[cut:])
        assert bodies(peer) == [message(body=b"%d" % n) for n in range(1, 8)]


# -- credit -----------------------------------------------------------------------------------------


@pytest.mark.requirement("B8.2")
@pytest.mark.sentence("1.0/2.7.4-5")
def test_credit_is_renewed_when_half_of_it_is_used_up() -> None:
    peer = sending(sender(initial_delivery_count=2**32 - 2), limits=SMALL)
    assert (peer.last.delivery_count, peer.last.link_credit) == (2**32 - 2, 4)
    assert peer.send(transfer(1)) == []
    (flow,) = peer.send(transfer(2))
    assert (flow.handle, flow.delivery_count, flow.link_credit) == (0, 0, 4), "the count begins again at 0"
    (flow,) = peer.send(transfer(3), transfer(4), transfer(5), transfer(6))
    assert (flow.delivery_count, flow.link_credit) == (4, 4)


@pytest.mark.requirement("B8.2")
@pytest.mark.sentence("1.0/2.6.5-1")
@pytest.mark.parametrize("more", [False, True])
def test_a_delivery_without_credit_detaches_the_link(more: bool) -> None:
    peer = sending(limits=SMALL)
    peer.send(sender(1))
    rest = [transfer(None, more=True), transfer(None)] if more else []
    within, beyond = [transfer(n) for n in range(1, 5)], [transfer(5, more=more), *rest]
    (detach,) = peer.send(*within, *beyond, transfer(6), transfer(7, handle=1))
    assert (detach.handle, detach.closed) == (0, True)
    assert error_in(detach, d.Detach).condition == LinkCondition.TRANSFER_LIMIT_EXCEEDED
    assert published(peer) == [(2, 4), (8, 1)], "the other link, and its session, go on"
    assert peer.session().incoming.partial_octets == 0
    assert peer.send(d.Detach(0, True)) == []


def test_a_delivery_before_the_link_is_attached_has_no_credit() -> None:
    peer = begun(answers=frozenset())
    peer.send(sender())
    attach, detach = peer.send(transfer(1), transfer(2, more=True), transfer(None))
    assert attach.target is None
    assert error_in(detach, d.Detach).condition == LinkCondition.TRANSFER_LIMIT_EXCEEDED
    assert not peer.taken(PublishEffect)


@pytest.mark.sentence("1.0/2.7.4-5")
def test_credit_that_the_sender_uses_up_itself_is_renewed() -> None:
    peer = sending(limits=SMALL)
    flow = d.Flow(100, 0, 100, 0, 0, delivery_count=3, link_credit=1, echo=True)
    echo, renewed = peer.send(flow)
    assert (echo.delivery_count, echo.link_credit) == (3, 1)
    assert (renewed.delivery_count, renewed.link_credit) == (3, 4)
    flow.delivery_count, flow.echo = 2, False
    assert peer.send(flow) == [] and peer.incoming().delivery_count == 3, "a count never goes back"
    flow.delivery_count = 2**31
    peer.send(flow)
    assert peer.incoming().credit == 4 and peer.incoming().delivery_count == 2**31


def test_an_alarm_keeps_credit_back_until_it_is_over() -> None:
    peer = sending(limits=SMALL)
    sessions = peer.connection.sessions
    sessions.alarm(True)
    assert peer.send(transfer(1), transfer(2), transfer(3)) == []
    attach = peer.send(sender(1))
    assert [type(one) for one in attach] == [d.Attach]
    sessions.alarm(False)
    assert [(one.handle, one.link_credit) for one in peer.reads()] == [(0, 4), (1, 4)]


def test_unsettled_deliveries_keep_credit_back() -> None:
    peer = sending(limits=ConnectionLimits(link_credit=10, unconfirmed=4))
    assert peer.send(*(transfer(n) for n in range(1, 7))) == []
    peer.connection.sessions.decided(1, 2, 3, d.Accepted())
    assert [type(one) for one in peer.reads()] == [d.Disposition, d.Flow]
    assert peer.session().incoming.unconfirmed == 4


# -- several frames ---------------------------------------------------------------------------------


def cut(delivery_id: int, whole: bytes, size: int, **fields: Any) -> list[bytes]:
    """The frames of a delivery, each with so many octets of it."""
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    last = len(pieces) - 1
    return [
        transfer(None if n else delivery_id, one, more=n < last, **({} if n else fields))
        for n, one in enumerate(pieces)
    ]


@pytest.mark.requirement("B5.11")
@pytest.mark.sentence("1.0/2.7.5-4", "1.0/2.7.5-5")
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_delivery_may_come_in_several_frames(size: int) -> None:
    peer = sending(limits=ConnectionLimits(incoming_window=1 << 20))
    whole = message(body=b"x" * 500)
    for frame in cut(1, whole, size):
        peer.send(frame)
    (effect,) = peer.effects
    assert list(effect.run.contents()) == [whole] and effect.first_tag == 2
    assert peer.session().incoming.partial_octets == 0
    assert peer.session().incoming.next_id == len(cut(1, whole, size))


@pytest.mark.requirement("B5.14")
def test_a_message_may_be_larger_than_any_frame() -> None:
    peer = sending(limits=ConnectionLimits(max_frame_size=4096))
    whole = message(body=bytes(range(256)) * 4096)
    assert peer.send(*cut(1, whole, 4000)) == [] or peer.last.handle is None
    assert bodies(peer) == [whole]


@pytest.mark.requirement("B5.11")
def test_deliveries_of_several_links_may_alternate_frame_by_frame() -> None:
    peer = sending(sender(0), sender(1))
    first, second = message(body=b"1" * 30), message(body=b"2" * 30)
    peer.send(
        transfer(1, first[:9], more=True), transfer(2, second[:9], 1, more=True),
        transfer(1, first[9:20], more=True), transfer(None, second[9:], 1), transfer(None, first[20:]),
    )  # fmt: skip
    assert bodies(peer) == [second, first]


@pytest.mark.requirement("B5.13")
@pytest.mark.sentence("1.0/2.6.14-2", "1.0/2.7.5-13")
def test_an_aborted_delivery_is_forgotten() -> None:
    peer = sending(limits=SMALL)
    assert peer.send(transfer(1, b"x" * 50, more=True), transfer(None, b"x" * 40, more=True)) == []
    assert peer.session().incoming.partial_octets == 90
    assert peer.send(transfer(None, b"x" * 90, aborted=True)) == []
    assert peer.session().incoming.partial_octets == 0 and peer.session().incoming.unconfirmed == 0
    (flow,) = peer.send(transfer(2))
    assert (flow.delivery_count, flow.link_credit) == (2, 4), "it has used up credit"
    assert published(peer) == [(3, 1)]
    assert peer.send(transfer(3, b"", more=True, aborted=True), transfer(4))[0].link_credit == 4


@pytest.mark.requirement("B5.1")
@pytest.mark.sentence("1.0/2.7.5-5")
@pytest.mark.parametrize(("first", "last"), [(True, None), (None, True), (False, True)])
def test_the_last_frame_may_settle_the_delivery(first: bool | None, last: bool | None) -> None:
    peer = sending()
    peer.send(transfer(1, data(b"a"), more=True, settled=first), transfer(None, data(b"b"), settled=last))
    assert published(peer) == [(0, 1)] and peer.session().incoming.unconfirmed == 0


@pytest.mark.sentence("1.0/2.6.14-1")
@pytest.mark.parametrize(
    "frame", [transfer(2, data(b"b")), transfer(None, data(b"b"), delivery_tag=b"other"), transfer(0)]
)
def test_a_transfer_of_another_delivery_within_one_ends_the_session(frame: bytes) -> None:
    peer = sending()
    (end,) = peer.send(transfer(1, data(b"a"), more=True), frame)
    assert error_in(end, d.End).condition == AmqpCondition.INVALID_FIELD
    assert peer.session().held == 0


@pytest.mark.sentence("1.0/2.6.13-1", "1.0/2.7.5-10")
@pytest.mark.parametrize("frames", ["one", "row", "several"])
def test_a_resumed_delivery_is_ignored(frames: str) -> None:
    """The node knows no delivery of an earlier attach, and takes no message twice (section 2.7.5)."""
    peer = sending(limits=SMALL)
    if frames == "several":
        octets = message(body=b"again" * 9)
        sent = [transfer(1, octets[:5], more=True, resume=True), transfer(None, octets[5:50], more=True)]
        assert peer.send(*sent) == [] and peer.session().incoming.partial_octets == 0
        peer.send(transfer(None, octets[50:]))
    else:
        peer.send(*(transfer(n, resume=True) for n in range(1, 4 if frames == "row" else 2)))
    assert not peer.taken(PublishEffect) and peer.session().incoming.unconfirmed == 0
    following = peer.incoming().delivery_count + 1
    peer.send(transfer(following))
    assert published(peer) == [(following + 1, 1)], "the delivery-ids go on"


# -- delivery ids -----------------------------------------------------------------------------------


def test_delivery_ids_begin_again_at_0() -> None:
    peer = sending()
    peer.send(*(transfer(number % 2**32) for number in range(2**32 - 3, 2**32 + 3)))
    tags = [tag + n for tag, count in published(peer) for n in range(count)]
    assert tags == list(range(2**32 - 2, 2**32 + 4))
    peer.connection.sessions.decided(1, tags[0], tags[-1], d.Accepted())
    (told,) = peer.reads()
    assert (told.first, told.last, told.settled) == (2**32 - 3, 2, True)


@pytest.mark.parametrize("number", [0, 1, 2, 4, 2**31, 2**32 - 1])
def test_a_gap_in_the_delivery_ids_ends_the_session(number: int) -> None:
    peer = sending()
    (end,) = peer.send(transfer(1), transfer(2), transfer(number))
    assert error_in(end, d.End).condition == AmqpCondition.INVALID_FIELD
    assert sum(count for _, count in published(peer)) == 2


# -- messages that are refused ----------------------------------------------------------------------

BROKEN = [b"x", b"\0\x53\x75", data(b"a")[:-1], data(b"a") + PASSING, message() + b"\0"]


@pytest.mark.sentence("1.0/2.6.5-1")
@pytest.mark.parametrize("octets", BROKEN)
@pytest.mark.parametrize("frames", [1, 2])
def test_malformed_sections_detach_the_link(octets: bytes, frames: int) -> None:
    peer = sending(sender(0), sender(1))
    sent = [transfer(2, octets)] if frames == 1 else [transfer(2, octets, more=True), transfer(None, b"")]
    (detach,) = peer.send(transfer(1), *sent, transfer(3), transfer(4, handle=1))
    assert (detach.handle, detach.closed) == (0, True)
    assert error_in(detach, d.Detach).condition == AmqpCondition.DECODE_ERROR
    assert published(peer) == [(2, 1), (5, 1)]


@pytest.mark.sentence("1.0/2.6.5-1")
@pytest.mark.parametrize("size", [50, 500])
def test_a_message_that_is_too_large_detaches_the_link(size: int) -> None:
    peer = sending(sender(0), sender(1), limits=SMALL)
    frames = cut(1, message(body=b"x" * 300), size)
    (detach,) = peer.send(*frames, transfer(2), transfer(3, handle=1))
    assert error_in(detach, d.Detach).condition == LinkCondition.MESSAGE_SIZE_EXCEEDED
    assert published(peer) == [(4, 1)] and peer.session().incoming.partial_octets == 0
    assert peer.send(d.Detach(0)) == []
    peer.send(sender(0))
    peer.send(transfer(4))
    assert published(peer) == [(5, 1)]


@pytest.mark.sentence("1.0/3.2.10-2")
def test_annotations_that_the_node_does_not_know_are_no_matter() -> None:
    peer = sending()
    sent = [message(annotated(x_opt_vendor="secret")), message(annotated(x_opt_vendor=1, x_other=[2]))]
    assert peer.send(transfer(1, sent[0]), transfer(2, sent[1])) == []
    assert bodies(peer) == sent


def test_a_message_without_a_body_is_taken() -> None:
    """Clients send them, though the format demands a body."""
    peer = sending()
    assert peer.send(transfer(1, b""), transfer(2, PASSING)) == []
    assert bodies(peer) == [b"", PASSING]


def test_a_message_of_the_largest_size_is_taken() -> None:
    for size in (10, 100):
        peer = sending(limits=ConnectionLimits(message_size=100))
        whole = message(body=b"x" * (100 - len(message(body=b""))))
        assert len(whole) == 100 and peer.send(*cut(1, whole, size)) == [] and bodies(peer) == [whole]


# -- anonymous targets ------------------------------------------------------------------------------


def to(address: str | None) -> bytes:
    return message(d.Properties(to=address).encode())


def test_messages_to_an_anonymous_target_name_their_addresses() -> None:
    peer = sending(sender(0, None))
    sent = ["/queues/a", "/queues/a", "/exchanges/e/k", "a", "/exchanges/e/k2"]
    peer.send(*(transfer(n + 1, to(address)) for n, address in enumerate(sent)))
    found = [(one.run.exchange, one.run.routing_key, one.run.count) for one in peer.taken(PublishEffect)]
    assert found == [("", "a", 2), ("e", "k", 1), ("", "a", 1), ("e", "k2", 1)]


@pytest.mark.parametrize("address", [None, "/nowhere", "/exchanges/"])
def test_a_message_to_no_address_detaches_the_link(address: str | None) -> None:
    peer = sending(sender(0, None))
    (detach,) = peer.send(transfer(1, to("a")), transfer(2, to(address)))
    assert error_in(detach, d.Detach).condition == AmqpCondition.INVALID_FIELD
    assert published(peer) == [(2, 1)]


# -- held input -------------------------------------------------------------------------------------


def test_input_waits_while_the_way_to_a_queue_is_full() -> None:
    peer = begun(sender(), answers=ANSWERED)
    sessions = peer.connection.sessions
    sessions.holding.add(1)
    assert peer.send(transfer(1), transfer(2)) == [] and peer.connection.waits
    peer.send(transfer(3))
    assert not peer.taken(PublishEffect)
    assert peer.connection.held > 300
    sessions.holding.clear()
    peer.connection.go_on()
    peer.answered()
    assert sum(count for _, count in published(peer)) == 3
