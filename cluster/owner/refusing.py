"""What queues refuse of messages that come in: those that are full, and say so (x-overflow)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from node.engine.content import size_spans
from node.engine.limits import Weights, refused, refuses
from node.engine.ranges import Range, RangeSet
from node.engine.settings import QueueSettings
from node.runs import Run

if TYPE_CHECKING:
    from cluster.owner.partition import PartitionOwner
    from node.engine.dispatch import QueueOwner


def may_leave_out(owner: PartitionOwner, queues: Sequence[int]) -> bool:
    """Whether one of the queues may refuse messages rather than to drop others, or have had them before."""
    settings = (owner.settings_of(number) for number in queues)
    return any(each.deduplication_window_ms is not None or refuses(each) for each in settings)


def refusals(owner: PartitionOwner, run: Run, queues: Sequence[int]) -> dict[int, list[Range]]:
    """Which messages of the run, counted from 0, each of the queues refuses. Empty for most."""
    found = {}
    for number in queues:
        settings = owner.settings_of(number)
        queue = owner.queues.get(number)
        if queue is not None and refuses(settings):
            parts = _refused(settings, queue, owner.upcoming.get(number), run)
            if parts:
                found[number] = parts
    return found


def _refused(settings: QueueSettings, queue: QueueOwner, upcoming: Weights | None, run: Run) -> list[Range]:
    # What consumers have credit for is as good as gone.
    messages = len(queue.ready) + (len(upcoming) if upcoming is not None else 0) - queue.consumers.credit_left
    octets = 0
    if messages > 0 and settings.max_length_bytes is not None:
        octets = queue.ready_octets() + (upcoming.octets if upcoming is not None else 0)
    sizes = size_spans(run) if settings.max_length_bytes is not None else [(0, run.count - 1, 0)]
    return refused(settings, messages, octets, sizes)


def cut(
    run: Run, queues: tuple[int, ...], without: Mapping[int, list[Range]]
) -> list[tuple[Run, tuple[int, ...]]]:
    """The run in pieces, each with those of the queues that take it: `without` says who leaves what out,
    counted from 0.
    """
    if not without:
        return [(run, queues)]
    edges = {
        0,
        run.count,
        *(edge for parts in without.values() for one in parts for edge in (one[0], one[1] + 1)),
    }
    sets = {number: RangeSet(parts) for number, parts in without.items()}
    found = []
    for first, behind in pairwise(sorted(edges)):
        taking = tuple(number for number in queues if number not in sets or first not in sets[number])
        found.append((run.slice(first, behind - first), taking))
    return found


def await_arrival(owner: PartitionOwner, run: Run, first: int, queues: Sequence[int]) -> None:
    """Count messages, numbered from `first` on, with those that queues which may refuse have taken."""
    for number in queues:
        settings = owner.settings_of(number)
        if refuses(settings):
            upcoming = owner.upcoming.setdefault(number, Weights())
            sizes = size_spans(run) if settings.max_length_bytes is not None else [(0, run.count - 1, 0)]
            for start, end, size in sizes:
                upcoming.add(first + start, first + end, size)
