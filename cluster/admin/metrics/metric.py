"""A metric as the code that counts gives it, before it is written in Prometheus' format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from replication.journal import BOUNDS_S, Durations

Kind = Literal["counter", "gauge"]


Labels = Mapping[str, str] | str
"""A text is written out already, by `label_text`: labels that many samples share are written once."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric with its samples, each a set of labels and a value.

    Names follow https://prometheus.io/docs/practices/naming/: base units, and `_total` at the end of
    a counter's.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: Iterable[tuple[Labels, float]]
    """Of a histogram: the counts up to each bound `le`, the last of them for all. They may be read only
    once, and a few at a time: a sample's value is that of the moment."""
    total: float = 0.0
    """Of a histogram: the sum of all values."""


def label_text(labels: Mapping[str, str]) -> str:
    """Labels as they stand behind a metric's name."""
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_quoted(labels[name])}"' for name in sorted(labels)) + "}"


def with_label(labels: str, name: str, value: str) -> str:
    """Labels that are written out, and one more."""
    return f'{labels[:-1]},{name}="{_quoted(value)}"}}'


def _quoted(value: str) -> str:
    if "\\" in value or '"' in value or "\n" in value:
        value = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    # Names of clients may hold octets that are no UTF-8.
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def series(name: str, kind: Kind, help_: str, labels: Iterable[Labels], values: Iterable[float]) -> Metric:
    """A sample for each set of labels."""
    return Metric(name, kind, help_, zip(labels, map(float, values), strict=True))


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
