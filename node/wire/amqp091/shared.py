"""The state that the channels of a connection share, and the reasons to hold one of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntFlag

from node.delivery.credit import Credits
from node.wire.amqp091.effects import Outbox
from node.wire.amqp091.limits import ConnectionLimits
from node.wire.amqp091.properties import PropertyChecks
from node.wire.amqp091.publish_path import PublishPath
from node.wire.amqp091.resource_alarm import ResourceAlarm
from node.wire.amqp091.transaction import TransactionLoad


class Hold(IntFlag):
    """The reasons for which a channel takes no frames now."""

    REQUEST = 1
    """A request of the channel has no answer yet."""
    LINK = 2
    """A link with the channel's publishes is full. Other channels go on (§4.3)."""
    ALARM = 4
    """The channel has published while the cluster is short of memory or disk."""


@dataclass(slots=True)
class ConnectionParts:
    """The state that the channels of a connection share."""

    limits: ConnectionLimits
    frame_max: int
    outbox: Outbox
    credits: Credits
    checks: PropertyChecks
    publishes: PublishPath
    alarm: ResourceAlarm
    unfinished_bytes: int = 0
    """The octets of contents that are not complete yet."""
    load: TransactionLoad = field(init=False)

    def __post_init__(self) -> None:
        self.load = TransactionLoad(self.limits)
