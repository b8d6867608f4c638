"""Makes the views of `node.session.client_views` for a connection of AMQP 0-9-1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from node.session.client_views import (
    NO_LINKS,
    ChannelTotals,
    ChannelTraffic,
    ChannelView,
    ConnectionView,
    ConsumerView,
)
from node.wire.amqp091.channel import Channel
from node.wire.amqp091.channel_state import ChannelState
from node.wire.amqp091.connection import Connection

PROTOCOL_NAME: Final = "AMQP 0-9-1"


def connection_view(connection: Connection) -> ConnectionView:
    """The negotiated limits of the connection, and whether an alarm holds the client back."""
    channel_max, frame_max, heartbeat = connection.agreed
    return ConnectionView(
        protocol=PROTOCOL_NAME,
        mechanism=connection.mechanism,
        channels=len(connection.channels),
        channel_max=channel_max,
        frame_max=frame_max,
        heartbeat=heartbeat,
        properties=connection.client_properties,
        blocked=connection.blocked,
    )


def channel_views(connection: Connection) -> Iterator[ChannelView]:
    """A view of each channel, made when the iterator reaches it; channels may open and close in between."""
    for channel in list(connection.channels):
        yield _channel_view(channel)


def channel_traffic(connection: Connection) -> Iterator[tuple[int, ChannelTraffic]]:
    """The numbers and counters of the channels; cheaper than `channel_views`."""
    for channel in list(connection.channels):
        yield channel.number, _traffic(channel)


def consumer_views(connection: Connection) -> Iterator[ConsumerView]:
    """A view of each consumer, by channel; consumers may start and end in between."""
    for channel in list(connection.channels):
        for one in list(channel.deliveries.consumers.values()):
            yield ConsumerView(channel.number, one.number, one.tag, one.no_ack, one.prefetch)


def channel_totals(connection: Connection) -> ChannelTotals:
    """Sums over the channels, without making a view of each."""
    consumers = publishers = 0
    for channel in connection.channels:
        consumers += len(channel.deliveries.consumers)
        publishers += int(channel.published > 0)
    return ChannelTotals(consumers, publishers, NO_LINKS, NO_LINKS)


def _channel_view(channel: Channel) -> ChannelView:
    deliveries = channel.deliveries
    return ChannelView(
        channel.number,
        channel.state is ChannelState.OPEN,
        channel.confirming,
        deliveries.transaction is not None,
        len(deliveries.consumers),
        deliveries.consumer_prefetch,
        deliveries.prefetch,
        deliveries.unsettled.count,
        _unconfirmed(channel),
        _traffic(channel),
    )


def _traffic(channel: Channel) -> ChannelTraffic:
    deliveries = channel.deliveries
    sent, no_ack, got = deliveries.sent, deliveries.sent_no_ack, deliveries.got
    return ChannelTraffic(
        channel.published,
        channel.highest_tag - channel.tags_before - _unconfirmed(channel),
        sent - no_ack - got,
        no_ack,
        got,
        deliveries.redelivered,
        sent - no_ack - deliveries.unsettled.count - deliveries.returned,
    )


def _unconfirmed(channel: Channel) -> int:
    if not channel.confirming:
        return 0
    return channel.highest_tag - channel.tags_before - channel.confirms.count
