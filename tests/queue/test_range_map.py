"""RangeMap against a plain dictionary."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from node.ranges import range_map
from node.ranges.range_map import RangeMap, Span, spans_of
from node.ranges.range_set import RangeSet, merged

NUMBERS = st.integers(0, 60)
PAIRS = st.tuples(NUMBERS, NUMBERS).map(lambda pair: (min(pair), max(pair)))
VALUES = st.integers(0, 2)
RANGES = st.sets(NUMBERS).flatmap(
    lambda chosen: st.permutations(list(RangeSet((n, n) for n in chosen).ranges()))
)


def spans_in(model: dict[int, int]) -> list[Span]:
    found: list[Span] = []
    for number in sorted(model):
        if found and found[-1][1] + 1 == number and found[-1][2] == model[number]:
            found[-1] = (found[-1][0], number, model[number])
        else:
            found.append((number, number, model[number]))
    return found


class RangeMapAgainstDict(RuleBasedStateMachine):
    """Any sequence of changes, with chunks of two spans, so that a few spans make many chunks."""

    def __init__(self) -> None:
        super().__init__()
        self.constants = range_map.CHUNK_SPANS, range_map.MANY_RANGES
        range_map.CHUNK_SPANS = range_map.MANY_RANGES = 2
        self.map = self.kept(RangeMap())
        self.model: dict[int, int] = {}

    def kept(self, known: RangeMap) -> RangeMap:
        """The map under test, with the spans of a plain one."""
        return known

    def teardown(self) -> None:
        range_map.CHUNK_SPANS, range_map.MANY_RANGES = self.constants

    @rule(pair=PAIRS, value=VALUES)
    def set(self, pair: tuple[int, int], value: int) -> None:
        self.map.set(*pair, value)
        self.model |= dict.fromkeys(range(pair[0], pair[1] + 1), value)

    @rule(pair=PAIRS)
    def remove(self, pair: tuple[int, int]) -> None:
        gone = [number for number in self.model if pair[0] <= number <= pair[1]]
        assert self.map.remove(*pair) == len(gone)
        for number in gone:
            del self.model[number]

    @rule(parts=RANGES)
    def remove_many(self, parts: list[tuple[int, int]]) -> None:
        gone = {number for first, last in parts for number in range(first, last + 1)} & self.model.keys()
        assert self.map.remove_all(parts) == len(gone)
        for number in gone:
            del self.model[number]

    @rule(gap=st.integers(0, 2), sizes=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), VALUES)))
    def extend(self, gap: int, sizes: list[tuple[int, int, int]]) -> None:
        at = max(self.model, default=0) + gap
        firsts, lasts, values = array("Q"), array("Q"), array("Q")
        for space, size, value in sizes:
            at += space
            firsts.append(at)
            lasts.append(at + size - 1)
            values.append(value)
            self.model |= dict.fromkeys(range(at, at + size), value)
            at += size
        self.map.extend(firsts, lasts, values)

    @rule(parts=RANGES, value=VALUES)
    def put(self, parts: list[tuple[int, int]], value: int) -> None:
        self.map.put(parts, value)
        self.model |= {number: value for first, last in parts for number in range(first, last + 1)}

    @rule(news=st.dictionaries(NUMBERS, VALUES))
    def set_all(self, news: dict[int, int]) -> None:
        self.map.set_all(spans_in(news))
        self.model |= news

    @rule(chosen=st.sets(NUMBERS))
    def ask_for_many(self, chosen: set[int]) -> None:
        ranges = list(RangeSet((number, number) for number in chosen).ranges())
        expected = [span for one in ranges for span in self.map.spans(*one)]
        assert self.map.spans_of(ranges) == expected
        low = merged([(first, last) for first, last, value in expected if value <= 1])
        assert self.map.ranges_up_to(ranges, 1) == low

    @rule(pair=PAIRS)
    def ask(self, pair: tuple[int, int]) -> None:
        first, last = pair
        inside = {number: value for number, value in self.model.items() if first <= number <= last}
        assert self.map.spans(first, last) == spans_in(inside)
        assert list(zip(*self.map.columns(first, last), strict=True)) == spans_in(inside)
        covered = {n: v for start, end, v in self.map.cover(first, last, 9) for n in range(start, end + 1)}
        assert covered == {number: inside.get(number, 9) for number in range(first, last + 1)}
        assert self.map.get(first, 9) == inside.get(first, 9)
        value, upto = self.map.span(first, 9)
        stretch = range(first, 200 if upto is None else upto + 1)
        assert {self.model.get(number, 9) for number in stretch} == {value}
        assert upto is None or value != self.model.get(upto + 1, 9)

    @rule(low=VALUES, high=VALUES)
    def select(self, low: int, high: int) -> None:
        found: dict[int, int] = {}
        at: int | None = 0
        while at is not None:
            spans, at = self.map.select(at, low, high, 1, 1)
            found |= {number: value for start, end, value in spans for number in range(start, end + 1)}
        within = {number: value for number, value in self.model.items() if low <= value < high}
        assert found == within
        assert list(self.map.where(low, high).all()) == spans_in(within)

    @rule()
    def copy(self) -> None:
        before, self.map = self.map, self.kept(self.map.copy())
        before.set(0, 99, 0)

    @rule()
    def encode_and_decode(self) -> None:
        data = b"xy" + self.map.encode()
        found, end = RangeMap.decode(data, 2)
        self.map = self.kept(found)
        assert end == len(data)

    @invariant()
    def same(self) -> None:
        assert list(self.map.all()) == spans_in(self.model)
        assert len(self.map) == len(self.model)
        assert bool(self.map) == bool(self.model)
        assert self.map == RangeMap(spans_in(self.model))
        assert {n for start, end in self.map.coverage().ranges() for n in range(start, end + 1)} == set(
            self.model
        )
        assert self.map.span_count == len(spans_in(self.model))


TestRangeMapAgainstDict = RangeMapAgainstDict.TestCase
TestRangeMapAgainstDict.settings = settings(max_examples=100, stateful_step_count=30)


def test_the_largest_number_can_have_a_value() -> None:
    top = 2**64 - 1
    found = RangeMap([(top - 1, top, top)])
    assert found.spans(0, top) == [(top - 1, top, top)]
    assert found.get(top) == top


def test_values_one_by_one_become_spans() -> None:
    assert spans_of([4, 4, 5, 4], 10) == [(10, 11, 4), (12, 12, 5), (13, 13, 4)]
    assert spans_of([], 10) == []


@pytest.mark.parametrize(
    ("spans", "damage"),
    [
        ([(1, 2, 7)], b"\x02\x00\x00\x00"),
        ([(1, 2, 7), (4, 9, 7)], b"\x03\x00\x00\x00"),
    ],
)
def test_a_map_cut_short_is_refused(spans: list[Span], damage: bytes) -> None:
    data = RangeMap(spans).encode()
    with pytest.raises(ValueError, match="cut short"):
        RangeMap.decode(damage + data[4:])
    with pytest.raises(ValueError, match="cut short"):
        RangeMap.decode(data[:3])


def test_spans_out_of_order_are_refused() -> None:
    numbers = array("Q", (4, 1, 5, 2, 0, 0))
    with pytest.raises(ValueError, match="overlap"):
        RangeMap.decode(b"\x02\x00\x00\x00" + range_map.encode_array(numbers))
