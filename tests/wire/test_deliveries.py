"""Deliveries, settlement, prefetch and credit (A17, A18, A21, A22)."""

from __future__ import annotations

from array import array
from struct import unpack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.message.run import Run
from node.ranges.range_set import count_of
from node.wire.amqp091 import effects as e
from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import contents
from node.wire.amqp091.limits import ConnectionLimits
from node.wire.amqp091.primitives import Method
from tests.wire.client import (
    PERSISTENT,
    Client,
    accepted,
    content,
    frames,
    header,
    opened,
    publish,
    rejected,
    released,
    returned,
    run_of,
    split,
)


def consuming(prefetch: int = 0, *, no_ack: bool = False, limits: ConnectionLimits | None = None) -> Client:
    client = opened(1, limits=limits)
    if prefetch:
        client.send((1, m.BasicQos(0, prefetch)))
    client.consume(no_ack=no_ack)
    client.output()
    client.effects.clear()
    return client


def deliveries(client: Client) -> list[m.BasicDeliver]:
    return [method for method in client.methods() if isinstance(method, m.BasicDeliver)]


# -- what is sent -------------------------------------------------------------------------------


@pytest.mark.requirement("A17.4", "A21.2", "A21.3")
@pytest.mark.parametrize("channel", [1, 513])
@pytest.mark.parametrize("bodies", [[b"x" * 256] * 50, [b"x" * n for n in range(50)], [b""] * 9, [b"one"]])
def test_what_was_published_is_delivered(channel: int, bodies: list[bytes]) -> None:
    """Header and body frames go out as they came, save the channel number."""
    client = opened(1, 513)
    client.consume()
    sent = b"".join(publish(channel, body, exchange="e", key="k", properties=PERSISTENT) for body in bodies)
    runs = [effect.run for effect in client.send(sent) if isinstance(effect, e.PublishEffect)]
    first = 100
    for run in runs:
        client.deliver(7, run, first, False)
        first += run.count
    found = client.output()
    expected = []
    for number, body in enumerate(bodies, 1):
        expected.append((1, 1, m.BasicDeliver("t", number, False, "e", "k")))
        expected.append((2, 1, header(len(body), PERSISTENT)))
        expected += [(3, 1, body)] if body else []
    assert found == expected


@pytest.mark.requirement("A7.4")
def test_bodies_are_cut_again_for_a_client_with_smaller_frames() -> None:
    client = Client()
    client.negotiate(tune_ok=m.ConnectionTuneOk(0, 4096, 0))
    client.open_channel(1)
    client.consume()
    body = bytes(range(256)) * 40
    client.deliver(7, run_of([body, b"small"], channel=3), 1, True)
    found = client.output()
    assert [len(payload) for kind, _, payload in found if kind == 3] == [4088, 4088, 2064, 5]
    assert b"".join(payload for kind, _, payload in found if kind == 3) == body + b"small"
    assert all(channel == 1 for _, channel, _ in found)
    method = found[0][2]
    assert isinstance(method, m.BasicDeliver) and method.redelivered


@given(
    st.lists(st.tuples(st.binary(max_size=40), st.integers(1, 50)), min_size=1, max_size=6),
    st.sampled_from([1, 258]),
    st.sampled_from([18, 30, 4096]),
    st.integers(0, 9),
    st.booleans(),
)
def test_contents_keep_their_octets(
    messages: list[tuple[bytes, int]], channel: int, frame_max: int, skip: int, as_view: bool
) -> None:
    """Any cut of the bodies, any channel, any frame size, with and without the method frame in front."""
    whole = [content(1, body, piece=piece) for body, piece in messages]
    lengths = array("I", [len(one) + skip for one in whole])
    raw: bytes | memoryview = b"".join(b"m" * skip + one for one in whole)
    uniform = len(set(lengths)) == 1
    largest = max(len(frame) for one in whole for frame in split(one))
    run = Run(
        "", "q", 1, False, len(whole), skip, lengths[0] if uniform else 0, None if uniform else lengths,
        largest, memoryview(raw) if as_view else raw,
    )  # fmt: skip
    frame_max = max(frame_max, 22)
    found = list(contents(run, channel, frame_max))
    assert len(found) == len(messages)
    for (body, piece), one in zip(messages, found, strict=True):
        (head, *parts) = frames(one)
        assert head == (2, channel, header(len(body)))
        assert all(part[:2] == (3, channel) for part in parts)
        assert b"".join(part[2] for part in parts) == body
        assert all(len(frame) <= frame_max for frame in split(one))
        if largest <= frame_max:
            assert [len(part[2]) for part in parts] == [
                len(body[at : at + piece]) for at in range(0, len(body), piece)
            ]


