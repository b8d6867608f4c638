"""Ready messages of a queue that keeps order by key (X3).

Messages of one group go to one consumer at a time, in order. A group belongs to the consumer that has
something of it unsettled; one that belongs to nobody may be taken by whoever has credit.

Most messages wait in one `RangeSet`, whatever their groups. Only when a consumer comes across a message
of a group that it may not have, that message is parked with its group, so that nobody looks at it again
before the group is free. So there is an object for each group that is busy, and none for a message.
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
from node.queue.order import Order
from node.queue.settings import QueueSettings
from node.ranges.numbers import first_of
from node.ranges.range_map import RangeMap, Span
from node.ranges.range_set import Range, RangeSet

GROUP_BY: Final = Argument("x-group-by", read_text, "group_by")

NO_GROUP: Final = 0
"""The group of messages without a key: they keep no order."""

ROUTING_KEY: Final = "routing_key"

PROPERTIES: Final = frozenset(("message_id", "correlation_id", "type", "app_id", "user_id", "reply_to"))
"""The properties that can be a key; any other name is that of a header."""

_CACHED: Final = 4096

SCAN: Final = 2048
"""Stretches of messages parked at one go, so that no turn takes long."""

GroupAt = Callable[[int], tuple[int, int | None]]
"""number → the message's group, and the last number up to which all have that; None: for ever."""


@dataclass(slots=True)
class Group:
    """A group with unsettled, parked or resting messages. While any rests, those behind it wait."""

    holder: ConsumerKey | None = None
    unsettled: int = 0
    resting: int = 0
    parked: RangeSet = field(default_factory=RangeSet)
    offered: tuple[int, ConsumerKey | None] | None = None
    """The first parked message and the holder under which it can be found."""


class ReadyByGroup(Order):
    """Of one group a consumer gets messages only while no other consumer has any.

    `unfinished` says after `front_for` that it has looked at enough for one turn, not at everything.
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
        # The groups of messages that are given out, and of those that rest.
        self._flying = RangeMap()
        self._resting = RangeMap()
        # (first parked message, group) by who may have it, None: anybody. What is not so any more is
        # dropped when it comes up.
        self._heads: dict[ConsumerKey | None, list[tuple[int, int]]] = {}
        self._bound: dict[ConsumerKey, int] = {}

    def __len__(self) -> int:
        return len(self._fresh) + self._parked

    def __bool__(self) -> bool:
        return bool(self._fresh) or self._parked > 0

    def add(self, first: int, last: int) -> int:
        """Messages that were not ready are; return how many."""
        return self._fresh.add(first, last)

    def remove(self, first: int, last: int) -> int:
        """Messages that need not be given to anybody any more; return how many were ready."""
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
        """The oldest range, for whomever; None when empty."""
        fronts = [group.parked.front() for group in self._groups.values() if group.parked]
        return min((front for front in (self._fresh.front(), *fronts) if front is not None), default=None)

    def intersection(self, first: int, last: int) -> list[Range]:
        """The parts of the closed range that are ready, ascending."""
        found = self._fresh.intersection(first, last)
        for group in self._groups.values():
            found += group.parked.intersection(first, last)
        return sorted(found)

    def ranges(self) -> Iterator[Range]:
        """All that is ready, ascending."""
        found = self._fresh.copy()
        for group in self._groups.values():
            found.update(group.parked.ranges())
        return found.ranges()

    def unseen(self) -> Range | None:
        """The first range of messages that are not parked; None when there is none."""
        return self._fresh.front()

    # -- giving out -----------------------------------------------------------------------------

    def offered(self, consumer: Consumer, limit: int, *, alone: bool, begun: bool) -> list[Range]:
        self.unfinished = False
        if begun and not alone:
            # One group at a time, so that all consumers get some.
            return []
        if consumer.counted:
            front = self.front_for((consumer.front_end, consumer.number), limit, alone)
        else:
            # Those who get messages one by one are not told apart: none has a group.
            front = self.front_for(None, 1, True)
        return [] if front is None else first_of([front], limit)

    def hand_over(self, consumer: ConsumerKey, ranges: list[Range], count: int) -> None:
        for part in ranges:
            self.take(consumer, *part)

    def claim(self, consumer: ConsumerKey, first: int, last: int) -> None:
        self.take(consumer, first, last)

    def front_for(self, consumer: ConsumerKey | None, limit: int, alone: bool) -> Range | None:
        """The oldest messages that the consumer may have now, up to `limit` of them that follow each
        other; None when there are none. For a consumer None only groups that belong to nobody.

        Only for a consumer who is `alone` in asking they are of several groups: others want some, too.
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
        """The messages, all of them ready, are given out; their groups belong to the consumer."""
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
                group.holder = consumer
                self._bound[consumer] = self._bound.get(consumer, 0) + 1
            group.unsettled += end - start + 1
            self._flying.set(start, end, key)
            self._offer(key, group)

    def done(self, first: int, last: int) -> None:
        """Messages that were given out are settled, or have come back: `add` them then."""
        flown = self._flying.spans(first, last)
        self._flying.remove(first, last)
        for start, end, key in flown:
            group = self._groups[key]
            group.unsettled -= end - start + 1
            if group.holder is not None and not group.unsettled:
                self._unbind(group.holder)
                group.holder = None
                self._settle_down(key, group)

    def rest(self, first: int, last: int) -> None:
        """Messages that came back are not ready yet, and nothing behind them in their groups is."""
        for start, end, key in self._cover(first, last):
            if key != NO_GROUP:
                group = self._groups.setdefault(key, Group())
                group.resting += end - start + 1
                self._resting.set(start, end, key)

    def rested(self, first: int, last: int) -> None:
        """Messages rest no more: they are ready, or done with."""
        rested = self._resting.spans(first, last)
        self._resting.remove(first, last)
        for start, end, key in rested:
            group = self._groups[key]
            group.resting -= end - start + 1
            self._settle_down(key, group)

    # -- groups ---------------------------------------------------------------------------------

    def _cover(self, first: int, last: int) -> Iterator[Span]:
        """The closed range in stretches of one group."""
        while first <= last:
            key, upto = self._group_at(first)
            end = last if upto is None else min(upto, last)
            yield first, end, key
            first = end + 1

    def _eligible(self, consumer: ConsumerKey | None, first: int, last: int, alone: bool) -> int | None:
        """The last message up to which the consumer may have all of a range of fresh ones; None: none."""
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
        """Put the first stretch of one group aside."""
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
        """Forget a group of which nothing is left, or offer what is."""
        if not (group.unsettled or group.resting or group.parked):
            del self._groups[key]
        else:
            self._offer(key, group)

    def _offer(self, key: int, group: Group) -> None:
        """Whoever may have the group finds its first parked message."""
        first = group.parked.first
        if first is not None and not group.resting and group.offered != (first, group.holder):
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
            front = None if group is None or group.resting else group.parked.front()
            if group is not None and group.holder == holder and front is not None and front[0] == first:
                return front
            heappop(heads)
            if group is not None and group.offered == (first, holder):
                group.offered = None
        return None

    def _unbind(self, holder: ConsumerKey) -> None:
        self._bound[holder] -= 1
        if not self._bound[holder]:
            del self._bound[holder]
            self._heads.pop(holder, None)


