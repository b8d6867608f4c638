"""Conditions that narrow the reading of topics: nothing that is wanted is left out (F8)."""

from __future__ import annotations

from typing import Any

import pytest

from node.expressions.condition import encoded_condition
from pipeline.log.options import TopicRange
from pipeline.log.pushing import CLOCKS_MS, EVERYTHING, Condition, Narrowing, narrowing_of

pytestmark = pytest.mark.requirement("F8.3")


def mark(number: int, topic: int = 5) -> str:
    return f"{topic:08x}{number:016x}"


def part(first: int, end: int, topic: int = 5) -> TopicRange:
    return TopicRange(f"t{topic}", 1, mark(first, topic), mark(end, topic), 10, [])


RANGES = [part(10, 20), part(20, 30), part(10, 20, 6)]


def position(topic: str, time: str) -> str:
    """A message comes each second, from the first second on."""
    minutes, seconds = time[14:].rstrip("Z").split(":")
    assert time.startswith("1970-01-01T0")
    number = int(time[11:13]) * 3600 + int(minutes) * 60 + int(float(seconds))
    return mark(number, int(topic[1:]))


def clipped(*conditions: tuple[str, str, Any]) -> list[tuple[int, int, int]]:
    narrowing = narrowing_of(Condition(*one) for one in conditions)
    return [
        (int(one.first[:8], 16), int(one.first[8:], 16), int(one.end[8:], 16))
        for one in narrowing.clipped(RANGES, position)
    ]


ALL = [(5, 10, 20), (5, 20, 30), (6, 10, 20)]


@pytest.mark.parametrize(
    ("conditions", "found"),
    [
        ([], ALL),
        ([("bookmark", ">=", mark(15))], [(5, 15, 20), (5, 20, 30), (6, 10, 20)]),
        ([("bookmark", ">", mark(19))], [(5, 20, 30), (6, 10, 20)]),
        ([("bookmark", "<", mark(15))], [(5, 10, 15)]),
        ([("bookmark", "<=", mark(15))], [(5, 10, 16)]),
        ([("bookmark", "=", mark(25))], [(5, 25, 26)]),
        ([("bookmark", ">=", mark(12)), ("bookmark", "<", mark(14))], [(5, 12, 14)]),
        ([("bookmark", "<", mark(12, 6))], [(5, 10, 20), (5, 20, 30), (6, 10, 12)]),
        ([("bookmark", ">", "no bookmark")], ALL),
        ([("bookmark", "in", (mark(1),))], ALL),
        ([("queue", "=", "t6")], [(6, 10, 20)]),
        ([("queue", "in", ("t5", "t6"))], ALL),
        ([("queue", "in", ("t5", "t6")), ("queue", "=", "t5")], ALL[:2]),
        ([("queue", "<", "t6")], ALL),
        ([("time", ">=", CLOCKS_MS + 22_000)], [(5, 22, 30)]),
        ([("time", "<", 13_000 - CLOCKS_MS)], [(5, 10, 13), (6, 10, 13)]),
        ([("time", ">", 2**62)], []),
        ([("body", "=", b"x"), ("properties.priority", ">", 3)], ALL),
    ],
)  # fmt: skip
def test_ranges_are_clipped_to_what_may_match(
    conditions: list[tuple[str, str, Any]], found: list[tuple[int, int, int]]
) -> None:
    if any(one[2] == 2**62 for one in conditions):
        narrowing = narrowing_of(Condition(*one) for one in conditions)
        assert not list(narrowing.clipped(RANGES, lambda topic, time: mark(1 << 60, int(topic[1:]))))
        return
    assert clipped(*conditions) == found


def test_keys_become_expressions_of_the_broker() -> None:
    narrowing = narrowing_of(
        [Condition("routing_key", "in", ("a", "it's")), Condition("exchange", "=", "events")]
    )
    text = narrowing.filter("/n > 3")
    assert text == "(/n > 3) AND (x_routing_key IN ('a', 'it''s')) AND (x_exchange IN ('events'))"
    encoded_condition(text)
    assert EVERYTHING.filter("") == ""
    assert EVERYTHING.filter("/n > 3") == "/n > 3"
    assert narrowing_of([Condition("routing_key", "=", "a")]).filter("") == "x_routing_key IN ('a')"


@pytest.mark.parametrize("value", ["with \\xff", "two\nlines", 7, None])
def test_keys_that_columns_show_in_other_words_are_left_to_the_query(value: Any) -> None:
    assert narrowing_of([Condition("routing_key", "=", value)]) == Narrowing()
