"""Plans the reading of a stream, or of a take: resolves positions, and cuts what lies between them into
ranges, at entries of the log. Pure.

Plans are made by the owner: its stable end has everything that clients have had confirmed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Final, NamedTuple

from cluster.owner.log_reading import NotAppliedError, check_there, count_before, stable_end
from node.message.streams import OffsetKind, StreamOffset
from node.queue.operations import Aspect
from node.queue.partition import PartitionMachine
from node.ranges.range_set import RangeSet
from replication.journal import PartitionLog

MOST_RANGES: Final = 4096
"""Ranges of a plan. A plan that would have more ends earlier."""

ROWS_AT_ONCE: Final = 1024
"""Entries whose octets are added up at once."""

PARTS_AT_ONCE: Final = 64
"""Steps of planning before the work may be interrupted."""

UNLIMITED: Final = 1 << 62


class PositionAheadError(Exception):
    """The partition has not come to a position yet. `end` is the stable end."""

    def __init__(self, end: int) -> None:
        super().__init__(f"the stream ends at {end}")
        self.end = end


class PlanLimits(NamedTuple):
    """A plan has `rows` messages and `octets` of entries at most, in ranges of about `range_octets`. A single
    entry may have more octets.
    """

    rows: int = UNLIMITED
    octets: int = UNLIMITED
    range_octets: int = UNLIMITED


class Wish(NamedTuple):
    """A plan from one position to another; see `PlanLimits`. `first_count` is that of the position `first`,
    as an earlier plan has told it; None where it is not known.
    """

    first: StreamOffset
    end: StreamOffset
    limits: PlanLimits = PlanLimits()
    first_count: int | None = None


class PlannedRange(NamedTuple):
    """The messages from `first` to in front of `end`, and the octets of the entries that have them."""

    first: int
    end: int
    rows: int
    octets: int


class RangePlan:
    """Cuts messages of a log into ranges, at entries: `ranges` is complete when the steps are over. `end` is
    where the ranges end.
    """

    def __init__(
        self, machine: PartitionMachine, log: PartitionLog, messages: RangeSet, first: int, limits: PlanLimits
    ) -> None:
        """`messages` are cut from the position `first` on."""
        self._machine, self._log, self._messages, self._limits = machine, log, messages, limits
        self.end = first
        self.ranges: list[PlannedRange] = []
        self.rows = self.octets = 0
        # The range that is being made, and the last row whose octets it has.
        self._begun, self._rows, self._octets, self._last_row = first, 0, 0, -1

    # -- ranges ---------------------------------------------------------------------------------

    def steps_to(self, end: int) -> Iterator[None]:
        """Plan up to a position. The work may be interrupted at each step; entries may leave the log
        meanwhile.
        """
        looked_at = 0
        while self.end < end:
            part = self._messages.range_from(self.end)
            if part is None or max(part[0], self.end) >= end:
                self.end = end
                break
            if not self._take(max(part[0], self.end), min(part[1], end - 1)):
                break
            looked_at += 1
            if looked_at % PARTS_AT_ONCE == 0:
                yield None
        self._close(self.end)

    def _take(self, first: int, last: int) -> bool:
        """Plan consecutive messages, those of some entries at least. Returns whether there is more to
        plan.
        """
        last = min(last, first + self._limits.rows - self.rows - 1)
        if last < first:
            return False
        table = self._log.table
        low = table.row_from(self._machine.locate(first))
        high = min(table.row_from(self._machine.locate(last)) + 1, low + ROWS_AT_ONCE)
        # Messages of one entry may be in several parts: its octets count once.
        known = low == self._last_row
        sizes = table.lengths[low + known : high]
        if sizes and sum(sizes) > (room := self._room()):
            fitting = bisect_right(list(accumulate(sizes)), room)
            if not fitting and self._rows and not known:
                return self._cut(first, sizes[0])
            sizes = sizes[: fitting if known else max(fitting, 1)]
        self._last_row = low + known + len(sizes) - 1
        behind = self._machine.first_behind(table.indexes[self._last_row])
        self._add(first, min(last, behind - 1), sum(sizes))
        return True

    def _room(self) -> int:
        """The octets that the range that is being made may still get."""
        return min(self._limits.range_octets - self._octets, self._limits.octets - self.octets)

    def _add(self, first: int, last: int, octets: int) -> None:
        self._rows += last - first + 1
        self.rows += last - first + 1
        self._octets += octets
        self.octets += octets
        self.end = last + 1

    def _cut(self, at: int, octets: int) -> bool:
        """End the range in front of an entry of so many octets, which begins with the message `at`. Returns
        whether the plan may have the entry in another range.
        """
        self._close(at)
        self.end = at
        return self.octets + octets <= self._limits.octets and len(self.ranges) < MOST_RANGES

    def _close(self, end: int) -> None:
        if self._rows:
            self.ranges.append(PlannedRange(self._begun, end, self._rows, self._octets))
        self._begun, self._rows, self._octets, self._last_row = end, 0, 0, -1


class LogPlan:
    """One plan, which is complete when its steps are over. `first` and `wanted` are the positions that were
    wished for, `end` is where the ranges end, and `stable` the stable end. `first_count` is the number of
    messages in front of `first` (`cluster.owner.log_reading.count_before`).
    """

    def __init__(
        self, machine: PartitionMachine, log: PartitionLog, queue: int, wish: Wish, now_ms: int
    ) -> None:
        """`now_ms` is the time of day. Raises NotAppliedError, PositionGoneError and PositionAheadError."""
        state = machine.queues.get(queue)
        if state is None:
            raise NotAppliedError
        self._machine, self._state, self._now_ms = machine, state, now_ms
        self.stable = stable_end(machine, state)
        self.oldest = state.alive.first
        self.first = self._resolved(wish.first)
        check_there(machine, state, self.first, wish.first_count)
        self.first_count = count_before(state, self.first)
        self.wanted = max(self.first, self._resolved(wish.end))
        self._plan = RangePlan(machine, log, state.alive, self.first, wish.limits)

    @property
    def end(self) -> int:
        """Where the ranges end."""
        return self._plan.end

    @property
    def ranges(self) -> list[PlannedRange]:
        """The ranges."""
        return self._plan.ranges

    @property
    def rows(self) -> int:
        """The messages of the ranges."""
        return self._plan.rows

    def steps(self) -> Iterator[None]:
        """Plan. The work may be interrupted at each step; entries may leave the log meanwhile."""
        return self._plan.steps_to(min(self.wanted, self.stable))

    def _resolved(self, offset: StreamOffset) -> int:
        match offset.kind:
            case OffsetKind.FIRST:
                return self.stable if self.oldest is None else min(self.oldest, self.stable)
            case OffsetKind.NUMBER:
                if offset.value > self._machine.next_sequence:
                    raise PositionAheadError(self.stable)
                return offset.value
            case OffsetKind.TIME | OffsetKind.AGE:
                since = offset.value if offset.kind is OffsetKind.TIME else self._now_ms - offset.value
                arrivals = self._state.annotations.get(Aspect.ARRIVAL)
                found = None if arrivals is None else arrivals.first_from(max(0, since))
                return self.stable if found is None else min(found, self.stable)
        return self.stable
