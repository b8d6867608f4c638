"""Streams: queues that keep their messages for all readers (queue argument x-queue-type: stream).

No message of a stream is leased, settled, delayed, or expires by its own expiration. The log has the time at
which the owner took each message. Messages leave by age (x-max-age) and by size (x-max-length-bytes).
"""

from __future__ import annotations

import re
from typing import Final

from node.message.reason import Reason
from node.names import STREAM_TYPE, X_QUEUE_TYPE
from node.queue.argument import Argument, PolicyUse
from node.queue.argument_types import UnacceptableError, read_positive, read_text
from node.queue.delivery_state import DeliveryState
from node.queue.feature import Declaration, Description, Feature, FeatureContext, Incoming, Notes, Rule
from node.queue.operations import Aspect
from node.queue.settings import QueueSettings

_UNITS_S: Final = {"Y": 365 * 86_400, "M": 30 * 86_400, "D": 86_400, "h": 3_600, "m": 60, "s": 1}
_AGE: Final = re.compile(r"([0-9]{1,9})([YMDhms])", re.ASCII)

SPANS_AT_ONCE: Final = 1024
"""Retention looks at so many spans of messages of one time in one turn."""


def read_age(value: object) -> int:
    """An age in milliseconds, of a text like RabbitMQ's: `7D`, `12h`. A month has 30 days, a year 365.

    Raises UnacceptableError.
    """
    found = _AGE.fullmatch(read_text(value))
    if found is None:
        raise UnacceptableError("invalid_max_age")
    return int(found[1]) * _UNITS_S[found[2]] * 1000


def _read_type(value: object) -> bool | None:
    """True for a stream. The types of other queues are where they are placed."""
    return True if value == STREAM_TYPE else None


STREAM: Final = Argument(X_QUEUE_TYPE, _read_type, "stream")
MAX_AGE: Final = Argument("x-max-age", read_age, "max_age_ms", policy=PolicyUse.USER)
# Checked, and without an effect: the journal's segments are those of the node.
_SEGMENT_SIZE: Final = Argument("x-stream-max-segment-size-bytes", read_positive, policy=PolicyUse.USER)
# The catalog places the queue by it.
_CLUSTER_SIZE: Final = Argument("x-initial-cluster-size", read_positive)

ARGUMENTS_OF_STREAMS: Final = frozenset(
    {
        X_QUEUE_TYPE,
        MAX_AGE.name,
        _SEGMENT_SIZE.name,
        _CLUSTER_SIZE.name,
        "x-max-length-bytes",
        "x-filter",
        "x-queue-leader-locator",
        "x-queue-master-locator",
    }
)
"""The arguments that a stream may have. Policies set no others of a stream either."""


def is_stream(settings: QueueSettings) -> bool:
    return STREAM.of(settings) is True


class Retention(Feature):
    """Removes the messages of a stream that are older than its `x-max-age`."""

    def __init__(self, delivery: DeliveryState) -> None:
        super().__init__()
        self._delivery = delivery

    def serve(self, context: FeatureContext, now: int) -> None:
        delivery = self._delivery
        max_age = MAX_AGE.of(delivery.settings)
        if max_age is None:
            return
        old = []
        for looked_at, (first, last, came) in enumerate(delivery.annotations.logged(Aspect.ARRIVAL).all()):
            if came + max_age > now:
                context.wake(came + max_age)
                break
            old += delivery.ready.intersection(first, last)
            if looked_at == SPANS_AT_ONCE:
                context.serve_again()
                break
        if old and context.settings_fresh():
            context.discard(old, Reason.EXPIRED)


class Arrivals(Rule):
    """States when the owner took each message, in milliseconds since the epoch."""

    def describe(self, description: Description) -> None:
        description.stream = True

    def decide(self, incoming: Incoming, first: int, now: int, notes: Notes) -> None:
        notes[Aspect.ARRIVAL] = [(first, first + incoming.run.count - 1, now)]


_ARRIVALS: Final = Arrivals()


def _share(delivery: DeliveryState, former: Feature | None) -> Feature | None:
    return Retention(delivery) if is_stream(delivery.settings) else None


def _rule(settings: QueueSettings) -> Rule | None:
    return _ARRIVALS if is_stream(settings) else None


FEATURE: Final[Declaration] = Declaration(
    STREAM, MAX_AGE, _SEGMENT_SIZE, _CLUSTER_SIZE, make=_share, rule=_rule
)
