"""The simulator finds planted bugs, and reports none without them."""

from __future__ import annotations

from functools import cache

import pytest

from tests.simulation.focus import Focus
from tests.simulation.node import SimulatedNode
from tests.simulation.planted import BUGS, FOCUS, planted
from tests.simulation.runs import SeedFailure, run_seed
from tests.simulation.test_members import LONG, SEEDS
from tests.simulation.test_seeds import (
    BLOCKS,
    FOCUSED,
    OF_FEEDING,
    OF_FILLING,
    OF_FILTERS,
    OF_GATHERINGS,
    OF_HISTORIES,
    OF_LINGERING,
    OF_LOANS,
    OF_LOCAL_QUEUES,
    OF_PARTS,
    OF_READERS,
    OF_REFILLING,
    OF_VALUES,
    OF_VIEWS,
    SEEDS_A_BLOCK,
)

LIMIT = 500
"""Each bug must be found within so many seeds."""

SHOWN_BY = {
    "forgotten vote": 23,
    "joining forgotten": 27,
    "dropped by an old catalog": 6,
    "commit in an old term": 9,
    "confirm before fsync": 26,
    "outcome before decision": 0,
    "decided after abandonment": 0,
    "answer before all nodes know": 2,
    "catalog answer without a barrier": 21,
    "counts on a lost lease": 16,
    "taken again after an outage": 3,
    "leases not taken over": 2,
    "lost leases forgotten": 10,
    "group of two consumers": 416,
    "lease of a settled message": 319,
    "lease without a token": 1,
    "lease that ends early": 49,
    "annotations that replace others": 2,
    "annotations that are not logged": 2,
    "links that are not logged": 3,
    "message of a lost link": 295,
    "commit of a lost link": 87,
    "tags that are not kept": 7,
    "settled before its commit": 51,
    "cancels that are not told": 60,
    "moves of leased messages": 44,
    "barriers ahead of settlements": 24,
    "caps that are forgotten": 20,
    "stale routes": 32,
    "cuts through owners that go on": 72,
    "refusals that are lost": 112,
    "refusals that are not logged": 271,
    "limit counted twice": 30,
    "expired messages delivered": 65,
    "filtered by the first of a run": 132,
    "filters that are forgotten": 68,
    "settlements that the feed leaves out": 0,
    "lease counted from PONG": 3,
    "lease counted from its answer": 127,
    "lease without a quorum": 69,
    "served without a lease": 96,
    "clock that a suspension stops": 37,
    "copies taken for granted": 31,
    "readers ahead of transactions": 384,
    "back beside themselves": 256,
    "places ahead of settlements": 256,
    "an epoch committed twice": 40,
    "retention overtaking a reader": 160,
    "a take renumbered by a failover": 63,
    "numbers of a released reader forgotten": 63,
    "deltas side by side": 228,
    "leases that do not linger": 372,
    "leased messages in views": 159,
    "rows told in memory": 31,
    "changes under one version": 159,
    "forgotten chains": 96,
    "forgotten change of digests": 96,
    "entries in part": 143,
    "replacements that are not logged": 164,
    "deliveries ahead of the past": 288,
    "past in memory": 383,
    "a past refilled twice": 79,
    "places behind their transfers": 207,
    "purges of what has come": 32,
    "gaps behind the past": 192,
    "loans ahead of their entries": 88,
    "parts of other nodes": 140,
    "messages of other nodes": 140,
    "parts that go with messages": 223,
    "settled where the consumer is": 223,
    "questions that stay": 175,
    "filters that lenders forget": 88,
    "barriers ahead of loans": 120,
    "one round of barriers": 184,
    "barriers confirmed at once": 56,
    "removed before it is sent": 1,
    "dead letters by an old catalog": 169,
    "one routing key for a run": 0,
    "blocks dropped with a part": 8,
    "replicas outside their domain": 3,
}
"""Seeds that have found the bugs, tried first. Where a change makes a seed do something else, the search is
longer.
"""


SHOWN_TO_KEEP = {
    Focus.EVERYTHING: range(BLOCKS * SEEDS_A_BLOCK),
    Focus.MEMBERS: (*SEEDS, *LONG),
    **FOCUSED,
    Focus.CONSUMERS: (
        *FOCUSED[Focus.CONSUMERS], *OF_FEEDING, *OF_FILLING, *OF_FILTERS, *OF_GATHERINGS, *OF_HISTORIES,
        *OF_LINGERING,
        *OF_LOANS, *OF_LOCAL_QUEUES, *OF_PARTS, *OF_READERS, *OF_REFILLING, *OF_VALUES, *OF_VIEWS,
    ),
}  # fmt: skip
"""Seeds of which other tests show that every promise is kept where no bug is planted."""


@pytest.mark.seeds
@pytest.mark.interpreted
@pytest.mark.parametrize("bug", sorted(BUGS))
def test_a_planted_bug_is_found(bug: str) -> None:
    focus = FOCUS.get(bug, Focus.EVERYTHING)
    for seed in (SHOWN_BY[bug], *range(LIMIT)):
        try:
            with planted(bug) as node_type:
                run_seed(seed, node_type, bug, focus)
        except SeedFailure as failure:
            assert f"--seed {seed} --bug '{bug}'" in str(failure)
            if seed not in SHOWN_TO_KEEP.get(focus, ()):
                kept_without_bugs(seed, focus)
            return
    raise AssertionError(f"{LIMIT} seeds did not show it")


@cache
def kept_without_bugs(seed: int, focus: Focus) -> None:
    """Raises SeedFailure. Several bugs may be found by one seed."""
    run_seed(seed, focus=focus)


def test_every_planted_bug_has_a_seed() -> None:
    """The search from 0 on finds every bug without its pinned seed."""
    assert SHOWN_BY.keys() == BUGS.keys()
    assert max(SHOWN_BY.values()) < LIMIT


@pytest.mark.parametrize("node_type", sorted({node_type for node_type, _ in BUGS.values()}, key=repr))
def test_a_planted_bug_overrides_what_there_is(node_type: type[SimulatedNode]) -> None:
    """Otherwise the bug would not be planted any more."""
    own = {name for name in vars(node_type) if not name.startswith("__")}
    assert own <= {*dir(SimulatedNode)}
