"""Every feature of queues, and what it is asked for with: the one place that lists them."""

from __future__ import annotations

from typing import Any, Final

from node.queue.annotations import Annotations
from node.queue.features.argument import Argument
from node.queue.features.backoff import REDELIVERY_BACKOFF
from node.queue.features.dead_letters import (
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_ROUTING_KEY,
    DEAD_LETTER_STRATEGY,
)
from node.queue.features.deduplication import DEDUPLICATION_WINDOW
from node.queue.features.delivery_limit import DELIVERY_LIMIT
from node.queue.features.expires import EXPIRES
from node.queue.features.fifo import ReadyByAge
from node.queue.features.group import GROUP_BY, by_group
from node.queue.features.limits import MAX_LENGTH, MAX_LENGTH_BYTES, OVERFLOW
from node.queue.features.priority import MAX_PRIORITY, by_priority
from node.queue.features.single_active import SINGLE_ACTIVE_CONSUMER
from node.queue.features.ttl import MESSAGE_TTL
from node.queue.order import Arranging, Order
from node.queue.settings import QueueSettings
from node.ranges.range_set import RangeSet

ARGUMENTS: Final[tuple[Argument[Any], ...]] = (
    MAX_PRIORITY, GROUP_BY, MESSAGE_TTL, EXPIRES, MAX_LENGTH, MAX_LENGTH_BYTES, OVERFLOW,
    DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY, DEAD_LETTER_STRATEGY, DELIVERY_LIMIT,
    SINGLE_ACTIVE_CONSUMER, DEDUPLICATION_WINDOW, REDELIVERY_BACKOFF,
)  # fmt: skip

ORDERS: Final[tuple[Arranging, ...]] = (by_group, by_priority)
"""The first that the settings ask for is the queue's."""


def arrange(settings: QueueSettings, known: Annotations, ready: RangeSet) -> Order:
    """The ready messages in the queue's order, which takes them over."""
    for arranged in ORDERS:
        order = arranged(settings, known, ready)
        if order is not None:
            return order
    return ReadyByAge(ready)
