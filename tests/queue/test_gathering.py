"""Messages from several runs are joined to few runs, in a given order."""

from __future__ import annotations

import random
from array import array
from dataclasses import replace
from typing import Any

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


class CountedLengths(array):
    """Lengths that count how many of them are looked at."""

    seen = 0

    def __getitem__(self, place: Any) -> Any:
        part = array.__getitem__(self, place)
        self.seen += len(part)
        return part


def varied(count: int) -> tuple[Run, CountedLengths]:
    """A run whose messages have lengths from 1 to 7."""
    lengths = CountedLengths("I", (1 + place % 7 for place in range(count)))
    raw = b"".join(bytes((place % 251,)) * length for place, length in enumerate(lengths))
    return Run("", "q", 1, True, count, 0, 0, lengths, 20, raw), lengths


def test_a_run_is_taken_apart_in_time_that_grows_with_its_messages() -> None:
    for count in (100, 1000):
        run, lengths = varied(count)
        pieces = [run.slice(place, 1) for place in range(count)]
        assert [bytes(piece.raw) for piece in pieces] == list(run.contents())
        assert lengths.seen <= 2 * count


def test_slices_are_the_same_in_any_order() -> None:
    run, _ = varied(60)
    contents, chance = list(run.contents()), random.Random(7)
    for _ in range(500):
        first = chance.randrange(60)
        count = chance.randrange(1, 61 - first)
        piece = run.slice(first, count)
        assert (list(piece.contents()), piece.count) == (contents[first : first + count], count)


def test_a_run_that_was_sliced_is_equal_to_one_that_was_not() -> None:
    run, _ = varied(5)
    run.slice(1, 2)
    assert run == varied(5)[0]
