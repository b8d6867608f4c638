"""The rows of a view: aggregates over values that come and go, groups, pages, and wrong definitions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from node.expressions.aggregates import Aggregate
from node.message.run import Run
from node.queue.accumulators import Extreme, accumulator_of, grouping_of, operand_of, shown_grouping
from node.queue.settings import PLAIN
from node.queue.view import PAGE_ROWS, View
from node.queue.view_terms import MOST_FIELDS, MOST_GROUPINGS, ViewError, view_terms, with_views
from tests.messages import content, run_of
from tests.queue.test_view_model import rows_of

LONG = 2**63
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-LONG, LONG - 1),
    st.integers(-3, 3),
    st.floats(),
    st.sampled_from((0.1, 0.2, 0.3, 1e308, -1e308, 5e-324, math.inf)),
    st.text(max_size=3),
    st.binary(max_size=2),
    st.just(()),
)


def aggregate(function: Aggregate, values: list[Any]) -> Any:
    """The aggregate of all values at once."""
    known = [value for value in values if value is not None]
    numbers = [value for value in known if isinstance(value, int | float) and not isinstance(value, bool)]
    if function is Aggregate.COUNT:
        return len(known)
    if function in (Aggregate.MIN, Aggregate.MAX):
        texts: list[Any] = [value for value in known if isinstance(value, str)]
        ordered = sorted(value for value in numbers if not math.isnan(value)) + sorted(texts)
        return None if not ordered else ordered[0 if function is Aggregate.MIN else -1]
    if not numbers:
        return None
    special = [value for value in numbers if not math.isfinite(value)]
    if special:
        return sum(special)
    exact = sum(map(Fraction, numbers)) / (len(numbers) if function is Aggregate.AVG else 1)
    if function is Aggregate.SUM and all(isinstance(value, int) for value in numbers) and abs(exact) < LONG:
        return int(exact)
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return bool(one == other) and isinstance(one, str) is isinstance(other, str)


@pytest.mark.requirement("D15.2")
@given(
    function=st.sampled_from(Aggregate), changes=st.lists(st.tuples(VALUES, st.integers(0, 5)), max_size=40)
)
@example(function=Aggregate.SUM, changes=[(1e308, 0), (1.0, 0), (1e308, 0), (0.1, 3), (0.2, 5)])
def test_an_aggregate_is_that_of_the_values_that_are_left(
    function: Aggregate, changes: list[tuple[Any, int]]
) -> None:
    accumulator, left = accumulator_of(function), list[Any]()
    for value, place in changes:
        left.append(value)
        operand = operand_of(function, value)
        if operand is not None:
            accumulator.add(operand)
        if place < len(left) and place < 3:
            gone = operand_of(function, left.pop(place))
            if gone is not None:
                accumulator.remove(gone)
        expected = aggregate(function, left)
        assert same(accumulator.result(), expected), (left, accumulator.result(), expected)


@pytest.mark.requirement("D15.2")
def test_the_least_value_costs_no_memory_for_those_that_are_gone() -> None:
    least = Extreme(largest=False)
    least.add((0, 0))
    for number in range(1, 10_000):
        least.add((0, number))
        least.remove((0, number))
    assert least.result() == 0
    assert len(least._heap) < 100


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1, 1), (1.0, 1), (-0.0, 0), (1.5, 1.5), (True, True), (None, None), (math.nan, None), ("1", "1"),
        ("x" * 1024, "x" * 1024), ("x" * 1025, None), (b"\xff", None), ((), None), (math.inf, math.inf),
        (1e300, 1e300),
    ],
)  # fmt: skip
def test_values_of_groups(value: Any, shown: Any) -> None:
    found = shown_grouping(grouping_of(value))
    assert (found, type(found)) == (shown, type(shown))
    assert (grouping_of(value) == grouping_of(1)) is (shown == 1 and shown is not True)


# -- one view --------------------------------------------------------------------------------------------


def view_of(name: str = "v", filter: str = "", group_by: tuple[str, ...] = ("/c",), **fields: str) -> View:
    return View(view_terms(name, filter, group_by, fields or {"c": "/c", "n": "COUNT(*)"}), [])


def read(first: int, last: int) -> list[tuple[int, Run]]:
    """Message `n` is of the customer `n % 3`, and messages above 100 of customers of their own."""
    numbers = range(first, last + 1)
    return [(first, run_of([content(b'{"c": %d}' % (n if n > 100 else n % 3)) for n in numbers]))]


def up_to_date(view: View) -> View:
    while view.wants:
        assert view.step(read, 50) > 0
    return view


def counts(view: View) -> dict[Any, int]:
    return {key: row["n"] for (key,), row in rows_of(up_to_date(view), "c").items()}


@pytest.mark.requirement("D15.3")
def test_a_message_that_is_given_back_is_counted_once_without_another_look() -> None:
    view = view_of()
    view.add(1, 9)
    assert counts(view) == {0: 3, 1: 3, 2: 3}
    view.remove(1, 3)
    view.add(2, 2)
    assert view.behind == 2
    assert counts(view) == {0: 2, 1: 2, 2: 3}
    view.remove(2, 4)
    view.add(1, 4)
    view.step(lambda *_: pytest.fail("a second look"), 10**6)
    assert (view.behind, counts(view)) == (0, {0: 3, 1: 3, 2: 3})


@pytest.mark.requirement("D15.2")
def test_a_message_that_comes_back_under_the_number_of_one_that_is_gone() -> None:
    view = view_of()
    view.add(1, 3)
    assert counts(view) == {0: 1, 1: 1, 2: 1}
    view.gone([(1, 2)])
    view.add(2, 2)
    assert view.behind == 3
    assert counts(view) == {0: 1, 2: 1}
    view.gone([(2, 3)])
    assert counts(view) == {}
    assert (view.page(0), len(view._contributions)) == (([], 0), 0)


@pytest.mark.requirement("D15.2")
def test_what_is_gone_before_the_look_is_never_looked_at() -> None:
    view = view_of()
    view.add(1, 50)
    view.remove(1, 50)
    view.gone([(1, 50)])
    assert not view.wants
    assert view.version == 0


@pytest.mark.requirement("D15.2")
def test_pages_have_each_row_once() -> None:
    view = view_of()
    view.add(101, 100 + 2 * PAGE_ROWS + 1)
    up_to_date(view)
    first, second = view.page(0), view.page(PAGE_ROWS)
    assert (len(first.rows), first.last, len(second.rows)) == (PAGE_ROWS, PAGE_ROWS, PAGE_ROWS)
    assert view.page(second.last) == ([[100 + 2 * PAGE_ROWS + 1, 1]], 0)
    assert len(counts(view)) == 2 * PAGE_ROWS + 1


def test_a_view_without_groups_has_one_row_from_the_beginning() -> None:
    view = view_of(group_by=(), n="COUNT(*)", most="MAX(/c)")
    assert view.page(0) == ([[0, None]], 0)
    view.add(1, 3)
    assert up_to_date(view).page(0) == ([[3, 2]], 0)
    view.gone([(1, 3)])
    assert up_to_date(view).page(0) == ([[0, None]], 0)


# -- definitions -----------------------------------------------------------------------------------------


@pytest.mark.requirement("D15.2")
@pytest.mark.parametrize(
    ("group_by", "fields", "reason"),
    [
        ([], {}, "a view has 1 to 64 fields"),
        ([], {f"f{n}": "COUNT(*)" for n in range(MOST_FIELDS + 1)}, "a view has 1 to 64 fields"),
        ([f"/f{n}" for n in range(MOST_GROUPINGS + 1)], {"n": "COUNT(*)"}, "16 expressions at most"),
        (["/a +"], {"n": "COUNT(*)"}, r"group_by '/a \+': the expression ends too early at column 5"),
        ([], {"n": "/a"}, "field 'n' is neither an aggregate nor an expression of group_by"),
        (["/a"], {"n": "/a + 0"}, "field 'n' is neither an aggregate nor"),
        ([], {"n": "MEDIAN(/a)"}, "field 'n': there is no function MEDIAN at column 1"),
        ([], {"n": "SUM(/a"}, r"SUM\(...\) has to be the whole field at column 7"),
        ([], {"n": " sum (/a) + 1"}, r"SUM\(...\) has to be the whole field at column 14"),
        ([], {"n": "SUM(/a) + (1)"}, r"unexpected '\)' at column 7"),
        ([], {"n": "SUM(*)"}, r"unexpected '\*' at column 5"),
        ([], {"n": "AVG(a, b)"}, "unexpected ',' at column 6"),
        ([], {"n": "MAX()"}, "ends too early at column 5"),
        ([], {"n": f"SUM({'/a+' * 3000}1)"}, "more than 8192 octets at column 8193"),
        ([], {"n": f"SUM({'ABS(' * 32}/a{')' * 32})"}, "nested more than 32 deep"),
        (
            [],
            {f"f{n}": f"SUM(COALESCE({','.join(['a'] * 150)}))" for n in range(20)},
            "all together, the expression",
        ),
    ],
)
def test_wrong_definitions(group_by: list[str], fields: dict[str, str], reason: str) -> None:
    with pytest.raises(ViewError, match=reason):
        view_terms("v", "", group_by, fields)


def test_the_column_of_a_wrong_filter() -> None:
    with pytest.raises(ViewError, match="filter: unexpected '=' at column 6"):
        view_terms("v", "/a = = 1", [], {"n": "COUNT(*)"})


@given(text=st.text("SUM(*)/ab,+'\" COUNTminMAX.0", max_size=20))
def test_no_text_of_a_field_does_more_than_be_refused(text: str) -> None:
    try:
        terms = view_terms("v", "", ["/a"], {"f": text})
    except ViewError as error:
        assert "column" in str(error) or "neither" in str(error)
    else:
        View(terms, [])


def test_a_queue_without_views_has_plain_settings() -> None:
    assert with_views(PLAIN, ()) is PLAIN
