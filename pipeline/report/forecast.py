"""Says when a figure comes to its limit, and how far such a saying would have been wrong so far.

The rate is the median of the slopes between all pairs of levels (Theil and Sen): a quarter of the levels
may be anything, such as a burst, without moving the rate far. The back-test fits the first two thirds of the
levels, and predicts the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from itertools import combinations, pairwise
from statistics import median
from typing import Any, Final, NamedTuple

from pipeline.report.series import Level

FEWEST_LEVELS: Final = 12
"""Points with times of their own, below which nothing is predicted."""

HORIZON: Final = 100
"""Nothing is predicted for times further away than so many windows."""

MOST_FITTED: Final = 64
"""Points that a fit has. Of more, medians of neighbours are fitted: a fit takes a millisecond."""

_SECOND: Final = 1000


class Outlook(Enum):
    """The result of a forecast."""

    FILLS = "fills"
    FULL = "full"
    NOT_FILLING = "not filling"
    LATER = "later"
    NO_LIMIT = "no limit"
    TOO_FEW = "too few samples"


class Trend(NamedTuple):
    """A line: the value at the time `middle`, and what comes to it each second."""

    middle: float
    value: float
    rate: float

    def at(self, time: float) -> float:
        return self.value + self.rate * (time - self.middle) / _SECOND


class BackTest(NamedTuple):
    """How wrong a prediction of the last third of the levels was: the median and the largest error, and the
    error of the rate that each second of the prediction stands for. `ahead`: the milliseconds between.
    """

    error: float
    largest: float
    rate_error: float
    ahead: int


@dataclass(frozen=True, slots=True)
class Forecast:
    """The outlook of a figure, and its grounds. Times are milliseconds since the epoch. `fills_at`: when the
    figure comes to its `limit`. By the error of the back-test it is `earliest` and `latest`; None: never, or
    beyond the horizon.
    """

    outlook: Outlook
    samples: int
    window: int
    value: float | None
    limit: float | None
    rate: float | None = None
    fills_at: int | None = None
    earliest: int | None = None
    latest: int | None = None
    tested: BackTest | None = None

    def as_json(self) -> dict[str, Any]:
        tested = self.tested
        return {
            "outlook": self.outlook.value,
            "samples": self.samples,
            "window_s": self.window / _SECOND,
            "value": self.value,
            "limit": self.limit,
            "rate_per_s": self.rate,
            "fills_at": moment(self.fills_at),
            "earliest": moment(self.earliest),
            "latest": moment(self.latest),
            "back_test": None
            if tested is None
            else {
                "error": tested.error,
                "largest_error": tested.largest,
                "rate_error_per_s": tested.rate_error,
                "ahead_s": tested.ahead / _SECOND,
            },
        }


def moment(time: int | None) -> str | None:
    """A time as in ISO 8601, to the second."""
    if time is None:
        return None
    return datetime.fromtimestamp(time / _SECOND, UTC).isoformat(timespec="seconds")


def forecast_of(levels: Sequence[Level], limit: float | None) -> Forecast:
    """The forecast of a figure that fills as it grows to its limit. Of levels of one time the last counts."""
    fitted = _fewer(sorted({one.time: one for one in levels}.values()))
    window = fitted[-1].time - fitted[0].time if fitted else 0
    value = fitted[-1].value if fitted else None
    count = len({one.time for one in levels})
    if value is not None and limit is not None and value >= limit:
        return Forecast(Outlook.FULL, count, window, value, limit)
    if len(fitted) < FEWEST_LEVELS:
        return Forecast(Outlook.TOO_FEW, count, window, value, limit)
    trend, tested = trend_of(fitted), back_test(fitted)
    known = Forecast(Outlook.NO_LIMIT, count, window, value, limit, trend.rate, tested=tested)
    return known if limit is None else _filling(known, trend, tested, limit, fitted[-1].time)


def falling(levels: Sequence[Level], floor: float) -> Forecast:
    """The forecast of a figure that falls to a floor: of free octets."""
    made = forecast_of([Level(one.time, -one.value) for one in levels], -floor)
    return Forecast(
        made.outlook, made.samples, made.window, _negated(made.value), floor, _negated(made.rate),
        made.fills_at, made.earliest, made.latest, made.tested,
    )  # fmt: skip


def _negated(value: float | None) -> float | None:
    return None if value is None else 0 - value


def _filling(known: Forecast, trend: Trend, tested: BackTest, limit: float, now: int) -> Forecast:
    def reached(rate: float) -> int | None:
        """When a line of this rate comes to the limit, if within the horizon."""
        after = (limit - trend.value) / rate * _SECOND if rate > 0 else None
        if after is None or trend.middle + after - now > HORIZON * known.window:
            return None
        return max(now, round(trend.middle + after))

    outlook, at = Outlook.FILLS, reached(trend.rate)
    if trend.rate <= tested.rate_error:
        outlook, at = Outlook.NOT_FILLING, None
    elif at is None:
        outlook = Outlook.LATER
    if outlook is not Outlook.FILLS:
        return Forecast(outlook, *_figures(known), trend.rate, tested=tested)
    earliest, latest = reached(trend.rate + tested.rate_error), reached(trend.rate - tested.rate_error)
    return Forecast(outlook, *_figures(known), trend.rate, at, earliest, latest, tested)


def _figures(known: Forecast) -> tuple[int, int, float | None, float | None]:
    return known.samples, known.window, known.value, known.limit


def trend_of(levels: Sequence[Level]) -> Trend:
    """The line of two levels or more with times of their own."""
    slopes = [
        (second.value - first.value) / (second.time - first.time) for first, second in combinations(levels, 2)
    ]
    slope = median(slopes)
    middle = median(one.time for one in levels)
    value = median(one.value - slope * (one.time - middle) for one in levels)
    return Trend(middle, value, slope * _SECOND)


def back_test(levels: Sequence[Level]) -> BackTest:
    """Predicts the last third of the levels by the others."""
    cut = len(levels) - len(levels) // 3
    known, held = levels[:cut], levels[cut:]
    trend = trend_of(known)
    errors = [abs(trend.at(one.time) - one.value) for one in held]
    by_second = [error * _SECOND / (one.time - trend.middle) for error, one in zip(errors, held, strict=True)]
    return BackTest(median(errors), max(errors), median(by_second), held[-1].time - known[-1].time)


def _fewer(levels: Sequence[Level]) -> list[Level]:
    """At most `MOST_FITTED` levels: medians of neighbours, and the last one as it is."""
    most = MOST_FITTED - 1
    if len(levels) <= MOST_FITTED:
        return list(levels)
    *others, last = levels
    bounds = [len(others) * place // most for place in range(most + 1)]
    groups = [others[low:high] for low, high in pairwise(bounds)]
    middles = [Level(round(median(p.time for p in some)), median(p.value for p in some)) for some in groups]
    return [*middles, last]
