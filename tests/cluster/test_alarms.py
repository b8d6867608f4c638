"""Of the times set for a queue the earliest counts, and is reported once."""

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


def test_times_that_an_earlier_one_has_replaced_do_not_pile_up() -> None:
    """A queue with a window of days has an alarm for its end, and earlier ones for every expiry."""
    alarms = Alarms()
    for now in range(10_000):
        alarms.set(1, 10**9 + now)
        alarms.set(1, now)
        assert alarms.due(now) == [1]
    assert len(alarms) < 200
