"""Simulated clusters keep their promises under faults; `make sim SEEDS=…` runs as many seeds as asked."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import cast

import pytest

from tests.simulation.focus import Focus
from tests.simulation.processes import Task, judge

BLOCKS, SEEDS_A_BLOCK = 8, 5
QUICK = 1
"""So many blocks are run by `make test`, the others by `make check`."""

FOCUSED = {
    Focus.LEASES: range(5),
    Focus.RESTARTS: range(5),
    Focus.ANSWERS: range(1, 7),
    Focus.CONSUMERS: range(8, 13),
    Focus.COMMITS: range(4),
}
"""Seeds that are about one kind of fault."""

OF_FILTERS = (68, 132)
"""Seeds about consumers that are about filters."""

OF_LINGERING = (52, 372)
"""Seeds about consumers that are about leases that linger."""

OF_LOCAL_QUEUES = (140,)
"""Seeds about consumers that are about local queues."""

OF_LOANS = (88, 95)
"""Seeds about consumers that are about queues with several owners."""

OF_GATHERINGS = (56, 184)
"""Seeds about consumers that are about barriers of queues with several owners."""

OF_PARTS = (268,)
"""Seeds about consumers that are about queues with a part for each node."""

OF_VIEWS = (159, 287)
"""Seeds about consumers that are about views over queues."""

OF_FILLING = (288, 383)
"""Seeds about consumers that are about queues which are filled with the past."""

OF_FEEDING = (207,)
"""Seeds about consumers that are about queues over patterns with a recovery point."""

OF_REFILLING = (79,)
"""Seeds about consumers that are about queues which get another recovery point."""

OF_HISTORIES = (352, 480)
"""Seeds about consumers that are about histories."""

OF_READERS = (160, 672)
"""Seeds about consumers that are about readers of streams."""

OF_VALUES = (228, 420)
"""Seeds about consumers that are about the last values of keys."""

Outcome = tuple[int, int] | str
"""The numbers of confirmed and of redelivered messages, or the report of the seed that failed."""


def run_block(block: int) -> Outcome:
    confirmed = redelivered = 0
    for seed in range(block * SEEDS_A_BLOCK, (block + 1) * SEEDS_A_BLOCK):
        verdict = judge(Task(seed))
        if verdict.report is not None:
            return verdict.report
        confirmed += verdict.confirmed
        redelivered += verdict.redelivered
    return confirmed, redelivered


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> Iterator[dict[int, Future[Outcome]]]:
    """The outcomes of the blocks that tests were chosen for, by block; the blocks run on all cores."""
    tests = (item for item in request.session.items if isinstance(item, pytest.Function))
    chosen = [cast(int, test.callspec.params["block"]) for test in tests if test.originalname == OF_BLOCKS]
    with ProcessPoolExecutor(mp_context=get_context("forkserver")) as pool:
        yield {block: pool.submit(run_block, block) for block in chosen}
        pool.shutdown(cancel_futures=True)


@pytest.mark.requirement("A16.3")
@pytest.mark.requirement("A19.1", "A19.3")
@pytest.mark.requirement("A21.1")
@pytest.mark.requirement("A22.1")
@pytest.mark.requirement("D2.1", "D2.2", "D2.3", "D2.4")
@pytest.mark.parametrize(
    "block",
    [*range(QUICK), *(pytest.param(block, marks=pytest.mark.seeds) for block in range(QUICK, BLOCKS))],
)
def test_promises_are_kept_under_faults(block: int, outcomes: dict[int, Future[Outcome]]) -> None:
    """No confirmed message is lost, at-most-once queues deliver none twice, order is kept, commits are
    atomic, and replicas agree.
    """
    outcome = outcomes[block].result()
    if isinstance(outcome, str):
        pytest.fail(outcome, pytrace=False)
    confirmed, redelivered = outcome
    assert confirmed > 30 * SEEDS_A_BLOCK, "the faults leave too little time to confirm anything"
    assert redelivered > 0, "the faults return nothing"


OF_BLOCKS = test_promises_are_kept_under_faults.__name__


def seeds_of(focus: Focus) -> pytest.MarkDecorator:
    """The seeds about a kind of fault: a quarter of them in `make test`, the others in `make check`."""
    seeds = FOCUSED[focus]
    quick, others = seeds[: len(seeds) // 4], seeds[len(seeds) // 4 :]
    return pytest.mark.parametrize(
        "seed", [*quick, *(pytest.param(seed, marks=pytest.mark.seeds) for seed in others)]
    )


def kept(seed: int, focus: Focus) -> None:
    """Fail where a promise is broken."""
    verdict = judge(Task(seed, focus=focus))
    if verdict.report is not None:
        pytest.fail(verdict.report, pytrace=False)


@seeds_of(Focus.LEASES)
def test_leases_hold_where_words_come_late(seed: int) -> None:
    """No node relies on a lease whose end another node does not wait for."""
    kept(seed, Focus.LEASES)


@seeds_of(Focus.RESTARTS)
def test_nothing_comes_again_without_cause_where_nodes_leave_in_order(seed: int) -> None:
    """Unsettled messages of a consumer on a node that stays come to no other consumer."""
    kept(seed, Focus.RESTARTS)


@seeds_of(Focus.ANSWERS)
def test_answers_are_true_where_those_who_give_them_are_deposed(seed: int) -> None:
    """The answers are counts, names that exist already, and room in a queue; no command is done twice."""
    kept(seed, Focus.ANSWERS)


@pytest.mark.requirement("X3.1", "X3.2")
@seeds_of(Focus.CONSUMERS)
def test_consumers_that_share_a_queue_keep_what_they_have(seed: int) -> None:
    """A group is with one consumer, and comes in order, also where consumers are given up and come back."""
    kept(seed, Focus.CONSUMERS)


@pytest.mark.requirement("D9.1", "D9.2")
@pytest.mark.parametrize("seed", OF_FILTERS)
def test_queues_and_consumers_have_what_their_filters_take(seed: int) -> None:
    """Also from the next owner; nothing that matches is lost."""
    kept(seed, Focus.CONSUMERS)


@pytest.mark.requirement("D16.1", "D16.2", "D16.6")
@pytest.mark.parametrize("seed", OF_VALUES)
def test_no_value_of_a_key_is_lost_and_none_comes_back(seed: int) -> None:
    """Several clients change the values, and other clients take them, while owners change."""
    kept(seed, Focus.CONSUMERS)


@pytest.mark.requirement("D13.1", "X6.1")
@pytest.mark.parametrize("seed", OF_FILLING)
def test_queues_have_the_past_once_and_in_order(seed: int) -> None:
    """Those that decide about each message, while owners move; a purge removes all of the past."""
    kept(seed, Focus.CONSUMERS)


@pytest.mark.requirement("D1.2", "D13.1")
@pytest.mark.parametrize("seed", OF_FEEDING)
def test_owners_of_streams_send_a_queue_all_messages_once_and_in_order(seed: int) -> None:
    """While owners of streams and of the queue move, and nodes are lost."""
    kept(seed, Focus.CONSUMERS)


@pytest.mark.requirement("D13.1", "D13.2")
@pytest.mark.parametrize("seed", OF_REFILLING)
def test_another_recovery_point_refills_a_queue_once(seed: int) -> None:
    """While owners move, whatever points a policy states later."""
    kept(seed, Focus.CONSUMERS)


@pytest.mark.requirement("F8.3")
@pytest.mark.parametrize("seed", OF_READERS)
def test_retention_passes_no_reader_within_its_max_lag(seed: int) -> None:
    """No place goes back, and what readers lose beyond their max lag is counted to the message."""
    kept(seed, Focus.CONSUMERS)


@pytest.mark.requirement("X8.1", "X8.7")
@pytest.mark.parametrize("seed", OF_HISTORIES)
def test_the_logs_of_all_replicas_tell_one_history(seed: int) -> None:
    """They have equal digests, which their logs bear out, whichever node owns the queue."""
    kept(seed, Focus.CONSUMERS)


@pytest.mark.requirement("X5.1")
@pytest.mark.parametrize("seed", OF_LINGERING)
def test_leases_linger_when_the_client_is_gone(seed: int) -> None:
    """No other consumer gets the messages before their time is over, whichever node owns the queue."""
    kept(seed, Focus.CONSUMERS)


@pytest.mark.requirement("D20.7", "D20.8")
@pytest.mark.parametrize("seed", OF_LOANS)
def test_owners_lend_each_message_once(seed: int) -> None:
    """A message is in one part at each moment, and comes once, under all faults, while owners move."""
    kept(seed, Focus.CONSUMERS)


@pytest.mark.seeds
@pytest.mark.requirement("D11.1", "D11.2", "D11.3", "D20.7")
@pytest.mark.parametrize("seed", OF_GATHERINGS)
def test_barriers_of_all_parts_come_behind_all_before_them(seed: int) -> None:
    """To each consumer once, and ahead of all behind them, whatever owners lend, and wherever they are."""
    kept(seed, Focus.CONSUMERS)


@pytest.mark.requirement("D20.2")
@pytest.mark.parametrize("seed", OF_LOCAL_QUEUES)
def test_a_local_queue_has_what_clients_of_its_node_have_published(seed: int) -> None:
    """All that is confirmed, and nothing else, whatever becomes of the node and of the others."""
    kept(seed, Focus.CONSUMERS)


@pytest.mark.requirement("D20.1", "D20.7", "D20.8")
@pytest.mark.parametrize("seed", OF_PARTS)
def test_parts_come_and_go_and_no_message_with_them(seed: int) -> None:
    kept(seed, Focus.CONSUMERS)


@pytest.mark.requirement("D15.2", "D15.3")
@pytest.mark.parametrize("seed", OF_VIEWS)
def test_views_equal_a_recount(seed: int) -> None:
    """A view that does not lag behind has the messages that are ready at the owner, whichever node that is,
    and in the end all that no client has settled.
    """
    kept(seed, Focus.CONSUMERS)


@seeds_of(Focus.COMMITS)
def test_commits_are_whole_where_clients_are_cut_off(seed: int) -> None:
    """All messages of a commit are in their queues, or none."""
    kept(seed, Focus.COMMITS)
