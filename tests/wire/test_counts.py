"""The counters of a channel for the administration (F7)."""

from __future__ import annotations

from node.wire.amqp091 import methods as m
from tests.wire.client import Client, opened, publish, run_of


def test_publishes_are_counted_with_and_without_confirms() -> None:
    client = opened(1)
    client.send(publish(1, b"one") * 3)
    client.send((1, m.ConfirmSelect()), publish(1, b"two") * 2)
    (channel,) = client.connection.channels
    assert (channel.published, channel.confirming) == (5, True)
    assert channel.highest_tag - channel.tags_before == 2


def test_every_delivery_is_counted_once_by_what_became_of_it() -> None:
    client = opened(1)
    client.consume()
    client.deliver(7, run_of([b"x"] * 10), 1, False)
    client.deliver(7, run_of([b"y"] * 2), 3, True)
    client.output()
    client.send((1, m.BasicAck(5, True)), (1, m.BasicReject(6, True)), (1, m.BasicNack(8, True, False)))
    (channel,) = client.connection.channels
    deliveries = channel.deliveries
    assert (deliveries.sent, deliveries.redelivered, deliveries.returned) == (12, 2, 3)
    assert deliveries.unsettled.count == 4
    client.send((1, m.BasicRecover(True)))
    assert (deliveries.returned, deliveries.unsettled.count) == (7, 0)


def test_what_needs_no_acknowledgement_is_counted_apart() -> None:
    client = opened(1)
    client.consume(no_ack=True)
    client.deliver(7, run_of([b"x"] * 4), 1, False)
    client.send((1, m.BasicGet("q", no_ack=True)))
    client.connection.deliver_get(1, run_of([b"z"]), 9, True, 0)
    client.send((1, m.BasicGet("q")))
    client.connection.deliver_get(1, run_of([b"z"]), 10, False, 0)
    (channel,) = client.connection.channels
    deliveries = channel.deliveries
    assert (deliveries.sent, deliveries.sent_no_ack, deliveries.got) == (6, 5, 1)
    assert (deliveries.redelivered, deliveries.unsettled.count) == (1, 1)


def test_opened_channels_are_counted_although_they_close() -> None:
    client = opened(1, 2)
    client.send((1, m.ChannelClose(0, "")))
    assert (client.connection.life.channels_opened, len(client.connection.channels)) == (2, 1)


def test_what_was_agreed_can_be_read() -> None:
    client = Client()
    client.negotiate(tune_ok=m.ConnectionTuneOk(100, 5000, 7))
    assert client.connection.agreed == (100, 5000, 7)
    assert client.connection.mechanism == "PLAIN"
