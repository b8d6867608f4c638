"""Delivery by priority (queue argument x-max-priority, A20): the highest level first, within a level the
oldest message first.

Consecutive messages of one level are one range, so that a queue whose messages all have one priority is as
fast as any other.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from node.queue.annotations import Annotations
from node.queue.argument import Argument
from node.queue.argument_types import UnacceptableError, read_natural
from node.queue.consumers import ConsumerKey
from node.queue.feature import Declaration, Incoming, Notes, Rule
from node.queue.operations import Aspect
from node.queue.order import Levels, Order, PlacedOrder
from node.queue.settings import QueueSettings
from node.ranges.cold import ColdSpace
from node.ranges.paged_set import set_in
from node.ranges.range_map import ABOVE_ALL, Span
from node.ranges.range_set import Range, RangeSet

HIGHEST_PRIORITY: Final = 255


def read_priority(value: object) -> int:
    """Raises UnacceptableError."""
    number = read_natural(value)
    if number > HIGHEST_PRIORITY:
        raise UnacceptableError(f"{{max_value_exceeded,{number}}}")
    return number


MAX_PRIORITY: Final = Argument("x-max-priority", read_priority, "max_priority")


LOAD_RANGES: Final = 4096
"""So many ranges of a level are loaded at once."""


class ReadyByPriority(PlacedOrder):
    """Ready messages, each in the set of its level. `levels` gives the levels of messages that become ready.
    `space`: see `Annotations.space`.

    `remove` looks for a message on all levels, because the message's annotation may be gone by then.
    """

    __slots__ = ("_count", "_filled", "_levels", "_sets", "_space")

    def __init__(self, levels: Levels, space: ColdSpace | None = None) -> None:
        super().__init__()
        self._space = space
        self._levels = levels
        self._sets: dict[int, RangeSet] = {}
        # The levels that have messages, ascending.
        self._filled: list[int] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __bool__(self) -> bool:
        return self._count > 0

    def load(self, spans: Iterable[Span]) -> None:
        """Fill an empty object at once. Spans (first, last, level) are sorted and disjoint."""
        starts: dict[int, array[int]] = {}
        ends: dict[int, array[int]] = {}
        for first, last, level in spans:
            if level not in starts:
                starts[level], ends[level] = array("Q"), array("Q")
                self._sets[level] = set_in(self._space)
            elif len(starts[level]) == LOAD_RANGES:
                self._sets[level].extend(starts[level], ends[level])
                starts[level], ends[level] = array("Q"), array("Q")
            starts[level].append(first)
            ends[level].append(last)
        for level, found in self._sets.items():
            found.extend(starts[level], ends[level])
        self._filled = sorted(self._sets)
        self._count = sum(map(len, self._sets.values()))

    # -- changing -------------------------------------------------------------------------------

    def add(self, first: int, last: int) -> int:
        """Add the closed range, each message to its level; return how many were not ready before."""
        added = 0
        by_level: dict[int, list[Range]] = {}
        for start, end, level in self._levels(first, last):
            if level in by_level:
                by_level[level].append((start, end))
            else:
                by_level[level] = [(start, end)]
        for level, ranges in by_level.items():
            found = self._sets.get(level)
            if found is None:
                found = self._sets[level] = set_in(self._space)
            if not found:
                insort(self._filled, level)
            added += found.update(ranges)
        self._count += added
        return added

    def remove(self, first: int, last: int) -> int:
        """Remove the closed range from all levels; return how many of its numbers were there."""
        removed, wanted = 0, last - first + 1
        for level in reversed(self._filled):
            found = self._sets[level]
            removed += found.remove(first, last)
            if not found:
                # The loop walks the list backwards, so this removal does not move the levels ahead of it.
                del self._filled[bisect_left(self._filled, level)]
            if removed == wanted:
                break
        self._count -= removed
        return removed

    def take(self, limit: int) -> list[Range]:
        """Remove the messages that `fronts` returns, and return them."""
        found: list[Range] = []
        self._count -= min(limit, self._count)
        while limit > 0 and self._filled:
            of_level = self._sets[self._filled[-1]]
            before = len(of_level)
            found += of_level.take(limit)
            limit -= before - len(of_level)
            if not of_level:
                self._filled.pop()
        return found

    def clear(self) -> None:
        for of_level in self._sets.values():
            of_level.clear()
        self._sets, self._filled, self._count = {}, [], 0

    # -- asking ---------------------------------------------------------------------------------

    def front(self) -> Range | None:
        """The first range of the highest level, which is delivered first; None when empty."""
        return self._sets[self._filled[-1]].front() if self._filled else None

    def hand_over(self, consumer: ConsumerKey, ranges: list[Range], count: int) -> None:
        self.take(count)

    def fronts(self, limit: int) -> list[Range]:
        """Up to `limit` messages in the order of delivery."""
        found: list[Range] = []
        for level in reversed(self._filled):
            found += self._sets[level].fronts(limit)
            limit -= len(self._sets[level])
            if limit <= 0:
                break
        return found

    def behind(self, level: int, number: int, limit: int) -> Iterator[tuple[int, Range]]:
        """(level, range) in the order of delivery for the messages of `level` with numbers above `number`,
        and for those of lower levels. The ranges of a level have `limit` messages or more, where it has so
        many.
        """
        end = bisect_right(self._filled, level)
        for each in reversed(self._filled[:end]):
            of_level = self._sets[each]
            found = of_level.intersection(number + 1, ABOVE_ALL) if each == level else of_level.fronts(limit)
            yield from ((each, part) for part in found)

    def lowest(self) -> Range | None:
        """The first range of the lowest level, which a limit discards first; None when empty."""
        return self._sets[self._filled[0]].front() if self._filled else None

    def ahead(self, ranges: list[Range], number: int) -> list[Range]:
        """The part of the ranges, which are in the order of delivery, that stands ahead of the message.

        A range may have messages of one level and of the next one.
        """
        found: list[Range] = []
        ((_, _, level),) = self._levels(number, number)
        for first, last in ranges:
            for start, end, of_range in self._levels(first, last):
                if of_range > level or (of_range == level and end < number):
                    found.append((start, end))
                    continue
                if of_range == level and start < number:
                    found.append((start, number - 1))
                return found
        return found

    def placed(self) -> PlacedOrder:
        made = ReadyByPriority(self._levels)
        made._sets = {level: found.copy() for level, found in self._sets.items()}
        made._filled, made._count = self._filled[:], self._count
        return made

    def intersection(self, first: int, last: int) -> list[Range]:
        """The parts of the closed range that are ready, ascending."""
        found = [part for level in self._filled for part in self._sets[level].intersection(first, last)]
        return sorted(found)

    def ranges(self) -> Iterator[Range]:
        """All ready messages, ascending."""
        parts = sorted(part for level in self._filled for part in self._sets[level].ranges())
        return RangeSet(parts).ranges()

    def counts(self) -> dict[int, int]:
        """The number of ready messages by level; levels without messages are left out."""
        return {level: len(self._sets[level]) for level in self._filled}


def by_priority(settings: QueueSettings, known: Annotations, ready: RangeSet) -> Order | None:
    """The order of a queue with priorities; None where the settings ask for none."""
    if not MAX_PRIORITY.of(settings):
        return None
    arranged = ReadyByPriority(partial(known.cover, Aspect.PRIORITY), known.space)
    levels = known.logged(Aspect.PRIORITY)
    if levels.coverage() == ready:
        arranged.load(levels.all())
    else:
        for part in ready.ranges():
            arranged.add(*part)
    return arranged


class Priorities(Rule):
    """States the level of each message: its priority, 0 without one, at most the queue's highest level."""

    def __init__(self, highest: int) -> None:
        super().__init__()
        self._highest = highest

    def decide(self, incoming: Incoming, first: int, now: int, notes: Notes) -> None:
        if incoming.run.special:
            notes[Aspect.PRIORITY] = [
                (first + start, first + end, min(priority, self._highest))
                for start, end, _, priority, _ in incoming.asked()
            ]
        else:
            notes[Aspect.PRIORITY] = [(first, first + incoming.run.count - 1, 0)]


def _rule(settings: QueueSettings) -> Rule | None:
    highest = MAX_PRIORITY.of(settings)
    return Priorities(highest) if highest else None


FEATURE: Final[Declaration] = Declaration(MAX_PRIORITY, rule=_rule)
