"""A pattern that needs exponential time costs a node little, for any number of names and clients (A11)."""

from __future__ import annotations

from time import thread_time

import pytest

from cluster.catalog.access import patterns
from cluster.catalog.access.patterns import (
    BUDGET_S,
    MATCH_TIMEOUT_S,
    MEMORY_S,
    REMEMBERED_PATTERNS,
    TRIES,
    SlowPatterns,
    compiled,
    permits,
)

SLOW = [r"^(a+)+$", r"^(a|aa)+$", r"(.*a){20}$", r"^([a-z]+)*\d$", r"^(\w+\s?)*!$"]
ATTEMPTS = 500


@pytest.mark.parametrize("pattern", SLOW)
def test_many_names_that_a_pattern_takes_long_for_cost_one_time_out(pattern: str) -> None:
    """Without a bound each name would take a time-out, and one piece of input may have hundreds of names."""
    found = compiled(pattern)
    began = thread_time()
    assert not any(permits(found, "a" * 120 + f"{number}~") for number in range(ATTEMPTS))
    assert thread_time() - began < 20 * MATCH_TIMEOUT_S < ATTEMPTS * MATCH_TIMEOUT_S / 20


@pytest.mark.interpreted
@pytest.mark.parametrize("seconds", [MATCH_TIMEOUT_S / 20, MATCH_TIMEOUT_S / 3])
def test_beside_other_processes_many_names_cost_one_budget(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each search gets so many seconds of the processor within its time-out, and ends with the time-out."""
    clock = 0.0

    def search(*_: object) -> tuple[bool, float]:
        nonlocal clock
        clock += seconds
        raise TimeoutError

    monkeypatch.setattr(patterns, "_searched", search)
    monkeypatch.setattr(patterns, "thread_time", lambda: clock)
    found = compiled(f"busy{seconds}")
    assert not any(permits(found, "a" * 120 + f"{number}~") for number in range(ATTEMPTS))
    assert BUDGET_S < clock < BUDGET_S + TRIES * MATCH_TIMEOUT_S / 2


def test_many_names_that_a_pattern_is_slow_for_cost_one_budget() -> None:
    """Each of them takes less than the time-out, and the client never runs out of names."""
    found = compiled(r"d.*d.*d.*d.*z|!")
    began = thread_time()
    permitted = [permits(found, "d" * 60 + f"{number}!") for number in range(ATTEMPTS)]
    assert thread_time() - began < 5 * BUDGET_S
    assert permitted[0] and not permitted[-1], "the pattern is tried no more"
    assert permits(found, "d!"), "shorter names are tried"


def test_slow_matches_count_for_a_while() -> None:
    slow, each = SlowPatterns(), BUDGET_S / 4
    for now, length in ((0.0, 60), (1.0, 50), (2.0, 70), (3.0, 60)):
        slow.was_slow("p", "x" * length, each, now)
        slow.was_slow("q", "x" * length, each, now * MEMORY_S)
    assert not slow
    slow.was_slow("p", "x" * 60, each, 4.0)
    assert slow.refuses("p", "y" * 50, 5.0) and not slow.refuses("p", "y" * 49, 5.0)
    assert not slow.refuses("p", "y" * 50, 4.0 + MEMORY_S)
    assert not slow.refuses("q", "y" * 99, 5.0)


def test_names_that_are_shorter_are_tried_as_before() -> None:
    slow = compiled(r"^(b+)+$")
    assert not permits(slow, "b" * 120 + "~")
    assert permits(slow, "bbb")
    assert not permits(slow, "bb~")


def test_other_patterns_are_not_concerned() -> None:
    assert not permits(compiled(r"^(c+)+$"), "c" * 120 + "~")
    assert permits(compiled(r"^c"), "c" * 120 + "~")


def test_what_was_slow_is_tried_again_after_a_while() -> None:
    slow = SlowPatterns()
    assert not slow
    slow.took_too_long("p", "x" * 50, 10.0)
    assert slow.refuses("p", "y" * 50, 10.0) and slow.refuses("p", "y" * 51, 9.9 + MEMORY_S)
    assert not slow.refuses("p", "y" * 49, 10.0)
    assert not slow.refuses("p", "y" * 50, 10.0 + MEMORY_S)
    slow.took_too_long("p", "x" * 70, 20.0)
    assert slow.refuses("p", "y" * 50, 20.0)
    slow.took_too_long("p", "x" * 60, 20.0 + MEMORY_S)
    assert not slow.refuses("p", "y" * 59, 20.0 + MEMORY_S)


def test_few_patterns_are_remembered() -> None:
    slow = SlowPatterns()
    for number in range(REMEMBERED_PATTERNS + 1):
        slow.took_too_long(f"p{number}", "x", 0.0)
    assert not slow.refuses("p0", "x", 0.0)
    assert slow.refuses(f"p{REMEMBERED_PATTERNS}", "x", 0.0)
