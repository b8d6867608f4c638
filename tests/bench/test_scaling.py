"""The curves of `python -m bench.scaling`: points, tables, and the fit of growth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.brokers import BrokerError
from bench.curves import CURVES, Curve, Ground, Layout, directory, names
from bench.growth import Cost, Figure, Measured, Point, as_json, cell, marked, slope, table
from bench.measures import Samples
from bench.quorate import Quorate
from bench.scaling import draw_curve, earlier, points_of, tables, write

RATE = Figure("rate", "messages/s", Cost.RATE)
EACH = Figure("each", "memory, B", Cost.EACH)
ALL = Figure("all", "processor, %", Cost.SHARED, 1)


def curve(figure: Figure, samples: dict[int, list[float]]) -> Measured:
    points = [Point(number) for number in samples]
    found = Measured("Queues", "queues", points, (figure,))
    for point in points:
        found.add(point, {figure.name: samples[point.number]})
    return found


def numbers(points: Sequence[Point]) -> list[int]:
    return [point.number for point in points]


@pytest.mark.parametrize(
    ("figure", "linear", "dearer"),
    [
        (RATE, {1: [900.0, 1000.0], 10: [950.0, 1000.0]}, {1: [900.0, 1000.0], 10: [400.0, 500.0]}),
        (EACH, {1: [90.0, 100.0], 10: [95.0, 100.0]}, {1: [90.0, 100.0], 10: [150.0, 200.0]}),
        (ALL, {1: [9.0, 10.0], 10: [90.0, 100.0]}, {1: [9.0, 10.0], 10: [150.0, 200.0]}),
    ],
    ids=str,
)
def test_a_point_is_marked_where_a_unit_costs_more(
    figure: Figure, linear: dict[int, list[float]], dearer: dict[int, list[float]]
) -> None:
    assert marked(curve(figure, linear), figure) == []
    assert numbers(marked(curve(figure, dearer), figure)) == [10]


def test_rounds_that_overlap_are_noise() -> None:
    assert marked(curve(EACH, {1: [90.0, 100.0, 180.0], 10: [170.0, 190.0, 200.0]}), EACH) == []


def test_a_point_is_compared_with_the_cheapest_one_before() -> None:
    found = curve(EACH, {1: [900.0], 10: [100.0], 100: [200.0], 1000: [105.0]})
    assert numbers(marked(found, EACH)) == [100]


def test_what_is_compared_with_nothing_is_not_marked() -> None:
    figure = Figure("rate", "messages/s", Cost.NONE)
    found = curve(figure, {1: [1000.0], 10: [10.0], 100: [1.0]})
    assert (marked(found, figure), slope(found, figure)) == ([], None)


@pytest.mark.parametrize(
    ("samples", "exponent"),
    [
        ({1: [5.0], 10: [5.0], 100: [5.0]}, 0.0),
        ({1: [5.0], 10: [50.0], 100: [500.0]}, 1.0),
        ({1: [5.0], 4: [10.0], 16: [20.0]}, 0.5),
    ],
)
def test_the_exponent_is_that_of_a_units_cost(samples: dict[int, list[float]], exponent: float) -> None:
    assert slope(curve(EACH, samples), EACH) == pytest.approx(exponent)


def test_the_exponent_of_a_falling_rate_is_positive() -> None:
    assert slope(curve(RATE, {1: [100.0], 10: [10.0], 100: [1.0]}), RATE) == pytest.approx(1.0)


def test_two_points_have_no_exponent() -> None:
    assert slope(curve(EACH, {1: [1.0], 10: [2.0]}), EACH) is None


def test_a_table_has_medians_and_stars() -> None:
    found = curve(EACH, {1: [1000.0, 1100.0, 1200.0], 10: [5000.0], 100: []})
    assert table(found).splitlines() == [
        "| queues | memory, B |",
        "|---|---|",
        "| 1 | 1,100 (1,000 to 1,200) |",
        "| 10 | **5,000** \\* |",
        "| 100 | – |",
    ]


def test_a_table_states_exponents_and_labels() -> None:
    points = [Point(1, "one"), Point(10, "ten"), Point(100, "many")]
    found = Measured("Sizes", "octets", points, (ALL,))
    for point in points:
        found.add(point, {"all": [2.0 * point.number]})
    assert [line.split(" | ")[0] for line in table(found).splitlines()[2:]] == [
        "| one",
        "| ten",
        "| many",
        "| exponent of a unit's cost",
    ]
    assert table(found).splitlines()[-1] == "| exponent of a unit's cost | +0.00 |"
    assert cell(found, points[2], ALL, False) == "200.0"


def test_the_record_has_every_sample_and_its_marks() -> None:
    record = as_json(curve(EACH, {1: [1.0, 2.0], 10: [30.0]}))
    assert [(point["samples"], point["marked"]) for point in record["points"]] == [
        ({"each": [1.0, 2.0]}, []),
        ({"each": [30.0]}, ["each"]),
    ]


def test_a_later_run_keeps_the_curves_of_an_earlier_one(tmp_path: Path) -> None:
    [sizes] = [one for one in CURVES if one.id == "sizes"]
    found = Measured(sizes.title, sizes.axis, sizes.points, sizes.figures, 1.5)
    found.add(sizes.points[0], {"mb": [7.0, 8.0]})
    write(tmp_path, {"sizes": found}, ["sizes, round 3: no answer"], lambda line: None)
    assert earlier(tmp_path) == ({"sizes": found}, ["sizes, round 3: no answer"])
    assert earlier(tmp_path / "none") == ({}, [])


def test_curves_have_a_layout_for_each_point() -> None:
    assert len({one.id for one in CURVES}) == len(CURVES)
    for one in CURVES:
        assert len(one.layouts) in (1, len(one.points))
        assert [point.number for point in one.points] == sorted({point.number for point in one.points})


def test_the_largest_numbers_are_measured_in_the_last_round_alone() -> None:
    [waiting] = [one for one in CURVES if one.id == "waiting"]
    [sizes] = [one for one in CURVES if one.id == "sizes"]
    assert max(point.number for point, _ in points_of(waiting, 10**7, last_round=False)) == 10**6
    assert max(point.number for point, _ in points_of(waiting, 10**7, last_round=True)) == 10**7
    assert max(point.number for point, _ in points_of(waiting, 10**5, last_round=True)) == 10**5
    assert len(points_of(sizes, 10, last_round=False)) == len(sizes.points)


def test_names_are_those_of_the_generator() -> None:
    assert (names(1), names(2)) == (["bench"], ["bench-0", "bench-1"])


def test_data_is_on_the_disk_unless_the_layout_says_otherwise() -> None:
    assert directory(Layout(), Path("/disk")).parent == Path("/disk")
    assert directory(Layout(memory=True), Path("/disk")).parent == Path("/dev/shm")


class Stage:
    """Clusters that are only written down."""

    def __init__(self, fails_at: int = 0) -> None:
        self.calls: list[Any] = []
        self._fails_at = fails_at

    @contextmanager
    def enter(self, layout: Layout) -> Iterator[Ground]:
        self.calls.append(layout.nodes)
        yield Ground(Quorate(Path("unused")), [], 1.0, ExitStack(), [])
        self.calls.append("end")

    def measure(self, ground: Ground, point: Point) -> Samples:
        self.calls.append(str(point))
        if point.number == self._fails_at:
            raise BrokerError("no answer")
        return {"each": [float(point.number)]}

    def curve(self, *layouts: Layout) -> Curve:
        return Curve("c", "Title", "axis", [Point(1), Point(2), Point(3)], (EACH,), self.measure, layouts)


def test_points_of_one_layout_share_a_cluster_in_each_round() -> None:
    stage = Stage()
    found = draw_curve(stage.curve(Layout()), 2, 10, stage.enter, [], lambda line: None)
    assert stage.calls == [3, "1", "2", "3", "end"] * 2
    assert found.samples[Point(2), "each"] == [2.0, 2.0]


def test_another_layout_is_another_cluster() -> None:
    stage = Stage()
    layouts = Layout(nodes=1), Layout(nodes=5), Layout(nodes=5)
    draw_curve(stage.curve(*layouts), 1, 10, stage.enter, [], lambda line: None)
    assert stage.calls == [1, "1", "end", 5, "2", "3", "end"]


def test_a_round_that_fails_leaves_what_it_measured() -> None:
    stage, problems = Stage(fails_at=2), list[str]()
    found = draw_curve(stage.curve(Layout()), 2, 10, stage.enter, problems, lambda line: None)
    assert found.samples == {(Point(1), "each"): [1.0, 1.0]}
    assert problems == ["c, round 1: no answer", "c, round 2: no answer"]
    assert "PROBLEM c, round 1: no answer" in tables([found], problems)
