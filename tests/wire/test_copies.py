"""The caches of property lists take little memory, whatever clients send."""

from __future__ import annotations

import tracemalloc

from node.wire.amqp091.property_values import encode_properties
from node.wire.amqp091.sender_selected import REMEMBERED_OCTETS, read_copies


def test_long_property_lists_are_not_kept() -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(500):
            headers = {"CC": [f"k{number}"], "padding": "x" * 20_000}
            assert read_copies(encode_properties({"headers": headers})).keys == (f"k{number}",)
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert kept < 500 * REMEMBERED_OCTETS
