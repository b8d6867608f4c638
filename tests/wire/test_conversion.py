"""Messages cross the protocols and come back (docs/decisions/0034)."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.message.run import Run
from node.wire.amqp10.heads import section_of, split_head
from node.wire.amqp10.sections import Sections, scan_sections
from node.wire.amqp091.codec import encode_frame
from node.wire.amqp091.errors import ExpirationError, FieldSyntaxError
from node.wire.amqp091.fields import split_table
from node.wire.amqp091.methods import FRAME_BODY, FRAME_HEADER
from node.wire.amqp091.properties import check_properties, property_places
from node.wire.amqp091.property_values import encode_header
from node.wire.conversion import converted
from node.wire.formats import AMQP_0_9_1, AMQP_1_0, FORMATS
from tests.wire.amqp10 import sections as s
from tests.wire.property_lists import VALUES, listed, short, table_of

# -- 1.0 to 0-9-1 and back --------------------------------------------------------------------------


def parts(octets: bytes) -> dict[str, Any]:
    """Everything in a message but what brokers may change."""
    found: Sections = scan_sections(octets, 0, len(octets))
    fields = split_head(octets, found).fields
    spans = [found.delivery_annotations, found.footer]
    return {
        "fields": [section_of(fields, code) for code in (0x70, 0x72, 0x73, 0x74)],
        "verbatim": [None if span is None else octets[span[0] : span[1]] for span in spans],
        "body": None if found.body is None else octets[found.body[0] : found.body[1]],
    }


@given(s.messages)
def test_a_message_of_1_0_comes_back_from_0_9_1(octets: bytes) -> None:
    run = s.run_of(octets, key="key", exchange="exchange")
    there = converted(run, AMQP_0_9_1)
    assert (there.format, there.channel, there.count) == (AMQP_0_9_1, 1, 1)
    back = converted(there, AMQP_1_0)
    assert (back.exchange, back.routing_key, back.persistent) == ("exchange", "key", run.persistent)
    assert parts(bytes(back.raw)) == parts(octets)


# -- 0-9-1 to 1.0 and back --------------------------------------------------------------------------

_HEADERS = [
    b"CC", b"BCC", b"x-death", b"x-delay", b"x-delivery-count", b"x-message-id", b"x-basic-type", b"x-cc",
    b"x-opt-deaths", b"x-opt-amqp-0-9-1", b"x-amqp-1.0-properties", b"x-first-death-queue", b"n", b"", b"\xc3\xa9",
]  # fmt: skip
_WIDTHS = {
    b"V": 0, b"t": 1, b"b": 1, b"B": 1, b"s": 2, b"U": 2, b"u": 2, b"I": 4, b"i": 4, b"f": 4, b"D": 5, b"l": 8,
    b"L": 8, b"d": 8, b"T": 8,
}  # fmt: skip


def _fixed(kind: bytes) -> st.SearchStrategy[bytes]:
    width = _WIDTHS[kind]
    small = st.integers(0, 255 if width else 0).map(lambda number: kind + number.to_bytes(width or 1, "big"))
    return st.binary(min_size=width, max_size=width).map(lambda octets: kind + octets) if not width else (
        small | st.binary(min_size=width, max_size=width).map(lambda octets: kind + octets)
    )  # fmt: skip


_sized = st.tuples(st.sampled_from([b"S", b"x"]), st.binary(max_size=9) | st.just(b"t" * 256)).map(
    lambda found: found[0] + table_of(found[1])
)
_simple = st.sampled_from(sorted(_WIDTHS)).flatmap(_fixed) | _sized
_names = st.sampled_from(_HEADERS) | st.text(max_size=9).map(str.encode)


def _table(fields: dict[bytes, bytes]) -> bytes:
    return table_of(*[short(name) + value for name, value in fields.items()])


_fields: st.SearchStrategy[bytes] = st.recursive(
    _simple,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda found: b"A" + table_of(*found))
        | st.dictionaries(_names, inner, max_size=3).map(lambda found: b"F" + _table(found))
    ),
    max_leaves=6,
)
_headers = st.dictionaries(_names, _fields, max_size=4).map(_table)
_types = st.sampled_from([b"amqp-1.0", b"order"]).map(short)


@st.composite
def property_lists(draw: st.DrawFn) -> bytes:
    """Lists that a publisher may send."""
    numbers = sorted(draw(st.sets(st.integers(0, 13), max_size=6)))
    kinds = {2: _headers, 10: _types | VALUES[10]}
    octets = listed(
        sum(0x8000 >> number for number in numbers),
        *[draw(kinds.get(number, VALUES[number])) for number in numbers],
    )
    try:
        check_properties(octets)
    except (FieldSyntaxError, ExpirationError):
        return b"\0\0"
    return octets


def contents(properties: bytes, body: bytes) -> Run:
    frames = encode_frame(FRAME_HEADER, 7, encode_header(len(body), properties))
    if body:
        frames += encode_frame(FRAME_BODY, 7, body)
    traits = check_properties(properties)
    sizes = array("I", [len(frames)])
    return Run("exchange", "key", 7, traits.persistent, 1, 0, 0, sizes, len(frames), frames, traits.special)


def properties_of(run: Run) -> tuple[dict[str, bytes], dict[bytes, bytes], bytes]:
    """The properties and the headers of one message, with their octets, and its body."""
    ((_, _, octets),) = FORMATS[AMQP_0_9_1].properties_in(run)
    places = property_places(octets)
    found = {name: octets[first:last] for name, (first, last) in places.items() if name != "headers"}
    headers = dict(split_table(octets, places["headers"][0])) if "headers" in places else {}
    return found, headers, FORMATS[AMQP_0_9_1].contents(run)[1]


bodies = st.binary(max_size=20) | s.messages.map(lambda octets: octets[-30:])


@given(property_lists(), bodies)
def test_a_message_of_0_9_1_comes_back_from_1_0(properties: bytes, body: bytes) -> None:
    run = contents(properties, body)
    there = converted(run, AMQP_1_0)
    assert (there.format, there.channel, there.skip) == (AMQP_1_0, 0, 0)
    back = converted(there, AMQP_0_9_1)
    assert (back.exchange, back.routing_key, back.persistent) == ("exchange", "key", run.persistent)
    assert properties_of(back) == properties_of(run)
