"""Columns, order and pages (F7); the expected answers are RabbitMQ 3.10's."""

from __future__ import annotations

from time import monotonic
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.admin.api import listing
from cluster.admin.api.errors import ApiError
from cluster.admin.api.listing import Page, columns_of, filtered, ordered, page_of, paged, picked
from cluster.admin.api.responses import Row

ROWS: list[Row] = [
    {"vhost": "/", "name": "ex", "messages": 3, "stats": {"publish": 2, "publish_details": {"rate": 0.5}}},
    {"vhost": "/", "name": "Ex2", "messages": 40},
    {"vhost": "a", "name": "q", "arguments": {"x-max-length": 5}},
]


def names(rows: Any) -> list[str]:
    return [row["name"] for row in rows]


@pytest.mark.parametrize(
    ("query", "error", "reason"),
    [
        ({"page": "x"}, "bad_request", "Pagination parameters are invalid"),
        ({"page": "1", "page_size": "1e3"}, "bad_request", "Pagination parameters are invalid"),
        ({"page": "٣"}, "bad_request", "Pagination parameters are invalid"),
        ({"page": "9" * 5000}, "bad_request", "Pagination parameters are invalid"),
        ({"page": "0", "page_size": "2"}, "invalid_pagination_parameters",
         "Invalid pagination parameters: page number 0, page size 2"),
        ({"page": "1", "page_size": "501"}, "invalid_pagination_parameters",
         "Invalid pagination parameters: page number 1, page size 501"),
    ],
)  # fmt: skip
def test_pages_that_make_no_sense_are_refused(query: dict[str, str], error: str, reason: str) -> None:
    with pytest.raises(ApiError) as caught:
        page_of(query)
    assert (caught.value.status, caught.value.error, caught.value.reason) == (400, error, reason)


def test_without_a_page_the_whole_list_is_asked_for() -> None:
    assert page_of({"page_size": "2", "name": "q"}) is None


def test_a_page_says_what_it_is_of() -> None:
    said, items = paged(ROWS, 5, Page(2, 2, "", False))
    assert said == {
        "filtered_count": 3, "item_count": 1, "page": 2, "page_count": 2, "page_size": 2, "total_count": 5,
    }  # fmt: skip
    assert names(items) == ["q"]


def test_an_empty_list_has_a_first_page_and_no_second() -> None:
    said, items = paged([], 5, Page(1, 100, "", False))
    assert (said["page_count"], said["filtered_count"], list(items)) == (0, 0, [])
    with pytest.raises(ApiError) as caught:
        paged([], 5, Page(2, 100, "", False))
    assert caught.value.reason == "Page out of range, page: 2 page size: 100, len: 0"


@given(st.integers(0, 40), st.integers(1, 12))
def test_the_pages_of_a_list_are_the_list(count: int, size: int) -> None:
    rows: list[Row] = [{"name": number} for number in range(count)]
    pages = paged(rows, count, Page(1, size, "", False))[0]["page_count"]
    together = [
        row for number in range(1, pages + 1) for row in paged(rows, count, Page(number, size, "", False))[1]
    ]
    assert together == rows


@pytest.mark.parametrize(
    ("name", "use_regex", "left"),
    [
        ("EX", False, ["ex", "Ex2"]),
        ("EX", True, ["ex", "Ex2"]),
        ("^ex$", True, ["ex"]),
        ("^ex$", False, []),
        ("", True, ["ex", "Ex2", "q"]),
        ("[", False, []),
    ],
)
def test_names_are_searched_in_any_case(name: str, use_regex: bool, left: list[str]) -> None:
    assert names(filtered(ROWS, Page(1, 100, name, use_regex))) == left


@pytest.mark.parametrize("pattern", ["[", "(", "a{2,1}", "(?P<", "x" * 5000])
def test_expressions_that_are_none_are_refused(pattern: str) -> None:
    with pytest.raises(ApiError) as caught:
        filtered(ROWS, Page(1, 100, pattern, True))
    assert caught.value.reason == "Pagination parameters are invalid"


def test_an_expression_that_takes_too_long_is_refused() -> None:
    rows: list[Row] = [{"name": "a" * 200 + "b"} for _ in range(1000)]
    begun = monotonic()
    with pytest.raises(ApiError):
        filtered(rows, Page(1, 100, "^(a|a|aa)+$", True))
    assert monotonic() - begun < 20 * listing.PATTERN_TIMEOUT_S


@pytest.mark.parametrize(
    ("query", "order"),
    [
        ({}, ["Ex2", "ex", "q"]),
        ({"sort": "messages"}, ["q", "ex", "Ex2"]),
        ({"sort": "messages", "sort_reverse": "true"}, ["Ex2", "ex", "q"]),
        ({"sort": "stats.publish_details.rate"}, ["Ex2", "q", "ex"]),
        ({"sort": "name.of.nothing"}, ["Ex2", "ex", "q"]),
        ({"sort_reverse": "true"}, ["q", "ex", "Ex2"]),
    ],
)
def test_rows_are_ordered_as_asked(query: dict[str, str], order: list[str]) -> None:
    assert names(ordered(ROWS, query, ("vhost", "name"))) == order


@given(
    st.lists(st.fixed_dictionaries({}, optional={"v": st.none() | st.integers() | st.text() | st.booleans()}))
)
def test_values_of_any_types_have_an_order(rows: list[Row]) -> None:
    assert sorted(map(str, ordered(rows, {"sort": "v"}, ("v",)))) == sorted(map(str, rows))


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        ("", ROWS[0]),
        ("name,messages", {"name": "ex", "messages": 3}),
        ("stats.publish_details.rate", {"stats": {"publish_details": {"rate": 0.5}}}),
        ("stats.publish,stats.publish_details", {"stats": {"publish": 2, "publish_details": {"rate": 0.5}}}),
        ("name.deeper", {"name": "ex"}),
        ("nothing,stats.nothing", {"stats": {}}),
    ],
)
def test_only_the_columns_asked_for_are_shown(columns: str, shown: Any) -> None:
    assert picked(ROWS[0], columns_of({"columns": columns})) == shown


def test_columns_apply_to_each_row_of_a_list() -> None:
    assert picked(ROWS, columns_of({"columns": "name"})) == [{"name": "ex"}, {"name": "Ex2"}, {"name": "q"}]
