"""A message that a queue gave up: why, when, and where it had been published, whatever its format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from node.message.reason import Reason

REASON_NAMES: Final = {
    Reason.REJECTED: "rejected",
    Reason.EXPIRED: "expired",
    Reason.MAXLEN: "maxlen",
    Reason.DELIVERY_LIMIT: "delivery_limit",
}
"""The words in which dead letters state a reason, RabbitMQ's."""

_REASON_BITS: Final = 4


@dataclass(frozen=True, slots=True)
class Death:
    """Which queue gave a message up, why, when (seconds since the epoch), and where it had been published."""

    queue: str
    reason: Reason
    time_s: int
    exchange: str
    routing_key: str


def encode_death(reason: Reason, time_ms: int) -> int:
    """The value of an annotation with `Aspect.DEATH`; `time_ms` since the epoch."""
    return time_ms << _REASON_BITS | reason


def decode_death(value: int) -> tuple[Reason, int]:
    """Reason and milliseconds since the epoch."""
    return Reason(value & ((1 << _REASON_BITS) - 1)), value >> _REASON_BITS
