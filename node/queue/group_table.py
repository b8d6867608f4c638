"""The groups of a queue's messages: which consumer holds each, and which messages are parked with it.

A table has an object for each group that is busy or has parked messages, and none for a message. The work is
done in C where `_group_table.c` was built; `GroupTable` is its twin in Python. Holders are numbers from 1 on,
and UNHELD is the holder of the groups that are free.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from heapq import heappop, heappush
from importlib import import_module
from typing import Any, Final, Protocol

from node.ranges.range_columns import SpanColumns, transposed
from node.ranges.range_map import ABOVE_ALL, RangeMap, Span
from node.ranges.range_set import Range, RangeSet, merged

NO_GROUP: Final = 0
"""The group number of messages without a key, which keep no order."""

UNHELD: Final = 0

GroupHead = tuple[int, int]
"""(first parked message, group), as heaps have them."""

GroupRow = tuple[int, int, int, int, int, bool]
"""(group, holder, unsettled, resting and parked messages, whether other consumers have messages of it)."""

_NO_HEAD: Final[GroupHead] = (ABOVE_ALL, 0)


@dataclass(init=False, slots=True)
class Group:
    """A busy group, with unsettled or resting messages, or one with parked messages. While a message rests,
    later ones wait.

    `others`: the unsettled messages of consumers beside the holder, with these consumers. A consumer that is
    back after its lease was lost may still have messages of a group that another consumer holds by now. No
    consumer gets further messages of the group before one consumer has all that are unsettled.

    `offered`: the first parked message, and the holder under which a heap has it.
    """

    holder: int
    unsettled: int
    others: RangeMap
    resting: int
    parked: RangeSet
    offered: tuple[int, int] | None

    def __init__(self) -> None:
        self.holder = UNHELD
        self.unsettled = self.resting = 0
        self.others = RangeMap()
        self.parked = RangeSet()
        self.offered = None

    @property
    def waits(self) -> bool:
        """Whether even the holder gets no further messages."""
        return self.resting > 0 or bool(self.others)

    def next_holder(self) -> int:
        """The consumer that has unsettled messages of the group: the holder while it has some, then the one
        with the oldest message.
        """
        if self.unsettled > len(self.others):
            return self.holder
        front = self.others.front()
        return UNHELD if front is None else front[2]


class KnownGroups(Protocol):
    """What `GroupTable` and its twin in C do."""

    def __len__(self) -> int:
        """The number of groups."""

    def park(self, firsts: array[int], lasts: array[int], keys: array[int]) -> None:
        """Messages that the owner has looked at wait with their groups."""

    def remove(self, spans: list[Span]) -> None:
        """Parked messages are gone."""

    def unpark(self, spans: list[Span]) -> None:
        """Parked messages are not ready any more. A lease of them follows."""

    def clear(self) -> None:
        """All parked messages are gone."""

    def supply(self, holder: int) -> int:
        """How many messages are parked in the groups that the holder has."""

    def choose(self, holder: int, limit: int, rivals: int) -> list[Range]:
        """The oldest parked messages that the consumer may have now, at most `limit`. For UNHELD the
        messages are of free groups. The consumer and its `rivals` have equal shares of the free groups.
        """

    def hand_over(self, holder: int, count: int) -> SpanColumns:
        """The first `count` messages of the last choice are leased to a consumer. Returns those that are of a
        group, with their groups.
        """

    def lease(self, holder: int, spans: list[Span]) -> None:
        """Messages that are not parked are leased to a consumer."""

    def done(self, spans: list[Span]) -> None:
        """Leased messages are settled or given back."""

    def rest(self, spans: list[Span]) -> None:
        """Messages that were given back rest; later messages of their groups wait for them."""

    def rested(self, spans: list[Span]) -> None:
        """Messages rest no more."""

    def twin(self) -> KnownGroups:
        """A table that knows who holds each group, and which groups rest, without parked messages."""

    def holders(self) -> list[int]:
        """The consumers with unsettled messages of groups, in any order. One may come more than once."""

    def rows(self) -> list[GroupRow]:
        """A row for each group, in any order."""


class GroupTable:
    """See `KnownGroups`."""

    __slots__ = ("_bound", "_chosen", "_free_offers", "_groups", "_heads", "_open", "_supply")

    def __init__(self) -> None:
        self._groups: dict[int, Group] = {}
        # Heaps by holder. An element that is out of date is dropped when it reaches the top.
        self._heads: dict[int, list[GroupHead]] = {UNHELD: []}
        # How many groups are offered as free ones.
        self._free_offers = 0
        # How many messages are parked, by the holder of their groups.
        self._supply: dict[int, int] = {UNHELD: 0}
        # The messages of the last choice, and their groups, which are in no heap meanwhile.
        self._chosen: list[Span] = []
        self._open: list[int] = []
        # How many groups each consumer holds.
        self._bound: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def supply(self, holder: int) -> int:
        return self._supply.get(holder, 0)

    def holders(self) -> list[int]:
        others = [of for group in self._groups.values() for _, _, of in group.others.all()]
        return [*self._bound, *others]

    def rows(self) -> list[GroupRow]:
        return [
            (key, one.holder, one.unsettled, one.resting, len(one.parked), bool(one.others))
            for key, one in self._groups.items()
        ]

    def twin(self) -> KnownGroups:
        made = GroupTable()
        for key, group in self._groups.items():
            if group.unsettled or group.resting:
                twin = made._groups[key] = Group()
                made._bind(twin, group.holder)
                twin.unsettled, twin.resting = group.unsettled, group.resting
                twin.others = group.others.copy()
        return made

    # -- parked messages ------------------------------------------------------------------------

    def park(self, firsts: array[int], lasts: array[int], keys: array[int]) -> None:
        for first, last, key in zip(firsts, lasts, keys, strict=True):
            group = self._group(key)
            group.parked.add(first, last)
            self._supply[group.holder] += last - first + 1
            self._offer(key, group)

    def unpark(self, spans: list[Span]) -> None:
        for first, last, key in spans:
            group = self._groups.get(key)
            if group is not None:
                self._supply[group.holder] -= group.parked.remove(first, last)

    def remove(self, spans: list[Span]) -> None:
        self.unpark(spans)
        for _, _, key in spans:
            self._settle_down(key)

    def clear(self) -> None:
        self._supply = dict.fromkeys(self._supply, 0)
        for key, group in list(self._groups.items()):
            group.parked.clear()
            self._settle_down(key)

    # -- choosing -------------------------------------------------------------------------------

    def choose(self, holder: int, limit: int, rivals: int) -> list[Range]:
        self._reopen()
        free = limit if not rivals else -(-self._free_offers // (rivals + 1))
        found: list[Span] = []
        # Where the chosen groups go on.
        more: list[GroupHead] = []
        while limit > 0:
            head = more[0] if more else _NO_HEAD
            anyones = self._valid_head(UNHELD) if free > 0 else _NO_HEAD
            mine = _NO_HEAD if holder == UNHELD else self._valid_head(holder)
            first, key = min(head, anyones, mine)
            if first == ABOVE_ALL:
                break
            if first == head[0]:
                heappop(more)
            elif first == mine[0]:
                self._take_head(holder, key)
            else:
                self._take_head(UNHELD, key)
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
        self._chosen = found
        return merged([span[:2] for span in found])

    def _reopen(self) -> None:
        for key in self._open:
            group = self._groups.get(key)
            if group is not None:
                self._offer(key, group)
        self._open.clear()

    def _take_head(self, holder: int, key: int) -> None:
        """Take the top of a heap, until the next choice."""
        heappop(self._heads[holder])
        self._withdraw(self._groups[key])
        self._open.append(key)

    def _valid_head(self, holder: int) -> GroupHead:
        """The first parked message of the groups that the holder has, and its group; _NO_HEAD without one."""
        heads = self._heads.get(holder)
        while heads:
            first, key = heads[0]
            group = self._groups.get(key)
            if group is not None and group.offered == (first, holder):
                if group.parked.first == first and not group.waits:
                    return first, key
                self._withdraw(group)
            heappop(heads)
        return _NO_HEAD

    def hand_over(self, holder: int, count: int) -> SpanColumns:
        taken: list[Span] = []
        for first, last, key in self._chosen:
            if count <= 0:
                break
            last = min(last, first + count - 1)
            count -= last - first + 1
            taken.append((first, last, key))
        self._chosen = []
        self.unpark(taken)
        self.lease(holder, taken)
        firsts, lasts, keys = transposed([span for span in taken if span[2] != NO_GROUP], 3)
        return firsts, lasts, keys

    # -- busy groups ----------------------------------------------------------------------------

    def lease(self, holder: int, spans: list[Span]) -> None:
        for first, last, key in spans:
            if key == NO_GROUP:
                self._settle_down(key)
                continue
            group = self._group(key)
            if not group.unsettled:
                self._bind(group, holder)
            elif holder != group.holder:
                group.others.set(first, last, holder)
            group.unsettled += last - first + 1
            self._offer(key, group)

    def done(self, spans: list[Span]) -> None:
        for first, last, key in spans:
            group = self._groups.get(key)
            if group is None:
                continue
            contended = bool(group.others)
            group.unsettled -= last - first + 1
            group.others.remove(first, last)
            holder = group.next_holder()
            if holder != group.holder:
                self._bind(group, holder)
            elif contended == bool(group.others):
                continue
            self._settle_down(key)

    def rest(self, spans: list[Span]) -> None:
        for first, last, key in spans:
            if key != NO_GROUP:
                self._group(key).resting += last - first + 1

    def rested(self, spans: list[Span]) -> None:
        for first, last, key in spans:
            group = self._groups.get(key)
            if group is not None:
                group.resting -= last - first + 1
                self._settle_down(key)

    def _group(self, key: int) -> Group:
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group()
        return group

    def _offer(self, key: int, group: Group) -> None:
        """Put the group's first parked message where `_valid_head` finds it for a consumer that may have
        it.
        """
        first = group.parked.first
        if first is not None and not group.waits and group.offered != (first, group.holder):
            self._withdraw(group)
            group.offered = first, group.holder
            self._free_offers += group.holder == UNHELD
            heappush(self._heads[group.holder], (first, key))

    def _withdraw(self, group: Group) -> None:
        """A heap has the group no more, or under what is out of date."""
        if group.offered is not None:
            self._free_offers -= group.offered[1] == UNHELD
            group.offered = None

    def _settle_down(self, key: int) -> None:
        """Forget a group without messages; offer the parked messages of any other group."""
        group = self._groups.get(key)
        if group is None:
            return
        if not (group.unsettled or group.resting or group.parked):
            self._withdraw(group)
            del self._groups[key]
        else:
            self._offer(key, group)

    def _bind(self, group: Group, holder: int) -> None:
        """The consumer holds the group from now on; UNHELD frees the group."""
        self._withdraw(group)
        before, group.holder = group.holder, holder
        parked, supply = len(group.parked), self._supply
        supply[before] -= parked
        supply[holder] = supply.get(holder, 0) + parked
        if holder != UNHELD:
            self._heads.setdefault(holder, [])
            group.others.remove_all([(first, last) for first, last, of in group.others.all() if of == holder])
            self._bound[holder] = self._bound.get(holder, 0) + 1
        if before != UNHELD:
            self._bound[before] -= 1
            if not self._bound[before]:
                del self._bound[before], self._heads[before], self._supply[before]


def _native_table() -> Any:
    try:
        return import_module("node.queue._group_table").Table
    except ModuleNotFoundError:
        return None


_NATIVE: Final[Any] = _native_table()


def group_table() -> KnownGroups:
    """An empty table, of the type in C where that was built."""
    if _NATIVE is None:
        return GroupTable()
    made: KnownGroups = _NATIVE()
    return made
