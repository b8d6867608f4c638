"""The time without confirms in a queue after a fault of its owner. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from statistics import median

from chaos.history import Event
from chaos.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Pause:
    """The seconds from a fault until a queue of its node confirms a message sent after the fault; infinite
    where it does not.
    """

    kind: str
    node: str
    queue: str
    seconds: float


def pauses(events: Iterable[Event]) -> list[Pause]:
    """One pause for each fault and each queue that its node owned. Raises BrokenHistoryError."""
    ledger = Ledger.of(events)
    answers: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for message, times in ledger.confirmed.items():
        if message in ledger.published:
            answers[ledger.queue_of(message)].append((ledger.published[message], times[0]))
    return [
        Pause(
            fault.kind,
            fault.node,
            queue,
            min((done for sent, done in answers[queue] if sent >= fault.start), default=inf) - fault.start,
        )
        for fault in ledger.faults
        for queue in fault.queues
    ]


def report(found: Iterable[Pause]) -> str:
    """A line for each kind of fault: count, median and maximum."""
    by_kind: dict[str, list[float]] = defaultdict(list)
    for pause in found:
        by_kind[pause.kind].append(pause.seconds)
    return "\n".join(
        f"{kind}: next confirm after median {median(seconds):.3f} s, maximum {max(seconds):.3f} s "
        f"({len(seconds)} pauses)"
        for kind, seconds in by_kind.items()
    )
