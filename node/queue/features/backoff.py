"""A message whose delivery has failed rests before its next delivery (queue argument
x-redelivery-backoff).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from typing import Any, Final

from node.queue.argument import Argument, PolicyUse
from node.queue.argument_types import UnacceptableError, read_positive_time
from node.queue.delivery_state import DeliveryState
from node.queue.feature import Declaration, Feature
from node.ranges.range_map import Span
from node.ranges.range_set import Range
from node.type_names import type_name


@dataclass(frozen=True, slots=True)
class RedeliveryBackoff:
    """How long a message rests after a failed delivery: `initial_ms` after the first one, `factor` times as
    long after each further one, at most `maximum_ms`.
    """

    initial_ms: int
    factor: float
    maximum_ms: int

    def delay_ms(self, failures: int) -> int:
        """The rest after the failed delivery with this number, counted from 1; in milliseconds."""
        try:
            return int(min(self.initial_ms * self.factor ** (failures - 1), self.maximum_ms))
        except OverflowError:
            return self.maximum_ms


def read_backoff(value: object) -> RedeliveryBackoff:
    """A table `{initial: ms, factor: number, maximum: ms}`. The default factor is 2, the default maximum a
    day.

    Raises UnacceptableError.
    """
    if not isinstance(value, dict):
        raise UnacceptableError(f"{{unacceptable_type,{type_name(value)}}}")
    initial = read_positive_time(value.get("initial"))
    maximum = read_positive_time(value.get("maximum", 86_400_000))
    return RedeliveryBackoff(initial, _factor(value.get("factor", 2)), maximum)


def _factor(value: Any) -> float:
    number = not isinstance(value, bool) and isinstance(value, int | float | Decimal)
    if number and isfinite(value) and 1 <= value <= 1_000_000:
        return float(value)
    raise UnacceptableError('"the factor must be a number from 1 to 1000000"')


REDELIVERY_BACKOFF: Final = Argument(
    "x-redelivery-backoff", read_backoff, "redelivery_backoff", policy=PolicyUse.USER
)


class Backoff(Feature):
    """Has the queue's messages rest after failed deliveries."""

    def __init__(self, delivery: DeliveryState, backoff: RedeliveryBackoff) -> None:
        super().__init__()
        self._delivery = delivery
        self._backoff = backoff

    def rest(self, front_end: int, ranges: Sequence[Range], now: int) -> list[Span]:
        delivery = self._delivery
        return [
            (low, high, now + self._backoff.delay_ms(failures + 1))
            for one in ranges
            for start, end in delivery.leased(front_end, *one)
            for low, high, failures in delivery.failures(start, end)
        ]


def _share(delivery: DeliveryState, former: Feature | None) -> Feature | None:
    backoff = REDELIVERY_BACKOFF.of(delivery.settings)
    return None if backoff is None else Backoff(delivery, backoff)


FEATURE: Final[Declaration] = Declaration(REDELIVERY_BACKOFF, make=_share)
