"""The table of `make bench`: medians, ratios and goals."""

from __future__ import annotations

import pytest

from bench.figures import Row
from bench.load import LoadError, LoadResult
from bench.report import Line, as_json, lines, text
from bench.rounds import Plan, Results
from bench.rows import ROWS

MEASURED = [row for row in ROWS if row.id in ("local", "backlog", "kill")]
PLAN = Plan(MEASURED, rounds=3, seconds=8, waiting=10, kills=10)


def measured(row: str, ours: dict[str, list[float]], peer: dict[str, list[float]]) -> list[Line]:
    """The lines of one row, each broker's samples given round by round."""
    results = Results()
    for cluster, samples in (("quorate", ours), ("RabbitMQ", peer)):
        if samples:
            results.add(row, cluster, samples)
    return [line for line in lines(PLAN, results) if line.row == row]


def test_a_rate_is_compared_with_the_peer_by_medians() -> None:
    [line] = measured("local", {"rate": [90.0, 120.0, 500.0]}, {"rate": [30.0, 20.0, 10.0]})
    assert (line.ours, line.peer, line.ratio, line.met) == (120.0, 20.0, 6.0, True)
    assert line.goal == "≥ 6 × peer"


def test_a_goal_is_missed_by_a_little() -> None:
    [line] = measured("local", {"rate": [119.9]}, {"rate": [20.0]})
    assert line.met is False


def test_absolute_goals_need_no_peer() -> None:
    growth, flatness, memory, drain = measured(
        "backlog", {"growth": [5.0], "flatness": [0.89], "bytes": [250.0], "drain": [5.0]}, {}
    )
    assert (growth.met, flatness.met, memory.met, drain.met) == (None, False, True, None)
    assert (flatness.goal, memory.goal) == ("≥ 0.9", "≤ 250 B")


def test_the_longest_of_all_trials_counts_where_the_goal_says_so() -> None:
    typical, longest = measured("kill", {"seconds": [0.1, 0.3, 0.2]}, {"seconds": [0.2, 0.2, 0.4]})
    assert (typical.ours, longest.ours) == (0.2, 0.3)
    assert (typical.met, longest.met) == (True, True)


def test_what_was_not_measured_shows_as_a_dash() -> None:
    results = Results(problems=["quorate, local: lost=3"])
    table = text(PLAN, lines(PLAN, results), results.problems)
    assert table.splitlines()[2].split()[-8:] == ["–", "–", "–", "≥", "6", "×", "peer", "–"]
    assert "PROBLEM quorate, local: lost=3" in table
    assert as_json(PLAN, lines(PLAN, results), results.problems)["problems"] == ["quorate, local: lost=3"]


def test_trials_are_spread_over_the_rounds() -> None:
    assert PLAN.kills_a_round == 4


def test_row_ids_are_distinct() -> None:
    ids = [row.id for row in ROWS]
    assert len(set(ids)) == len(ids)
    assert all(isinstance(row, Row) and row.figures for row in ROWS)


OUTPUT = (
    '{"seconds": 3.0, "published": 10, "confirmed": 10, "nacked": 0, "delivered": 9, "lost": 1, '
    '"duplicates": 0, "redelivered": 0, "misordered": 2, "closed": 0, "octets": 90, '
    '"processor_seconds": 0.5, "publish_rate": 3, "deliver_rate": 4, "end_to_end_rate": 5, '
    '"confirm_ms": {"p50": 1.5, "p99": 9.0}}'
)


def test_the_generator_result_tells_broken_promises() -> None:
    result = LoadResult.parse(OUTPUT)
    assert (result.end_to_end_rate, result.confirm_p50, result.confirm_p99) == (5, 1.5, 9.0)
    assert result.broken_promises == ["lost=1", "misordered=2"]


@pytest.mark.parametrize("output", ["", "amqpload: killed", "{}", "[]"])
def test_another_output_is_an_error(output: str) -> None:
    with pytest.raises(LoadError):
        LoadResult.parse(output)
