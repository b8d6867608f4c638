"""Scans of entries: the publishes alone, and the operations that concern one message."""

from __future__ import annotations

import pytest

from node.queue.entry_format import (
    encode_batch,
    encode_entry,
    encode_publish,
    encode_settle,
    read_batches,
)
from node.queue.entry_scan import operations_about, publishes_in
from node.queue.operations import Settle
from tests.messages import content, run_of


@pytest.mark.requirement("F8.2")
@pytest.mark.parametrize("ranges", [[], [(1, 1)], [(1, 1), (2, 2)]])
def test_a_settlement_ends_an_entry_whatever_ranges_it_has(ranges: list[tuple[int, int]]) -> None:
    publish, settle = b"".join(encode_publish(run_of([content(b"body")]), [5])), encode_settle(5, ranges)
    data = encode_entry([encode_batch(1, 1, 7, [publish, settle])])
    (batch,) = read_batches(data)
    assert [found[:2] for found in publishes_in(data, batch)] == [(7, 1)]
    settles = [one for _, one in operations_about(data, batch, 1) if isinstance(one, Settle)]
    assert [one.ranges for one in settles] == [ranges]
