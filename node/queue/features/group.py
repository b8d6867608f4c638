"""Delivery in the order of groups (queue argument x-group-by, X3).

Messages of one group go to one consumer at a time, in order. A consumer with unsettled messages of a group
holds the group. A free group, which no consumer holds, goes to any consumer with credit.

Most ready messages wait in one `RangeSet`, whatever their groups. When the next message for a consumer is of
a group that another consumer holds, the message is parked with its group, and is not looked at again before
the group is free. So there is an object for each busy group, and none for a message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import blake2b
from heapq import heappop, heappush
from typing import Final

from node.message.format import MessageFormat
from node.queue.annotations import Annotations
from node.queue.argument import Argument
from node.queue.argument_types import read_text
from node.queue.consumers import Consumer, ConsumerKey
from node.queue.feature import Declaration, Description, Incoming, Notes, Rule
from node.queue.operations import Aspect
from node.queue.order import Order, PlacedOrder, ReadyByAge
from node.queue.settings import QueueSettings
from node.ranges.range_map import RangeMap, Span
from node.ranges.range_set import Range, RangeSet, first_of

GROUP_BY: Final = Argument("x-group-by", read_text, "group_by")

NO_GROUP: Final = 0
"""The group number of messages without a key, which keep no order."""

ROUTING_KEY: Final = "routing_key"

PROPERTIES: Final = frozenset(("message_id", "correlation_id", "type", "app_id", "user_id", "reply_to"))
"""The properties that can be a key. Any other name is the name of a header."""

GROUP_ID: Final = "group_id"
"""A property of AMQP 1.0. A message of AMQP 0-9-1 may have a header with this name."""

_CACHED: Final = 4096

SCAN: Final = 2048
"""`front_for` parks at most so many stretches of messages, so that no turn takes long."""

GroupAt = Callable[[int], tuple[int, int | None]]
"""sequence number -> the message's group, and the last number up to which all messages have that group; None
for no such bound.
"""


@dataclass(slots=True)
class Group:
    """A busy group, with unsettled, parked or resting messages. While a message rests, later ones wait."""

    holder: ConsumerKey | None = None
    unsettled: int = 0
    others: dict[ConsumerKey, RangeSet] = field(default_factory=dict)
    """The unsettled messages of consumers beside the holder. A consumer that is back after its lease was lost
    may still have messages of a group that another consumer holds by now. No consumer gets further messages
    of the group before one consumer has all that are unsettled.
    """
    resting: int = 0
    parked: RangeSet = field(default_factory=RangeSet)
    offered: tuple[int, ConsumerKey | None] | None = None
    """The first parked message, and the holder under which `_heads` has it."""

    @property
    def waits(self) -> bool:
        """Whether even the holder gets no further messages."""
        return self.resting > 0 or bool(self.others)

    def drop(self, first: int, last: int) -> None:
        """Messages that the holder or another consumer had are unsettled no more."""
        self.unsettled -= last - first + 1
        for consumer, ranges in list(self.others.items()):
            ranges.remove(first, last)
            if not ranges:
                del self.others[consumer]

    def next_holder(self) -> ConsumerKey | None:
        """The consumer that has unsettled messages of the group: the holder while it has some."""
        if self.unsettled > sum(map(len, self.others.values())):
            return self.holder
        return next(iter(self.others), None)


class ReadyByGroup(Order):
    """The order of a queue with groups: a consumer gets messages of a group only while no other consumer
    holds the group.

    `unfinished` is True after `front_for` where it has parked `SCAN` stretches and there may be more.
    """

    __slots__ = (
        "_bound",
        "_flying",
        "_fresh",
        "_group_at",
        "_groups",
        "_heads",
        "_parked",
        "_resting",
    )

    def __init__(self, group_at: GroupAt, ready: RangeSet) -> None:
        """Takes over `ready`."""
        super().__init__(by_consumer=True)
        self._group_at = group_at
        self._fresh = ready
        self._parked = 0
        self._groups: dict[int, Group] = {}
        # The groups of leased messages, and of resting ones.
        self._flying = RangeMap()
        self._resting = RangeMap()
        # Heaps of (first parked message, group) by the consumer that holds the group; None for free groups.
        # An element that is out of date is dropped when it reaches the top.
        self._heads: dict[ConsumerKey | None, list[tuple[int, int]]] = {}
        # How many groups each consumer holds.
        self._bound: dict[ConsumerKey, int] = {}

    def __len__(self) -> int:
        return len(self._fresh) + self._parked

    def __bool__(self) -> bool:
        return bool(self._fresh) or self._parked > 0

    def add(self, first: int, last: int) -> int:
        """Messages become ready; return how many were not ready before."""
        return self._fresh.add(first, last)

    def remove(self, first: int, last: int) -> int:
        """Messages are not to be delivered any more; return how many were ready."""
        removed = self._fresh.remove(first, last)
        if self._parked and removed < last - first + 1:
            busy = [(key, group) for key, group in self._groups.items() if group.parked]
            removed += sum(self._unpark(key, group, first, last) for key, group in busy)
        return removed

    def clear(self) -> None:
        self._fresh.clear()
        for key, group in list(self._groups.items()):
            group.parked.clear()
            self._settle_down(key, group)
        self._parked = 0

    def front(self) -> Range | None:
        """The oldest range, whichever consumer may have it; None when empty."""
        fronts = [group.parked.front() for group in self._groups.values() if group.parked]
        return min((front for front in (self._fresh.front(), *fronts) if front is not None), default=None)

    def intersection(self, first: int, last: int) -> list[Range]:
        """The parts of the closed range that are ready, ascending."""
        found = self._fresh.intersection(first, last)
        for group in self._groups.values():
            found += group.parked.intersection(first, last)
        return sorted(found)

    def ranges(self) -> Iterator[Range]:
        """All ready messages, ascending."""
        found = self._fresh.copy()
        for group in self._groups.values():
            found.update(group.parked.ranges())
        return found.ranges()

    def unseen(self) -> Range | None:
        """The first range of messages that are not parked; None when there is none."""
        return self._fresh.front()

    # -- serving --------------------------------------------------------------------------------

    def offered(self, consumer: Consumer, limit: int, *, alone: bool, begun: bool) -> list[Range]:
        self.unfinished = False
        if begun and not alone:
            # One group a turn for each consumer, so that all consumers get messages.
            return []
        if consumer.counted:
            front = self.front_for((consumer.front_end, consumer.number), limit, alone)
        else:
            # basic.get has no consumer that could hold a group: it takes one message of a free group.
            front = self.front_for(None, 1, True)
        return [] if front is None else first_of([front], limit)

    def hand_over(self, consumer: ConsumerKey, ranges: list[Range], count: int) -> None:
        for part in ranges:
            self.take(consumer, *part)

    def claim(self, consumer: ConsumerKey, first: int, last: int) -> None:
        self.take(consumer, first, last)

    def front_for(self, consumer: ConsumerKey | None, limit: int, alone: bool) -> Range | None:
        """The oldest range of messages that the consumer may have now, at most `limit`; None without such
        messages. For the consumer None the messages are of free groups.

        The messages are of several groups only where the consumer is `alone` in the line: otherwise the other
        consumers are to get the other groups.
        """
        self.unfinished = False
        for _ in range(SCAN):
            parked = self._head(consumer)
            front = self._fresh.front()
            if front is None or (parked is not None and parked[0] < front[0]):
                return parked and (parked[0], min(parked[1], parked[0] + limit - 1))
            end = self._eligible(consumer, front[0], min(front[1], front[0] + limit - 1), alone)
            if end is not None:
                return front[0], end
            self._park(*front)
        self.unfinished = True
        return None

    def take(self, consumer: ConsumerKey, first: int, last: int) -> None:
        """Ready messages are leased to the consumer, which holds their groups from now on."""
        missing = last - first + 1 - self._fresh.remove(first, last)
        for start, end, key in self._cover(first, last):
            if key == NO_GROUP:
                continue
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = Group()
            if missing and group.parked:
                missing -= self._unpark(key, group, start, end, tidy=False)
            if not group.unsettled:
                self._bind(group, consumer)
            elif consumer != group.holder:
                group.others.setdefault(consumer, RangeSet()).add(start, end)
            group.unsettled += end - start + 1
            self._flying.set(start, end, key)
            self._offer(key, group)

    def done(self, first: int, last: int) -> None:
        """Leased messages are settled or given back. The caller adds those that are ready again
        with `add`.
        """
        flown = self._flying.spans(first, last)
        self._flying.remove(first, last)
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
        for start, end, key in self._cover(first, last):
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
        made = ReadyByGroup(self._group_at, RangeSet())
        made._flying, made._resting = self._flying.copy(), self._resting.copy()
        made._bound = dict(self._bound)
        for key, group in self._groups.items():
            if group.unsettled or group.resting:
                others = {consumer: ranges.copy() for consumer, ranges in group.others.items()}
                made._groups[key] = Group(group.holder, group.unsettled, others, group.resting)
        return made

    # -- groups ---------------------------------------------------------------------------------

    def _cover(self, first: int, last: int) -> Iterator[Span]:
        """The closed range as stretches of messages with one group each."""
        while first <= last:
            key, upto = self._group_at(first)
            end = last if upto is None else min(upto, last)
            yield first, end, key
            first = end + 1

    def _eligible(self, consumer: ConsumerKey | None, first: int, last: int, alone: bool) -> int | None:
        """The last message of the range up to which the consumer may have all; None where it may have none.
        No message of the range is parked.
        """
        found = None
        for _, end, key in self._cover(first, last):
            group = self._groups.get(key)
            if group is not None and not _may_go_on(group, consumer):
                break
            found = end
            if not alone:
                break
        return found

    def _park(self, first: int, last: int) -> None:
        """Park the first stretch of messages with one group."""
        first, end, key = next(self._cover(first, last))
        self._fresh.remove(first, end)
        group = self._groups[key]
        self._parked += group.parked.add(first, end)
        self._offer(key, group)

    def _unpark(self, key: int, group: Group, first: int, last: int, tidy: bool = True) -> int:
        removed = group.parked.remove(first, last)
        self._parked -= removed
        if removed and tidy:
            self._settle_down(key, group)
        return removed

    def _settle_down(self, key: int, group: Group) -> None:
        """Forget a group without messages; offer the parked messages of any other group."""
        if not (group.unsettled or group.resting or group.parked):
            del self._groups[key]
        else:
            self._offer(key, group)

    def _offer(self, key: int, group: Group) -> None:
        """Put the group's first parked message where `_head` finds it for a consumer that may have it."""
        first = group.parked.first
        if first is not None and not group.waits and group.offered != (first, group.holder):
            group.offered = first, group.holder
            heappush(self._heads.setdefault(group.holder, []), (first, key))

    def _head(self, consumer: ConsumerKey | None) -> Range | None:
        """The oldest parked range of the groups that the consumer may have."""
        fronts = [self._valid_head(None)]
        if consumer is not None:
            fronts.append(self._valid_head(consumer))
        return min((front for front in fronts if front is not None), default=None)

    def _valid_head(self, holder: ConsumerKey | None) -> Range | None:
        heads = self._heads.get(holder)
        while heads:
            first, key = heads[0]
            group = self._groups.get(key)
            front = None if group is None or group.waits else group.parked.front()
            if group is not None and group.holder == holder and front is not None and front[0] == first:
                return front
            heappop(heads)
            if group is not None and group.offered == (first, holder):
                group.offered = None
        return None

    def _bind(self, group: Group, consumer: ConsumerKey | None) -> None:
        """The consumer holds the group from now on; None frees the group."""
        before, group.holder, group.offered = group.holder, consumer, None
        if consumer is not None:
            group.others.pop(consumer, None)
            self._bound[consumer] = self._bound.get(consumer, 0) + 1
        if before is not None:
            self._bound[before] -= 1
            if not self._bound[before]:
                del self._bound[before]
                self._heads.pop(before, None)


