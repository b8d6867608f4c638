"""KeptCuts under names in the catalog: equal on every replica, kept, and never changed (X9)."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.catalog.kept_cuts import MOST_KEPT_CUTS
from cluster.catalog.observer import Observer
from cluster.catalog.state import CatalogState, encode_command
from node.refusal import NotFoundError, PreconditionFailedError

pytestmark = pytest.mark.requirement("X9.1")


class Catalog:
    """A replica of the catalog, whose commands are carried out at once."""

    def __init__(self) -> None:
        self.state = CatalogState(Observer())
        self._requests = 0

    def do(self, command: str, /, **arguments: Any) -> None:
        self._requests += 1
        (outcome,) = self.state.apply(encode_command(7, self._requests, command, arguments))
        if outcome.error is not None:
            raise outcome.error


def test_a_barrier_stands_behind_the_latest_numbers_of_all_partitions() -> None:
    catalog = Catalog()
    catalog.do("keep_barrier", name="b", numbers=[[1, 40], [7, 0]])
    barrier = catalog.state.table.cuts.by_name["b"]
    assert [barrier.position(one) for one in (1, 7)] == [41, 1]
    # A partition that was made behind the barrier has no message in front.
    assert barrier.position(8) == 1


def test_barriers_never_change_and_are_no_more_than_the_limit() -> None:
    catalog = Catalog()
    for number in range(MOST_KEPT_CUTS):
        catalog.do("keep_barrier", name=str(number), numbers=[[1, number]])
    with pytest.raises(PreconditionFailedError, match="there is a barrier '3': a barrier never changes"):
        catalog.do("keep_barrier", name="3", numbers=[])
    with pytest.raises(PreconditionFailedError, match="delete one first"):
        catalog.do("keep_barrier", name="more", numbers=[])
    catalog.do("forget_barrier", name="3")
    with pytest.raises(NotFoundError):
        catalog.do("forget_barrier", name="3")
    catalog.do("keep_barrier", name="more", numbers=[])
    assert len(catalog.state.table.cuts.by_name) == MOST_KEPT_CUTS


def test_snapshots_have_the_barriers() -> None:
    catalog, other = Catalog(), Catalog()
    before = catalog.state.snapshot()
    assert b"barriers" not in before
    catalog.do("keep_barrier", name="b", numbers=[[2, 5], [1, 40]])
    catalog.do("keep_barrier", name="a", numbers=[])
    other.state.restore(catalog.state.snapshot())
    assert other.state.snapshot() == catalog.state.snapshot()
    assert other.state.table.cuts.by_name == catalog.state.table.cuts.by_name
    other.state.restore(before)
    assert not other.state.table.cuts.by_name
