"""Frames of a batch: what goes in comes out, and nothing else is accepted."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.transport.envelope import (
    OWN_FRAME,
    Envelope,
    MalformedEnvelopeError,
    decode,
    encode,
    route,
)

u64 = st.integers(0, (1 << 64) - 1)
envelopes = st.builds(Envelope, u64, u64, u64, u64, u64, st.binary(max_size=80))
part = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([OWN_FRAME - 1, OWN_FRAME, OWN_FRAME + 1]).map(lambda size: b"x" * size),
)
messages = st.lists(st.lists(part, min_size=1, max_size=4), max_size=6)


@given(envelopes, messages)
def test_a_batch_survives_the_frames(envelope: Envelope, batch: list[list[bytes]]) -> None:
    frames = [bytes(frame) for frame in encode(envelope, batch)]
    assert decode(frames) == (envelope, batch)
    found = decode([memoryview(frame) for frame in frames])
    assert found == (envelope, batch)
    assert all(isinstance(one, bytes) for parts in found[1] for one in (*parts, found[0].route))


@given(envelopes, messages, st.data())
def test_a_damaged_batch_is_refused_or_reads_as_another_but_never_fails_otherwise(
    envelope: Envelope, batch: list[list[bytes]], data: st.DataObject
) -> None:
    frames = [bytes(frame) for frame in encode(envelope, batch)]
    first = bytearray(frames[0])
    place = data.draw(st.integers(0, len(first) - 1))
    first[place] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(MalformedEnvelopeError):
        decode([bytes(first), *frames[1:]])


@given(envelopes, messages, st.data())
def test_a_batch_cut_short_is_refused(
    envelope: Envelope, batch: list[list[bytes]], data: st.DataObject
) -> None:
    frames = [bytes(frame) for frame in encode(envelope, batch)]
    cut = data.draw(st.integers(0, len(frames[0]) - len(envelope.route) - 1))
    with pytest.raises(MalformedEnvelopeError):
        decode([frames[0][:cut], *frames[1:]])


def test_small_parts_share_one_frame_and_large_ones_are_not_copied() -> None:
    large = b"L" * OWN_FRAME
    frames = encode(Envelope(1, 1, 0, 0, 0, b"r"), [[b"a", large, b"b"], [b"c"]])
    assert len(frames) == 2
    assert frames[1] is large


def test_another_format_version_is_refused() -> None:
    frames = [bytes(frame) for frame in encode(Envelope(1, 1, 0, 0, 0, b"r"), [[b"a"]])]
    with pytest.raises(MalformedEnvelopeError, match="batch format 9, this release reads 1"):
        decode([b"\x09" + frames[0][1:]])


def test_routes_differ_by_cluster_and_direction() -> None:
    assert len({route("c", "a", "b"), route("c", "b", "a"), route("d", "a", "b")}) == 3
