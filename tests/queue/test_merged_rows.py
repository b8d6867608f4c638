"""Rows of the parts of a queue with several owners: merged, they are those of one view over all messages."""

from __future__ import annotations

import json
import math
from typing import Any

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from node.expressions.aggregates import Aggregate
from node.queue.accumulators import accumulator_of, operand_of
from node.queue.merged_rows import MergedRows, digest_of_terms
from node.queue.view import View
from node.queue.view_terms import view_terms
from tests.messages import content, run_of
from tests.queue.test_view_rows import VALUES, same

FIELDS = {
    "key": "/key",
    "n": "COUNT(*)",
    "known": "COUNT(/v)",
    "sum": "SUM(/v)",
    "avg": "AVG(/v)",
    "least": "MIN(/v)",
    "most": "MAX(/v)",
}


@pytest.mark.requirement("D15.2", "D20.7")
@given(
    function=st.sampled_from(Aggregate),
    parts=st.lists(st.lists(st.tuples(VALUES, st.booleans()), max_size=8), max_size=4),
)
@example(function=Aggregate.SUM, parts=[[(1e308, False)], [(1e308, False)], [(-1e308, False)]])
@example(function=Aggregate.SUM, parts=[[(2**62, False)] * 2, [(-(2**62), False)] * 2])
@example(function=Aggregate.MIN, parts=[[("a", False)], [(1, False)], [(True, False)]])
@example(function=Aggregate.AVG, parts=[[(5e-324, False)] * 3, [(None, False)], [(math.inf, True)]])
def test_merged_aggregates_are_those_of_all_values(
    function: Aggregate, parts: list[list[tuple[Any, bool]]]
) -> None:
    whole, merged = accumulator_of(function), accumulator_of(function)
    for values in parts:
        part = accumulator_of(function)
        for value, leaves in values:
            operand = operand_of(function, value)
            if operand is None:
                continue
            part.add(operand)
            if leaves:
                part.remove(operand)
            else:
                whole.add(operand)
        merged.merge(msgpack.unpackb(msgpack.packb(part.share())))
    assert same(merged.result(), whole.result())
    assert type(merged.result()) is type(whole.result())


BODIES = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from([1, 1.0, True, False, 0, 0.5, "a", "1", None]),
        "v": st.sampled_from([1, 2, -1, 0.25, 0.1, 1e308, "x", "y", True]),
    },
)


@pytest.mark.requirement("D15.2", "D20.7")
@given(st.lists(st.lists(BODIES, max_size=6), min_size=1, max_size=4), st.booleans(), st.booleans())
def test_merged_rows_are_those_of_one_view_over_all_messages(
    parts: list[list[dict[str, Any]]], grouped: bool, filtered: bool
) -> None:
    fields = FIELDS if grouped else {name: text for name, text in FIELDS.items() if name != "key"}
    terms = view_terms("v", "/v IS NULL OR /v <> 2" if filtered else "", ["/key"] * grouped, fields)
    whole, merged = rows_of([one for part in parts for one in part], terms), MergedRows(terms)
    for part in parts:
        merged.add(msgpack.unpackb(msgpack.packb(shares_of(part, terms))))
    assert sorted(map(repr, merged.rows)) == sorted(map(repr, [row[: len(fields)] for row in whole]))
    assert sorted(map(repr, merged.keys)) == sorted(map(repr, [row[len(fields) :] for row in whole]))


def view_over(bodies: list[dict[str, Any]], terms: Any) -> View:
    view = View(terms, [(1, len(bodies))] if bodies else [])
    if bodies:
        run = run_of([content(json.dumps(one).encode()) for one in bodies])
        while view.wants:
            view.step(lambda first, last: [(first, run.slice(first - 1, last - first + 1))], 1000)
    return view


def rows_of(bodies: list[dict[str, Any]], terms: Any) -> list[list[Any]]:
    return view_over(bodies, terms).page(0, keyed=True).rows


def shares_of(bodies: list[dict[str, Any]], terms: Any) -> list[list[Any]]:
    return view_over(bodies, terms).page(0, shares=True).rows


def test_terms_of_other_rows_have_another_digest() -> None:
    terms = [
        view_terms("v", "", [], {"n": "COUNT(*)"}),
        view_terms("v", "", [], {"n": "COUNT(/v)"}),
        view_terms("v", "", [], {"m": "COUNT(*)"}),
        view_terms("v", "/v = 1", [], {"n": "COUNT(*)"}),
        view_terms("v", "", ["/v"], {"n": "COUNT(*)"}),
        view_terms("v", "", [], {"n": "SUM(/v)"}),
        view_terms("v", "", [], {"n": "AVG(/v)"}),
    ]
    assert len({digest_of_terms(one) for one in terms}) == len(terms)
    assert digest_of_terms(view_terms("w", "", [], {"n": "COUNT(*)"})) == digest_of_terms(terms[0])