def test_slices_of_runs_are_delivered() -> None:
    client = consuming()
    run = run_of([bytes([n]) for n in range(100)])
    client.deliver(7, run.slice(10, 5), 10, False)
    client.deliver(7, run.slice(40, 1), 40, False)
    bodies = [payload for kind, _, payload in client.output() if kind == 3]
    assert bodies == [b"\x0a", b"\x0b", b"\x0c", b"\x0d", b"\x0e", b"\x28"]


def test_delivery_tags_are_beyond_32_bits() -> None:
    client = consuming(no_ack=True)
    channel = client.connection.life.channels[1]
    channel.deliveries._next_tag = 2**40
    client.deliver(7, run_of([b"a", b"b"]), 1, False)
    assert [one.delivery_tag for one in deliveries(client)] == [2**40, 2**40 + 1]


# -- settlement ---------------------------------------------------------------------------------


@pytest.mark.requirement("A17.9", "A17.10")
def test_settlements_are_merged() -> None:
    client = consuming(200)
    for start in range(1000, 1100, 10):
        client.deliver(7, run_of([b"x"] * 10), start, False)
    assert client.send((1, m.BasicAck(50, True))) == [accepted(1, 7, [(1000, 1049)]), e.Credit(7, 250)]
    one_by_one = [(1, m.BasicAck(tag)) for tag in range(51, 71)]
    assert client.send(*one_by_one) == [accepted(1, 7, [(1050, 1069)]), e.Credit(7, 270)]
    out_of_order = [(1, m.BasicAck(tag)) for tag in (73, 71, 72, 75)]
    assert client.send(*out_of_order)[:2] == [
        accepted(1, 7, [(1070, 1072), (1074, 1074)]), e.Credit(7, 274),
    ]  # fmt: skip
    each_with_all_before = [(1, m.BasicAck(tag, True)) for tag in range(76, 81)]
    assert client.send(*each_with_all_before) == [
        accepted(1, 7, [(1073, 1073), (1075, 1079)]), e.Credit(7, 280),
    ]  # fmt: skip


def test_settling_publishing_and_asking_keep_their_order() -> None:
    client = consuming()
    client.deliver(7, run_of([b"x"] * 10), 1, False)
    effects = client.send(
        (1, m.BasicAck(1)), publish(1, b"reply"), (1, m.BasicAck(2)), (1, m.QueuePurge("q")),
    )  # fmt: skip
    assert [type(effect) for effect in effects] == [e.PublishEffect, e.SettleEffect, e.Request]
    assert effects[1] == accepted(1, 7, [(1, 2)])


@pytest.mark.requirement("A17.9", "A17.10", "A17.11", "A17.12", "A17.13", "A23.2")
@pytest.mark.parametrize(
    ("method", "effect"),
    [
        (m.BasicAck(3), accepted(1, 7, [(12, 12)])),
        (m.BasicAck(3, True), accepted(1, 7, [(10, 12)])),
        (m.BasicAck(0, True), accepted(1, 7, [(10, 14)])),
        (m.BasicReject(2, True), returned(1, 7, [(11, 11)])),
        (m.BasicReject(2, False), rejected(1, 7, [(11, 11)])),
        (m.BasicNack(4, True, True), returned(1, 7, [(10, 13)])),
        (m.BasicNack(4, True, False), rejected(1, 7, [(10, 13)])),
        (m.BasicNack(4, False, False), rejected(1, 7, [(13, 13)])),
        (m.BasicNack(0, True, True), returned(1, 7, [(10, 14)])),
        (m.BasicRecover(True), returned(1, 7, [(10, 14)])),
        (m.BasicRecoverAsync(True), returned(1, 7, [(10, 14)])),
    ],
)
def test_every_way_to_settle(method: m.Method, effect: e.Effect) -> None:
    client = consuming(100)
    client.deliver(7, run_of([b"x"] * 5), 10, False)
    client.output()
    settled, credit = client.send((1, method))
    assert settled == effect
    assert isinstance(effect, e.SettleEffect)
    assert credit == e.Credit(7, 100 + count_of(effect.ranges))
    assert client.methods() == ([m.BasicRecoverOk()] if isinstance(method, m.BasicRecover) else [])


