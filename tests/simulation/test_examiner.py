"""The trials that examiners carry out."""

from __future__ import annotations

from collections import Counter

from tests.simulation.trials.examiner import ALL, KINDS, OF_ANSWERS, OF_CONSUMERS, OF_LEASES


def test_no_two_kinds_of_trials_have_the_same_name() -> None:
    """One of them would never run."""
    names = Counter(name for kinds in (KINDS, OF_ANSWERS, OF_LEASES, OF_CONSUMERS) for name in kinds)
    assert names.keys() == ALL.keys() and set(names.values()) == {1}
    assert len(set(ALL.values())) == len(ALL)
