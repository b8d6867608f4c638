"""Any octets, and octets of good frames with some changed: the codec answers with its own errors alone."""

from __future__ import annotations

import random
from contextlib import suppress
from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.composite import Composite
from node.wire.amqp10.decoding import decode_value
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.errors import SectionError, WireError
from node.wire.amqp10.format_codes import FormatCode
from node.wire.amqp10.frames import Frame, FrameParser, frame_buffers
from node.wire.amqp10.sections import (
    annotations_of,
    application_properties_of,
    body_values,
    header_of,
    properties_of,
    scan_sections,
)
from node.wire.amqp10.values import PairMap
from tests.wire.amqp10.strategies import KINDS, composites, same, values
from tests.wire.amqp10.test_sections import WHOLE

PERFORMATIVES = [kind for kind in KINDS if kind.CODE in d.FRAMES or kind.CODE in d.SASL_FRAMES]
CODES = [bytes((code,)) for code in FormatCode]
pieces = st.sampled_from(CODES) | st.binary(max_size=5) | st.integers(0, 255).map(lambda n: bytes((n,)))
raw = st.lists(pieces, max_size=25).map(b"".join) | st.binary(max_size=60)
"""Octets, many of which are codes of encodings and small sizes."""

changes = st.lists(st.tuples(st.integers(0, 2000), pieces), min_size=1, max_size=4)


def changed(octets: bytes, places: list[tuple[int, bytes]]) -> bytes:
    found = bytearray(octets)
    for place, piece in places:
        at = place % (len(found) + 1)
        found[at : at + place % 3] = piece
    return bytes(found)


def check_value(octets: bytes) -> None:
    """Whatever is a value is written and read again as the same one."""
    try:
        value = decode_value(octets)
    except WireError:
        return
    written = encode_amqp(value)
    assert encode_amqp(decode_value(written)) == written


@given(raw)
def test_any_octets_are_a_value_or_an_error(octets: bytes) -> None:
    check_value(octets)


@given(values.map(encode_amqp), changes)
def test_a_value_with_changed_octets_is_a_value_or_an_error(octets: bytes, places: Any) -> None:
    check_value(changed(octets, places))


def check_composite(octets: bytes) -> None:
    try:
        found, at = d.read_composite(octets, 0, len(octets), d.COMPOSITES)
    except WireError:
        return
    assert at <= len(octets)
    again, _ = d.read_composite(found.encode(), 0, len(found.encode()), d.COMPOSITES)
    assert again.encode() == found.encode()


@given(st.sampled_from(KINDS), raw)
def test_any_octets_are_fields_or_an_error(kind: type[Composite], octets: bytes) -> None:
    for count in (0, 1, len(kind.FIELDS)):
        head = b"\x00\x53" + bytes((kind.CODE, 0xC0, len(octets) + 1, count))
        if len(octets) < 255:
            check_composite(head + octets)


@given(st.sampled_from(KINDS).flatmap(composites), changes)
def test_a_composite_type_with_changed_octets_is_one_or_an_error(composite: Composite, places: Any) -> None:
    check_composite(changed(composite.encode(), places))


def fed(data: bytes, steps: list[int]) -> tuple[list[Any], WireError | None]:
    """The frames that a parser finds in pieces of data, and its failure."""
    parser, found, at = FrameParser(4096), list[Any](), 0
    for step in [*steps, len(data)]:
        found += parser.receive(data[at : at + step])
        at += step
    return found, parser.failure


@given(
    st.lists(st.sampled_from(PERFORMATIVES).flatmap(composites), max_size=4),
    changes | st.just([]),
    st.lists(st.integers(0, 80), max_size=9),
)
def test_frames_with_changed_octets_are_frames_or_an_error_however_they_are_cut(
    performatives: list[Composite], places: Any, steps: list[int]
) -> None:
    data = changed(b"".join(b for one in performatives for b in frame_buffers(1, one, (), 1 << 20)), places)
    whole, failure = fed(data, [])
    cut, other = fed(data, steps)
    assert type(failure) is type(other) and len(whole) == len(cut)
    for one, two in zip(whole, cut, strict=True):
        assert type(one) is type(two)
        if isinstance(one, Frame):
            assert one.channel == two.channel and same(one.performative, two.performative)
            assert one.payload == two.payload


@given(raw, st.lists(st.integers(0, 9), max_size=9))
def test_any_octets_are_frames_or_an_error(octets: bytes, steps: list[int]) -> None:
    fed(octets, steps)
    fed(pack(">IBBH", 8 + len(octets), 2, 0, 0) + octets, steps)


def check_message(octets: bytes) -> None:
    data = b"?" + octets + b"!"
    try:
        found = scan_sections(data, 1, 1 + len(octets))
    except SectionError:
        return
    spans = list(body_values(data, found))
    assert all(1 <= at < end <= 1 + len(octets) for at, end in spans)
    readers = (
        header_of, properties_of, application_properties_of,
        lambda data, found: annotations_of(data, found.delivery_annotations),
        lambda data, found: annotations_of(data, found.message_annotations),
        lambda data, found: annotations_of(data, found.footer),
    )  # fmt: skip
    for read in readers:
        with suppress(SectionError):
            read(data, found)


@given(st.sets(st.integers(0, 6)), changes)
def test_a_message_with_changed_octets_is_one_or_an_error(present: set[int], places: Any) -> None:
    check_message(changed(b"".join(WHOLE[index] for index in sorted(present)), places))


@given(st.lists(st.tuples(st.integers(0x6F, 0x79), raw), max_size=4))
def test_any_octets_are_sections_or_an_error(parts: list[tuple[int, bytes]]) -> None:
    check_message(b"".join(b"\x00\x53" + bytes((code,)) + octets for code, octets in parts))


# -- bounded work -----------------------------------------------------------------------------------


def test_no_dict_is_made_of_keys_whose_hashes_a_peer_can_choose() -> None:
    """The hash of each of these numbers is 0: in a dict each would be compared with all before it."""
    numbers = [number * (2**61 - 1) for number in range(8)]
    assert {hash(number) for number in numbers} == {0}
    pairs = b"".join(b"\x80" + pack(">Q", number) + b"\x40" for number in numbers)
    found = decode_value(b"\xd1" + pack(">II", len(pairs) + 4, 2 * len(numbers)) + pairs)
    assert isinstance(found, PairMap) and len(found.pairs) == len(numbers)


@pytest.mark.parametrize("seed", range(20))
def test_long_random_octets(seed: int) -> None:
    chance = random.Random(seed)
    check_value(b"\xd0\xff" + chance.randbytes(5000))
    fed(chance.randbytes(5000), [])
    for code in (0x00, 0x40, 0x45, 0xC0, 0xD0, 0xE0, 0xF0, 0xFF):
        check_value(bytes((code,)) * 5000)
        check_message(bytes((0x00, 0x53, 0x77)) + bytes((code,)) * 5000)