@pytest.mark.requirement("A5.17")
@pytest.mark.parametrize(
    "method",
    [
        m.BasicAck(6), m.BasicAck(0), m.BasicAck(2), m.BasicAck(2, True), m.BasicReject(0),
        m.BasicNack(99, True), m.BasicAck(2**64 - 1, True),
    ],
)  # fmt: skip
def test_an_unknown_tag_ends_the_channel(method: Method) -> None:
    client = consuming()
    client.deliver(7, run_of([b"x"] * 5), 10, False)
    client.send((1, m.BasicAck(2)))
    client.output()
    effects = client.send((1, method))
    close = client.failed()
    assert isinstance(close, m.ChannelClose)
    assert (close.reply_code, close.class_id, close.method_id) == (406, 60, method.METHOD_ID)
    assert effects[-1] == e.ChannelClosed(1, [(7, [(10, 10)]), (7, [(12, 14)])], awaited=True)


@pytest.mark.requirement("A17.10")
def test_several_consumers_are_settled_each_by_itself() -> None:
    client = opened(1)
    client.consume()
    client.consume(consumer=8, tag="u")
    for start in (10, 20, 30):
        client.deliver(7, run_of([b"x"] * 2), start, False)
        client.deliver(8, run_of([b"x"] * 2), start + 100, False)
    assert client.send((1, m.BasicAck(11, True))) == [
        accepted(1, 7, [(10, 11), (20, 21), (30, 31)]),
        accepted(1, 8, [(110, 111), (120, 121), (130, 130)]),
    ]  # fmt: skip


def test_without_acknowledgement_there_is_nothing_to_settle() -> None:
    client = consuming(no_ack=True)
    client.deliver(7, run_of([b"x"] * 5), 10, False)
    assert client.send((1, m.BasicAck(0, True))) == []
    client.send((1, m.BasicAck(1)))
    assert client.effects[-1] == e.ChannelClosed(1, [], awaited=True)


# -- get ----------------------------------------------------------------------------------------


@pytest.mark.requirement("A17.5")
@pytest.mark.parametrize("no_ack", [False, True])
def test_get(no_ack: bool) -> None:
    client = opened(1)
    assert client.send((1, m.BasicGet("q", no_ack))) == [e.Request(1, m.BasicGet("q", no_ack))]
    client.connection.deliver_get(1, run_of([b"abc"], channel=9), 55, True, 3, 12)
    assert client.output() == [(1, 1, m.BasicGetOk(1, True, "", "q", 3)), (2, 1, header(3)), (3, 1, b"abc")]
    client.send((1, m.BasicGet("q", no_ack)), (1, m.BasicAck(1)))
    client.connection.get_empty(1)
    assert client.methods()[0] == m.BasicGetEmpty()
    effects = client.connection.take_effects()
    assert (effects == [accepted(1, 12, [(55, 55)])]) is not no_ack


def test_a_message_got_for_a_channel_that_has_gone_goes_back() -> None:
    client = opened(1)
    client.send((1, m.BasicGet("q")))
    client.connection.fail_publish(1, _Refused())
    client.connection.take_effects()
    client.connection.deliver_get(1, run_of([b"abc"]), 55, False, 0, 12)
    assert client.connection.take_effects() == [
        released(1, 12, [(55, 55)]), e.ChannelClosed(1, []),
    ]  # fmt: skip


class _Refused(Exception):
    code = 404
    ends_connection = False


# -- prefetch and credit ------------------------------------------------------------------------


@pytest.mark.requirement("A18.1")
def test_prefetch_counts_for_the_consumers_that_come_after_it() -> None:
    client = opened(1)
    assert client.consume(consumer=1, tag="a") == [e.Credit(1, 2000)]
    client.send((1, m.BasicQos(0, 10)))
    assert client.consume(consumer=2, tag="b") == [e.Credit(2, 10)]
    client.send((1, m.BasicQos(0, 3)))
    assert client.consume(consumer=3, tag="c", no_ack=True) == [e.Credit(3, 2000)]
    assert client.consume(consumer=4, tag="d") == [e.Credit(4, 3)]


def test_a_consumer_gets_few_messages_before_it_is_known_how_large_they_are() -> None:
    client = opened(1, limits=ConnectionLimits(first_window=16, delivery_window_bytes=1_000_000))
    assert client.consume(no_ack=True) == [e.Credit(7, 16)]
    client.deliver(7, run_of([bytes(20_000)]), 1, False)
    client.connection.take_output()
    [credit] = client.connection.take_effects()
    assert isinstance(credit, e.Credit)
    assert 1 < credit.limit <= 1 + 1_000_000 // 20_000


