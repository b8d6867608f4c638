"""One node's answers about messages and digests, from the logs of its replicas (requirement X8).

The node walks a log in steps, between which it serves clients. A question is answered in time, also where the
walk takes longer: then the answer has the number of the walk, for the next question.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from typing import Any, Final

from cluster.admin.inquiry import ANSWER_TIMEOUT_S
from cluster.admin.views import OwnedPartition
from cluster.owner.transfers import FIRST_TRANSIT_ID
from cluster.owner.walking import EntriesGoneError, Walk, digest_steps
from cluster.owner.whereabouts import whereabouts
from node.queue.events import Lead, LeadKind, read_lead
from node.queue.explaining import Trace
from node.queue.partition import PartitionMachine
from node.queue.sought import Sought
from replication.host import Host
from replication.journal import DamagedEntryError, PartitionLog

EXPLAIN: Final = "management.explain"
DIGESTS: Final = "management.digests"

ANSWER_S: Final = 0.5 * ANSWER_TIMEOUT_S
"""Seconds after which the node answers that it goes on walking."""

MOST_WALKS: Final = 4
"""Walks of a node at a time. A further question is answered with `busy`."""

ABANDONED_S: Final = 5.0
"""A walk ends when no question about it has come for so many seconds."""


class ExplainAnswers:
    """See the module's docstring."""

    def __init__(
        self,
        owners: Mapping[int, OwnedPartition],
        host: Host,
        clock: Callable[[], float],
        wanted: Callable[[], None],
    ) -> None:
        """`owners` are this node's replicas by partition; `wanted` asks for a turn."""
        self._owners, self._host, self._clock, self._wanted = owners, host, clock, wanted
        self._walks: dict[int, asyncio.Task[Any]] = {}
        self._ends: dict[int, asyncio.TimerHandle] = {}
        self._last = 0

    async def explain(self, argument: Mapping[str, Any]) -> Any:
        """The life of the message that the `lead` names, or the number of the `walk` that looks for it."""
        walk = argument.get("walk", 0)
        return await self._answer(walk, lambda: self._explained(read_lead(argument["lead"])))

    async def digests(self, argument: Mapping[str, Any]) -> Any:
        """The digest after the entry `index` of a partition, from the log; with 0 that of the state."""
        partition, index = argument["partition"], argument["index"]
        return await self._answer(argument.get("walk", 0), lambda: self._digest(partition, index))

    # -- walks ----------------------------------------------------------------------------------

    async def _answer(self, walk: int, begin: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        if not walk:
            if len(self._walks) >= MOST_WALKS:
                return {"busy": True}
            self._last = walk = self._last + 1
            self._walks[walk] = asyncio.ensure_future(_carried_out(begin))
            self._walks[walk].add_done_callback(_ended)
        task = self._walks.get(walk)
        if task is None:
            return None
        self._keep(walk)
        await asyncio.wait([task], timeout=ANSWER_S)
        if not task.done():
            return {"walk": walk}
        self._forget(walk)
        result = task.result()
        if isinstance(result, Exception):
            raise result
        return result

    def _keep(self, walk: int) -> None:
        """The walk is asked about: it ends later."""
        if walk in self._ends:
            self._ends[walk].cancel()
        loop = asyncio.get_running_loop()
        self._ends[walk] = loop.call_later(ABANDONED_S, self._forget, walk)

    def _forget(self, walk: int) -> None:
        end, task = self._ends.pop(walk, None), self._walks.pop(walk, None)
        if end is not None:
            end.cancel()
        if task is not None:
            task.cancel()

    def _replica(self, partition: int) -> tuple[OwnedPartition, PartitionLog] | None:
        owner, group = self._owners.get(partition), self._host.groups.get(partition)
        return None if owner is None or group is None else (owner, group.log)

    # -- explaining -----------------------------------------------------------------------------

    async def _explained(self, lead: Lead) -> Any:
        replica = self._replica(lead.partition)
        if replica is None:
            return None
        owner, log = replica
        if lead.kind is LeadKind.NUMBER and lead.number >= owner.machine.next_sequence:
            return {"unborn": True, "active": owner.active}
        trace = Trace(lead.partition, Sought(lead))
        try:
            walk = Walk(owner.machine, log, trace)
            while not walk.step():
                # Clients of this node have a turn of the event loop after each step.
                await asyncio.sleep(0)
            digests = await self._digests_at(owner.machine, log, {one.entry for one in trace.events})
        except DamagedEntryError as error:
            self._host.repair.found(error, self._clock())
            self._wanted()
            return {"damaged": error.index}
        return life_told(owner, trace, digests)

    async def _digests_at(
        self, machine: PartitionMachine, log: PartitionLog, indexes: Iterable[int]
    ) -> dict[int, str]:
        """The digests after these entries, of those that a chain reaches back to."""
        by_mark: dict[int, set[int]] = {}
        for index in indexes:
            mark = machine.chronicle.mark_before(index)
            if mark is not None:
                by_mark.setdefault(mark[0], set()).add(index)
        found: dict[int, str] = {}
        for wanted in by_mark.values():
            try:
                async for at, digest in _between_turns(machine, log, max(wanted)):
                    if at in wanted:
                        found[at] = digest.hex()
            except EntriesGoneError:
                continue
        return found

    async def _digest(self, partition: int, index: int) -> Any:
        """Recomputes the digests of the whole chain, up to the entry `index`."""
        replica = self._replica(partition)
        if replica is None or not replica[0].machine.chronicle.kept:
            return None
        machine, log = replica[0].machine, replica[1]
        if not index:
            return {"index": machine.applied_index, "digest": machine.chronicle.digest.hex()}
        marks, first = dict(machine.chronicle.marks()), machine.chronicle.whole_from
        answer: dict[str, Any] = {"index": index, "first": first, "digest": None, "differs": None}
        try:
            async for at, digest in _between_turns(machine, log, index, all_marks=True):
                if at == machine.applied_index:
                    marks[at] = machine.chronicle.digest
                if marks.get(at, digest) != digest:
                    return {**answer, "differs": at}
                if at == index:
                    answer["digest"] = digest.hex()
        except DamagedEntryError as error:
            return {**answer, "differs": error.index}
        except EntriesGoneError:
            pass
        return answer


async def _carried_out(begin: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """The result of a walk, or its exception, for the next question about it."""
    try:
        return await begin()
    except Exception as error:
        return error


def _ended(walk: asyncio.Task[Any]) -> None:
    """Let an exception that ends the node reach the event loop."""
    if not walk.cancelled():
        walk.result()


async def _between_turns(
    machine: PartitionMachine, log: PartitionLog, index: int, *, all_marks: bool = False
) -> AsyncIterator[tuple[int, bytes]]:
    """The digests of `digest_steps`, with a turn of the event loop behind each step."""
    for step in digest_steps(machine, log, index, all_marks=all_marks):
        for one in step:
            yield one
        await asyncio.sleep(0)


def life_told(owner: OwnedPartition, trace: Trace, digests: Mapping[int, str]) -> dict[str, Any]:
    """The answer about a message, in plain values. `oldest` has the oldest message of each queue."""
    machine, number = owner.machine, trace.number
    now = [
        (queue, whereabouts(owner.queues[queue], number))
        for queue in trace.there
        if number and owner.active and queue in owner.queues
    ]
    return {
        "number": number,
        "between": trace.sought.between,
        "events": [tuple(one) for one in trace.events],
        "omitted": trace.omitted,
        "leads": [tuple(_addressed(one, owner.partition)) for one in leads_of(trace)],
        "digests": list(digests.items()),
        "there": list(trace.there.items()),
        "now": now,
        "active": owner.active,
        "oldest": [(queue, state.alive.first) for queue, state in machine.queues.items()],
    }


def leads_of(trace: Trace) -> list[Lead]:
    """Where to go on: also in the further partitions of the transaction that has been looked for."""
    lead = trace.sought.lead
    return [*trace.leads, *(lead._replace(partition=one) for one in trace.sought.others)]


def _addressed(lead: Lead, source: int) -> Lead:
    """The lead with the front end that this partition is to others."""
    return lead._replace(front_end=FIRST_TRANSIT_ID + source) if lead.kind is LeadKind.TRANSFER else lead
