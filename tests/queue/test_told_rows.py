"""The rows that a stream has told of its view: in the log, in snapshots and in its state (D15)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.queue.entry_format import EntryFormatError, read_operations
from node.queue.operations import OpKind
from node.queue.partition import SnapshotFormatError
from node.queue.queue import PLAIN_VERSION, WITH_ROWS
from node.queue.told_rows import NO_ROW, TellRows, encode_tell_rows, row_digest
from tests.queue.building import one_batch
from tests.queue.test_partition import machine_with

pytestmark = pytest.mark.requirement("D15.2")

KEYS = st.sampled_from([b"", b'["a"]', b'["b"]', b"[1]" * 100]) | st.binary(max_size=300)
DIGESTS = st.sampled_from([NO_ROW, 1, (1 << 64) - 1])
ROWS = st.lists(st.tuples(KEYS, DIGESTS), max_size=5).map(tuple)


def encoded(*rows: tuple[bytes, int], queue: int = 1) -> bytes:
    return encode_tell_rows(OpKind.ROWS, TellRows(queue, rows))


@given(ROWS)
def test_an_operation_is_read_as_it_was_written(rows: tuple[tuple[bytes, int], ...]) -> None:
    octets = encoded(*rows)
    assert list(read_operations(octets)) == [TellRows(1, rows)]
    for size in range(1, len(octets)):
        with pytest.raises(EntryFormatError):
            list(read_operations(octets[:size]))


@given(st.lists(ROWS, max_size=8))
def test_a_stream_has_the_last_digest_of_each_row(steps: list[tuple[tuple[bytes, int], ...]]) -> None:
    machine, wanted = machine_with(1, 2), dict[bytes, int]()
    for index, rows in enumerate(steps, 2):
        machine.apply(index, one_batch([encoded(*rows)]))
        wanted.update(rows)
    wanted = {key: digest for key, digest in wanted.items() if digest != NO_ROW}
    data, again = machine.snapshot(), machine_with()
    assert data[0] == (WITH_ROWS if wanted else PLAIN_VERSION)
    again.restore(data)
    assert again.snapshot() == data
    for one in (machine, again):
        found = one.queues[1].rows
        assert (found.digests if found else {}) == wanted
        assert one.queues[2].rows is None


def test_a_snapshot_that_ends_within_a_row_is_refused() -> None:
    machine = machine_with(1)
    machine.apply(2, one_batch([encoded((b"a" * 50, 7))]))
    data = machine.snapshot()
    with pytest.raises(SnapshotFormatError):
        machine_with().restore(data[: data.index(b"a" * 50) + 20])


def test_rows_of_a_queue_that_is_gone_have_no_effect() -> None:
    machine = machine_with()
    machine.apply(1, one_batch([encoded((b"a", 7), queue=9)]))
    assert not machine.queues


def test_no_row_has_the_digest_of_none() -> None:
    assert row_digest(b"{}") not in (NO_ROW, row_digest(b"[]"))
