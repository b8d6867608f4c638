"""The earliest time that was set is the one that counts, and is told once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cluster.owner.alarms import Alarms


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)) | st.integers(0, 20), max_size=40))
def test_alarms_are_told_at_their_earliest_time(steps: list[tuple[int, int] | int]) -> None:
    alarms, expected = Alarms(), dict[int, int]()
    for step in steps:
        if isinstance(step, int):
            due = sorted(queue for queue, at in expected.items() if at <= step)
            assert sorted(alarms.due(step)) == due
            for queue in due:
                del expected[queue]
        else:
            queue, at = step
            alarms.set(queue, at)
            expected[queue] = min(at, expected.get(queue, at))
