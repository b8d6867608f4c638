"""The order of a queue whose messages are in groups (`node.queue.features.group`).

Messages of one group go to one consumer at a time, in order. A consumer with unsettled messages of a group
holds the group. A free group, which no consumer holds, goes to any consumer with credit.

Most ready messages wait in one `RangeSet`, whatever their groups. The owner looks at the oldest of them, only
as far as consumers need messages, and parks each message that it has looked at with its group. Parked
messages are found by the consumer that holds their group. So there is an object for each group that is busy
or has been looked at, and none for a message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

from node.queue.consumers import Consumer, ConsumerKey
from node.queue.order import Levels, Order, PlacedOrder, ReadyByAge
from node.ranges.range_map import ABOVE_ALL, RangeMap, Span
from node.ranges.range_set import Range, RangeSet, count_of, merged

NO_GROUP: Final = 0
"""The group number of messages without a key, which keep no order."""

SCAN: Final = 2048
"""The owner looks at so many messages in one step, and takes two steps for one offer at most, so that no turn
takes long.
"""

GroupHead = tuple[int, int]
"""(first parked message, group), as heaps have them."""

_NO_HEAD: Final[GroupHead] = (ABOVE_ALL, 0)


@dataclass(init=False, slots=True)
class Group:
    """A busy group, with unsettled or resting messages, or one with parked messages. While a message rests,
    later ones wait.

    `others`: the unsettled messages of consumers beside the holder. A consumer that is back after its lease
    was lost may still have messages of a group that another consumer holds by now. No consumer gets further
    messages of the group before one consumer has all that are unsettled.

    `offered`: the first parked message, and the holder under which `_heads` has it.
    """

    holder: ConsumerKey | None
    unsettled: int
    others: dict[ConsumerKey, RangeSet]
    resting: int
    parked: RangeSet
    offered: tuple[int, ConsumerKey | None] | None

    def __init__(self) -> None:
        self.holder = None
        self.unsettled = self.resting = 0
        self.others = {}
        self.parked = RangeSet()
        self.offered = None

    @property
    def waits(self) -> bool:
        """Whether even the holder gets no further messages."""
        return self.resting > 0 or bool(self.others)

    def drop(self, first: int, last: int) -> None:
        """Messages that the holder or another consumer had are unsettled no more."""
        self.unsettled -= last - first + 1
        if self.others:
            for consumer, ranges in list(self.others.items()):
                ranges.remove(first, last)
                if not ranges:
                    del self.others[consumer]

    def next_holder(self) -> ConsumerKey | None:
        """The consumer that has unsettled messages of the group: the holder while it has some."""
        if self.unsettled > sum([len(ranges) for ranges in self.others.values()]):
            return self.holder
        return next(iter(self.others), None)


class ReadyByGroup(Order):
    """The order of a queue with groups: a consumer gets messages of a group only while no other consumer
    holds the group.

    `unfinished` is True after `offered` where the owner has looked at all messages that one offer may look
    at, and there may be more for the consumer.
    """

    __slots__ = (
        "_bound",
        "_chosen",
        "_flying",
        "_fresh",
        "_groups",
        "_groups_of",
        "_heads",
        "_open",
        "_parked",
        "_resting",
        "_supply",
    )

    def __init__(self, groups_of: Levels, ready: RangeSet) -> None:
        """Takes over `ready`."""
        super().__init__(by_consumer=True)
        self._groups_of = groups_of
        # Ready messages that the owner has not looked at, and the groups of all others.
        self._fresh = ready
        self._parked = RangeMap()
        self._groups: dict[int, Group] = {}
        # The groups of leased messages, and of resting ones.
        self._flying = RangeMap()
        self._resting = RangeMap()
        # Heaps by the consumer that holds the group; None for free groups. An element that is out of date is
        # dropped when it reaches the top.
        self._heads: dict[ConsumerKey | None, list[GroupHead]] = {}
        # How many messages are parked, by the holder of their groups.
        self._supply: dict[ConsumerKey | None, int] = {}
        # The messages of the last offer, and their groups, which are in no heap meanwhile.
        self._chosen: list[Span] = []
        self._open: list[int] = []
        # How many groups each consumer holds.
        self._bound: dict[ConsumerKey, int] = {}

    def __len__(self) -> int:
        return len(self._fresh) + len(self._parked)

    def __bool__(self) -> bool:
        return bool(self._fresh) or bool(self._parked)

    def add(self, first: int, last: int) -> int:
        """Messages become ready; return how many were not ready before."""
        return self._fresh.add(first, last)

    def remove(self, first: int, last: int) -> int:
        """Messages are not to be delivered any more; return how many were ready."""
        removed = self._fresh.remove(first, last)
        if removed < last - first + 1 and self._parked:
            spans = self._parked.spans(first, last)
            removed += self._parked.remove(first, last)
            for start, end, key in spans:
                group = self._groups[key]
                self._unpark(group, start, end)
                self._settle_down(key, group)
        return removed

    def clear(self) -> None:
        self._fresh.clear()
        self._parked = RangeMap()
        self._supply.clear()
        for key, group in list(self._groups.items()):
            group.parked.clear()
            self._settle_down(key, group)

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
        for key in self._open:
            group = self._groups.get(key)
            if group is not None:
                self._offer(key, group)
        self._open.clear()
        # basic.get has no consumer that could hold a group: it takes one message of a free group.
        holder = (consumer.front_end, consumer.number) if consumer.counted else None
        limit = limit if consumer.counted else min(limit, 1)
        self._look(holder, limit, rivals)
        self._chosen = [] if self.unfinished else self._choose(holder, limit, rivals)
        if not self._chosen and self._fresh and not self.unfinished:
            # All parked messages are of groups that wait.
            self._park(SCAN)
            self._chosen = self._choose(holder, limit, rivals)
            self.unfinished = not self._chosen and bool(self._fresh)
        return [span[:2] for span in self._chosen]

    def hand_over(self, consumer: ConsumerKey, ranges: list[Range], count: int) -> None:
        taken: list[Span] = []
        for first, last, key in self._chosen:
            if count <= 0:
                break
            last = min(last, first + count - 1)
            count -= last - first + 1
            taken.append((first, last, key))
        self._parked.remove_all(ranges)
        for first, last, key in taken:
            self._unpark(self._groups[key], first, last)
        self._lease(consumer, taken)

    def claim(self, consumer: ConsumerKey, first: int, last: int) -> None:
        """Messages, ready or held, are leased to the consumer, which holds their groups from now on."""
        missing = last - first + 1 - self._fresh.remove(first, last)
        if missing and self._parked:
            parked = self._parked.spans(first, last)
            self._parked.remove(first, last)
            for start, end, key in parked:
                self._unpark(self._groups[key], start, end)
        self._lease(consumer, self._groups_of(first, last))

    def done(self, ranges: list[Range]) -> None:
        flown = self._flying.spans_of(merged(ranges))
        self._flying.remove_all(ranges)
        for start, end, key in flown:
            group = self._groups[key]
            contended = bool(group.others)
            group.drop(start, end)
            holder = group.next_holder()
            if holder != group.holder:
                self._bind(group, holder)
            elif contended == bool(group.others):
                continue
            self._settle_down(key, group)

    def rest(self, first: int, last: int) -> None:
        """Messages that were given back rest; later messages of their groups wait for them."""
        for start, end, key in self._groups_of(first, last):
            if key != NO_GROUP:
                group = self._groups.setdefault(key, Group())
                group.resting += end - start + 1
                self._resting.set(start, end, key)

    def rested(self, first: int, last: int) -> None:
        """Messages rest no more: they are ready or gone."""
        rested = self._resting.spans(first, last)
        self._resting.remove(first, last)
        for start, end, key in rested:
            group = self._groups[key]
            group.resting -= end - start + 1
            self._settle_down(key, group)

    # -- other orders of the same messages ------------------------------------------------------

    def placed(self) -> PlacedOrder:
        return ReadyByAge(RangeSet(self.ranges()))

    def twin(self) -> Order:
        """An empty order that knows who holds each group, and which groups rest."""
        made = ReadyByGroup(self._groups_of, RangeSet())
        made._flying, made._resting = self._flying.copy(), self._resting.copy()
        made._bound = dict(self._bound)
        for key, group in self._groups.items():
            if group.unsettled or group.resting:
                twin = made._groups[key] = Group()
                twin.holder, twin.unsettled, twin.resting = group.holder, group.unsettled, group.resting
                twin.others = {consumer: ranges.copy() for consumer, ranges in group.others.items()}
        return made

    # -- looking --------------------------------------------------------------------------------

    def _look(self, consumer: ConsumerKey | None, limit: int, rivals: int) -> None:
        """Look at messages until this consumer and its rivals find enough of them, and in any case at all
        that are older than a parked one: they may be ahead of it. `unfinished` is True where those are too
        many for one turn.
        """
        left = SCAN
        while left > 0 and self._fresh:
            older = self._behind_parked()
            mine = 0 if consumer is None else self._supply.get(consumer, 0)
            wanted = limit * (rivals + 1) - mine - self._supply.get(None, 0)
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
        groups, supply = self._groups, self._supply
        spans = [span for part in ranges for span in self._groups_of(*part)]
        self._parked.set_all(spans)
        for first, last, key in spans:
            group = groups.get(key)
            if group is None:
                group = groups[key] = Group()
            group.parked.add(first, last)
            supply[group.holder] = supply.get(group.holder, 0) + last - first + 1
            self._offer(key, group)
        return count_of(ranges)

    def _unpark(self, group: Group, first: int, last: int) -> None:
        """Parked messages of a group, which `_parked` has no more, are not ready any more."""
        group.parked.remove(first, last)
        self._supply[group.holder] -= last - first + 1

    # -- choosing -------------------------------------------------------------------------------

    def _choose(self, consumer: ConsumerKey | None, limit: int, rivals: int) -> list[Span]:
        """The oldest messages that the consumer may have now, at most `limit`. For the consumer None the
        messages are of free groups. Each consumer has an equal share of the groups that are free.
        """
        free = limit if not rivals else -(-len(self._heads.get(None) or ()) // (rivals + 1))
        found: list[Span] = []
        # Where the chosen groups go on.
        more: list[GroupHead] = []
        while limit > 0:
            head = more[0] if more else _NO_HEAD
            anyones = self._valid_head(None) if free > 0 else _NO_HEAD
            mine = _NO_HEAD if consumer is None else self._valid_head(consumer)
            first, key = min(head, anyones, mine)
            if first == ABOVE_ALL:
                break
            if first == head[0]:
                heappop(more)
            elif first == mine[0]:
                self._take_head(consumer, key)
            else:
                self._take_head(None, key)
                free -= 1
            parked = self._groups[key].parked
            part = parked.range_from(first)
            assert part is not None
            last = min(part[1], first + limit - 1)
            limit -= last - first + 1
            found.append((first, last, key))
            going_on = parked.range_from(last + 1) if limit > 0 else None
            if going_on is not None:
                heappush(more, (going_on[0], key))
        return found

    def _take_head(self, holder: ConsumerKey | None, key: int) -> None:
        """Take the top of a heap, until the next offer."""
        heappop(self._heads[holder])
        self._groups[key].offered = None
        self._open.append(key)

    def _valid_head(self, holder: ConsumerKey | None) -> GroupHead:
        """The first parked message of the groups that the holder has, and its group; _NO_HEAD without one."""
        heads = self._heads.get(holder)
        while heads:
            first, key = heads[0]
            group = self._groups.get(key)
            if group is not None and group.offered == (first, holder):
                if group.parked.first == first and not group.waits:
                    return first, key
                group.offered = None
            heappop(heads)
        return _NO_HEAD

    def _offer(self, key: int, group: Group) -> None:
        """Put the group's first parked message where `_valid_head` finds it for a consumer that may have
        it.
        """
        first = group.parked.first
        if first is not None and not group.waits and group.offered != (first, group.holder):
            group.offered = first, group.holder
            heappush(self._heads.setdefault(group.holder, []), (first, key))

    # -- groups ---------------------------------------------------------------------------------

    def _lease(self, consumer: ConsumerKey, spans: list[Span]) -> None:
        """Messages that were ready are leased to the consumer."""
        self._flying.set_all(sorted([span for span in spans if span[2] != NO_GROUP]))
        for start, end, key in spans:
            group = self._groups.get(key)
            if key == NO_GROUP:
                if group is not None:
                    self._settle_down(key, group)
                continue
            if group is None:
                group = self._groups[key] = Group()
            if not group.unsettled:
                self._bind(group, consumer)
            elif consumer != group.holder:
                group.others.setdefault(consumer, RangeSet()).add(start, end)
            group.unsettled += end - start + 1
            self._offer(key, group)

    def _settle_down(self, key: int, group: Group) -> None:
        """Forget a group without messages; offer the parked messages of any other group."""
        if not (group.unsettled or group.resting or group.parked):
            self._groups.pop(key, None)
        else:
            self._offer(key, group)

    def _bind(self, group: Group, consumer: ConsumerKey | None) -> None:
        """The consumer holds the group from now on; None frees the group."""
        before, group.holder, group.offered = group.holder, consumer, None
        if group.parked:
            parked, supply = len(group.parked), self._supply
            supply[before] -= parked
            supply[consumer] = supply.get(consumer, 0) + parked
        if consumer is not None:
            group.others.pop(consumer, None)
            self._bound[consumer] = self._bound.get(consumer, 0) + 1
        if before is not None:
            self._bound[before] -= 1
            if not self._bound[before]:
                del self._bound[before]
                self._heads.pop(before, None)
                self._supply.pop(before, None)
