"""The name and the counters of a client, as metrics and the management API both read them."""

from __future__ import annotations

from typing import Final

from node.session.listener import Client
from node.wire.amqp091.channel import Channel
from node.wire.amqp091.lifecycle import ConnectionState

OCTETS: Final = ("recv_oct", "send_oct")
CHANNEL_NAMES: Final = (
    "publish", "confirm", "deliver", "deliver_no_ack", "get", "redeliver", "ack",
)  # fmt: skip


def is_shown(client: Client) -> bool:
    """Whether the connection was opened."""
    return client.session.connection.state is ConnectionState.OPEN and bool(client.session.vhost)


def client_name(client: Client) -> str:
    """As RabbitMQ names connections: both ends."""
    (peer_host, peer_port), (host, port) = client.ends()
    return f"{peer_host}:{peer_port} -> {host}:{port}"


def connection_octets(client: Client) -> tuple[int, int]:
    """In the order of `OCTETS`."""
    return client.received_bytes, client.sent_bytes


def channel_counts(channel: Channel) -> tuple[int, ...]:
    """In the order of `CHANNEL_NAMES`."""
    deliveries = channel.deliveries
    sent, no_ack, got = deliveries.sent, deliveries.sent_no_ack, deliveries.got
    confirmed = channel.highest_tag - channel.tags_before - unconfirmed(channel)
    acknowledged = sent - no_ack - deliveries.unsettled.count - deliveries.returned
    return (
        channel.published, confirmed, sent - no_ack - got, no_ack, got,
        deliveries.redelivered, acknowledged,
    )  # fmt: skip


def unconfirmed(channel: Channel) -> int:
    """Confirms that the channel still owes its client."""
    if not channel.confirming:
        return 0
    return channel.highest_tag - channel.tags_before - channel.confirms.count
