"""The sections of a message (part 3, section 3.2)."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import SectionCode
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.errors import Ends, SectionBoundsError, SectionError
from node.wire.amqp10.sections import (
    MAX_SECTIONS,
    Sections,
    annotations_of,
    application_properties_of,
    body_values,
    header_of,
    properties_of,
    scan_sections,
    skip_value,
)
from node.wire.amqp10.values import Described, Int, PairMap, Symbol, UInt, ULong
from tests.wire.amqp10.strategies import composites, same, values


def section(code: int, value: Any) -> bytes:
    return encode_amqp(Described(ULong(code), value))


HEADER = d.Header(durable=True, priority=7, ttl=9000).encode()
DELIVERY = section(SectionCode.DELIVERY_ANNOTATIONS, {Symbol("d"): 1})
MESSAGE = section(SectionCode.MESSAGE_ANNOTATIONS, {Symbol("x-opt-m"): UInt(1)})
PROPERTIES = d.Properties(message_id="id", to="q", correlation_id=ULong(7)).encode()
APPLICATION = section(SectionCode.APPLICATION_PROPERTIES, {"key": Int(5), "other": None})
DATA = section(SectionCode.DATA, b"octets")
SEQUENCE = section(SectionCode.AMQP_SEQUENCE, [1, "two"])
VALUE = section(SectionCode.AMQP_VALUE, {"any": [1]})
FOOTER = section(SectionCode.FOOTER, {Symbol("f"): None})
WHOLE = [HEADER, DELIVERY, MESSAGE, PROPERTIES, APPLICATION, DATA, FOOTER]


def scanned(*parts: bytes) -> tuple[bytes, Sections]:
    """The octets and the sections of a message that stands between other octets."""
    octets = b"".join(parts)
    data = b"???" + octets + b"\x00\x53\x78"
    return data, scan_sections(data, 3, 3 + len(octets))


def cut(data: bytes, span: tuple[int, int] | None) -> bytes | None:
    return None if span is None else data[span[0] : span[1]]


@given(
    st.sets(st.integers(0, 6)), st.sampled_from([[DATA], [DATA, DATA], [SEQUENCE], [SEQUENCE] * 3, [VALUE]])
)
def test_each_section_is_found_where_it_stands(present: set[int], body: list[bytes]) -> None:
    parts = [part if index in present else b"" for index, part in enumerate(WHOLE)]
    if parts[5]:
        parts[5] = b"".join(body)
    data, found = scanned(*parts)
    spans = [
        found.header, found.delivery_annotations, found.message_annotations, found.properties,
        found.application_properties, found.body, found.footer,
    ]  # fmt: skip
    assert [cut(data, span) for span in spans] == [part or None for part in parts]
    assert found.body_kind == (body[0][2] if parts[5] else 0)
    assert cut(data, found.bare) == b"".join(parts[3:6]), "properties to body are the bare message"


def test_the_values_of_a_body_are_found_one_by_one() -> None:
    data, found = scanned(HEADER, DATA, section(SectionCode.DATA, b"y" * 300), FOOTER)
    assert [data[at:end] for at, end in body_values(data, found)] == [
        encode_amqp(b"octets"), encode_amqp(b"y" * 300)
    ]  # fmt: skip
    data, found = scanned(HEADER)
    assert list(body_values(data, found)) == []


@pytest.mark.parametrize("descriptor", [b"\x80" + bytes(7) + b"\x75", b"\xa3\x10amqp:data:binary"])
def test_a_section_may_have_another_encoding_of_its_descriptor(descriptor: bytes) -> None:
    data, found = scanned(b"\x00" + descriptor + b"\xb0\x00\x00\x00\x01x", DATA)
    assert found.body_kind == SectionCode.DATA
    assert next(data[at:end] for at, end in body_values(data, found)) == b"\xb0\x00\x00\x00\x01x"


@pytest.mark.parametrize(
    "parts",
    [
        (DELIVERY, HEADER), (MESSAGE, DELIVERY), (PROPERTIES, MESSAGE), (APPLICATION, PROPERTIES),
        (DATA, APPLICATION), (DATA, HEADER), (FOOTER, DATA), (FOOTER, VALUE),
        *((part, part) for part in (HEADER, DELIVERY, MESSAGE, PROPERTIES, APPLICATION, VALUE, FOOTER)),
        (DATA, SEQUENCE), (DATA, VALUE), (SEQUENCE, VALUE), (SEQUENCE, DATA), (VALUE, SEQUENCE),
        (VALUE, DATA),
    ],
)  # fmt: skip
def test_sections_out_of_order_or_twice_are_refused(parts: tuple[bytes, ...]) -> None:
    with pytest.raises(SectionError) as caught:
        scanned(*parts)
    assert caught.value.condition == "amqp:decode-error" and caught.value.ends is Ends.LINK


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"\x00\x53\x79\x45", "no section 0x79"), (b"\x00\x53\x24\x45", "no section 0x24"),
        (b"\x00\xa3\x01x\x45", "unknown section"), (b"\x45", "no described value"),
        (b"\x40", "no described value"),
        (section(SectionCode.HEADER, {}), "encoding"), (section(SectionCode.PROPERTIES, {}), "encoding"),
        (section(SectionCode.MESSAGE_ANNOTATIONS, []), "encoding"),
        (section(SectionCode.FOOTER, b""), "encoding"),
        (section(SectionCode.APPLICATION_PROPERTIES, []), "encoding"),
        (section(SectionCode.DATA, "text"), "encoding"),
        (section(SectionCode.AMQP_SEQUENCE, {}), "encoding"), (b"\x00\x53\x77\x4f", "no encoding"),
        (b"\x00\x53\x77\x00\x43", "longer|cut short|no encoding"), (DATA[:-1], "longer"),
        (b"\x00\x53\x75", "encoding"),
        (b"\x00", "unknown section"), (b"\x00\x53\x75\xb0\xff\xff\xff\xff", "longer"),
    ],
)  # fmt: skip
def test_octets_that_are_no_section_are_refused(octets: bytes, reason: str) -> None:
    with pytest.raises(SectionError, match=reason):
        scanned(octets)


def test_a_body_is_not_looked_into() -> None:
    """Its size is all that is read: the octets inside need not be values."""
    _, found = scanned(b"\x00\x53\x76\xd0" + pack(">II", 1004, 7) + b"\xff" * 1000)
    assert found.body == (3, 3 + 12 + 1000)


@given(values)
def test_a_value_is_skipped_as_it_is_read(value: Any) -> None:
    octets = encode_amqp(value)
    assert skip_value(octets + b"\x40", 0, len(octets) + 1) == len(octets)


def test_many_descriptors_in_a_row_take_no_stack() -> None:
    nested = b"\x00" * 100_000 + b"\x40" * 100_001
    assert skip_value(nested, 0, len(nested)) == len(nested)


def test_the_number_of_sections_is_bounded() -> None:
    data = section(SectionCode.DATA, b"")
    _, found = scanned(data * MAX_SECTIONS)
    assert found.body == (3, 3 + len(data) * MAX_SECTIONS)
    with pytest.raises(SectionBoundsError, match="more than") as caught:
        scanned(data * (MAX_SECTIONS + 1))
    assert caught.value.condition == "amqp:resource-limit-exceeded" and caught.value.ends is Ends.LINK


# -- sections that a broker reads -------------------------------------------------------------------


def message_annotations(data: bytes, found: Sections) -> Any:
    return annotations_of(data, found.message_annotations)


@given(composites(d.Header), composites(d.Properties))
def test_header_and_properties_are_read(header: d.Header, properties: d.Properties) -> None:
    data, found = scanned(header.encode(), properties.encode(), DATA)
    assert same(header_of(data, found), header) and same(properties_of(data, found), properties)


def test_a_message_without_header_and_properties_has_empty_ones() -> None:
    data, found = scanned(DATA)
    assert header_of(data, found) == d.Header() and properties_of(data, found) == d.Properties()
    assert annotations_of(data, found.message_annotations) == {} == application_properties_of(data, found)


def test_maps_are_read_with_their_types() -> None:
    data, found = scanned(*WHOLE)
    assert same(annotations_of(data, found.delivery_annotations), {Symbol("d"): 1})
    assert same(annotations_of(data, found.message_annotations), {Symbol("x-opt-m"): UInt(1)})
    assert same(annotations_of(data, found.footer), {Symbol("f"): None})
    assert same(application_properties_of(data, found), {"key": Int(5), "other": None})


def test_a_key_of_annotations_is_a_symbol_or_a_ulong() -> None:
    pairs = PairMap([(ULong(1), "reserved"), (Symbol("s"), None)])
    data, found = scanned(section(SectionCode.MESSAGE_ANNOTATIONS, pairs))
    assert same(annotations_of(data, found.message_annotations), pairs)
    for key in (UInt(1), True, b"x"):
        data, found = scanned(section(SectionCode.MESSAGE_ANNOTATIONS, PairMap([(key, None)])))
        with pytest.raises(SectionError, match="neither symbol nor ulong"):
            annotations_of(data, found.message_annotations)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({Symbol("s"): 1}, "key"), (PairMap([(1, 1)]), "key"), ({b"k": 1}, "key"),
        ({"k": [1]}, "value"), ({"k": {"a": 1}}, "value"),
    ],
)  # fmt: skip
def test_application_properties_are_strings_with_simple_values(fields: Any, reason: str) -> None:
    data, found = scanned(section(SectionCode.APPLICATION_PROPERTIES, fields))
    with pytest.raises(SectionError, match=f"a {reason} of application-properties"):
        application_properties_of(data, found)


@pytest.mark.parametrize(
    ("octets", "read"),
    [
        (b"\x00\x53\x70\xc0\x02\x01\x50", header_of), (b"\x00\x53\x70\xc0\x03\x01\x52\x01", header_of),
        (b"\x00\x53\x73\xc0\x03\x01\x52\x01", properties_of),
        (b"\x00\x53\x74\xc1\x02\x01\x40", application_properties_of),
        (b"\x00\x53\x72\xc1\x02\x01\x40", message_annotations),
    ],
)  # fmt: skip
def test_a_section_that_cannot_be_read_ends_the_link(octets: bytes, read: Any) -> None:
    data, found = scanned(octets)
    with pytest.raises(SectionError) as caught:
        read(data, found)
    assert caught.value.ends is Ends.LINK
