"""The facts of a client that an administration shows, whatever protocol the client speaks.

A view is made when it is asked for, and says how things stood then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class ConnectionView:
    """A connection, and the terms that both sides agreed on."""

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
    """The description that the client gave of itself, in values of its protocol."""
    blocked: bool
    """Whether the client has published during a resource alarm, and is held back."""


class ChannelTraffic(NamedTuple):
    """Messages since the channel began."""

    published: int
    confirmed: int
    delivered: int
    """To consumers that acknowledge."""
    delivered_no_ack: int
    got: int
    """One by one, at the client's request."""
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
    """Of consumers that are started from now on; 0 for no limit."""
    prefetch: int
    """Shared by the consumers that acknowledge; 0 for no limit."""
    unsettled: int
    """Deliveries that the client has not settled."""
    unconfirmed: int
    """Confirms that the channel still owes its client."""
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


class ChannelTotals(NamedTuple):
    """Figures added up over the channels of a connection."""

    consumers: int
    publishers: int
    """Channels that have published."""
