"""Reads the metrics of nodes that run (docs/metrics.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

_SAMPLE: Final = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? ([^ ]+)")
_LABEL: Final = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(r"\\(.)")
_LATENCIES: Final = {
    "confirm": "quorate_confirm_latency_seconds",
    "delivery": "quorate_delivery_latency_seconds",
}
_QUANTILES: Final = {"p50_s": 0.5, "p99_s": 0.99}
_OF_QUEUES: Final = {
    "consumers": "quorate_queue_consumers",
    "ready": "quorate_queue_messages_ready",
    "leased": "quorate_queue_messages_leased",
    "redelivered": "quorate_queue_messages_redelivered_total",
    "dead_lettered": "quorate_queue_messages_dead_lettered_total",
}
_OF_DISKS: Final = {
    "disk_free_bytes": "quorate_disk_free_bytes",
    "disk_free_limit_bytes": "rabbitmq_disk_space_available_limit_bytes",
}


class Sample(NamedTuple):
    """A line of a page of metrics."""

    name: str
    labels: Mapping[str, str]
    value: float


def samples_in(page: str) -> list[Sample]:
    """The samples of a page in Prometheus' text format; lines of other forms are left out."""
    found = []
    for line in page.splitlines():
        match = None if line.startswith("#") else _SAMPLE.fullmatch(line.strip())
        if match is not None:
            name, labels, value = match.groups()
            named = {key: _plain(text) for key, text in _LABEL.findall(labels or "")}
            found.append(Sample(name, named, float(value)))
    return found


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda match: "\n" if match[1] == "n" else match[1], text)


def quantile_of(samples: Iterable[Sample], histogram: str, part: float) -> float | None:
    """The bound, in the histogram's unit, below which so large a part of all observations is; None without
    any, or where that is behind the last bound.
    """
    counts: dict[float, float] = {}
    for one in samples:
        if one.name == f"{histogram}_bucket":
            bound = float(one.labels["le"])
            counts[bound] = counts.get(bound, 0) + one.value
    total = counts.get(float("inf"), 0)
    bounds = (bound for bound in sorted(counts) if counts[bound] >= part * total)
    found = next(bounds, None) if total else None
    return None if found is None or found == float("inf") else found


def node_figures(samples: list[Sample]) -> dict[str, Any]:
    """The latencies of a node since its process began, the room on its disk, and the room below which
    publishers are held back.
    """
    latencies = {
        kind: {name: quantile_of(samples, histogram, part) for name, part in _QUANTILES.items()}
        for kind, histogram in _LATENCIES.items()
    }
    disks = {
        figure: next((int(one.value) for one in samples if one.name == metric), None)
        for figure, metric in _OF_DISKS.items()
    }
    return {"latency": latencies, **disks}


def queue_figures(samples: Iterable[Sample]) -> dict[str, dict[str, int]]:
    """The figures of queues by name, all virtual hosts and owners together."""
    names = {metric: name for name, metric in _OF_QUEUES.items()}
    found: dict[str, dict[str, int]] = {}
    for one in samples:
        if one.name in names and "queue" in one.labels:
            figures = found.setdefault(one.labels["queue"], dict.fromkeys(_OF_QUEUES, 0))
            figures[names[one.name]] += int(one.value)
    return found
