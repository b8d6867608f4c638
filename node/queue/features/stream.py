"""Streams: queues that keep their messages for all readers (queue argument x-queue-type: stream).

No message of a stream is leased, settled, delayed, or expires by its own expiration. The log has the time at
which the owner took each message. Messages leave by age (x-max-age) and by size (x-max-length-bytes).
"""

from __future__ import annotations

from typing import Final

from node.message.reason import Reason
from node.message.streams import STREAM_TYPE
from node.queue.argument import Argument, PolicyUse
from node.queue.argument_types import read_positive
from node.queue.delivery_state import DeliveryState
from node.queue.feature import Declaration, Description, Feature, FeatureContext, Incoming, Notes, Rule
from node.queue.operations import Aspect
from node.queue.settings import QueueSettings
from node.queue.stream_settings import LOOK_AGAIN_MS, is_stream, read_age
from node.ranges.range_set import Range

SPANS_AT_ONCE: Final = 1024
"""Retention looks at so many spans of messages of one time in one turn."""


def _read_type(value: object) -> bool | None:
    """True for a stream. The types of other queues are where they are placed."""
    return True if value == STREAM_TYPE else None


TYPE: Final = Argument("x-queue-type", _read_type, "stream")
MAX_AGE: Final = Argument("x-max-age", read_age, "max_age_ms", policy=PolicyUse.USER)
# Checked, and without an effect: the journal's segments are those of the node.
_SEGMENT_SIZE: Final = Argument("x-stream-max-segment-size-bytes", read_positive, policy=PolicyUse.USER)
# The catalog places the queue by it.
_CLUSTER_SIZE: Final = Argument("x-initial-cluster-size", read_positive)


class StreamRetention(Feature):
    """Removes the messages of a stream that are older than its `x-max-age`."""

    def __init__(self, delivery: DeliveryState) -> None:
        super().__init__()
        self._delivery = delivery

    def serve(self, context: FeatureContext, now: int) -> None:
        delivery = self._delivery
        max_age = MAX_AGE.of(delivery.settings)
        if max_age is None:
            return
        old, held = list[Range](), -1
        for looked_at, (first, last, came) in enumerate(delivery.annotations.logged(Aspect.ARRIVAL).all()):
            if came + max_age > now:
                context.wake(came + max_age)
                break
            if held < 0:
                held = context.held_from()
            if last >= held:
                context.wake(now + LOOK_AGAIN_MS)
                old += delivery.ready.intersection(first, held - 1) if first < held else []
                break
            old += delivery.ready.intersection(first, last)
            if looked_at == SPANS_AT_ONCE:
                context.serve_again()
                break
        if old and context.settings_fresh():
            context.discard(old, Reason.EXPIRED)


class StreamArrivals(Rule):
    """States when the owner took each message, in milliseconds since the epoch."""

    def describe(self, description: Description) -> None:
        description.stream = True

    def decide(self, incoming: Incoming, first: int, now: int, notes: Notes) -> None:
        notes[Aspect.ARRIVAL] = [(first, first + incoming.run.count - 1, now)]


_ARRIVALS: Final = StreamArrivals()


def _share(delivery: DeliveryState, former: Feature | None) -> Feature | None:
    return StreamRetention(delivery) if is_stream(delivery.settings) else None


def _rule(settings: QueueSettings) -> Rule | None:
    return _ARRIVALS if is_stream(settings) else None


FEATURE: Final[Declaration] = Declaration(
    TYPE, MAX_AGE, _SEGMENT_SIZE, _CLUSTER_SIZE, make=_share, rule=_rule
)
