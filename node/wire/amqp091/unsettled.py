"""The deliveries of a channel that the client has not settled, as runs of consecutive tags.

Cost: one in-order acknowledgement is O(1), a multiple one is O(runs it covers), one out of order is
a binary search and, where it splits a run, an insertion.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, NamedTuple

from node.ranges.numbers import Numbers
from node.wire.amqp091.credit import ChannelConsumer, Credits
from node.wire.amqp091.errors import UnknownDeliveryTagError

COMPACT_AFTER = 256
"""Settled runs at the front of the list that are dropped at once."""

RUN_OCTETS: Final = 256
"""Octets of a run, and of its range in the leases of its front end and of its queue's owner."""

NUMBER_OCTETS: Final = 80
"""Octets of each delivery of a run besides, if their sequence numbers are not consecutive."""

_TAG = attrgetter("tag")


@dataclass(init=False, slots=True)
class TagRun:
    """Deliveries with tags from `tag` on, and their sequence numbers.

    `consumer` is None for messages that were got; `link` is the number that the shell knows.
    """

    tag: int
    link: int
    numbers: Numbers
    consumer: ChannelConsumer | None

    def __init__(self, tag: int, link: int, numbers: Numbers, consumer: ChannelConsumer | None) -> None:
        self.tag = tag
        self.link = link
        self.numbers = numbers
        self.consumer = consumer


class Taken(NamedTuple):
    """Deliveries that are settled now: their sequence numbers, and their first tag."""

    link: int
    numbers: Numbers
    consumer: ChannelConsumer | None
    tag: int


class UnsettledDeliveries:
    """Tag runs in the order of their tags; `count` deliveries in all.

    Their octets are counted with the connection's: by run, as nothing is paid for a delivery within one.
    """

    __slots__ = ("_credits", "_head", "_runs", "count")

    def __init__(self, credits: Credits) -> None:
        self._credits = credits
        self._runs: list[TagRun] = []
        self._head = 0
        self.count = 0

    def append(self, tag: int, link: int, numbers: Numbers, consumer: ChannelConsumer | None) -> None:
        """Deliveries with tags above all that were appended before."""
        self.count += len(numbers)
        if len(self._runs) > self._head and type(numbers) is range:
            newest = self._runs[-1]
            before = newest.numbers
            if (
                newest.link == link
                and type(before) is range
                and before.stop == numbers.start
                and newest.tag + len(before) == tag
            ):
                newest.numbers = range(before.start, numbers.stop)
                return
        self._runs.append(TagRun(tag, link, numbers, consumer))
        self._credits.record_octets += octets_of(numbers)

    def restore(self, taken: Iterable[Taken]) -> None:
        """Put back, in their places, deliveries that were taken and are not settled after all."""
        back = [TagRun(one.tag, one.link, one.numbers, one.consumer) for one in taken]
        if not back:
            return
        runs = sorted(self._runs[self._head :] + back, key=_TAG)
        self.take_all()
        for run in runs:
            self.append(run.tag, run.link, run.numbers, run.consumer)

    def take(self, tag: int) -> Taken:
        """Settle the delivery `tag`; raises UnknownDeliveryTagError."""
        position = self._position(tag)
        run = self._runs[position]
        offset = tag - run.tag
        numbers = run.numbers
        self.count -= 1
        if offset == 0:
            self._cut_front(position, 1)
        else:
            run.numbers = numbers[:offset]
            octets = octets_of(run.numbers) - octets_of(numbers)
            if offset + 1 < len(numbers):
                rest = TagRun(tag + 1, run.link, numbers[offset + 1 :], run.consumer)
                self._runs.insert(position + 1, rest)
                octets += octets_of(rest.numbers)
            self._credits.record_octets += octets
        return Taken(run.link, numbers[offset : offset + 1], run.consumer, tag)

    def take_row(self, first: int, last: int) -> Iterator[Taken]:
        """Settle deliveries with consecutive tags, one by one; raises UnknownDeliveryTagError on the way."""
        if len(self._runs) > self._head:
            run = self._runs[self._head]
            if run.tag == first and last - first < len(run.numbers):
                taken = Taken(run.link, run.numbers[: last - first + 1], run.consumer, first)
                self.count -= last - first + 1
                self._cut_front(self._head, last - first + 1)
                yield taken
                return
        for tag in range(first, last + 1):
            yield self.take(tag)

    def take_up_to(self, tag: int) -> list[Taken]:
        """Settle every delivery up to `tag`, 0 for all; raises UnknownDeliveryTagError.

        A tag other than 0 must itself be that of an unsettled delivery: basic.ack's delivery-tag "MUST
        refer to a delivered message", and one that was settled before has been referred to already.
        """
        if tag == 0:
            return self.take_all()
        position = self._position(tag)
        run = self._runs[position]
        taken = [
            Taken(one.link, one.numbers, one.consumer, one.tag) for one in self._runs[self._head : position]
        ]
        count = tag - run.tag + 1
        taken.append(Taken(run.link, run.numbers[:count], run.consumer, run.tag))
        self.count -= sum(len(one.numbers) for one in taken)
        self._credits.record_octets -= sum(octets_of(one.numbers) for one in taken[:-1])
        self._head = position
        self._cut_front(position, count)
        return taken

    def take_all(self) -> list[Taken]:
        taken = list(self)
        self._credits.record_octets -= sum(octets_of(one.numbers) for one in taken)
        self._runs.clear()
        self._head = 0
        self.count = 0
        return taken

    def __iter__(self) -> Iterator[Taken]:
        for run in self._runs[self._head :]:
            yield Taken(run.link, run.numbers, run.consumer, run.tag)

    def _position(self, tag: int) -> int:
        """Index of the run that holds `tag`."""
        runs, head = self._runs, self._head
        if head < len(runs) and runs[head].tag == tag:
            return head
        position = bisect_right(runs, tag, lo=head, key=_TAG) - 1
        if position < head or tag >= runs[position].tag + len(runs[position].numbers):
            raise UnknownDeliveryTagError(f"unknown delivery tag {tag}")
        return position

    def _cut_front(self, position: int, count: int) -> None:
        """Drop the first `count` deliveries of a run, and the run with its last one."""
        run = self._runs[position]
        if count < len(run.numbers):
            run.tag += count
            run.numbers = run.numbers[count:]
            if type(run.numbers) is not range:
                self._credits.record_octets -= NUMBER_OCTETS * count
            return
        self._credits.record_octets -= octets_of(run.numbers)
        if position == self._head:
            self._head += 1
            if self._head > COMPACT_AFTER and self._head * 2 > len(self._runs):
                del self._runs[: self._head]
                self._head = 0
        else:
            del self._runs[position]


def octets_of(numbers: Numbers) -> int:
    """Octets of memory of a run of deliveries with these sequence numbers."""
    return RUN_OCTETS if type(numbers) is range else RUN_OCTETS + NUMBER_OCTETS * len(numbers)