@pytest.mark.requirement("A18.2")
def test_shared_prefetch_holds_what_is_too_much() -> None:
    client = opened(1)
    client.send((1, m.BasicQos(0, 3, True)))
    client.consume(consumer=1, tag="a")
    client.consume(consumer=2, tag="b")
    client.output()
    client.deliver(1, run_of([b"x"] * 3), 10, False)
    client.deliver(2, run_of([b"y"] * 3), 20, False)
    assert len(deliveries(client)) == 3
    assert client.connection.take_effects() == []
    effects = client.send((1, m.BasicAck(2, True)))
    assert effects == [accepted(1, 1, [(10, 11)])]
    assert [one.consumer_tag for one in deliveries(client)] == ["b", "b"]
    effects = client.send((1, m.BasicAck(0, True)))
    assert effects == [
        accepted(1, 1, [(12, 12)]), accepted(1, 2, [(20, 21)]), e.Credit(1, 5), e.Credit(2, 5),
    ]  # fmt: skip
    assert [one.delivery_tag for one in deliveries(client)] == [6]


@pytest.mark.requirement("A18.2")
def test_what_is_held_goes_back_undelivered() -> None:
    client = opened(1)
    client.send((1, m.BasicQos(0, 1, True)))
    client.consume(consumer=1, tag="a")
    client.consume(consumer=2, tag="b")
    for consumer in (1, 2):
        client.deliver(consumer, run_of([b"x"] * 3), consumer * 10, False)
    client.connection.take_effects()
    client.send((1, m.BasicCancel("b")))
    client.connection.reply(1, m.BasicCancelOk("b"))
    assert client.connection.take_effects() == [released(1, 2, [(20, 22)])]
    assert client.send((1, m.ChannelClose(200))) == [
        released(1, 1, [(11, 12)]),
        e.ChannelClosed(1, [(1, [(10, 10)])], awaited=True),
    ]  # fmt: skip


@pytest.mark.requirement("A18.2")
def test_a_shared_prefetch_may_be_raised_and_lifted() -> None:
    client = opened(1)
    client.send((1, m.BasicQos(0, 1, True)))
    client.consume()
    client.deliver(7, run_of([b"x"] * 5), 10, False)
    assert len(deliveries(client)) == 1
    client.send((1, m.BasicQos(0, 3, True)))
    assert len(deliveries(client)) == 2
    client.send((1, m.BasicQos(0, 0, True)))
    assert len(deliveries(client)) == 2


def test_a_socket_that_the_client_does_not_read_ends_the_credit() -> None:
    client = consuming(no_ack=True, limits=ConnectionLimits(delivery_window=80, first_window=80))
    limit, sent = 80, 0
    while sent < limit:
        client.deliver(7, run_of([b"x"] * 8), sent, False)
        sent += 8
        limit = max(
            [limit] + [one.limit for one in client.connection.take_effects() if isinstance(one, e.Credit)]
        )
    assert sent == 80
    client.connection.take_output()
    assert client.connection.take_effects() == [e.Credit(7, 160)]


def test_large_messages_get_a_smaller_window() -> None:
    client = consuming(no_ack=True, limits=ConnectionLimits(delivery_window_bytes=100_000))
    client.deliver(7, run_of([b"x" * 9970]), 1, False)
    client.connection.take_output()
    assert client.connection.take_effects() == [e.Credit(7, 11)]


def test_credit_is_revoked_while_the_socket_is_full() -> None:
    client = consuming(10)
    client.deliver(7, run_of([b"x"] * 4), 1, False)
    client.connection.pause_credit()
    assert client.connection.take_effects() == [e.Credit(7, 4)]
    assert client.send((1, m.BasicAck(2, True))) == [accepted(1, 7, [(1, 2)])]
    client.deliver(7, run_of([b"x"] * 2), 5, False)
    client.connection.resume_credit()
    assert client.connection.take_effects() == [e.Credit(7, 12)]


# -- the end of consumers -----------------------------------------------------------------------


@pytest.mark.requirement("A17.7")
def test_cancel_by_the_client() -> None:
    client = consuming(10)
    client.deliver(7, run_of([b"x"] * 3), 1, False)
    effects = client.send((1, m.BasicCancel("t")))
    assert effects == [e.Request(1, m.BasicCancel("t"), 7)]
    client.deliver(7, run_of([b"x"]), 4, False)
    assert len(deliveries(client)) == 4, "until cancel-ok deliveries go on"
    client.connection.reply(1, m.BasicCancelOk("t"))
    assert client.methods() == [m.BasicCancelOk("t")]
    client.deliver(7, run_of([b"x"] * 2), 5, False)
    assert client.connection.take_effects() == [released(0, 7, [(5, 6)])]
    assert client.send((1, m.BasicAck(4, True))) == [accepted(1, 7, [(1, 4)])]
    assert client.send((1, m.BasicCancel("t"))) == []
    assert client.methods() == [m.BasicCancelOk("t")]


