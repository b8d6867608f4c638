"""A metric as the code that counts gives it, before it is written in Prometheus' format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from node.engine.tally import Tally
from replication.journal import BOUNDS_S, Durations

if TYPE_CHECKING:
    from cluster.owner.partition import PartitionOwner


Kind = Literal["counter", "gauge"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric with its samples, each a set of labels and a value.

    Names follow https://prometheus.io/docs/practices/naming/: base units, and `_total` at the end of
    a counter's.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: Sequence[tuple[Mapping[str, str], float]]
    """Of a histogram: the counts up to each bound `le`, the last of them for all."""
    total: float = 0.0
    """Of a histogram: the sum of all that was counted."""


def series(
    name: str, kind: Kind, help_: str, labels: Sequence[Mapping[str, str]], values: Iterable[float]
) -> Metric:
    """A sample for each set of labels; raises ValueError when there are more or fewer values."""
    return Metric(name, kind, help_, list(zip(labels, map(float, values), strict=True)))


def gauge(name: str, help_: str, value: float) -> Metric:
    return Metric(name, "gauge", help_, [({}, float(value))])


def counter(name: str, help_: str, value: float) -> Metric:
    return Metric(name, "counter", help_, [({}, float(value))])


def histogram(name: str, help_: str, durations: Durations) -> Metric:
    samples: list[tuple[Mapping[str, str], float]] = []
    count = 0
    for bound, more in zip((*map(str, BOUNDS_S), "+Inf"), durations.counts, strict=True):
        count += more
        samples.append(({"le": bound}, float(count)))
    return Metric(name, "histogram", help_, samples, total=durations.total)


def tally_of(owner: PartitionOwner) -> Tally:
    """What became of the messages of all queues that this owner has or had."""
    total = Tally()
    total.add(owner.past)
    for queue in owner.queues.values():
        total.add(queue.tally)
    return total
