"""What queues refuse of messages that come in: those that are full, and say so (x-overflow)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cluster.owner.duplicates import repeats
from cluster.owner.state import OwnerState
from node.message.content import properties_in, read_delay, size_spans
from node.message.run import Run
from node.queue.dispatch import QueueOwner
from node.queue.features.deduplication import DEDUPLICATION_WINDOW
from node.queue.features.limits import FEATURE, Limits, refused, refuses, weighs
from node.queue.settings import QueueSettings
from node.queue.weights import Weights
from node.ranges.range_map import Span
from node.ranges.range_set import Range, RangeSet


def may_leave_out(owner: OwnerState, queues: Sequence[int]) -> bool:
    """Whether one of the queues may refuse messages rather than to drop others, or have had them before."""
    settings = (owner.settings_of(number) for number in queues)
    return any(DEDUPLICATION_WINDOW.of(each) is not None or refuses(each) for each in settings)


def refusals(owner: OwnerState, run: Run, queues: Sequence[int]) -> dict[int, list[Range]]:
    """Which messages of the run, counted from 0, each of the queues refuses. Empty for most."""
    found = {}
    for number in queues:
        settings = owner.settings_of(number)
        queue = owner.queues.get(number)
        if queue is not None and refuses(settings):
            parts = _refused(owner, settings, number, queue, run)
            if parts:
                found[number] = parts
    return found


def _refused(
    owner: OwnerState, settings: QueueSettings, number: int, queue: QueueOwner, run: Run
) -> list[Range]:
    upcoming = owner.upcoming.get(number)
    # What consumers have credit for is as good as gone.
    messages = len(queue.ready) + (len(upcoming) if upcoming is not None else 0) - queue.consumers.credit_left
    octets = 0
    if messages > 0 and weighs(settings):
        octets = _ready_octets(queue) + (upcoming.octets if upcoming is not None else 0)
    sizes = size_spans(run) if weighs(settings) else [(0, run.count - 1, 0)]
    special = _Special.of(owner, queue, run)
    if special.none:
        return refused(settings, messages, octets, sizes)
    return special.refused(settings, messages, octets, sizes)


def _ready_octets(queue: QueueOwner) -> int:
    share = queue.shares.get(FEATURE)
    return share.ready_octets() if isinstance(share, Limits) else 0


@dataclass(frozen=True, slots=True)
class _Special:
    """Messages of a run, counted from 0, that take no room: those that the queue `had` before, that are
    `delayed`, or the same as an earlier one (`again`).
    """

    had: frozenset[int]
    again: Mapping[int, int]
    delayed: frozenset[int]

    @classmethod
    def of(cls, owner: OwnerState, queue: QueueOwner, run: Run) -> _Special:
        had, again = repeats(owner, queue, run)
        delayed = (
            at
            for index, count, properties in (properties_in(run) if run.special else ())
            if read_delay(properties)
            for at in range(index, index + count)
        )
        return cls(frozenset(had), again, frozenset(delayed))

    @property
    def none(self) -> bool:
        return not (self.had or self.again or self.delayed)

    def refused(
        self, settings: QueueSettings, messages: int, octets: int, sizes: Iterable[Span]
    ) -> list[Range]:
        """As `limits.refused`, message by message. A message that repeats another one shares its fate."""
        found = RangeSet()
        for at, size in ((at, size) for first, last, size in sizes for at in range(first, last + 1)):
            if at in self.had:
                continue
            if at in self.again:
                if self.again[at] in found:
                    found.add(at, at)
            elif refused(settings, messages, octets, [(at, at, size)]):
                found.add(at, at)
            elif at not in self.delayed:
                octets += size if messages >= 0 else 0
                messages += 1
        return list(found.ranges())


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


def await_arrival(owner: OwnerState, run: Run, first: int, queues: Sequence[int]) -> None:
    """Count messages, numbered from `first` on, with those that queues which may refuse have taken."""
    for number in queues:
        settings = owner.settings_of(number)
        if refuses(settings):
            upcoming = owner.upcoming.setdefault(number, Weights())
            sizes = size_spans(run) if weighs(settings) else [(0, run.count - 1, 0)]
            for start, end, size in sizes:
                upcoming.add(first + start, first + end, size)
