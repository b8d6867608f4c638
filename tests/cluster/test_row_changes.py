"""The comparison of a view's rows with those that a stream has told, against a recount (D15)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.owner import row_changes
from cluster.owner.row_changes import COMPARED_AT_ONCE, OCTETS_TOLD_AT_ONCE, RowChanges
from node.queue.told_rows import NO_ROW, TellRows, ToldRows, row_digest
from node.session.view_port import ViewRows, ViewVersion

pytestmark = pytest.mark.requirement("D15.2")

READINGS = st.lists(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), max_size=8), max_size=6)


def found(rows: list[tuple[int, int]]) -> ViewRows:
    """Rows of a view that shows its groups; with a key twice where pages are of several moments."""
    keys = [[key] for key, _ in rows]
    return ViewRows(ViewVersion(1, 1), 0, False, True, False, ["c", "n"], [[*row] for row in rows], keys)


def told(rows: ToldRows, reading: RowChanges) -> list[tuple[int, int | None]]:
    """Carry out a comparison; the changes in their order."""
    news = list[tuple[int, int | None]]()
    while not reading.done:
        changes = reading.step(rows.digests)
        step = ((key, NO_ROW if row is None else row_digest(row)) for key, row in changes.items())
        rows.tell(TellRows(1, tuple(step)))
        for key, row in changes.items():
            (group,) = json.loads(key)
            news.append((group, None if row is None else json.loads(row)["n"]))
    return news


@pytest.mark.interpreted
@given(READINGS, st.sampled_from([1, 2, 256]))
def test_changes_are_the_differences_of_readings(readings: list[list[tuple[int, int]]], at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_changes, "COMPARED_AT_ONCE", at_once)
        rows, known = ToldRows(), dict[int, int | None]()
        for reading in readings:
            for group, row in told(rows, RowChanges(found(reading))):
                assert known.get(group) != row, "no change is told twice"
                known[group] = row
            assert {key: row for key, row in known.items() if row is not None} == dict(reading)
            assert len(rows) == len(dict(reading))


def test_a_step_is_bounded() -> None:
    many = RowChanges(found([(number, 1) for number in range(2 * COMPARED_AT_ONCE)]))
    assert len(many.step({})) == COMPARED_AT_ONCE
    many.step({})
    rest = RowChanges(found([]))
    gone = rest.step({b"[%d]" % number: 1 for number in range(COMPARED_AT_ONCE + 3)})
    assert len(gone) == COMPARED_AT_ONCE and not rest.done
    assert len(rest.step({})) == 3 and rest.done
    large = found([(number, 1) for number in range(10)])
    large.rows[:] = [[key, "x" * OCTETS_TOLD_AT_ONCE] for key in range(10)]
    assert len(RowChanges(large).step({})) == 1
