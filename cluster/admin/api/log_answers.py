"""One node's plans and blocks of streams and of takes, out of its replicas, for the node that a client asks
(docs/log-api.md). A step of the work has the event loop for a millisecond or so, and all readers together
have a part of its time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from cluster.admin.api.loop_share import LoopShare
from cluster.admin.inquiry import ANSWER_TIMEOUT_S
from cluster.admin.views import OwnedPartition
from cluster.owner.log_plan import LogPlan, PlanLimits, PositionAheadError, RangePlan, Wish
from cluster.owner.log_reading import (
    NamedTake,
    NotAppliedError,
    PositionGoneError,
    TakeOverError,
    Wanted,
    cut_blocks,
    read_wanted,
    taken_messages,
    wanted_of_stream,
    wanted_of_take,
)
from cluster.owner.log_slices import KnownEntries, LogSlice, SliceCutting, is_large
from cluster.owner.walking import EntriesGoneError
from node.expressions.selector import Selector
from node.message.streams import OffsetKind, StreamOffset
from node.queue.filtering import Looking
from replication.host import Host
from replication.journal import DamagedEntryError, EntrySlices, PartitionLog

LOG_PLAN: Final = "management.log_plan"
LOG_READ: Final = "management.log_read"
TAKE_PLAN: Final = "management.take_plan"

MOST_WAITING: Final = 32
"""Plans and steps of reading that wait at a node. A further one is answered with `busy`."""

LEADING_S: Final = 0.5 * ANSWER_TIMEOUT_S
"""Seconds within which a majority must have confirmed that the owner leads."""


class LogAnswers:
    """See the module's docstring. The answers are plain values; one with a `refused` has nothing else:
    `busy`, `owner` (the replica is to be spared), `follower` (the replica does not own the partition),
    `behind` (it has not applied the range, or the take), `damaged`, `over` (the take is committed, or has
    ended), or `gone`, with the `oldest` message and how many are `lost`, at most or in an `exact` number.
    """

    def __init__(
        self,
        owners: Mapping[int, OwnedPartition],
        host: Host,
        clock: Callable[[], float],
        wall_ms: Callable[[], int],
        wanted: Callable[[], None],
    ) -> None:
        """`owners` are this node's replicas by partition. `wall_ms` is the time of day in milliseconds since
        the epoch; `wanted` asks for a turn.
        """
        self._owners, self._host, self._clock, self._wanted = owners, host, clock, wanted
        self._wall_ms = wall_ms
        self._share = LoopShare()
        self._known = KnownEntries()

    async def plan(self, argument: Mapping[str, Any]) -> dict[str, Any] | None:
        """The plan of a `queue`, by the owner of its `partition`; None without a replica."""
        owner = self._owners.get(argument["partition"])
        if owner is None:
            return None
        if not owner.active or not await self._leads(owner):
            return {"refused": "follower"}
        if self._share.waiting >= MOST_WAITING:
            return {"refused": "busy"}
        try:
            return await self._planned(owner, argument)
        except NotAppliedError:
            return {"refused": "behind"}
        except PositionAheadError as error:
            return {"refused": "ahead", "end": error.end}
        except PositionGoneError as error:
            return _gone(error)

    async def _leads(self, owner: OwnedPartition) -> bool:
        """Whether a majority confirms in time that the owner leads."""
        confirmed = asyncio.Event()
        owner.when_leading(confirmed.set)
        self._wanted()
        try:
            async with asyncio.timeout(LEADING_S):
                await confirmed.wait()
        except TimeoutError:
            return False
        return True

    async def _planned(self, owner: OwnedPartition, argument: Mapping[str, Any]) -> dict[str, Any] | None:
        group = self._host.groups.get(owner.partition)
        if group is None:
            return None
        async with self._share.turn():
            first, end = (StreamOffset(OffsetKind(kind), value) for kind, value in argument["between"])
            count = argument.get("count") if owner.counts else None
            wish = Wish(first, end, PlanLimits(*argument["limits"]), count)
            plan = LogPlan(owner.machine, group.log, argument["queue"], wish, self._wall_ms())
            for _ in plan.steps():
                await self._share.breath()
        return {
            "first": plan.first,
            "end": plan.end,
            "wanted": plan.wanted,
            "stable": plan.stable,
            "oldest": plan.oldest,
            "ranges": [tuple(one) for one in plan.ranges],
            "counts": (plan.first_count, plan.first_count + plan.rows) if owner.counts else None,
        }

    async def plan_take(self, argument: Mapping[str, Any]) -> dict[str, Any] | None:
        """The ranges of a `take` of a `queue`, out of any replica; None without one."""
        owner, group = self._owners.get(argument["partition"]), self._host.groups.get(argument["partition"])
        if owner is None or group is None:
            return None
        if self._share.waiting >= MOST_WAITING:
            return {"refused": "busy"}
        first, end = argument["between"]
        try:
            async with self._share.turn():
                take, limits = NamedTake(*argument["take"]), PlanLimits(range_octets=argument["range_octets"])
                messages = taken_messages(owner.machine, argument["queue"], take, first, end)
                plan = RangePlan(owner.machine, group.log, messages, first, limits)
                while plan.end < end:
                    for _ in plan.steps_to(end):
                        await self._share.breath()
                    # All messages of a take are in its plan, so that there may not be too many ranges.
                    limits = PlanLimits(range_octets=4 * limits.range_octets)
                    if plan.end < end:
                        plan = RangePlan(owner.machine, group.log, messages, first, limits)
        except NotAppliedError:
            return {"refused": "behind"}
        except TakeOverError:
            return {"refused": "over"}
        return {"ranges": [tuple(one) for one in plan.ranges]}

    async def read(self, argument: Mapping[str, Any]) -> dict[str, Any] | None:
        """The first `blocks` of a range from the position `first` to `end`, and the `next` position; None
        without a replica. With a `take`, the messages of that take alone. With a `filter`, the octets of a
        selector, blocks have what that takes. An owner with `sparing` does not answer.

        `within`: the octets that the asking node has of the block of the message `first`. Blocks of a large
        entry then come in slices, and the answer's `within` is that of the message `next`. An asking node of
        a release without slices states none.
        """
        owner = self._owners.get(argument["partition"])
        if owner is None:
            return None
        if owner.active and argument["sparing"]:
            return {"refused": "owner"}
        if self._share.waiting >= MOST_WAITING and not argument.get("within"):
            return {"refused": "busy"}
        try:
            while True:
                try:
                    return await self._read(argument)
                except _MovedError:
                    continue
        except NotAppliedError:
            return {"refused": "behind"}
        except TakeOverError:
            return {"refused": "over"}
        except PositionGoneError as error:
            return _gone(error)
        except DamagedEntryError as error:
            self._host.repair.found(error, self._clock())
            self._wanted()
            return {"refused": "damaged"}
        except EntriesGoneError:
            return {"refused": "damaged"}

    async def _read(self, argument: Mapping[str, Any]) -> dict[str, Any] | None:
        looking = _looking(argument)
        async with self._share.turn():
            # Another replica than before the turn, perhaps.
            found = self._find(argument)
            if found is None:
                return None
            log, wanted = found
            if "within" not in argument or not is_large(log, wanted):
                blocks: list[bytes] = []
                for block in cut_blocks(read_wanted(log, wanted), looking):
                    if block is not None:
                        blocks.append(block)
                    await self._share.breath()
                return {"blocks": b"".join(blocks), "next": wanted.next}
            if argument["within"] and wanted.spans[0][0] != argument["first"]:
                raise EntriesGoneError("the message in the middle of which the reader is has left")
            index, key = log.table.indexes[wanted.rows[0]], log.table.key(wanted.rows[0])
        cutting = SliceCutting(self._slices(argument, index, key), self._known.of(key), wanted, looking)
        return await self._in_turns(cutting.steps(argument["within"]))

    def _find(self, argument: Mapping[str, Any]) -> tuple[PartitionLog, Wanted] | None:
        """The log to read, and what the next step wants of it; None without a replica."""
        partition, queue, take = argument["partition"], argument["queue"], argument.get("take")
        owner, group = self._owners.get(partition), self._host.groups.get(partition)
        if owner is None or group is None:
            return None
        log, between = group.log, (argument["first"], argument["end"])
        if take is None:
            return log, wanted_of_stream(owner.machine, log, queue, *between)
        return log, wanted_of_take(owner.machine, log, queue, NamedTake(*take), *between)

    def _slices(self, argument: Mapping[str, Any], index: int, key: int) -> Callable[[], EntrySlices]:
        """Gives an entry whose record has a key, and raises _MovedError where the record is elsewhere now."""

        def slices() -> EntrySlices:
            group = self._host.groups.get(argument["partition"])
            row = -1 if group is None else group.log.table.find(index)
            if group is None or row < 0 or group.log.table.key(row) != key:
                raise _MovedError
            return group.log.slices(row)

        return slices

    async def _in_turns(self, steps: Iterator[LogSlice | None]) -> dict[str, Any]:
        """Each turn a part of the work: readers of large entries do not hold up the others."""
        while True:
            async with self._share.turn():
                while (told := next(steps)) is None and not self._share.is_due:
                    pass
            if told is not None:
                return {"blocks": told.octets, "next": told.next, "within": told.within}


class _MovedError(Exception):
    """The record of an entry is elsewhere than before."""


def _looking(argument: Mapping[str, Any]) -> Looking | None:
    filter = argument.get("filter", b"")
    return Looking(_selector(filter)) if filter else None


def _gone(error: PositionGoneError) -> dict[str, Any]:
    return {"refused": "gone", "oldest": error.oldest, "lost": error.lost, "exact": error.exact}


@lru_cache(64)
def _selector(data: bytes) -> Selector:
    """A range is read in many steps, each with the same filter."""
    return Selector(data)
