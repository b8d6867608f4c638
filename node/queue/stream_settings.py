"""The settings of streams, as modules read them that know no features."""

from __future__ import annotations

from typing import Final

from node.message.streams import X_VIEW, age_ms
from node.queue.argument_types import UnacceptableError, read_text
from node.queue.placement_arguments import X_DOMAIN, X_INITIAL_OWNER
from node.queue.settings import QueueSettings

MAX_AGE_ARGUMENT: Final = "x-max-age"

EXPIRATION_ARGUMENT: Final = "x-message-ttl"
"""The expiration that the messages of queues over a stream have. The stream itself keeps them."""

ARGUMENTS_OF_STREAMS: Final = frozenset(
    {
        "x-queue-type",
        MAX_AGE_ARGUMENT,
        EXPIRATION_ARGUMENT,
        "x-stream-max-segment-size-bytes",
        "x-initial-cluster-size",
        "x-max-length-bytes",
        "x-filter",
        "x-queue-leader-locator",
        "x-queue-master-locator",
        X_DOMAIN,
        X_INITIAL_OWNER,
        X_VIEW,
    }
)
"""The arguments that a stream may have. Policies set no others of a stream either, and no expiration."""

LOOK_AGAIN_MS: Final = 1000
"""Milliseconds after which retention looks again at messages that readers hold."""


def is_stream(settings: QueueSettings) -> bool:
    """Whether the queue is a stream."""
    return bool(settings.asked.get("stream"))


def read_age(value: object) -> int:
    """An age in milliseconds. Raises UnacceptableError."""
    found = age_ms(read_text(value))
    if found is None:
        raise UnacceptableError("invalid_max_age")
    return found
