"""The death of a message: the queue that gave it up, the reason and the time. All formats share it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from node.message.reason import Reason

REASON_NAMES: Final = {
    Reason.REJECTED: "rejected",
    Reason.EXPIRED: "expired",
    Reason.MAXLEN: "maxlen",
    Reason.DELIVERY_LIMIT: "delivery_limit",
}
"""RabbitMQ's words for the reasons, as `x-death` headers have them."""

_REASON_BITS: Final = 4


@dataclass(frozen=True, slots=True)
class Death:
    """The queue that gave a message up, the reason, the time in seconds since the epoch, and the exchange and
    routing key that the message had been published with.
    """

    queue: str
    reason: Reason
    time_s: int
    exchange: str
    routing_key: str


class FirstPublish(NamedTuple):
    """The exchange, and the routing keys, with which a dead letter was published first."""

    exchange: str
    keys: tuple[str, ...]


def encode_death(reason: Reason, time_ms: int) -> int:
    """The value of an annotation with `Aspect.DEATH`. `time_ms` is in milliseconds since the epoch."""
    return time_ms << _REASON_BITS | reason


def decode_death(value: int) -> tuple[Reason, int]:
    """The reason, and the time in milliseconds since the epoch. Raises ValueError for an unknown reason."""
    return Reason(value & ((1 << _REASON_BITS) - 1)), value >> _REASON_BITS
