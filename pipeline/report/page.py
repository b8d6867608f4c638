"""A report as tables: of text, and as one HTML page, which needs no other file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, Final, NamedTuple

from pipeline.report.job import Report

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
table { border-collapse: collapse; margin: 0 0 2rem; width: 100%; }
caption, h1 { text-align: left; font-weight: 600; }
caption { font-size: 1.1rem; padding: .5rem 0; }
th, td { border-bottom: 1px solid #8884; padding: .25rem .5rem; text-align: right; }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere; }
:root { color-scheme: light dark; }
"""


class Table(NamedTuple):
    """A table of texts. The first column has names, all others figures."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


def tables_of(report: Report) -> list[Table]:
    """The tables of a report that have rows."""
    told = report.as_json()
    queues: dict[str, Any] = told["queues"]
    found = [
        _queues(queues),
        _durations("Time in queue, ms", "time_in_queue", queues),
        _durations("Publish to settlement, ms", "settlement_latency", queues),
        _counts("How messages ended", "ended", queues),
        _counts("Dead letters by reason", "dead_letters", queues),
        _counts("Lag of readers, messages", "lag", queues),
        _fairness(queues),
        _hot_keys(queues),
        _nodes(told["nodes"]),
        _running(told["running"]),
        _forecasts(told["forecasts"]),
    ]
    return [one for one in found if one.rows]


def _queues(queues: dict[str, Any]) -> Table:
    rows = []
    for name, one in queues.items():
        ended, dead = sum(one["ended"].values()), sum(one["dead_letters"].values())
        figures = one["published"], one["waiting"], ended, one["redeliveries"], dead
        rows.append((name, *map(_figure, figures)))
    heads = ("queue", "published", "waiting", "ended", "redeliveries", "dead letters")
    return Table("Queues", heads, rows)


def _fairness(queues: dict[str, Any]) -> Table:
    rows = [
        (name, _figure(one["consumers"]), _figure(one["fairness"]))
        for name, one in queues.items()
        if one["fairness"] is not None
    ]
    return Table("Fairness between consumers", ("queue", "consumers", "Jain's index"), rows)


def _hot_keys(queues: dict[str, Any]) -> Table:
    rows = []
    for name, one in queues.items():
        for hot in one["hot_keys"]:
            count, all_of_them = hot["messages"], max(one["published"], 1)
            rows.append((hot["routing_key"], name, _figure(count), f"{count / all_of_them:.1%}"))
    return Table("Hot keys", ("routing key", "queue", "messages", "part"), rows)


def _running(running: dict[str, dict[str, int]]) -> Table:
    rows = [(name, *map(_figure, one.values())) for name, one in running.items()]
    heads = ("queue", "consumers", "ready", "leased", "redelivered", "dead letters")
    return Table("Queues now", heads, rows)


def _forecasts(forecasts: list[dict[str, Any]]) -> Table:
    rows = []
    for one in forecasts:
        tested = one["back_test"] or dict.fromkeys(("error", "largest_error"))
        figures = one["value"], one["limit"], _rounded(one["rate_per_s"], _HOUR_S)
        times = (_time(one[name]) for name in ("fills_at", "earliest", "latest"))
        errors = _rounded(tested["error"]), _rounded(tested["largest_error"])
        samples = one["samples"], one["window_s"]
        name = f"{one['name']}, {one['figure']}"
        rows.append(
            (name, *map(_figure, figures), one["outlook"], *times, *map(_figure, (*errors, *samples)))
        )
    heads = (
        "queue or disk", "now", "limit", "an hour", "outlook", "full at", "earliest", "latest",
        "back-tested error", "largest", "samples", "window, s",
    )  # fmt: skip
    return Table("When queues and disks fill", heads, rows)


_HOUR_S: Final = 3600


def _rounded(value: float | None, times: int = 1) -> int | None:
    return None if value is None else round(value * times)


def _time(text: str | None) -> str:
    return "-" if text is None else text.removesuffix("+00:00") + "Z"


def _durations(title: str, name: str, queues: dict[str, Any]) -> Table:
    rows = [
        (queue, *map(_figure, one[name].values())) for queue, one in queues.items() if one[name]["messages"]
    ]
    return Table(title, ("queue", "messages", "p50", "p90", "p99", "max"), rows)


def _counts(title: str, name: str, queues: dict[str, Any]) -> Table:
    rows = [
        (queue, word, _figure(count)) for queue, one in queues.items() for word, count in one[name].items()
    ]
    return Table(title, ("queue", "", "messages"), rows)


def _nodes(nodes: dict[str, Any]) -> Table:
    rows = []
    for address, one in nodes.items():
        latency = one["latency"]
        figures = (latency[kind][part] for kind in ("confirm", "delivery") for part in ("p50_s", "p99_s"))
        rows.append((address, *map(_figure, (*figures, one["disk_free_bytes"]))))
    heads = ("node", "confirm p50, s", "p99", "delivery p50, s", "p99", "disk free, octets")
    return Table("Nodes now", heads, rows)


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def text_of(report: Report) -> str:
    """The tables as text."""
    parts = [f"{report.entries:,} entries"]
    for table in tables_of(report):
        rows = [table.heads, *table.rows]
        widths = [max(len(row[place]) for row in rows) for place in range(len(table.heads))]
        lines = [_line(row, widths) for row in rows]
        parts.append("\n".join((table.title, *lines)))
    return "\n\n".join(parts)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = row
    cells = (one.rjust(width) for one, width in zip(others, widths[1:], strict=True))
    return "  ".join((first.ljust(widths[0]), *cells)).rstrip()


def html_of(report: Report) -> str:
    """The tables as an HTML page of its own."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><title>quorate: report</title>',
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>Report</h1><p>{report.entries:,} entries</p>",
    ]
    for table in tables_of(report):
        heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in table.heads)
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>\n" for row in table.rows
        )
        caption = f"<caption>{escape(table.title)}</caption>"
        parts.append(f"<table>{caption}<thead><tr>{heads}</tr></thead>\n<tbody>{rows}</tbody></table>")
    return "\n".join((*parts, "</body></html>\n"))
