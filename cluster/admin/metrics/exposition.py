"""Metrics as text, for Prometheus.

The format is version 0.0.4 of https://prometheus.io/docs/instrumenting/exposition_formats/.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from cluster.admin.metrics.metric import Labels, Metric, label_text

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

SAMPLES: Final = 64
"""Samples that are written in one go, without a rest."""

Piece = Metric | None
"""None: no metric is ready, but the work may be interrupted."""


def lines(metrics: Iterable[Piece]) -> Iterator[str | None]:
    """The lines of a page, some at a time, and None where the work may be interrupted."""
    for metric in metrics:
        if metric is None:
            yield None
            continue
        name = metric.name
        yield f"# HELP {name} {_escaped(metric.help)}\n# TYPE {name} {metric.kind}\n"
        if metric.kind == "histogram":
            yield from _histogram(metric)
        else:
            samples = iter(metric.samples)
            while some := list(islice(samples, SAMPLES)):
                yield "".join([f"{name}{_written(labels)} {float(value)!r}\n" for labels, value in some])


def _histogram(metric: Metric) -> Iterator[str]:
    count = 0.0
    for labels, value in metric.samples:
        count = value
        yield f"{metric.name}_bucket{_written(labels)} {value!r}\n"
    yield f"{metric.name}_count {count!r}\n{metric.name}_sum {metric.total!r}\n"


def _written(labels: Labels) -> str:
    return labels if isinstance(labels, str) else label_text(labels)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
