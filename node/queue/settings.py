"""What a queue's declared arguments ask for (A24, X1 to X3), as a value; `arguments` reads them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from node.queue.operations import Semantics


class Overflow(StrEnum):
    """What becomes of a message for which a queue has no room."""

    DROP_HEAD = "drop-head"
    REJECT_PUBLISH = "reject-publish"
    REJECT_PUBLISH_DLX = "reject-publish-dlx"


@dataclass(frozen=True, slots=True)
class RedeliveryBackoff:
    """How long a message that was given back rests: `initial_ms`, then `factor` times as long each time."""

    initial_ms: int
    factor: float
    maximum_ms: int

    def delay_ms(self, failures: int) -> int:
        """The rest after so many failed deliveries, counted from 1."""
        try:
            return int(min(self.initial_ms * self.factor ** (failures - 1), self.maximum_ms))
        except OverflowError:
            return self.maximum_ms


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """None, or False, stands for what was not asked for. Times are in milliseconds, lengths in octets."""

    semantics: Semantics = Semantics.AT_LEAST_ONCE
    max_priority: int | None = None
    message_ttl_ms: int | None = None
    expires_ms: int | None = None
    max_length: int | None = None
    max_length_bytes: int | None = None
    overflow: Overflow = Overflow.DROP_HEAD
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    delivery_limit: int | None = None
    single_active_consumer: bool = False
    group_by: str | None = None
    deduplication_window_ms: int | None = None
    redelivery_backoff: RedeliveryBackoff | None = None

    @property
    def at_most_once(self) -> bool:
        """Whether messages are removed before they are delivered."""
        return self.semantics is Semantics.AT_MOST_ONCE

    def shared(self) -> QueueSettings:
        """PLAIN itself where nothing was asked for, so that `is` tells."""
        return PLAIN if self == PLAIN else self


PLAIN: Final = QueueSettings()
"""The settings of a queue without special arguments."""
