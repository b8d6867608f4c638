"""The state that the channels of a connection share, and the reasons to hold one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntFlag

from node.delivery.credit import Credits
from node.wire.amqp091.effects import Outbox
from node.wire.amqp091.limits import ConnectionLimits
from node.wire.amqp091.properties import PropertyChecks
from node.wire.amqp091.publish_path import PublishPath
from node.wire.amqp091.transaction import TransactionLoad


class Hold(IntFlag):
    """Why a channel takes no frames now."""

    REQUEST = 1
    """A request has not been answered."""
    LINK = 2
    """Its publishes wait for commits; other channels may go on (§4.3)."""
    ALARM = 4
    """It published while the cluster is short of memory or disk."""


@dataclass(slots=True)
class ConnectionParts:
    """The state that the channels of a connection share."""

    limits: ConnectionLimits
    frame_max: int
    outbox: Outbox
    credits: Credits
    checks: PropertyChecks
    publishes: PublishPath
    unfinished_bytes: int = 0
    """Octets of contents that have not come completely."""
    load: TransactionLoad = field(init=False)
    alarmed: Callable[[int], None] | None = None
    """Told the numbers of channels that publish during a resource alarm."""

    def __post_init__(self) -> None:
        self.load = TransactionLoad(self.limits)
