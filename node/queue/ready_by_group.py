"""The order of a queue whose messages are in groups (`node.queue.features.group`).

Messages of one group go to one consumer at a time, in order. A consumer with unsettled messages of a group
holds the group. A free group, which no consumer holds, goes to any consumer with credit.

Most ready messages wait in one `RangeSet`, whatever their groups. The owner looks at the oldest of them, only
as far as consumers need messages, and parks each message that it has looked at with its group. Parked
messages are found by the consumer that holds their group. `node.queue.group_table` has the groups that are
busy or have been looked at.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import Final

from node.queue.consumers import Consumer, ConsumerKey
from node.queue.group_table import NO_GROUP, UNHELD, KnownGroups, group_table
from node.queue.order import Order, PlacedOrder, ReadyByAge
from node.ranges.range_columns import SpanColumns
from node.ranges.range_map import RangeMap
from node.ranges.range_set import Range, RangeSet, count_of, merged

SCAN: Final = 2048
"""The owner looks at so many messages in one step, and takes two steps for one offer at most, so that no turn
takes long.
"""

KEPT_HOLDERS: Final = 64
"""With so many more numbers of consumers than twice those that are needed, the order looks for others."""

GroupsOf = Callable[[int, int], SpanColumns]
"""(first, last) -> the whole closed range as spans of one group each; NO_GROUP is a group, too."""


class ReadyByGroup(Order):
    """The order of a queue with groups: a consumer gets messages of a group only while no other consumer
    holds the group.

    `unfinished` is True after `offered` where the owner has looked at all messages that one offer may look
    at, and there may be more for the consumer.
    """

    __slots__ = (
        "_flying",
        "_fresh",
        "_groups_of",
        "_holders",
        "_newest_holder",
        "_parked",
        "_resting",
        "table",
    )

    def __init__(self, groups_of: GroupsOf, ready: RangeSet) -> None:
        """Takes over `ready`."""
        super().__init__(by_consumer=True)
        self._groups_of = groups_of
        # Ready messages that the owner has not looked at, and the groups of all others.
        self._fresh = ready
        self._parked = RangeMap()
        # The groups of leased messages, and of resting ones.
        self._flying = RangeMap()
        self._resting = RangeMap()
        self.table: KnownGroups = group_table()
        # The number by which the table knows a consumer.
        self._holders: dict[ConsumerKey, int] = {}
        self._newest_holder = UNHELD

    def __len__(self) -> int:
        return len(self._fresh) + len(self._parked)

    def __bool__(self) -> bool:
        return bool(self._fresh) or bool(self._parked)

    def add(self, first: int, last: int) -> int:
        """Messages become ready; return how many were not ready before."""
        return self._fresh.add(first, last)

    def add_all(self, ranges: list[Range]) -> None:
        self._fresh.update(ranges)

    def remove(self, first: int, last: int) -> int:
        """Messages are not to be delivered any more; return how many were ready."""
        removed = self._fresh.remove(first, last)
        if removed < last - first + 1 and self._parked:
            spans = self._parked.spans(first, last)
            removed += self._parked.remove(first, last)
            self.table.remove(spans)
        return removed

    def clear(self) -> None:
        self._fresh.clear()
        self._parked = RangeMap()
        self.table.clear()

    def front(self) -> Range | None:
        """The oldest range, whichever consumer may have it; None when empty."""
        fresh, parked = self._fresh.front(), self._parked.front()
        if parked is None or (fresh is not None and fresh[0] < parked[0]):
            return fresh
        return parked[:2]

    def intersection(self, first: int, last: int) -> list[Range]:
        """The parts of the closed range that are ready, ascending."""
        found = self._fresh.intersection(first, last)
        parked = self._parked.spans(first, last)
        return sorted(found + [span[:2] for span in parked]) if parked else found

    def ranges(self) -> Iterator[Range]:
        """All ready messages, ascending."""
        found = self._fresh.copy()
        found.update(span[:2] for span in self._parked.all())
        return found.ranges()

    def unseen(self) -> Range | None:
        """The first range of messages that are not parked; None when there is none."""
        return self._fresh.front()

    # -- serving --------------------------------------------------------------------------------

    def offered(self, consumer: Consumer, limit: int, *, rivals: int, begun: bool) -> list[Range]:
        self.unfinished = False
        if begun and rivals:
            # A share of the groups in each turn, so that all consumers get messages.
            return []
        # basic.get has no consumer that could hold a group: it takes one message of a free group.
        holder = self._holder((consumer.front_end, consumer.number)) if consumer.counted else UNHELD
        limit = limit if consumer.counted else min(limit, 1)
        self._look(holder, limit, rivals)
        found = [] if self.unfinished else self.table.choose(holder, limit, rivals)
        if not found and self._fresh and not self.unfinished:
            # All parked messages are of groups that wait.
            self._park(SCAN)
            found = self.table.choose(holder, limit, rivals)
            self.unfinished = not found and bool(self._fresh)
        return found

    def hand_over(self, consumer: ConsumerKey, ranges: list[Range], count: int) -> None:
        self._parked.remove_all(ranges)
        self._flying.extend(*self.table.hand_over(self._holder(consumer), count))

    def claim(self, consumer: ConsumerKey, first: int, last: int) -> None:
        """Messages, ready or held, are leased to the consumer, which holds their groups from now on."""
        missing = last - first + 1 - self._fresh.remove(first, last)
        if missing and self._parked:
            parked = self._parked.spans(first, last)
            self._parked.remove(first, last)
            self.table.unpark(parked)
        spans = list(zip(*self._groups_of(first, last), strict=True))
        self._flying.set_all([span for span in spans if span[2] != NO_GROUP])
        self.table.lease(self._holder(consumer), spans)

    def done(self, ranges: list[Range]) -> None:
        ranges = merged(ranges)
        flown = self._flying.spans_of(ranges)
        self._flying.remove_all(ranges)
        self.table.done(flown)

    def rest(self, first: int, last: int) -> None:
        """Messages that were given back rest; later messages of their groups wait for them."""
        spans = [span for span in zip(*self._groups_of(first, last), strict=True) if span[2] != NO_GROUP]
        self._resting.set_all(spans)
        self.table.rest(spans)

    def rested(self, first: int, last: int) -> None:
        """Messages rest no more: they are ready or gone."""
        rested = self._resting.spans(first, last)
        self._resting.remove(first, last)
        self.table.rested(rested)

    def _holder(self, consumer: ConsumerKey) -> int:
        """The number by which the table knows the consumer."""
        number = self._holders.get(consumer)
        if number is None:
            if len(self._holders) >= KEPT_HOLDERS + 2 * len(self.table.holders()):
                needed = {*self.table.holders()}
                self._holders = {key: one for key, one in self._holders.items() if one in needed}
            self._newest_holder += 1
            number = self._holders[consumer] = self._newest_holder
        return number

    # -- other orders of the same messages ------------------------------------------------------

    def placed(self) -> PlacedOrder:
        return ReadyByAge(RangeSet(self.ranges()))

    def twin(self) -> Order:
        """An empty order that knows who holds each group, and which groups rest."""
        made = ReadyByGroup(self._groups_of, RangeSet())
        made._flying, made._resting = self._flying.copy(), self._resting.copy()
        made._holders, made._newest_holder = dict(self._holders), self._newest_holder
        made.table = self.table.twin()
        return made

    # -- looking --------------------------------------------------------------------------------

    def _look(self, holder: int, limit: int, rivals: int) -> None:
        """Look at messages until this consumer and its rivals find enough of them, and in any case at all
        that are older than a parked one: they may be ahead of it. `unfinished` is True where those are too
        many for one turn.
        """
        left = SCAN
        while left > 0 and self._fresh:
            older = self._behind_parked()
            mine = 0 if holder == UNHELD else self.table.supply(holder)
            wanted = limit * (rivals + 1) - mine - self.table.supply(UNHELD)
            if not older and (mine >= limit or wanted <= 0):
                return
            left -= self._park(left if older else min(left, wanted))
        self.unfinished = self._behind_parked()

    def _behind_parked(self) -> bool:
        """Whether a message that the owner has not looked at is older than a parked one."""
        front, newest = self._fresh.front(), self._parked.last
        return front is not None and newest is not None and front[0] < newest

    def _park(self, limit: int) -> int:
        """Look at the oldest of the messages that wait for that, and park them; return how many they are."""
        ranges = self._fresh.take(limit)
        columns = self._groups_of(*ranges[0])
        if len(ranges) > 1:
            columns = array("Q", columns[0]), array("Q", columns[1]), array("Q", columns[2])
            for part in ranges[1:]:
                for column, more in zip(columns, self._groups_of(*part), strict=True):
                    column += more
        self._parked.extend(*columns)
        self.table.park(*columns)
        return count_of(ranges)
