"""The samples of nodes that run, over many reports: a file with a line for each, and their forecasts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pipeline.report.figures import QueueFigures
from pipeline.report.forecast import FEWEST_LEVELS, MOST_FITTED, Forecast, falling, forecast_of
from pipeline.report.series import Course, Level

DEPTH, OCTETS, DISK_FREE = "messages", "octets", "disk free"
"""The figures that are forecast: of queues the first two, of nodes the third."""

_LIMIT_ARGUMENTS: Final = "x-max-length", "x-max-length-bytes"


class Capacity(NamedTuple):
    """The limits of a queue; None for no limit."""

    messages: int | None = None
    octets: int | None = None


@dataclass(slots=True)
class Observed:
    """The state of running nodes at a time, in milliseconds since the epoch: messages of queues by name, free
    octets of disks by the address of the node, and the free octets at which the node holds publishers back.
    """

    time: int
    depths: dict[str, int]
    free: dict[str, int]
    floors: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        return {"time": self.time, "depths": self.depths, "free": self.free, "floors": self.floors}


class Forecasted(NamedTuple):
    """A forecast, and of which queue or node, and which figure."""

    name: str
    figure: str
    forecast: Forecast

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "figure": self.figure, **self.forecast.as_json()}


def observed(time: int, running: Mapping[str, Mapping[str, int]], nodes: Mapping[str, Any]) -> Observed:
    """A sample of the figures of queues and nodes that run."""
    depths = {name: one["ready"] + one["leased"] for name, one in running.items()}
    free, floors = (
        {address: one[name] for address, one in nodes.items() if one[name] is not None}
        for name in ("disk_free_bytes", "disk_free_limit_bytes")
    )
    return Observed(time, depths, free, floors)


def sample_in(line: str) -> Observed:
    """The sample that a line of JSON states. Raises ValueError."""
    told = json.loads(line)
    try:
        tables = ({str(key): int(value) for key, value in told[name].items()} for name in _TABLES)
        return Observed(int(told["time"]), *tables)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"no sample of a report: {line}") from error


_TABLES: Final = "depths", "free", "floors"


def capacities_of(queues: Iterable[Mapping[str, Any]]) -> dict[str, Capacity]:
    """The limits of queues by name, of rows of `GET /api/queues`: the lower one of arguments and policies.
    Queues of one name in several virtual hosts have no limit together.
    """
    found: dict[str, Capacity] = {}
    for row in queues:
        arguments, policies = row.get("arguments") or {}, row.get("effective_policy_definition") or {}
        capacity = Capacity(*(_lower(arguments, policies, name) for name in _LIMIT_ARGUMENTS))
        found[row["name"]] = Capacity() if row["name"] in found else capacity
    return found


def _lower(arguments: Mapping[str, Any], policies: Mapping[str, Any], name: str) -> int | None:
    told = arguments.get(name), policies.get(name.removeprefix("x-"))
    return min((one for one in told if isinstance(one, int)), default=None)


def forecasts_of_samples(
    samples: Sequence[Observed], capacities: Mapping[str, Capacity], window: int | None
) -> list[Forecasted]:
    """The forecasts of the queues and disks that the newest sample has, of what lies within a window of
    milliseconds; None for all samples.
    """
    if not samples:
        return []
    ordered = sorted(samples, key=lambda one: one.time)
    newest = ordered[-1]
    within = [one for one in ordered if window is None or one.time >= newest.time - window]
    found = []
    for name in sorted(newest.depths):
        levels = [Level(one.time, one.depths[name]) for one in within if name in one.depths]
        limit = capacities.get(name, Capacity()).messages
        found.append(Forecasted(name, DEPTH, forecast_of(levels, limit)))
    for name in sorted(newest.free):
        levels = [Level(one.time, one.free[name]) for one in within if name in one.free]
        found.append(Forecasted(name, DISK_FREE, falling(levels, newest.floors.get(name, 0))))
    return found


def forecasts_of_journals(
    queues: Mapping[str, QueueFigures], capacities: Mapping[str, Capacity], window: int | None
) -> list[Forecasted]:
    """The forecasts of queues by the entries of journals, as far as these tell times."""
    found = []
    for name, figures in sorted(queues.items()):
        capacity = capacities.get(name, Capacity())
        for word, course, most in (
            (DEPTH, figures.depth, capacity.messages), (OCTETS, figures.held, capacity.octets),
        ):  # fmt: skip
            if course.levels:
                found.append(
                    Forecasted(name, word, forecast_of(_within(course, figures.until, window), most))
                )
    return found


def _within(course: Course, until: int, window: int | None) -> list[Level]:
    begin = course.levels[0].time if window is None else max(until - window, course.levels[0].time)
    cut = Course([Level(begin, course.at(begin)), *(one for one in course.levels if one.time > begin)])
    # Levels between changes are no samples: without changes enough there is nothing to fit.
    return cut.evenly(MOST_FITTED, until) if len(cut.levels) >= FEWEST_LEVELS else cut.levels
