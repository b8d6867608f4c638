"""The name and the counters of a client, as metrics and the management API both read them."""

from __future__ import annotations

from typing import Final

from node.session.listener import Client

OCTETS: Final = ("recv_oct", "send_oct")
CHANNEL_NAMES: Final = (
    "publish",
    "confirm",
    "deliver",
    "deliver_no_ack",
    "get",
    "redeliver",
    "ack",
)
"""Of `ChannelTraffic`, in its order."""


def client_name(client: Client) -> str:
    """As RabbitMQ names connections: both ends."""
    (peer_host, peer_port), (host, port) = client.ends()
    return f"{peer_host}:{peer_port} -> {host}:{port}"


def connection_octets(client: Client) -> tuple[int, int]:
    """In the order of `OCTETS`."""
    return client.received_bytes, client.sent_bytes
