"""RangeSet against a plain set of numbers."""

from __future__ import annotations

import random
from array import array
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from node.ranges import range_set as ranges
from node.ranges.range_set import RangeSet

NUMBERS = st.integers(0, 80)
PAIRS = st.tuples(NUMBERS, NUMBERS).map(lambda pair: (min(pair), max(pair)))
TOP = 2**64 - 1


def numbers(found: RangeSet | list[tuple[int, int]]) -> set[int]:
    parts = found.ranges() if isinstance(found, RangeSet) else found
    return {number for first, last in parts for number in range(first, last + 1)}


class RangeSetAgainstSet(RuleBasedStateMachine):
    """Any sequence of changes, with chunks of two ranges, so that a few ranges make many chunks."""

    def __init__(self) -> None:
        super().__init__()
        self.constants = ranges.CHUNK_RANGES, ranges.MANY_RANGES
        ranges.CHUNK_RANGES = ranges.MANY_RANGES = 2
        self.ranges = self.kept(RangeSet())
        self.model: set[int] = set()

    def kept(self, known: RangeSet) -> RangeSet:
        """The set under test, with the ranges of a plain one."""
        return known

    def teardown(self) -> None:
        ranges.CHUNK_RANGES, ranges.MANY_RANGES = self.constants

    @rule(pair=PAIRS)
    def add(self, pair: tuple[int, int]) -> None:
        new = set(range(pair[0], pair[1] + 1)) - self.model
        assert self.ranges.add(*pair) == len(new)
        self.model |= new

    @rule(pair=PAIRS)
    def remove(self, pair: tuple[int, int]) -> None:
        gone = set(range(pair[0], pair[1] + 1)) & self.model
        assert self.ranges.remove(*pair) == len(gone)
        self.model -= gone

    @rule(chosen=st.sets(NUMBERS), adding=st.booleans(), data=st.data())
    def change_many(self, chosen: set[int], adding: bool, data: st.DataObject) -> None:
        before = len(self.model)
        pairs = data.draw(st.permutations(list(RangeSet((n, n) for n in chosen).ranges())))
        if adding:
            self.model |= numbers(pairs)
            assert self.ranges.update(pairs) == len(self.model) - before
        else:
            self.model -= numbers(pairs)
            assert self.ranges.remove_all(pairs) == before - len(self.model)

    @rule(others=st.sets(NUMBERS))
    def without(self, others: set[int]) -> None:
        rest = self.ranges.without(RangeSet((number, number) for number in others).ranges())
        assert numbers(rest) == self.model - others
        assert rest == RangeSet(rest.ranges())

    @rule(limit=st.integers(0, 30))
    def take(self, limit: int) -> None:
        wanted = set(sorted(self.model)[:limit])
        assert numbers(self.ranges.take(limit)) == wanted
        self.model -= wanted

    @rule(gap=st.integers(2, 3), sizes=st.lists(st.tuples(st.integers(2, 3), st.integers(1, 3))))
    def extend(self, gap: int, sizes: list[tuple[int, int]]) -> None:
        starts, ends, at = array("Q"), array("Q"), max(self.model, default=0) + gap
        for space, size in sizes:
            starts.append(at)
            ends.append(at + size - 1)
            self.model |= set(range(at, at + size))
            at += size + space
        self.ranges.extend(starts, ends)

    @rule(chosen=st.sets(NUMBERS))
    def ask_for_many(self, chosen: set[int]) -> None:
        ranges = list(RangeSet((number, number) for number in chosen).ranges())
        expected = [part for one in ranges for part in self.ranges.intersection(*one)]
        assert self.ranges.intersections(ranges) == expected

    @rule(pair=PAIRS)
    def ask(self, pair: tuple[int, int]) -> None:
        first, last = pair
        inside = {number for number in self.model if first <= number <= last}
        assert numbers(self.ranges.intersection(first, last)) == inside
        assert self.ranges.count_in(first, last) == len(inside)
        assert (first in self.ranges) == (first in self.model)
        found, upto = self.ranges.span(first)
        assert found == (first in self.model)
        behind = {number for number in self.model if number > first}
        assert numbers(list(self.ranges.behind(first))) == behind
        assert numbers(self.ranges.fronts(last)) == set(sorted(self.model)[:last])
        bound = max(self.model, default=first) + 2 if upto is None else upto
        assert all((number in self.model) == found for number in range(first, bound))
        assert upto is None or ((upto + 1) in self.model) != found

    @rule()
    def encode_and_copy(self) -> None:
        data = b"?" + self.ranges.encode() + b"?"
        decoded, offset = RangeSet.decode(data, 1)
        assert offset == len(data) - 1
        assert decoded == self.ranges == self.ranges.copy()
        twin = self.ranges.copy()
        twin.add(0, 100)
        self.ranges = self.kept(decoded)

    @invariant()
    def same_numbers_in_the_fewest_ranges(self) -> None:
        found = list(self.ranges.ranges())
        assert numbers(found) == self.model
        assert len(self.ranges) == len(self.model)
        assert bool(self.ranges) == bool(self.model)
        assert all(last + 1 < following for (_, last), (following, _) in pairwise(found))
        assert self.ranges.range_count() == len(found)
        assert self.ranges.front() == (found[0] if found else None)
        assert self.ranges.first == min(self.model, default=None)
        assert self.ranges.last == max(self.model, default=None)


TestRangeSetAgainstSet = RangeSetAgainstSet.TestCase
TestRangeSetAgainstSet.settings = settings(max_examples=60, stateful_step_count=40)


def test_the_whole_domain_fits() -> None:
    everything = RangeSet([(0, TOP)])
    everything.remove(5, 5)
    assert list(everything.ranges()) == [(0, 4), (6, TOP)]
    assert everything.add(5, TOP) == 1
    assert list(everything.ranges()) == [(0, TOP)]


def test_large_sets_agree_with_a_plain_set() -> None:
    source = random.Random(7)
    found, model = RangeSet(), set[int]()
    for _ in range(20_000):
        first = source.randrange(60_000)
        part = range(first, first + source.choice((1, 1, 1, 2, 40)))
        if source.random() < 0.55:
            found.add(part[0], part[-1])
            model.update(part)
        else:
            found.remove(part[0], part[-1])
            model.difference_update(part)
    assert numbers(found) == model
    assert found.range_count() > 4 * ranges.CHUNK_RANGES


@given(st.binary(max_size=80))
def test_decoding_refuses_or_gives_a_canonical_set(data: bytes) -> None:
    try:
        decoded, offset = RangeSet.decode(data)
    except ValueError:
        return
    assert decoded.encode() == data[:offset]


@pytest.mark.parametrize(
    "pairs", [[(5, 4)], [(1, 3), (4, 5)], [(1, 3), (3, 5)], [(7, 8), (1, 2)], [(1, TOP), (0, 0)]]
)
def test_decoding_refuses_what_is_not_canonical(pairs: list[tuple[int, int]]) -> None:
    octets = len(pairs).to_bytes(4, "little")
    octets += b"".join(first.to_bytes(8, "little") for first, _ in pairs)
    octets += b"".join(last.to_bytes(8, "little") for _, last in pairs)
    with pytest.raises(ValueError, match="overlap"):
        RangeSet.decode(octets)
