"""The deliveries of a channel that the client has not settled, as runs of consecutive delivery numbers.

A protocol numbers the deliveries of a channel, or of a session, consecutively: delivery tags of AMQP 0-9-1,
delivery ids of AMQP 1.0. `UnsettledDeliveries` maps each number to the sequence number of the message in its
queue.

Cost: settling the oldest delivery is O(1), settling up to a number is O(runs up to it), and settling a
delivery in the middle is a binary search and, where it splits a run, an insertion.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from typing import Final, NamedTuple

from node.delivery.credit import ChannelConsumer, Credits
from node.ranges.range_set import Numbers, Range, merged, ranges_of

COMPACT_AFTER = 256
"""The list drops settled runs at its front when they are more than this, and more than half of it."""

RUN_OCTETS: Final = 256
"""Octets of memory for a run, and for its range in the leases of the front end and of the queue's owner."""

NUMBER_OCTETS: Final = 80
"""Further octets of memory for each delivery of a run whose sequence numbers are not consecutive."""

UnsettledRanges = list[tuple[int, list[Range]]]
"""(lease, ranges of sequence numbers) of deliveries that a client has not settled, in the order of delivery.
`lease` is the number of a lease (`node.delivery.settlements.TOKEN_SHIFT`).
"""

_FIRST = attrgetter("first")


class UnknownDeliveryError(Exception):
    """The channel has no unsettled delivery with this number."""

    def __init__(self, number: int) -> None:
        super().__init__(f"unknown delivery {number}")
        self.number = number


@dataclass(init=False, slots=True)
class DeliveryRun:
    """Deliveries numbered from `first` on, and the sequence numbers of their messages.

    The session settles them under the number `lease` (`node.delivery.settlements.TOKEN_SHIFT`). `consumer`
    is None for messages that the client got one by one.
    """

    first: int
    lease: int
    numbers: Numbers
    consumer: ChannelConsumer | None

    def __init__(self, first: int, lease: int, numbers: Numbers, consumer: ChannelConsumer | None) -> None:
        self.first = first
        self.lease = lease
        self.numbers = numbers
        self.consumer = consumer


class Taken(NamedTuple):
    """Deliveries taken out of the unsettled ones: sequence numbers, and the number of the first delivery."""

    lease: int
    numbers: Numbers
    consumer: ChannelConsumer | None
    first: int


