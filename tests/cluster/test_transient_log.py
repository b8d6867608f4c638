"""The log of a transient partition keeps entries with live messages, and entries that are not applied yet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.owner.transient_log import TransientLog


@given(st.integers(0, 30), st.data())
def test_collection_keeps_what_is_alive_and_what_is_to_be_applied(count: int, data: st.DataObject) -> None:
    log = TransientLog()
    for index in range(1, count + 1):
        assert log.append(b"%d" % index) == index
    applied = data.draw(st.integers(0, count))
    alive = data.draw(st.sets(st.integers(1, applied))) if applied else set()
    log.collect([(index, index) for index in sorted(alive)], applied)
    kept = alive | set(range(applied + 1, count + 1))
    assert len(log) == len(kept)
    for index in range(1, count + 1):
        if index in kept:
            assert log.data(index) == b"%d" % index
        else:
            with pytest.raises(KeyError):
                log.data(index)
    assert log.append(b"next") == count + 1


def test_collection_is_due_once_in_a_while() -> None:
    log = TransientLog()
    for _ in range(TransientLog.COLLECT_EVERY - 1):
        log.append(b"")
    assert not log.collection_due
    log.append(b"")
    assert log.collection_due
    log.collect([], log.last_index)
    assert not log.collection_due
