"""ZMTP 3.1: greeting, commands and frames (https://rfc.zeromq.org/spec/37/)."""

from __future__ import annotations

from itertools import cycle, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.transport.zmtp.frames import (
    COMMAND,
    GREETING_BYTES,
    KEPT_BYTES,
    MORE,
    ProtocolError,
    ZmtpFrameReader,
    check_greeting,
    check_metadata,
    command,
    greeting,
    header,
    metadata,
    split_command,
)

LIMIT_BYTES = 100_000
frames = st.lists(st.tuples(st.sampled_from((0, MORE, COMMAND)), st.binary(max_size=600)), max_size=8)


def cut(octets: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(octets) + 1) for place in places), len(octets)]
    return [octets[start:end] for start, end in pairwise(edges)]


@given(frames, st.lists(st.integers(0, 10_000), max_size=10))
def test_frames_come_out_as_they_went_in_wherever_they_are_cut(
    sent: list[tuple[int, bytes]], places: list[int]
) -> None:
    reader = ZmtpFrameReader(LIMIT_BYTES)
    octets = b"".join(header(len(payload), flags) + payload for flags, payload in sent)
    got = [
        (flags, bytes(payload))
        for piece in cut(octets, places)
        for flags, payload in reader.feed(memoryview(piece))
    ]
    assert got == sent


@given(frames, st.lists(st.integers(1, 700), min_size=1))
def test_the_rest_of_a_frame_can_be_received_to_its_own_place(
    sent: list[tuple[int, bytes]], sizes: list[int]
) -> None:
    reader, got = ZmtpFrameReader(LIMIT_BYTES), []
    octets = b"".join(header(len(payload), flags) + payload for flags, payload in sent)
    for size in cycle(sizes):
        if not octets:
            break
        rest = reader.rest()
        placed = min(len(rest), size, len(octets))
        rest[:placed] = octets[:placed]
        fed = memoryview(octets[placed:size])
        got += [(flags, bytes(payload)) for flags, payload in reader.feed(fed, placed)]
        octets = octets[size:]
    assert got == sent
    assert not reader.rest()


def test_a_reader_keeps_no_room_for_a_long_frame() -> None:
    reader = ZmtpFrameReader(4 * KEPT_BYTES)
    for size, kept in ((KEPT_BYTES + 1, 0), (KEPT_BYTES, KEPT_BYTES)):
        octets = memoryview(header(size) + bytes(size))
        assert not list(reader.feed(octets[:-1]))
        [(_, payload)] = reader.feed(octets[-1:])
        assert len(payload) == size
        assert len(reader.rest().obj) == kept


@given(st.lists(st.binary(max_size=300), max_size=6))
def test_any_octets_are_frames_or_refused(pieces: list[bytes]) -> None:
    reader = ZmtpFrameReader(1000)
    try:
        for piece in pieces:
            for flags, payload in reader.feed(memoryview(piece)):
                assert len(payload) <= 1000
                assert not flags & ~(MORE | COMMAND)
    except ProtocolError:
        pass


def test_a_frame_longer_than_the_limit_is_refused_before_it_has_come() -> None:
    for size in (1001, 1 << 62):
        with pytest.raises(ProtocolError, match="of 1000 at most"):
            list(ZmtpFrameReader(1000).feed(memoryview(header(size))))


def test_the_limit_holds_from_the_next_frame_on() -> None:
    reader, sizes = ZmtpFrameReader(10), []
    for _, payload in reader.feed(memoryview(header(10) + bytes(10) + header(300) + bytes(300))):
        sizes.append(len(payload))
        reader.limit = 300
    assert sizes == [10, 300]


def test_the_greeting_is_that_of_the_specification() -> None:
    octets = greeting("NULL", as_server=False)
    assert octets == b"\xff" + bytes(8) + b"\x7f\x03\x01NULL" + bytes(16) + b"\0" + bytes(31)
    assert len(octets) == GREETING_BYTES
    check_greeting(octets, "NULL")


@pytest.mark.parametrize(
    ("octets", "what"),
    [
        (b"GET / HTTP/1.1\r\n".ljust(GREETING_BYTES), "another protocol"),
        (b"\xff" + bytes(8) + b"\x7f\x01".ljust(55, b"\0"), "another protocol"),
        (greeting("CURVE", as_server=True), "other keys or none: it speaks CURVE, not NULL"),
    ],
)
def test_who_speaks_otherwise_is_told_apart(octets: bytes, what: str) -> None:
    with pytest.raises(ProtocolError, match=what):
        check_greeting(octets, "NULL")


def test_commands_have_names() -> None:
    assert split_command(command(b"PING", b"\0\0")) == (b"PING", b"\0\0")
    for body in (b"", b"\x04PIN", b"\x01"):
        with pytest.raises(ProtocolError):
            split_command(body)


def test_metadata_names_the_type_of_the_socket() -> None:
    check_metadata(metadata("PUSH"), "PUSH")
    check_metadata(b"\x08Identity\0\0\0\0" + metadata("PUSH").replace(b"Socket-Type", b"SOCKET-TYPE"), "PUSH")
    for octets in (b"", metadata("PUB"), metadata("PUSH")[:-1], metadata("PUSH") + b"\x04"):
        with pytest.raises(ProtocolError):
            check_metadata(octets, "PUSH")
