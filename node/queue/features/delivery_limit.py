"""How many deliveries of a message may fail (queue argument x-delivery-limit)."""

from __future__ import annotations

from typing import Final

from node.queue.argument_types import read_integer
from node.queue.features.argument import Argument, PolicyUse
from node.queue.features.feature import Declaration


def read_limit(value: object) -> int | None:
    """RabbitMQ 4: a negative delivery limit is none."""
    number = read_integer(value)
    return None if number < 0 else number


DELIVERY_LIMIT: Final = Argument("x-delivery-limit", read_limit, "delivery_limit", policy=PolicyUse.LIMIT)


FEATURE: Final[Declaration] = Declaration(DELIVERY_LIMIT)