def _may_go_on(group: Group, consumer: ConsumerKey | None) -> bool:
    """Whether the consumer has the group: then it may have what no parked message comes before."""
    return consumer is not None and group.holder == consumer and not group.resting


def by_group(settings: QueueSettings, known: Annotations, ready: RangeSet) -> Order | None:
    """The order of a queue that keeps order by key."""
    if GROUP_BY.of(settings) is None:
        return None
    return ReadyByGroup(partial(known.at, Aspect.GROUP), ready)


def named(argument: str) -> str:
    """The name in an argument x-group-by: properties also with hyphens, as `correlation-id`."""
    name = argument.replace("-", "_")
    return name if name in PROPERTIES or name == ROUTING_KEY else argument


@lru_cache(_CACHED)
def group_of(messages: MessageFormat, properties: bytes, name: str) -> int:
    """The group of messages with these properties, by one of PROPERTIES or a header.

    NO_GROUP for messages that have nothing of the name.
    """
    if name in PROPERTIES:
        value = messages.text(properties, name)
        return NO_GROUP if value is None else group_named(value)
    header = messages.headers(properties).get(name)
    if header is None:
        return NO_GROUP
    return group_named(header.encode() if isinstance(header, str) else repr(header).encode())


def group_named(key: bytes) -> int:
    """The group of a key: 64 bits of a digest. Groups that share one only wait for each other."""
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "little") or 1


class Groups(Rule):
    """Says which group each message belongs to: a number that replicas agree on."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self._name = named(key)

    def describe(self, description: Description) -> None:
        description.by_consumer = True

    def decide(self, incoming: Incoming, first: int, now: int, notes: Notes) -> None:
        run, name = incoming.run, self._name
        if name == ROUTING_KEY:
            key = run.routing_key.encode("utf-8", "surrogateescape")
            notes[Aspect.GROUP] = [(first, first + run.count - 1, group_named(key))]
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
