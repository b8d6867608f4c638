"""Ranks of messages by an expression (D10): values, runs, many different ranks."""

from __future__ import annotations

import math
import random

import pytest

from node.expressions.condition import encoded_condition
from node.message.run import Run
from node.queue.feature import Incoming, Notes
from node.queue.features.priority_expression import LOWEST_RANK, Ranks, rank_of
from node.queue.operations import Aspect
from node.ranges.range_map import RangeMap
from node.ranges.range_set import Range, count_of
from node.ranges.ranked_numbers import CHUNK_KEYS, HIGHEST_RANK, RankedNumbers
from tests.messages import content, run_of


@pytest.mark.requirement("D10.2")
def test_a_value_is_an_unsigned_number_of_64_bits_and_any_other_is_lowest() -> None:
    lowest = (None, math.nan, -1, -0.5, -math.inf, "7", b"7", True, False)
    assert [rank_of(value) for value in lowest] == [LOWEST_RANK] * len(lowest)
    ascending = (0, 1, 1.5, 2, 255, 2.0**53, 2**63, 2**64 - 2)
    ranks = [rank_of(value) for value in ascending]
    assert ranks == sorted(ranks)
    assert min(ranks) > LOWEST_RANK
    assert rank_of(1) == rank_of(1.5) < rank_of(2)
    for above in (2**64 - 1, 2**70, 2.0**64, math.inf):
        assert rank_of(above) == HIGHEST_RANK


def ranked(expression: str, run: Run) -> list[tuple[int, int, int]]:
    notes: Notes = {}
    Ranks(encoded_condition(expression)).decide(Incoming(run), 10, 0, notes)
    return notes[Aspect.PRIORITY]


@pytest.mark.requirement("D10.1")
def test_an_expression_over_a_body_ranks_each_message() -> None:
    bodies = (b'{"price": 2, "qty": 3}', b'{"price": 3, "qty": 2}', b"no JSON", b'{"price": 1.5, "qty": 3}')
    spans = ranked("/price * /qty", run_of([content(body) for body in bodies]))
    assert spans == [(10, 11, 7), (12, 12, LOWEST_RANK), (13, 13, 5)]


@pytest.mark.requirement("D10.1")
def test_an_expression_over_properties_ranks_messages_in_a_row_at_once() -> None:
    run = run_of([content(b"x", headers={"weight": weight}) for weight in (4, 4, 4, 9, 4)])
    assert ranked("weight + 1", run) == [(10, 12, 6), (13, 13, 11), (14, 14, 6)]


def taken_from(numbers: RankedNumbers, limit: int) -> list[Range]:
    """Take the first numbers out."""
    found = numbers.first(limit)
    numbers.drop(found, count_of(found))
    return found


@pytest.mark.requirement("D10.3")
def test_many_numbers_of_different_ranks_keep_their_order_over_chunks() -> None:
    chance = random.Random(7)
    ranks = {number: chance.choice((chance.getrandbits(64), 5)) for number in range(10 * CHUNK_KEYS)}
    found = RankedNumbers()
    for number in chance.sample(sorted(ranks), len(ranks)):
        assert found.add(number, number, ranks[number]) == 1
        assert found.add(number, number, ranks[number]) == 0
    for number in chance.sample(sorted(ranks), 3 * CHUNK_KEYS):
        assert found.remove(number, number) == 1
        del ranks[number]
    order = sorted(ranks, key=lambda number: (-ranks[number], number))
    lowest = found.lowest()
    low = min(ranks.values())
    assert lowest is not None and lowest[0] == min(number for number in ranks if ranks[number] == low)
    halfway = order[len(order) // 2]
    behind = [number for _, (number, _) in found.behind(ranks[halfway], halfway)]
    assert behind == order[len(order) // 2 + 1 :]
    taken = [number for first, last in taken_from(found, 2 * CHUNK_KEYS) for number in range(first, last + 1)]
    rest = [number for first, last in taken_from(found, len(ranks)) for number in range(first, last + 1)]
    assert (taken + rest, len(found), found.lowest()) == (order, 0, None)
    assert not list(found.ranges())


@pytest.mark.requirement("D10.3")
@pytest.mark.parametrize("known", [0, 1, 3, 1500])
def test_numbers_that_come_together_take_their_places_among_others(known: int) -> None:
    """In any number of chunks, in front of all others, between them, and behind them."""
    chance = random.Random(known)
    found, other = RankedNumbers(), RankedNumbers()
    first = 1
    for count in (known, 1, 2000, 300, 20, 700):
        ranks = [chance.choice((chance.getrandbits(64), chance.randrange(3))) for _ in range(count)]
        spans = list(RangeMap((number, number, rank) for number, rank in enumerate(ranks, first)).all())
        # The second time some of them are there.
        for given in (spans[: count // 2], spans):
            assert found.add_all(given) == sum([other.add(*span) for span in given])
        assert list(found.behind(HIGHEST_RANK, 0)) == list(other.behind(HIGHEST_RANK, 0))
        assert found.lowest() == other.lowest()
        first += count
        half = len(found) // 2
        assert (taken_from(found, half), len(found)) == (taken_from(other, half), len(other))