@pytest.mark.requirement("A17.8", "A23.3")
@pytest.mark.parametrize("able", [True, False])
def test_cancel_by_the_server(able: bool) -> None:
    client = Client()
    client.negotiate(capabilities={"consumer_cancel_notify": able})
    client.open_channel(1)
    client.consume()
    client.deliver(7, run_of([b"x"] * 3), 1, False)
    client.output()
    client.connection.cancel_consumer(7)
    assert client.methods() == ([m.BasicCancel("t", True)] if able else [])
    client.send((1, m.BasicCancelOk("t")), (1, m.BasicAck(3, True)))
    assert client.only(e.SettleEffect) == accepted(1, 7, [(1, 3)])
    assert client.consume(consumer=8) == [e.Credit(8, 2000)], "the tag is free again"


def test_a_consumer_tag_is_used_once_in_a_channel() -> None:
    client = opened(1, 2)
    client.consume(1, 7)
    client.consume(2, 8)
    client.send((2, m.BasicConsume("q", "t")))
    (close,) = client.methods()
    assert isinstance(close, m.ConnectionClose) and close.reply_code == 530


@pytest.mark.requirement("A17.6")
def test_consumers_that_have_no_tag_are_given_one() -> None:
    client = opened(1)
    client.consume(1, 7, tag="amq.ctag-1.1")
    tags = []
    for number in (8, 9):
        effects = client.send((1, m.BasicConsume("q")))
        request = next(effect for effect in effects if isinstance(effect, e.Request))
        assert isinstance(request.method, m.BasicConsume)
        tags.append(request.method.consumer_tag)
        client.connection.consume_ok(1, tags[-1], number)
        client.deliver(number, run_of([b"x"]), 1, False)
        ok, delivery = client.methods()
        assert ok == m.BasicConsumeOk(tags[-1])
        assert isinstance(delivery, m.BasicDeliver) and delivery.consumer_tag == tags[-1]
    assert len({"amq.ctag-1.1", *tags}) == 3


@pytest.mark.requirement("A17.13")
def test_what_has_no_consumer_any_more_is_recovered_into_its_queue() -> None:
    client = opened(1)
    client.consume(consumer=7, tag="a")
    client.consume(consumer=8, tag="b")
    for consumer in (7, 8):
        client.deliver(consumer, run_of([b"x"] * 2), 10, False)
    client.send((1, m.BasicGet("q")))
    client.connection.deliver_get(1, run_of([b"g"]), 30, False, 0, 1)
    client.send((1, m.BasicCancel("b")))
    client.connection.reply(1, m.BasicCancelOk("b"))
    effects = client.send((1, m.BasicRecover(True)))
    assert [effect for effect in effects if not isinstance(effect, e.Credit)] == [
        returned(1, 7, [(10, 11)]),
        returned(1, 8, [(10, 11)]),
        returned(1, 1, [(30, 30)]),
    ]


@pytest.mark.requirement("A5.20", "A17.14")
@pytest.mark.parametrize("method", [m.BasicRecover(False), m.BasicRecoverAsync(False)])
def test_recovery_without_requeue_is_not_implemented(method: m.Method) -> None:
    client = consuming(100)
    client.send((1, method))
    (close,) = client.methods()
    assert isinstance(close, m.ConnectionClose)
    assert (close.reply_code, close.class_id, close.method_id) == (540, method.CLASS_ID, method.METHOD_ID)


@pytest.mark.requirement("A22.1")
def test_order_is_kept_over_channels_and_runs() -> None:
    client = opened(1, 2)
    client.consume(1, 7)
    client.consume(2, 8)
    for start in range(0, 90, 30):
        client.deliver(7, run_of([bytes([n]) for n in range(start, start + 15)]), start, False)
        client.deliver(8, run_of([bytes([n]) for n in range(start + 15, start + 30)]), start, False)
    found = client.output()
    for number, offset in ((1, 0), (2, 15)):
        got = [unpack("B", payload)[0] for kind, channel, payload in found if kind == 3 and channel == number]
        assert got == [n + offset for start in range(0, 90, 30) for n in range(start, start + 15)]
