"""The facts of a client that sessions tell an administration (`node.session.client_views`)."""

from __future__ import annotations

from node.session.client_views import (
    NO_LINKS,
    ChannelTotals,
    ChannelTraffic,
    ChannelView,
    ConnectionView,
    ConsumerView,
)
from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import encode_method
from node.wire.amqp091.limits import ConnectionLimits
from tests.session.answering import AnsweringBroker, Connected
from tests.wire.client import CLIENT_CAPABILITIES, publish, run_of


def test_a_connection_tells_its_terms() -> None:
    session = Connected(
        AnsweringBroker(), ConnectionLimits(channel_max=7, frame_max=8192, heartbeat=5)
    ).session
    assert session.is_open
    assert session.view() == ConnectionView(
        protocol="AMQP 0-9-1",
        mechanism="PLAIN",
        channels=1,
        channel_max=7,
        frame_max=8192,
        heartbeat=0,
        properties={"capabilities": dict(CLIENT_CAPABILITIES)},
        blocked=False,
    )


def test_channels_and_consumers_tell_their_counts() -> None:
    client = Connected(AnsweringBroker())
    session = client.session
    client.send(
        encode_method(1, m.BasicQos(0, 5)),
        encode_method(1, m.ConfirmSelect()),
        encode_method(1, m.BasicConsume("q", "t")),
        encode_method(2, m.ChannelOpen()),
        encode_method(2, m.TxSelect()),
        encode_method(2, m.BasicConsume("q", "u", no_ack=True)),
    )
    first, second = session.consumer_views()
    assert first == ConsumerView(1, first.number, "t", False, 5)
    assert second == ConsumerView(2, second.number, "u", True, 0)
    for consumer, count in ((first.number, 3), (second.number, 2)):
        run = run_of([b"x"] * count)
        session.deliver(consumer, run, client.broker.lease(consumer, count), False, consumer)
    client.send(encode_method(1, m.BasicAck(1)), publish(1, b"x"), publish(1, b"x"))
    delivering, transactional = session.channel_views()
    assert delivering == ChannelView(
        number=1, open=True, confirming=True, transactional=False, consumers=1, consumer_prefetch=5,
        prefetch=0, unsettled=2, unconfirmed=delivering.unconfirmed,
        traffic=ChannelTraffic(2, 2 - delivering.unconfirmed, 3, 0, 0, 0, 1),
    )  # fmt: skip
    assert (transactional.transactional, transactional.confirming) == (True, False)
    assert transactional.traffic == ChannelTraffic(0, 0, 0, 2, 0, 0, 0)
    assert list(session.channel_traffic()) == [(1, delivering.traffic), (2, transactional.traffic)]
    assert session.channel_totals() == ChannelTotals(2, 1, NO_LINKS, NO_LINKS)


def test_channels_may_end_between_two_views() -> None:
    client = Connected(AnsweringBroker())
    client.send(encode_method(2, m.ChannelOpen()))
    views = client.session.channel_views()
    assert next(views).number == 1
    client.session.lost()
    assert [view.number for view in views] == [2]
    assert not client.session.is_open
    assert list(client.session.channel_views()) == list(client.session.consumer_views()) == []