class UnsettledDeliveries:
    """Runs in the order of their delivery numbers; `count` deliveries in all.

    Keeps `Credits.record_octets` up to date: so many octets for a run, however many deliveries it has.
    """

    __slots__ = ("_credits", "_head", "_runs", "count")

    def __init__(self, credits: Credits) -> None:
        self._credits = credits
        self._runs: list[DeliveryRun] = []
        self._head = 0
        self.count = 0

    def append(self, first: int, lease: int, numbers: Numbers, consumer: ChannelConsumer | None) -> None:
        """Add deliveries, the first of which has the number `first`, above all numbers appended before."""
        self.count += len(numbers)
        if len(self._runs) > self._head and type(numbers) is range:
            newest = self._runs[-1]
            before = newest.numbers
            if (
                newest.lease == lease
                and type(before) is range
                and before.stop == numbers.start
                and newest.first + len(before) == first
            ):
                newest.numbers = range(before.start, numbers.stop)
                return
        self._runs.append(DeliveryRun(first, lease, numbers, consumer))
        self._credits.record_octets += octets_of(numbers)

    def restore(self, taken: Iterable[Taken]) -> None:
        """Put back deliveries that were taken: the transaction that was to settle them is not committed."""
        back = [DeliveryRun(one.first, one.lease, one.numbers, one.consumer) for one in taken]
        if not back:
            return
        runs = sorted(self._runs[self._head :] + back, key=_FIRST)
        self.take_all()
        for run in runs:
            self.append(run.first, run.lease, run.numbers, run.consumer)

    def take(self, number: int) -> Taken:
        """Take out one delivery. Raises UnknownDeliveryError."""
        position = self._position(number)
        run = self._runs[position]
        offset = number - run.first
        numbers = run.numbers
        self.count -= 1
        if offset == 0:
            self._cut_front(position, 1)
        else:
            run.numbers = numbers[:offset]
            octets = octets_of(run.numbers) - octets_of(numbers)
            if offset + 1 < len(numbers):
                rest = DeliveryRun(number + 1, run.lease, numbers[offset + 1 :], run.consumer)
                self._runs.insert(position + 1, rest)
                octets += octets_of(rest.numbers)
            self._credits.record_octets += octets
        return Taken(run.lease, numbers[offset : offset + 1], run.consumer, number)

    def take_row(self, first: int, last: int) -> Iterator[Taken]:
        """Take out deliveries `first` to `last`. Raises UnknownDeliveryError at the first number that is not
        unsettled; the deliveries before it are taken.
        """
        while first <= last:
            run = self._runs[self._head] if len(self._runs) > self._head else None
            if run is None or run.first != first:
                yield self.take(first)
                first += 1
                continue
            count = min(len(run.numbers), last - first + 1)
            taken = Taken(run.lease, run.numbers[:count], run.consumer, first)
            self.count -= count
            self._cut_front(self._head, count)
            yield taken
            first += count

    def take_between(self, first: int, last: int) -> list[Taken]:
        """Take out those of the deliveries `first` to `last` that are unsettled, in the order of delivery."""
        low = self._split(first)
        high = self._split(last + 1)
        taken = [Taken(one.lease, one.numbers, one.consumer, one.first) for one in self._runs[low:high]]
        for one in taken:
            self.count -= len(one.numbers)
            self._credits.record_octets -= octets_of(one.numbers)
        if low == self._head:
            self._head = high
            self._compact()
        else:
            del self._runs[low:high]
        return taken

    def between(self, first: int, last: int) -> Iterator[tuple[int, Numbers]]:
        """The lease and the sequence numbers of those of the deliveries `first` to `last` that are unsettled,
        by runs.
        """
        position = max(self._head, bisect_right(self._runs, first, lo=self._head, key=_FIRST) - 1)
        for run in islice(self._runs, position, None):
            if run.first > last:
                return
            numbers = run.numbers[max(0, first - run.first) : last - run.first + 1]
            if numbers:
                yield run.lease, numbers

    def _split(self, number: int) -> int:
        """The index of the first run that begins with this number or later. A run that has the number behind
        its first one is cut in two before.
        """
        runs = self._runs
        position = bisect_right(runs, number - 1, lo=self._head, key=_FIRST)
        if position > self._head:
            run = runs[position - 1]
            offset, numbers = number - run.first, run.numbers
            if offset < len(numbers):
                run.numbers = numbers[:offset]
                rest = DeliveryRun(number, run.lease, numbers[offset:], run.consumer)
                runs.insert(position, rest)
                self._credits.record_octets += (
                    octets_of(run.numbers) + octets_of(rest.numbers) - octets_of(numbers)
                )
        return position

    def take_up_to(self, number: int) -> list[Taken]:
        """Take out every delivery up to this one. Raises UnknownDeliveryError, and takes none, where this one
        is not unsettled.
        """
        position = self._position(number)
        run = self._runs[position]
        taken = [
            Taken(one.lease, one.numbers, one.consumer, one.first)
            for one in self._runs[self._head : position]
        ]
        count = number - run.first + 1
        taken.append(Taken(run.lease, run.numbers[:count], run.consumer, run.first))
        self.count -= sum(len(one.numbers) for one in taken)
        self._credits.record_octets -= sum(octets_of(one.numbers) for one in taken[:-1])
        self._head = position
        self._cut_front(position, count)
        return taken

    def take_all(self) -> list[Taken]:
        """Take out every delivery."""
        taken = list(self)
        self._credits.record_octets -= sum(octets_of(one.numbers) for one in taken)
        self._runs.clear()
        self._head = 0
        self.count = 0
        return taken

    def take_ranges(self) -> UnsettledRanges:
        """Settle every delivery, for a client that has gone."""
        return [(taken.lease, merged(ranges_of(taken.numbers))) for taken in self.take_all()]

    def __iter__(self) -> Iterator[Taken]:
        for run in self._runs[self._head :]:
            yield Taken(run.lease, run.numbers, run.consumer, run.first)

    def _position(self, number: int) -> int:
        """Index of the run that has the delivery. Raises UnknownDeliveryError."""
        runs, head = self._runs, self._head
        if head < len(runs) and runs[head].first == number:
            return head
        position = bisect_right(runs, number, lo=head, key=_FIRST) - 1
        if position < head or number >= runs[position].first + len(runs[position].numbers):
            raise UnknownDeliveryError(number)
        return position

    def _cut_front(self, position: int, count: int) -> None:
        """Drop the first `count` deliveries of a run, and the run with its last one."""
        run = self._runs[position]
        if count < len(run.numbers):
            run.first += count
            run.numbers = run.numbers[count:]
            if type(run.numbers) is not range:
                self._credits.record_octets -= NUMBER_OCTETS * count
            return
        self._credits.record_octets -= octets_of(run.numbers)
        if position == self._head:
            self._head += 1
            self._compact()
        else:
            del self._runs[position]

    def _compact(self) -> None:
        """Drop the settled runs at the front of the list, where they are many."""
        if self._head > COMPACT_AFTER and self._head * 2 > len(self._runs):
            del self._runs[: self._head]
            self._head = 0


def octets_of(numbers: Numbers) -> int:
    """Octets of memory for a run of deliveries with these sequence numbers."""
    return RUN_OCTETS if type(numbers) is range else RUN_OCTETS + NUMBER_OCTETS * len(numbers)
