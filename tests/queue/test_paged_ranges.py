"""Range sets and maps that keep parts in a store, against the same models as those in memory."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import invariant, rule

from node.ranges.paged_map import PagedRangeMap
from node.ranges.paged_set import PagedRangeSet
from node.ranges.range_map import RangeMap
from node.ranges.range_set import RangeSet
from tests.queue.cold_octets import OctetsInMemory, tiny_space
from tests.queue.test_range_map import RangeMapAgainstDict
from tests.queue.test_ranges import RangeSetAgainstSet


class PagedRangeSetAgainstSet(RangeSetAgainstSet):
    """Two ranges in memory, and two in a block, while the store has room."""

    def kept(self, known: RangeSet) -> RangeSet:
        self.store = getattr(self, "store", None) or OctetsInMemory()
        return PagedRangeSet(tiny_space(self.store), known)

    @rule()
    def fill_or_empty_the_store(self) -> None:
        self.store.full = not self.store.full


class PagedRangeMapAgainstDict(RangeMapAgainstDict):
    """Two spans in memory, and two in a block, while the store has room."""

    def kept(self, known: RangeMap) -> RangeMap:
        self.store = getattr(self, "store", None) or OctetsInMemory()
        return PagedRangeMap(tiny_space(self.store), known)

    @rule()
    def fill_or_empty_the_store(self) -> None:
        self.store.full = not self.store.full

    @invariant()
    def spans_ascend_with_a_front_and_a_last_one(self) -> None:
        spans = list(self.map.all())
        assert self.map.last == (spans[-1][1] if spans else None)
        assert self.map.front() == (spans[0] if spans else None)


TestPagedRangeSetAgainstSet = pytest.mark.requirement("D14.1")(PagedRangeSetAgainstSet.TestCase)
TestPagedRangeSetAgainstSet.settings = settings(max_examples=150, stateful_step_count=40)
TestPagedRangeMapAgainstDict = pytest.mark.requirement("D14.1")(PagedRangeMapAgainstDict.TestCase)
TestPagedRangeMapAgainstDict.settings = settings(max_examples=150, stateful_step_count=30)
