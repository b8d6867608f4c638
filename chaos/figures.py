"""The figures of a run, from its history. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, inf

from chaos.checks import Violation
from chaos.ledger import Fault, Ledger


@dataclass(frozen=True, slots=True)
class Blow:
    """A fault of one or more nodes, and the times of recovery, in seconds.

    `next_confirm`: from the fault until each queue that its nodes owned (each queue, if they owned none) has
    confirmed a message sent after the fault. `ready`: from the healing until all its nodes took clients.
    `whole`: from the healing until each queue confirmed a message sent after it.
    """

    kind: str
    nodes: tuple[str, ...]
    start: float
    healed: float
    end: float
    next_confirm: float
    ready: float
    whole: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts of messages; times in seconds; `availability` is a share of the seconds of all queues."""

    published: int
    confirmed: int
    refused: int
    lost: int
    redelivered: int
    unexpected: int
    """Redeliveries without cause."""

    longest_pause: float
    availability: float
    confirm_p50: float
    confirm_p99: float
    confirm_max: float
    blows: tuple[Blow, ...]
    promises: dict[str, int]
    """The number of violations of each broken promise."""

    @classmethod
    def of(cls, ledger: Ledger, violations: Iterable[Violation]) -> Figures:
        promises = Counter(violation.promise for violation in violations)
        pause, availability = _steadiness(ledger)
        waits = sorted(_waits(ledger))
        return cls(
            published=len(ledger.published),
            confirmed=len(ledger.confirmed),
            refused=len(ledger.refused),
            lost=promises["confirmed and lost"],
            redelivered=sum(len(deliveries) - 1 for deliveries in ledger.deliveries.values()),
            unexpected=promises["redelivered without cause"] + promises["redelivered unmarked"],
            longest_pause=pause,
            availability=availability,
            confirm_p50=quantile(waits, 0.5),
            confirm_p99=quantile(waits, 0.99),
            confirm_max=waits[-1] if waits else inf,
            blows=tuple(_blows(ledger)),
            promises=dict(promises),
        )


def quantile(ascending: Sequence[float], share: float) -> float:
    """The value below which `share` of the values are; infinite without values."""
    return ascending[min(len(ascending) - 1, int(len(ascending) * share))] if ascending else inf


def confirm_times(ledger: Ledger) -> dict[str, list[float]]:
    """The times of confirms in each queue, ascending, up to the end of the load."""
    times: dict[str, list[float]] = {queue: [] for queue in ledger.queues}
    for message, answers in ledger.confirmed.items():
        if message.publisher in ledger.publishers and answers[0] <= ledger.load_ended:
            times[ledger.queue_of(message)].append(answers[0])
    for of_queue in times.values():
        of_queue.sort()
    return times


def _waits(ledger: Ledger) -> Iterable[float]:
    for message, answers in ledger.confirmed.items():
        if message in ledger.published:
            yield answers[0] - ledger.published[message]


def _steadiness(ledger: Ledger) -> tuple[float, float]:
    """The longest time without a confirm in a queue, and the share of seconds with one."""
    by_queue = confirm_times(ledger)
    firsts = [times[0] for times in by_queue.values() if times]
    if len(firsts) < len(by_queue) or not firsts:
        return inf, 0.0
    start = max(firsts)
    end = ledger.load_ended if ledger.load_ended < inf else max(times[-1] for times in by_queue.values())
    longest = max(
        later - earlier
        for times in by_queue.values()
        for earlier, later in pairwise([start, *times[bisect_left(times, start) :], end])
    )
    whole = range(ceil(start), floor(end))
    answered = sum(len({int(time) for time in times if int(time) in whole}) for times in by_queue.values())
    return longest, answered / (max(1, len(whole)) * len(by_queue))


def _blows(ledger: Ledger) -> Iterable[Blow]:
    answers: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for message, times in ledger.confirmed.items():
        if message in ledger.published:
            answers[ledger.queue_of(message)].append((ledger.published[message], times[0]))
    together: dict[float, list[Fault]] = defaultdict(list)
    for fault in ledger.faults:
        together[fault.start].append(fault)

    def first(queue: str, after: float) -> float:
        return min((done for sent, done in answers[queue] if sent >= after), default=inf)

    for start, faults in together.items():
        healed = faults[0].healed
        end = max(fault.end for fault in faults)
        owned = {queue for fault in faults for queue in fault.queues} or set(ledger.queues)
        yield Blow(
            kind=faults[0].kind,
            nodes=tuple(fault.node for fault in faults),
            start=start,
            healed=healed,
            end=end,
            next_confirm=max(first(queue, start) for queue in owned) - start,
            ready=end - healed if healed < inf else inf,
            whole=max(first(queue, healed) for queue in ledger.queues) - healed if healed < inf else inf,
        )


@dataclass(frozen=True, slots=True)
class Timeline:
    """The figures of each second since `start`. Latencies are in seconds, by the second of the publish."""

    start: float
    published: tuple[int, ...]
    confirmed: tuple[int, ...]
    delivered: tuple[int, ...]
    p50: tuple[float | None, ...]
    p99: tuple[float | None, ...]

    @classmethod
    def of(cls, ledger: Ledger) -> Timeline:
        start = min(ledger.published.values(), default=0.0)
        deliveries = [one.time for each in ledger.deliveries.values() for one in each]
        confirms = [times[0] for times in ledger.confirmed.values()]
        seconds = max(1, ceil(max([start, *deliveries, *confirms]) - start + 0.001))
        waits: list[list[float]] = [[] for _ in range(seconds)]
        for message, times in ledger.confirmed.items():
            if message in ledger.published:
                waits[int(ledger.published[message] - start)].append(times[0] - ledger.published[message])
        for each in waits:
            each.sort()
        return cls(
            start=start,
            published=_counts(ledger.published.values(), start, seconds),
            confirmed=_counts(confirms, start, seconds),
            delivered=_counts(deliveries, start, seconds),
            p50=tuple(quantile(each, 0.5) if each else None for each in waits),
            p99=tuple(quantile(each, 0.99) if each else None for each in waits),
        )


def _counts(times: Iterable[float], start: float, seconds: int) -> tuple[int, ...]:
    counted = Counter(int(time - start) for time in times)
    return tuple(counted[second] for second in range(seconds))
