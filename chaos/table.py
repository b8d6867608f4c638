"""A Markdown table of runs, from the figures in their reports. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any, Final

from chaos.page import seconds
from chaos.scenarios import SCENARIOS

HEAD: Final = (
    "scenario",
    "broker",
    "seconds",
    "faults",
    "confirmed",
    "lost",
    "delivered again (without cause)",
    "longest pause of confirms in a queue",
    "fault to next confirm: median, longest",
    "healed to all queues confirm: median, longest",
    "queue-seconds with a confirm",
    "broken promises",
)


def table(reports: Iterable[str]) -> str:
    """The table, with one row a report, in the order of the scenarios. A report is the text of a
    figures.json.
    """
    told = [json.loads(text) for text in reports]
    order = list(SCENARIOS)
    told.sort(key=lambda one: (order.index(one["run"]["scenario"]), one["run"]["broker"]))
    rows = [HEAD, ("---",) * len(HEAD), *(_row(one["run"], one["figures"]) for one in told)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _row(run: Mapping[str, Any], figures: Mapping[str, Any]) -> tuple[str, ...]:
    blows = figures["blows"]
    target = "" if run["target"] == "local" else f", {run['target']}"
    broken = ", ".join(f"{promise} × {times}" for promise, times in figures["promises"].items())
    return (
        run["scenario"],
        run["broker"] + target,
        f"{run['seconds']:.0f}",
        str(len(blows)),
        f"{figures['confirmed']:,}",
        f"{figures['lost']:,}",
        f"{figures['redelivered']:,} ({figures['unexpected']:,})",
        seconds(figures["longest_pause"]),
        _both([blow["next_confirm"] for blow in blows]),
        _both([blow["whole"] for blow in blows]),
        f"{figures['availability']:.1%}",
        broken or "none",
    )


def _both(values: list[float]) -> str:
    return f"{seconds(median(values))}, {seconds(max(values))}" if values else "–"
