"""The messages of a queue that are due later (X1), with their due times.

A `RangeMap` has all due times. Messages that are due within `HORIZON_MS` are also in an index, by slots of
time. A sweep over the map fills the index, a part at each step. So a million messages that are due next week
cost 24 octets each and hardly any work, and a new owner has no index to build before it can serve.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import compress
from typing import Final

from node.ranges.range_columns import by_slot, merged_pairs, transposed
from node.ranges.range_map import RangeMap
from node.ranges.range_set import Range

SLOT_MS: Final = 16
"""The length of a slot. A message leaves the schedule at the end of the slot in which it is due: never early,
and at most one slot late.
"""

HORIZON_MS: Final = 20_000
"""A sweep looks so far ahead. The next sweep begins when half of that time has passed."""

SWEEP_SPANS: Final = 65_536
"""The number of spans that one step of a sweep looks at, in a millisecond or two."""

STEP_SPANS: Final = 2048
"""About so many spans are indexed, or leave the schedule, in one step: 100,000 a second with a step each 20
ms.
"""

NEVER: Final = 1 << 63


class Schedule:
    """The scheduled messages of one queue. Times are in milliseconds since the epoch.

    The owner calls `step` when the time `wake` has come, again and again until `wake` is later than now.
    """

    __slots__ = ("_bound", "_cursor", "_due", "_indexed", "_slots", "wake")

    def __init__(self, due: RangeMap) -> None:
        """Takes over `due`, the due times of messages. Some may be due already: steps return these."""
        self._due = due
        self.wake = 0 if due else NEVER
        # Firsts and lasts of ranges by the slot at whose end they are due.
        self._slots: dict[int, array[int]] = {}
        # All messages that are due before `_indexed` are in the index. A sweep in progress looks for messages
        # due before `_bound`, and goes on at the number `_cursor`.
        self._indexed = 0
        self._bound = 0
        self._cursor: int | None = None

    def __bool__(self) -> bool:
        return bool(self._due)

    def __len__(self) -> int:
        return len(self._due)

    def add(self, firsts: array[int], lasts: array[int], due: array[int]) -> None:
        """Schedule the messages of these spans, of which there is at least one, for the due times. Spans are
        ascending and disjoint.
        """
        self._due.extend(firsts, lasts, due)
        if max(due) >= self._bound:
            self.wake = min(self.wake, self._indexed - HORIZON_MS // 2)
            near = [time < self._bound for time in due]
            firsts, lasts, due = (array("Q", compress(column, near)) for column in (firsts, lasts, due))
        if due:
            self.wake = min(self.wake, self._index(firsts, lasts, due) * SLOT_MS)

    def intersection(self, first: int, last: int) -> list[Range]:
        """The scheduled parts of the closed range; parts may touch."""
        return [(start, end) for start, end, _ in self._due.spans(first, last)]

    def all(self) -> Iterator[Range]:
        """All scheduled messages, ascending. The schedule must not change meanwhile."""
        return self._due.coverage().ranges()

    def remove(self, first: int, last: int) -> int:
        """Take messages out of the schedule; return how many were in it."""
        return self._due.remove(first, last)

    def remove_all(self, ranges: list[Range]) -> None:
        """Take the messages of all the ranges, which are disjoint, out of the schedule."""
        self._due.remove_all(ranges)

    def step(self, now: int) -> list[Range]:
        """Remove and return due messages, up to a bound for one step, and go on with the sweep."""
        if not self._due:
            self._slots.clear()
            self.wake = NEVER
            return []
        self._sweep(now)
        gone = self._let_go(now)
        if self._cursor is not None:
            self.wake = 0
        else:
            following = min(self._slots, default=NEVER) * SLOT_MS
            self.wake = min(following, self._indexed - HORIZON_MS // 2)
        return gone

    def _let_go(self, now: int) -> list[Range]:
        indexed = array("Q")
        room = STEP_SPANS
        for slot in sorted(slot for slot in self._slots if slot * SLOT_MS <= now):
            numbers = self._slots.pop(slot)
            if len(numbers) > 2 * room:
                self._slots[slot] = numbers[2 * room :]
                del numbers[2 * room :]
            indexed += numbers
            room -= len(numbers) >> 1
            if not room:
                break
        # Messages may have been removed since they were indexed, and even added with another time.
        gone = self._due.ranges_up_to(merged_pairs(indexed), now)
        self._due.remove_all(gone)
        return gone

    def _index(self, firsts: array[int], lasts: array[int], due: array[int]) -> int:
        """Index messages, at least one; return the first slot in which one of them is due."""
        slots = self._slots
        found = by_slot(firsts, lasts, due, SLOT_MS)
        for slot, numbers in found:
            known = slots.get(slot)
            if known is None:
                slots[slot] = numbers
            else:
                known += numbers
        return found[0][0]

    def _sweep(self, now: int) -> None:
        """Index messages that are due in the time that no sweep has covered yet, one part of the
        map a step.
        """
        if self._cursor is None:
            if now < self._indexed - HORIZON_MS // 2:
                return
            self._bound = now + HORIZON_MS
            self._cursor = 0
        found, self._cursor = self._due.select(
            self._cursor, self._indexed, self._bound, SWEEP_SPANS, STEP_SPANS
        )
        if found:
            self._index(*transposed(found, 3))
        if self._cursor is None:
            self._indexed = self._bound
