"""The forecast of the job report: when queues and disks fill, and how wrong it has been so far (F8)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.queue.entry_format import encode_settle
from pipeline.jobs.report import report
from pipeline.jobs.samples import kept_samples
from pipeline.options import OptionError
from pipeline.report.figures import QueueFigures
from pipeline.report.forecast import (
    FEWEST_LEVELS,
    HORIZON,
    MOST_FITTED,
    Outlook,
    back_test,
    falling,
    forecast_of,
    trend_of,
)
from pipeline.report.job import Report
from pipeline.report.metrics import node_figures, queue_figures, samples_in
from pipeline.report.page import html_of, text_of
from pipeline.report.samples import (
    DEPTH,
    DISK_FREE,
    OCTETS,
    Capacity,
    Observed,
    capacities_of,
    forecasts_of_journals,
    forecasts_of_samples,
    observed,
)
from pipeline.report.series import MOST_LEVELS, Course, Level
from tests.pipeline.test_report import arrived, figures_of, fold_of, published

pytestmark = pytest.mark.requirement("F8.7")

HOUR = 3_600_000
BEGIN = 1_800_000_000_000


def line(rate: float, count: int = 40, start: float = 0, step: int = 60_000) -> list[Level]:
    """Levels of a figure that changes by `rate` a second, a minute apart."""
    return [Level(BEGIN + place * step, start + rate * place * step / 1000) for place in range(count)]


# -- the fit -------------------------------------------------------------------------------------------

rates = st.floats(-1e6, 1e6).filter(lambda rate: rate == 0 or abs(rate) > 1e-3)


@given(rates, st.integers(FEWEST_LEVELS, 200))
def test_a_line_is_found_as_the_line_it_is(rate: float, count: int) -> None:
    levels = line(rate, count)
    trend, tested = trend_of(levels[:MOST_FITTED]), back_test(levels)
    assert trend.rate == pytest.approx(rate) and trend.at(levels[-1].time) == pytest.approx(levels[-1].value)
    assert tested.error <= 1e-6 * max(abs(rate), 1) * count * 60


@given(st.data(), st.floats(0.01, 1e4), st.integers(24, 60))
def test_noise_and_outliers_move_the_rate_no_further_than_they_must(
    data: st.DataObject, rate: float, count: int
) -> None:
    """At most 19 of 100 pairs are closer than a tenth of the window, and at most 19 have an outlier. The
    median is within the slopes of the other pairs, which have no more than the noise of two levels.
    """
    noise = rate * 60
    spread = st.lists(st.floats(-noise, noise), min_size=count, max_size=count)
    offs = data.draw(spread)
    levels = [Level(one.time, one.value + off) for one, off in zip(line(rate, count), offs, strict=True)]
    wild = st.dictionaries(st.integers(0, count - 1), st.floats(-1e12, 1e12), max_size=count // 10)
    outliers = data.draw(wild)
    for place, value in outliers.items():
        levels[place] = Level(levels[place].time, value)
    window_s = (levels[-1].time - levels[0].time) / 1000
    assert abs(trend_of(levels).rate - rate) <= 2 * noise / (0.1 * window_s)


@given(st.floats(0.1, 1e3), st.floats(0.01, 20), st.integers(FEWEST_LEVELS, 60))
def test_a_line_fills_when_it_comes_to_its_limit(rate: float, windows: float, count: int) -> None:
    levels = line(rate, count)
    window_s = (levels[-1].time - levels[0].time) / 1000
    made = forecast_of(levels, levels[-1].value + rate * window_s * windows)
    assert made.outlook is Outlook.FILLS and made.fills_at is not None
    assert made.fills_at == pytest.approx(levels[-1].time + window_s * windows * 1000, abs=1000)
    assert made.earliest is not None and made.latest is not None
    assert made.earliest <= made.fills_at <= made.latest


@given(st.lists(st.builds(Level, st.integers(0, 10), st.floats(-1e9, 1e9))), st.floats(1e10, 1e12))
def test_too_few_samples_predict_nothing(levels: list[Level], limit: float) -> None:
    """Samples of one time are one sample."""
    made = forecast_of(levels, limit)
    assert (made.outlook, made.rate, made.fills_at, made.tested) == (Outlook.TOO_FEW, None, None, None)
    assert made.samples == len({one.time for one in levels}) < FEWEST_LEVELS


def test_the_back_test_tells_a_rate_that_did_not_last() -> None:
    steady, turned = line(1.0, 40), [*line(1.0, 27), *line(8.0, 40, -8 * 26 * 60 + 26 * 60)[27:]]
    assert back_test(steady).error == pytest.approx(0, abs=1e-6)
    tested = back_test(turned)
    assert tested.error == pytest.approx(7 * 60 * 7) and tested.largest == pytest.approx(7 * 60 * 13)
    assert tested.rate_error > 1 and tested.ahead == 13 * 60_000
    loose, tight = forecast_of(turned, 1e6), forecast_of(steady, 1e6)
    assert tight.earliest == pytest.approx(tight.latest, abs=1000)
    assert loose.outlook is Outlook.NOT_FILLING or loose.latest is None


def test_outlooks() -> None:
    rising = line(1.0)
    window_s = (rising[-1].time - BEGIN) / 1000
    assert forecast_of(rising, None).outlook is Outlook.NO_LIMIT and forecast_of(rising, None).rate == 1.0
    assert forecast_of(rising, rising[-1].value).outlook is Outlook.FULL
    assert forecast_of(rising[:1], 0).outlook is Outlook.FULL
    assert forecast_of(line(-1.0), 10).outlook is Outlook.NOT_FILLING
    assert forecast_of(line(0.0), 10).outlook is Outlook.NOT_FILLING
    assert forecast_of(rising, rising[-1].value + (HORIZON + 1) * window_s).outlook is Outlook.LATER
    swinging = [Level(one.time, place % 2 * 1000 + place) for place, one in enumerate(rising)]
    assert forecast_of(swinging, 10_000).outlook is Outlook.NOT_FILLING


def test_a_disk_fills_where_its_free_octets_come_to_the_limit_of_the_alarm() -> None:
    free = line(-1e6, start=10e9)
    made = falling(free, 5e9)
    assert made.outlook is Outlook.FILLS and made.rate == -1e6 and made.limit == 5e9
    assert made.fills_at == pytest.approx(BEGIN + 5_000_000, abs=1000)
    assert falling(free[-1:], 1e10).outlook is Outlook.FULL
    assert falling(line(5.0, start=1e9), 0).outlook is Outlook.NOT_FILLING


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 99)), max_size=2 * MOST_LEVELS))
def test_courses_have_bounded_memory_and_the_newest_figure(steps: list[tuple[int, int]]) -> None:
    course, time = Course(), 0
    for wait, value in steps:
        time += wait
        course.add(time, value)
    assert len(course.levels) <= MOST_LEVELS
    assert not steps or course.at(time) == steps[-1][1]
    evenly = course.evenly(10, time)
    assert len(evenly) <= 10 and [one.time for one in evenly] == sorted({one.time for one in evenly})


def test_courses_of_two_partitions_are_added() -> None:
    course = Course([Level(0, 1), Level(10, 5)])
    course.plus(Course([Level(5, 2), Level(20, 0)]))
    assert course.levels == [Level(0, 1), Level(5, 3), Level(10, 7), Level(20, 5)]


# -- journals ------------------------------------------------------------------------------------------


def filling(minutes: int) -> QueueFigures:
    """A stream to which ten messages come each minute, of which four leave."""
    entries: list[tuple[int, tuple[bytes, ...]]] = []
    for place in range(minutes):
        first = 1 + 10 * place
        coming = published(1, 10), arrived(1, first, first + 9, BEGIN + place * 60_000)
        entries.append((first, (*coming, encode_settle(1, [(first, first + 3)]))))
    return figures_of(fold_of(*entries))


def test_the_depth_and_octets_of_journals_are_forecast() -> None:
    figures = filling(30)
    octets = figures.octets / figures.published
    assert figures.depth.levels[-1] == Level(BEGIN + 29 * 60_000, 180)
    assert figures.held.levels[-1].value == pytest.approx(180 * octets)
    by_figure = {
        one.figure: one.forecast
        for one in forecasts_of_journals({"q": figures}, {"q": Capacity(360, int(360 * octets))}, None)
    }
    assert by_figure.keys() == {DEPTH, OCTETS}
    for one in by_figure.values():
        assert one.outlook is Outlook.FILLS and one.fills_at == pytest.approx(BEGIN + HOUR, abs=120_000)
    assert by_figure[DEPTH].rate == pytest.approx(0.1, rel=0.02)


def test_few_changes_of_journals_are_few_samples() -> None:
    (depth, _) = forecasts_of_journals({"q": filling(5)}, {"q": Capacity(100)}, None)
    assert depth.forecast.outlook is Outlook.TOO_FEW and depth.forecast.samples == 5
    (depth, _) = forecasts_of_journals({"q": filling(30)}, {}, window=4 * 60_000)
    assert depth.forecast.outlook is Outlook.TOO_FEW
    assert forecasts_of_journals({"q": figures_of(fold_of((1, (published(1, 9),))))}, {}, None) == []


# -- nodes that run ------------------------------------------------------------------------------------


def sample(minute: int) -> Observed:
    free = 10**10 - minute * 10**8
    return Observed(BEGIN + minute * 60_000, {"q": 10 * minute, "idle": 3}, {"n1": free}, {"n1": 10**9})


def test_queues_and_disks_are_forecast_by_the_samples_of_former_reports(tmp_path: Path) -> None:
    path = tmp_path / "samples"
    for minute in range(20):
        found = kept_samples(path, sample(minute))
        made = {(one.name, one.figure): one.forecast for one in forecasts_of_samples(found, {}, None)}
        few = minute + 1 < FEWEST_LEVELS
        assert (made["q", DEPTH].outlook is Outlook.TOO_FEW) == few and made["q", DEPTH].samples == minute + 1
    made = {
        one.name: one.forecast
        for one in forecasts_of_samples(found, {"q": Capacity(400), "idle": Capacity(9)}, None)
    }
    assert made["q"].fills_at == pytest.approx(BEGIN + 40 * 60_000, abs=1000)
    assert made["n1"].fills_at == pytest.approx(BEGIN + 90 * 60_000, abs=1000)
    assert made["idle"].outlook is Outlook.NOT_FILLING
    (short, *_) = forecasts_of_samples(found, {}, window=5 * 60_000)
    assert short.forecast.samples == 6


NO_SAMPLES = "{", "[]", '{"time": 1}', '{"time": 1, "depths": 2, "free": {}, "floors": {}}'


@pytest.mark.parametrize("wrong", NO_SAMPLES)
def test_a_line_that_is_no_sample_is_refused_and_nothing_is_added(tmp_path: Path, wrong: str) -> None:
    path = tmp_path / "samples"
    kept_samples(path, sample(1))
    path.write_text(path.read_text() + wrong + "\n")
    before = path.read_bytes()
    with pytest.raises(OptionError, match=r"line 2 of .*samples is no sample of a report: remove that line"):
        kept_samples(path, sample(2))
    assert path.read_bytes() == before


def test_limits_are_the_lower_ones_of_arguments_and_policies() -> None:
    rows: list[dict[str, Any]] = [
        {"name": "a", "arguments": {"x-max-length": 5, "x-max-length-bytes": 70}},
        {"name": "b", "arguments": {"x-max-length": 5}, "effective_policy_definition": {"max-length": 4}},
        {"name": "c", "arguments": {}, "effective_policy_definition": {}},
        {"name": "two", "arguments": {"x-max-length": 5}}, {"name": "two"},
    ]  # fmt: skip
    assert capacities_of(rows) == {
        "a": Capacity(5, 70), "b": Capacity(4), "c": Capacity(), "two": Capacity(),
    }  # fmt: skip


def test_a_sample_is_made_of_metrics() -> None:
    page = (
        'quorate_queue_messages_ready{queue="q",vhost="/"} 7\n'
        'quorate_queue_messages_leased{queue="q",vhost="/"} 2\n'
        "quorate_disk_free_bytes 5e9\nrabbitmq_disk_space_available_limit_bytes 1e9\n"
    )
    found = samples_in(page)
    made = observed(1, queue_figures(found), {"n1": node_figures(found), "n2": node_figures([])})
    assert made == Observed(1, {"q": 9}, {"n1": 5 * 10**9}, {"n1": 10**9})


# -- the report ----------------------------------------------------------------------------------------


def test_tables_json_and_the_page_have_forecasts() -> None:
    samples = [sample(minute) for minute in range(20)]
    made = Report(forecasts=forecasts_of_samples(samples, {"q": Capacity(400)}, None))
    told = json.loads(json.dumps(made.as_json()))["forecasts"]
    assert [(one["name"], one["figure"]) for one in told] == [
        ("idle", DEPTH), ("q", DEPTH), ("n1", DISK_FREE),
    ]  # fmt: skip
    assert told[1]["outlook"] == "fills" and told[1]["fills_at"] == "2027-01-15T08:40:00+00:00"
    assert told[1]["back_test"]["ahead_s"] == 6 * 60
    text = text_of(made)
    assert "When queues and disks fill\n" in text and "2027-01-15T08:40:00Z" in text and "no limit" in text
    assert "<caption>When queues and disks fill</caption>" in html_of(made)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"window": "soon"}, "window is an age such as 30m, 12h or 7d, not soon"),
        ({"window": "0h"}, "window is an age"),
        ({"samples": "file"}, "samples keeps what nodes that run tell: url names them"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        report({"journals": "/nothing", **options})
