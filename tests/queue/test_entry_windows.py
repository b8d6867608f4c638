"""The publishes of an entry are found by windows as they are found in the whole entry (F8)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.queue.entry_format import (
    EntryFormatError,
    encode_batch,
    encode_entry,
    encode_settle,
    read_batches,
    read_operations,
)
from node.queue.entry_windows import ENTRY_BEGIN, WINDOW_OCTETS, PublishPlace, publishes_from
from node.queue.operations import Publish
from tests.queue.building import uniform_run
from tests.queue.test_entry import OPERATIONS, RUNS, U64S, encode

pytestmark = pytest.mark.requirement("F8.3")

LARGE_RUN = uniform_run(3)
WIDE_SETTLE = encode_settle(7, [(number, number) for number in range(0, 4 * WINDOW_OCTETS // 16, 2)])

batches = st.lists(
    st.lists(
        st.one_of(st.builds(encode, OPERATIONS), st.tuples(RUNS, U64S).map(encode), st.just(WIDE_SETTLE)),
        max_size=4,
    ),
    max_size=3,
)


def by_windows(data: bytes) -> list[PublishPlace]:
    places: list[PublishPlace] = []
    place = ENTRY_BEGIN
    while place.offset < len(data):
        found, place = publishes_from(lambda start, end: data[start:end], len(data), place)
        places += found
    return places


@settings(max_examples=40)
@given(batches)
def test_windows_find_what_the_whole_entry_has(written: list[list[bytes]]) -> None:
    data = encode_entry(
        encode_batch(5, number, 1000 * number, operations) for number, operations in enumerate(written)
    )
    whole = []
    for batch in read_batches(data):
        first = batch.first_sequence
        for one in read_operations(data, batch.start, batch.end):
            if type(one) is Publish:
                whole.append(PublishPlace(first, one.count, one.position, one.end))
                first += one.count
    assert by_windows(data) == whole


def test_a_body_is_passed_over_without_being_read() -> None:
    large = b"".join(encode_large(10 * WINDOW_OCTETS))
    data = encode_entry([encode_batch(5, 1, 10, [large, encode((LARGE_RUN, [1]))])])
    read = []

    def reading(start: int, end: int) -> bytes:
        read.append(end - start)
        return data[start:end]

    first, place = publishes_from(reading, len(data), ENTRY_BEGIN)
    second, place = publishes_from(reading, len(data), place)
    assert [(one.first, one.messages) for one in first + second] == [(10, 1), (11, 3)]
    assert place.offset == len(data) and sum(read) < 3 * WINDOW_OCTETS


def encode_large(octets: int) -> list[bytes]:
    run = uniform_run(1)
    run = type(run)("", "q", 1, True, 1, run.skip, octets, None, run.largest_frame, b"x" * octets)
    return [encode((run, [1]))]


@pytest.mark.parametrize("cut", [1, 10, 40])
def test_an_entry_that_is_cut_short_is_refused(cut: int) -> None:
    data = encode_entry([encode_batch(5, 1, 10, [WIDE_SETTLE, encode((LARGE_RUN, [1]))])])
    with pytest.raises(EntryFormatError):
        by_windows(data[:-cut])
    broken = bytearray(data)
    broken[1 + 28] = 250
    with pytest.raises(EntryFormatError, match="malformed"):
        by_windows(bytes(broken))
    with pytest.raises(EntryFormatError, match="format version"):
        by_windows(b"\x09" + data[1:])
