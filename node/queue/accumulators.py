"""The aggregates over the messages of a group, from which messages may be taken away again.

Unknown values count as SQL-92 has it: aggregates skip them, and an aggregate of no value is unknown.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from heapq import heapify, heappop, heappush
from typing import Any, Final

from node.expressions.aggregates import Aggregate
from node.expressions.functions import LONGEST_TEXT
from node.expressions.operators import LONG_LEAST, LONG_MOST

_SCALE: Final = 1074
"""A finite double is a whole number of 2**-1074, the smallest one. Sums of these are exact, so a sum is the
same in whatever order values came and went.
"""

_SPARE: Final = 16


class Accumulator:
    """One aggregate. Callers add and remove known values alone, as `operand_of` makes them."""

    @abstractmethod
    def add(self, value: Any) -> None: ...

    @abstractmethod
    def remove(self, value: Any) -> None:
        """Take away a value that was added before."""

    @abstractmethod
    def result(self) -> Any:
        """The aggregate; None for unknown."""

    @abstractmethod
    def share(self) -> Any:
        """What `merge` needs of this aggregate, as plain values."""

    @abstractmethod
    def merge(self, share: Any) -> None:
        """Add the values of another aggregate over other messages, by its `share`."""


class Count(Accumulator):
    """The number of known values."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, value: Any) -> None:
        self._count += 1

    def remove(self, value: Any) -> None:
        self._count -= 1

    def result(self) -> Any:
        return self._count

    def share(self) -> Any:
        return self._count

    def merge(self, share: Any) -> None:
        self._count += share


class Total(Accumulator):
    """The sum of numbers, or their average. A sum of longs is a long, unless it has more than 64 bits."""

    def __init__(self, *, average: bool) -> None:
        self._average = average
        self._count = self._doubles = self._longs = self._scaled = 0
        self._infinite = self._negative = self._undefined = 0

    def add(self, value: Any) -> None:
        self._change(value, 1)

    def remove(self, value: Any) -> None:
        self._change(value, -1)

    def _change(self, value: Any, by: int) -> None:
        self._count += by
        if not isinstance(value, float):
            self._longs += value * by
            return
        self._doubles += by
        if math.isnan(value):
            self._undefined += by
        elif math.isinf(value):
            if value > 0:
                self._infinite += by
            else:
                self._negative += by
        else:
            self._scaled += by * scaled(value)

    def result(self) -> Any:
        if not self._count:
            return None
        if self._undefined or (self._infinite and self._negative):
            return math.nan
        if self._infinite or self._negative:
            return math.inf if self._infinite else -math.inf
        if not self._doubles and not self._average and LONG_LEAST <= self._longs <= LONG_MOST:
            return self._longs
        total = (self._longs << _SCALE) + self._scaled
        return _quotient(total, (self._count if self._average else 1) << _SCALE)

    def share(self) -> Any:
        numbers = (self._count, self._doubles, self._infinite, self._negative, self._undefined)
        return [*numbers, _octets_of(self._longs), _octets_of(self._scaled)]

    def merge(self, share: Any) -> None:
        count, doubles, infinite, negative, undefined, longs, scaled_sum = share
        self._count += count
        self._doubles += doubles
        self._infinite += infinite
        self._negative += negative
        self._undefined += undefined
        self._longs += int.from_bytes(longs, "big", signed=True)
        self._scaled += int.from_bytes(scaled_sum, "big", signed=True)


def _octets_of(number: int) -> bytes:
    """A whole number of any size."""
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


def scaled(value: float) -> int:
    """A finite double as a whole number of 2**-1074."""
    numerator, denominator = value.as_integer_ratio()
    return numerator << (_SCALE + 1 - denominator.bit_length())


def _quotient(numerator: int, denominator: int) -> float:
    """The nearest double; infinite beyond the range of doubles."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


class Backwards:
    """A value in the contrary order."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: Backwards) -> bool:
        return bool(other.value < self.value)


class Extreme(Accumulator):
    """The smallest or the largest value. Numbers come in front of texts.

    A heap has each different value once or more often; values that are not counted any more leave the heap
    when they come to its front, or when they are the most of it. So a step costs the logarithm of the number
    of values on average.
    """

    def __init__(self, *, largest: bool) -> None:
        self._largest = largest
        self._counts: dict[Any, int] = {}
        self._heap: list[Any] = []

    def add(self, value: Any) -> None:
        count = self._counts.get(value, 0)
        self._counts[value] = count + 1
        if not count:
            if len(self._heap) >= 2 * len(self._counts) + _SPARE:
                self._heap = [self._placed(each) for each in self._counts]
                heapify(self._heap)
            else:
                heappush(self._heap, self._placed(value))

    def remove(self, value: Any) -> None:
        count = self._counts[value] - 1
        if count:
            self._counts[value] = count
        else:
            del self._counts[value]

    def _placed(self, value: Any) -> Any:
        return Backwards(value) if self._largest else value

    def result(self) -> Any:
        heap = self._heap
        while heap:
            value = heap[0].value if self._largest else heap[0]
            if value in self._counts:
                return value[1]
            heappop(heap)
        return None

    def share(self) -> Any:
        return self.result()

    def merge(self, share: Any) -> None:
        if share is not None:
            self.add((int(isinstance(share, str)), share))


def accumulator_of(aggregate: Aggregate) -> Accumulator:
    """A new accumulator for an aggregate."""
    if aggregate is Aggregate.COUNT:
        return Count()
    if aggregate in (Aggregate.SUM, Aggregate.AVG):
        return Total(average=aggregate is Aggregate.AVG)
    return Extreme(largest=aggregate is Aggregate.MAX)


def operand_of(aggregate: Aggregate, value: Any) -> Any:
    """The value that an aggregate has of a message; None where the aggregate skips the message.

    Sums take numbers. The least and the largest are found among numbers and texts up to LONGEST_TEXT
    characters.
    """
    if aggregate is Aggregate.COUNT:
        return None if value is None else True
    ordered = aggregate in (Aggregate.MIN, Aggregate.MAX)
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        number = plain_number(value) if ordered else value
        return (0, number) if ordered and number is not None else number
    return (1, value) if ordered and isinstance(value, str) and len(value) <= LONGEST_TEXT else None


def grouping_of(value: Any) -> Any:
    """A value of a group's expression: equal numbers are one value, whatever their types. None, with which
    all unknown values are one group, for what is no number, boolean or text up to LONGEST_TEXT characters.
    """
    if isinstance(value, bool):
        return (value,)
    if isinstance(value, int | float):
        return plain_number(value)
    return value if isinstance(value, str) and len(value) <= LONGEST_TEXT else None


def shown_grouping(value: Any) -> Any:
    """The inverse of `grouping_of`."""
    return value[0] if isinstance(value, tuple) else value


def plain_number(value: Any) -> Any:
    """A whole double as a long; None for what is no number."""
    if isinstance(value, float):
        if math.isnan(value):
            return None
        if value.is_integer() and LONG_LEAST <= value <= LONG_MOST:
            return int(value)
    return value
