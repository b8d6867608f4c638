"""Messages from several runs are joined to few runs, in a given order."""

from __future__ import annotations

from array import array
from dataclasses import replace

from node.message.run import Run, StoredRun, gather
from node.ranges.range_set import Range, numbers_of
from node.wire.amqp091.routing_keys import by_key
from tests.queue.building import keyed_content, keyed_run

UNIFORM = Run("", "q", 1, True, 4, 1, 3, None, 10, b"-aA-bB-cC-dD")
VARIED = Run("", "q", 1, True, 3, 1, 0, array("I", (2, 4, 3)), 20, b"-e-fFF-gG")
OTHER = replace(UNIFORM, routing_key="other")


def stored(*runs: Run) -> list[StoredRun]:
    """Runs with consecutive numbers from 1 on."""
    found: list[StoredRun] = []
    for run in runs:
        found.append(StoredRun(found[-1].last + 1 if found else 1, run))
    return found


def gathered(ranges: list[Range], *runs: Run) -> list[tuple[list[int], list[bytes]]]:
    places = stored(*runs)
    found = gather(ranges, lambda number: next(one for one in places if one.first <= number <= one.last))
    return [(list(numbers_of(parts)), list(run.contents())) for parts, run in found]


def test_messages_of_runs_that_are_alike_become_one_run_in_their_order() -> None:
    assert gathered([(6, 7), (2, 2), (4, 5)], UNIFORM, VARIED) == [
        ([6, 7, 2, 4, 5], [b"fFF", b"gG", b"bB", b"dD", b"e"])
    ]


def test_a_run_with_another_key_is_by_itself() -> None:
    assert gathered([(1, 2), (8, 8), (3, 3)], UNIFORM, OTHER) == [
        ([1, 2], [b"aA", b"bB"]),
        ([8], [b"dD"]),
        ([3], [b"cC"]),
    ]


def test_messages_with_routing_keys_of_their_own_keep_them() -> None:
    places = stored(keyed_run(["a", "bb"]), keyed_run(["ccc", ""]), VARIED)
    ((ranges, run), (_, other)) = gather([(2, 4), (1, 1), (5, 5)], lambda number: places[(number - 1) // 2])
    assert [key for key, _ in by_key(run)] == ["bb", "ccc", "", "a"]
    assert list(run.contents()) == [keyed_content(index) for index in (1, 0, 1, 0)]
    assert (ranges, other.routing_key) == ([(2, 2), (3, 4), (1, 1)], "q")


def test_the_largest_frame_of_any_of_them_counts() -> None:
    places = stored(UNIFORM, VARIED)
    ((_, run),) = gather([(5, 5), (1, 1)], lambda number: places[number == 5])
    assert (run.count, run.largest_frame, run.stride) == (2, 20, 0)
