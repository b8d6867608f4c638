"""Barrier messages on the front end's side: each consumer gets one once, and the owner hears that they have
come (`cluster.owner.barriers`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cluster.gateway.state import BARRIERS_REMEMBERED, LinkConsumer, TakeAnswer, unanswered
from cluster.peers.link_messages import NOTHING_TO_GET, Delivery
from node.delivery.settlements import UNLEASED

AskOwner = Callable[[str, list[Any], TakeAnswer], None]
"""(name, arguments, answer) -> asks the owner."""

TellLimit = Callable[[int, int], None]
"""(consumer, limit) -> tells the owner a consumer's limit."""


def take_barrier(consumer: LinkConsumer | None, delivery: Delivery, ask: AskOwner, credit: TellLimit) -> None:
    """An owner has delivered a barrier to a consumer. A consumer that is gone needs none, and one that has
    had it gets it no more: a new owner sends it again.
    """
    ((number, _),) = delivery.ranges
    if consumer is not None and number not in consumer.barriers:
        consumer.barriers = (*consumer.barriers, number)[-BARRIERS_REMEMBERED:]
        consumer.deliver(delivery, UNLEASED)
    elif consumer is not None:
        # The owner has counted it among the consumer's messages.
        consumer.delivered += 1
        consumer.dropped += 1
        credit(consumer.id, consumer.limit + 1)
    ask("barrier_received", [*NOTHING_TO_GET, delivery.queue, number], unanswered)


def with_dropped(consumer: LinkConsumer | None, limit: int) -> int:
    """The limit of a consumer, as its session counts, in the owner's count."""
    return limit if consumer is None else limit + consumer.dropped