def _may_go_on(group: Group, consumer: ConsumerKey | None) -> bool:
    """Whether the consumer holds the group, and so may have further messages of it."""
    return consumer is not None and group.holder == consumer and not group.waits


def by_group(settings: QueueSettings, known: Annotations, ready: RangeSet) -> Order | None:
    """The order of a queue with groups; None where the settings ask for no groups."""
    if GROUP_BY.of(settings) is None:
        return None
    return ReadyByGroup(partial(known.at, Aspect.GROUP), ready)


def named(argument: str) -> str:
    """The name that an argument x-group-by states. A property may be spelled with hyphens
    (`correlation-id`).
    """
    name = argument.replace("-", "_")
    return name if name in PROPERTIES or name == ROUTING_KEY else argument


@lru_cache(_CACHED)
def group_of(messages: MessageFormat, properties: bytes, name: str) -> int:
    """The group of messages with these properties, by one of PROPERTIES or a header; NO_GROUP without a
    value.
    """
    if name in PROPERTIES:
        value = messages.text(properties, name)
        return NO_GROUP if value is None else group_named(value)
    if name.replace("-", "_") == GROUP_ID:
        value = messages.text(properties, GROUP_ID)
        if value is not None:
            return group_named(value)
    header = messages.headers(properties).get(name)
    if header is None:
        return NO_GROUP
    return group_named(header.encode() if isinstance(header, str) else repr(header).encode())


def group_named(key: bytes) -> int:
    """The group of a key: 64 bits of a digest. Two keys with one digest share a group, and lose
    only speed.
    """
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "little") or 1


class Groups(Rule):
    """States the group of each message, which the log has as a number."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self._name = named(key)

    def describe(self, description: Description) -> None:
        description.by_consumer = True

    def decide(self, incoming: Incoming, first: int, now: int, notes: Notes) -> None:
        run, name = incoming.run, self._name
        if name == ROUTING_KEY:
            notes[Aspect.GROUP] = groups = []
            for key, piece in incoming.format.by_key(run):
                group = group_named(key.encode("utf-8", "surrogateescape"))
                groups.append((first, first + piece.count - 1, group))
                first += piece.count
            return
        spans = (
            (first + start, first + end, group_of(incoming.format, properties, name))
            for start, end, properties in incoming.stretches()
        )
        groups = [span for span in spans if span[2] != NO_GROUP]
        if groups:
            notes[Aspect.GROUP] = groups


def _rule(settings: QueueSettings) -> Rule | None:
    key = GROUP_BY.of(settings)
    return None if key is None else Groups(key)


FEATURE: Final[Declaration] = Declaration(GROUP_BY, rule=_rule)
