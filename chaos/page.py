"""The report of a run as one self-contained HTML page, with its time line as SVG. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Final

from chaos.checks import Violation
from chaos.figures import Blow, Figures, Timeline
from chaos.history import RunBegan

WIDTH: Final = 1000
HEIGHT: Final = 220
LEFT: Final = 60
TOP: Final = 16
BOTTOM: Final = 24
SHOWN: Final = 100
"""At most so many violations are printed in full."""

Line = tuple[str, str, Sequence[float | None]]
"""(name, colour, a value for each second)."""

_STYLE: Final = """
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:1020px;padding:0 1rem;
color:#1c2330;background:#fff}
h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.1rem;margin:1.6rem 0 .4rem}
table{border-collapse:collapse}
td,th{padding:.25rem .9rem .25rem 0;text-align:left;border-bottom:1px solid #d8dde6}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
.kept{color:#0a6b34;font-weight:600}.broken{color:#b3261e;font-weight:600}
svg{width:100%;height:auto;display:block}svg text{font:11px system-ui,sans-serif;fill:currentColor}
.grid{stroke:#d8dde6}.fault{fill:#b3261e;fill-opacity:.13}.recovering{fill:#c98500;fill-opacity:.16}
.key{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 1em;vertical-align:-.05em}
@media (prefers-color-scheme:dark){body{color:#e3e7ee;background:#14181f}
td,th{border-color:#343c49}.grid{stroke:#343c49}
.kept{color:#5fd08f}.broken{color:#ff8a80}.fault{fill:#ff8a80}.recovering{fill:#ffc04d}}
"""


def page(began: RunBegan, figures: Figures, timeline: Timeline, violations: Sequence[Violation]) -> str:
    """The whole page."""
    title = f"{began.scenario}: {began.broker}, {began.target}"
    verdict = (
        f'<p class="broken">{len(violations)} broken promises</p>'
        if violations
        else '<p class="kept">Every promise was kept.</p>'
    )
    rates: list[Line] = [
        ("published", "#6b7a90", timeline.published),
        ("confirmed", "#1f6feb", timeline.confirmed),
        ("delivered", "#2ea043", timeline.delivered),
    ]
    latencies: list[Line] = [
        ("median", "#1f6feb", _milliseconds(timeline.p50)),
        ("99 of 100", "#b35900", _milliseconds(timeline.p99)),
    ]
    return "\n".join(
        [
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>',
            f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>',
            f"<h1>{escape(title)}</h1>",
            f"<p>{began.seconds:.0f} s at {began.rate:.0f} messages a second, seed {began.seed}</p>",
            verdict,
            _figures(figures),
            "<h2>Messages a second</h2>",
            _legend(rates),
            _plot(rates, timeline, figures.blows, logarithmic=False),
            "<h2>From publish to confirm, milliseconds</h2>",
            _legend(latencies),
            _plot(latencies, timeline, figures.blows, logarithmic=True),
            "<h2>Faults</h2>",
            _faults(figures.blows, timeline.start),
            _violations(violations),
            "</html>",
        ]
    )


def seconds(value: float) -> str:
    """A time in seconds as text, in milliseconds or seconds; `never` for infinity."""
    if math.isinf(value):
        return "never"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def _milliseconds(values: Iterable[float | None]) -> list[float | None]:
    return [None if value is None else value * 1000 for value in values]


def _figures(figures: Figures) -> str:
    rows = [
        ("published", f"{figures.published:,}"),
        ("confirmed", f"{figures.confirmed:,}"),
        ("refused", f"{figures.refused:,}"),
        ("confirmed and lost", f"{figures.lost:,}"),
        ("delivered again", f"{figures.redelivered:,}"),
        ("delivered again without cause", f"{figures.unexpected:,}"),
        ("longest time without a confirm in a queue", seconds(figures.longest_pause)),
        ("seconds with a confirm, of all queues", f"{figures.availability:.1%}"),
        ("publish to confirm: median", seconds(figures.confirm_p50)),
        ("publish to confirm: 99 of 100", seconds(figures.confirm_p99)),
        ("publish to confirm: longest", seconds(figures.confirm_max)),
    ]
    cells = "".join(f'<tr><th scope="row">{name}</th><td class="n">{value}</td></tr>' for name, value in rows)
    return f"<h2>Figures</h2><table>{cells}</table>"


def _faults(blows: Sequence[Blow], start: float) -> str:
    head = "<tr><th>at</th><th>what</th><th>nodes</th>" + "".join(
        f'<th class="n">{name}</th>'
        for name in ("lasted", "fault to next confirm", "healed to ready", "healed to all queues confirm")
    )
    return f"<table>{head}</tr>{''.join(_fault(blow, start) for blow in blows)}</table>"


def _fault(blow: Blow, start: float) -> str:
    words = (f"{blow.start - start:.1f} s", blow.kind, ", ".join(blow.nodes))
    times = (blow.healed - blow.start, blow.next_confirm, blow.ready, blow.whole)
    cells = [f"<td>{escape(word)}</td>" for word in words]
    cells += [f'<td class="n">{seconds(time)}</td>' for time in times]
    return f"<tr>{''.join(cells)}</tr>"


def _violations(violations: Sequence[Violation]) -> str:
    if not violations:
        return ""
    items = "".join(f"<li>{escape(str(violation))}</li>" for violation in violations[:SHOWN])
    more = len(violations) - SHOWN
    rest = f"<p>and {more:,} more, in the history</p>" if more > 0 else ""
    return f"<h2>Broken promises</h2><ul>{items}</ul>{rest}"


def _legend(lines: Sequence[Line]) -> str:
    keys = [(name, f"background:{colour}") for name, colour, _ in lines]
    keys += [("fault", "background:#b3261e;opacity:.3"), ("recovering", "background:#c98500;opacity:.35")]
    shown = (f'<span class="key" style="{style}"></span>{name}' for name, style in keys)
    return f"<p>{''.join(shown)}</p>"


def _plot(lines: Sequence[Line], timeline: Timeline, blows: Sequence[Blow], *, logarithmic: bool) -> str:
    count = max(1, len(timeline.published))
    values = [value for _, _, each in lines for value in each if value is not None and value > 0]
    scale = _Scale(values, logarithmic=logarithmic)

    def x(second: float) -> float:
        return LEFT + min(max(second, 0.0), count) / count * (WIDTH - LEFT)

    def band(kind: str, start: float, end: float, text: str) -> str:
        left, right = x(start - timeline.start), x(min(end, timeline.start + count) - timeline.start)
        size = f'width="{max(1.0, right - left):.1f}" height="{HEIGHT - TOP - BOTTOM}"'
        return f'<rect class="{kind}" x="{left:.1f}" y="{TOP}" {size}><title>{escape(text)}</title></rect>'

    label = escape(", ".join(name for name, _, _ in lines))
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">']
    for blow in blows:
        parts.append(band("fault", blow.start, blow.healed, f"{', '.join(blow.nodes)} {blow.kind}"))
        parts.append(band("recovering", blow.healed, blow.end, f"{', '.join(blow.nodes)} recovering"))
    for tick in scale.ticks:
        y = scale.y(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for second in range(0, count + 1, _round_step(count / 10)):
        parts.append(f'<text x="{x(second):.1f}" y="{HEIGHT - 6}" text-anchor="middle">{second} s</text>')
    parts += [_path(name, colour, each, x, scale) for name, colour, each in lines]
    return "".join([*parts, "</svg>"])


class _Scale:
    """Maps values to the plot's height, linear from 0 or logarithmic."""

    def __init__(self, values: Sequence[float], *, logarithmic: bool) -> None:
        highest = max(values, default=1.0)
        self._logarithmic = logarithmic
        if logarithmic:
            low, high = math.floor(math.log10(min(values, default=1.0))), math.ceil(math.log10(highest))
            self._low, self._high = float(low), float(max(high, low + 1))
            self.ticks = [10.0**power for power in range(low, max(high, low + 1) + 1)]
        else:
            step = _round_step(highest / 4)
            self.ticks = [float(step * place) for place in range(math.ceil(highest / step) + 1)]
            self._low, self._high = 0.0, self.ticks[-1]

    def y(self, value: float) -> float:
        at = math.log10(value) if self._logarithmic else value
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - (at - self._low) / (self._high - self._low))


def _round_step(least: float) -> int:
    """The smallest of 1, 2 and 5 times a power of ten that is at least this."""
    step = 1
    while step < least:
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    return step


def _path(
    name: str, colour: str, values: Sequence[float | None], x: Callable[[float], float], scale: _Scale
) -> str:
    """A line through the middles of the seconds, with a gap where a second has no value."""
    commands = []
    pen = "M"
    for second, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        commands.append(f"{pen}{x(second + 0.5):.1f} {scale.y(value):.1f}")
        pen = "L"
    path = "".join(commands)
    style = f'fill="none" stroke="{colour}" stroke-width="1.5"'
    return f'<path d="{path}" {style}><title>{escape(name)}</title></path>'
