"""Views of a client for the administration, the same for every protocol.

A session makes a view when the administration asks for it. A view does not change afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple


@dataclass(frozen=True, slots=True)
class ConnectionView:
    """A connection, and the limits that client and node have negotiated."""

    protocol: str
    mechanism: str
    """The SASL mechanism that the client chose."""
    channels: int
    """Channels that are open or closing."""
    channel_max: int
    frame_max: int
    """In octets."""
    heartbeat: int
    """In seconds."""
    properties: Mapping[str, object]
    """The client's description of itself (client-properties), in values of its protocol."""
    blocked: bool
    """Whether the client has published during a resource alarm, and the session holds it back."""


class ChannelTraffic(NamedTuple):
    """Messages since the channel began."""

    published: int
    confirmed: int
    delivered: int
    """Deliveries to consumers that acknowledge."""
    delivered_no_ack: int
    got: int
    """Messages that the client got one by one (basic.get)."""
    redelivered: int
    acknowledged: int


class ChannelView(NamedTuple):
    """A channel of a connection."""

    number: int
    open: bool
    """False while the channel is closing."""
    confirming: bool
    transactional: bool
    consumers: int
    consumer_prefetch: int
    """The prefetch of each consumer that starts from now on; 0 for no limit."""
    prefetch: int
    """The prefetch that the channel's acknowledging consumers share; 0 for no limit."""
    unsettled: int
    """Deliveries that the client has not settled."""
    unconfirmed: int
    """Publishes that the channel has still to confirm."""
    traffic: ChannelTraffic


@dataclass(frozen=True, slots=True)
class ConsumerView:
    """A consumer of a channel."""

    channel: int
    number: int
    """The consumer's number at this node."""
    tag: str
    no_ack: bool
    prefetch: int


class LinkView(NamedTuple):
    """A link of AMQP 1.0. Addresses are as the client has stated them."""

    handle: int
    name: str
    incoming: bool
    """Whether the client sends on the link."""
    source: str | None
    target: str | None
    settled: bool
    """Whether the sender settles all deliveries."""
    delivery_count: int
    credit: int


class SessionView(NamedTuple):
    """A session of AMQP 1.0. Windows are in transfer frames."""

    number: int
    """The session's channel."""
    next_incoming_id: int
    incoming_window: int
    next_outgoing_id: int
    remote_incoming_window: int
    unsettled: int
    """Deliveries that the client has not settled."""
    unconfirmed: int
    """The client's deliveries that the node has not settled."""
    links: tuple[LinkView, ...]


class LinkTotals(NamedTuple):
    """Links of AMQP 1.0, and the credit that their receivers have given and their senders not used."""

    links: int
    credit: int


NO_LINKS: Final = LinkTotals(0, 0)


class ChannelTotals(NamedTuple):
    """Figures added up over the channels of a connection."""

    consumers: int
    publishers: int
    """Channels that have published."""
    incoming: LinkTotals
    """The links of AMQP 1.0 on which the client sends."""
    outgoing: LinkTotals
    """The links of AMQP 1.0 on which the node sends."""
