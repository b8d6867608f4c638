"""How long a queue confirms nothing after its owner was hurt. Pure."""

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
    """Seconds from a fault to the first confirm, in a queue of the hurt node, of a message sent after it.

    Infinite when there was none.
    """

    kind: str
    node: str
    queue: str
    seconds: float


def pauses(events: Iterable[Event]) -> list[Pause]:
    """One for each fault and each queue that the hurt node owned. Raises BrokenHistoryError."""
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
