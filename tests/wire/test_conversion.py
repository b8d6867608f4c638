"""Messages cross the protocols and come back (docs/decisions/0034)."""

from __future__ import annotations

from array import array
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.message.run import Run
from node.wire.amqp091.codec import encode_frame
from node.wire.amqp091.errors import ExpirationError, FieldSyntaxError
from node.wire.amqp091.fields import split_table
from node.wire.amqp091.header_tables import ANY_NUMBER
from node.wire.amqp091.methods import FRAME_BODY, FRAME_HEADER
from node.wire.amqp091.properties import check_properties, property_places
from node.wire.amqp091.property_values import encode_header
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.heads import section_of, split_head
from node.wire.amqp10.sections import Sections, annotations_of, scan_sections
from node.wire.amqp10.values import (
    Byte,
    Char,
    Decimal32,
    Described,
    Float,
    Int,
    PairMap,
    Short,
    Symbol,
    TimestampMs,
    TypedArray,
    UByte,
    UInt,
    ULong,
    UShort,
    decimal128_of,
)
from node.wire.conversion import converted
from node.wire.formats import AMQP_0_9_1, AMQP_1_0, FORMATS
from tests.wire.amqp10 import sections as s
from tests.wire.amqp10.runs import run_of
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


@pytest.mark.requirement("B14.4")
@given(s.messages)
def test_a_message_of_1_0_comes_back_from_0_9_1(octets: bytes) -> None:
    run = run_of(octets, key="key", exchange="exchange")
    there = converted(run, AMQP_0_9_1)
    assert (there.format, there.channel, there.count) == (AMQP_0_9_1, 1, 1)
    back = converted(there, AMQP_1_0)
    assert (back.exchange, back.routing_key, back.persistent) == ("exchange", "key", run.persistent)
    assert parts(bytes(back.raw)) == parts(octets)


# -- 0-9-1 to 1.0 and back --------------------------------------------------------------------------

_HEADERS = [
    b"CC", b"BCC", b"x-death", b"x-delay", b"x-delivery-count", b"x-message-id", b"x-basic-type", b"x-cc",
    b"x-opt-deaths", b"x-opt-amqp-0-9-1", b"x-amqp-1.0-properties", b"x-first-death-queue", b"n", b"",
    b"\xc3\xa9",
]  # fmt: skip
_WIDTHS = {
    b"V": 0, b"t": 1, b"b": 1, b"B": 1, b"s": 2, b"U": 2, b"u": 2, b"I": 4, b"i": 4, b"f": 4, b"D": 5,
    b"l": 8, b"L": 8, b"d": 8, b"T": 8,
}  # fmt: skip


def _fixed(kind: bytes) -> st.SearchStrategy[bytes]:
    width = _WIDTHS[kind]
    small = st.integers(0, 255 if width else 0).map(lambda number: number.to_bytes(width, "big"))
    return (small | st.binary(min_size=width, max_size=width)).map(lambda octets: kind + octets)


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


@pytest.mark.requirement("B14.3")
@given(property_lists(), bodies)
def test_a_message_of_0_9_1_comes_back_from_1_0(properties: bytes, body: bytes) -> None:
    run = contents(properties, body)
    there = converted(run, AMQP_1_0)
    assert (there.format, there.channel, there.skip) == (AMQP_1_0, 0, 0)
    back = converted(there, AMQP_0_9_1)
    assert (back.exchange, back.routing_key, back.persistent) == ("exchange", "key", run.persistent)
    assert properties_of(back) == properties_of(run)


# -- the tables of https://www.rabbitmq.com/docs/conversions ----------------------------------------


def shown(*sections: bytes) -> tuple[dict[str, Any], bytes]:
    """The properties by name, without what is carried, and the body for a client of 0-9-1."""
    properties, body = FORMATS[AMQP_0_9_1].contents(converted(run_of(b"".join(sections)), AMQP_0_9_1))
    headers = properties.pop("headers", {})
    found = {name: value for name, value in headers.items() if not name.startswith("x-amqp-1.0-")}
    return properties | ({"headers": found} if found else {}), body


def field(value: Any) -> bytes | None:
    """The encoded value of a header that an application-property becomes."""
    run = converted(run_of(s.message(s.application(n=value))), AMQP_0_9_1)
    return properties_of(run)[1].get(b"n")


U = UUID("550e8400-e29b-41d4-a716-446655440000")
LONG = "x" * 256
DATA = s.data(b"body")


@pytest.mark.requirement("B14.2")
@pytest.mark.parametrize(
    ("sections", "properties"),
    [
        (d.Header(durable=True).encode(), {"delivery_mode": 2}),
        (d.Header(durable=False).encode(), {"delivery_mode": 1}),
        (b"", {"delivery_mode": 2}),
        (d.Header(priority=7).encode(), {"priority": 7}),
        (d.Header(ttl=60_000).encode(), {"expiration": "60000"}),
        (d.Header(delivery_count=3).encode(), {"headers": {"x-delivery-count": 3}}),
        (d.Properties(message_id="id").encode(), {"message_id": "id"}),
        (d.Properties(message_id=LONG).encode(), {"headers": {"x-message-id": LONG}}),
        (d.Properties(message_id=U).encode(), {"message_id": f"urn:uuid:{U}"}),
        (d.Properties(message_id=ULong(7)).encode(), {"message_id": "7"}),
        (d.Properties(message_id=b"id").encode(), {"headers": {"x-message-id": b"id"}}),
        (d.Properties(user_id=b"guest").encode(), {"user_id": "guest"}),
        (d.Properties(user_id=b"\xff").encode(), {}),
        (d.Properties(to="q", subject="s").encode(), {}),
        (d.Properties(reply_to="r").encode(), {"reply_to": "r"}),
        (d.Properties(reply_to=LONG).encode(), {}),
        (d.Properties(correlation_id="id").encode(), {"correlation_id": "id"}),
        (d.Properties(correlation_id=LONG).encode(), {"headers": {"x-correlation-id": LONG}}),
        (d.Properties(correlation_id=U).encode(), {"correlation_id": f"urn:uuid:{U}"}),
        (d.Properties(correlation_id=ULong(7)).encode(), {"correlation_id": "7"}),
        (d.Properties(correlation_id=b"id").encode(), {"headers": {"x-correlation-id": b"id"}}),
        (d.Properties(content_type="text/plain").encode(), {"content_type": "text/plain"}),
        (d.Properties(content_encoding="gzip").encode(), {"content_encoding": "gzip"}),
        (d.Properties(absolute_expiry_time=5).encode(), {}),
        (d.Properties(creation_time=1_700_000_000_999).encode(), {"timestamp": 1_700_000_000}),
        (d.Properties(creation_time=-1).encode(), {}),
        (d.Properties(group_id="g").encode(), {"app_id": "g"}),
        (d.Properties(group_sequence=5, reply_to_group_id="g").encode(), {}),
        (s.application(n=1), {"headers": {"n": 1}}),
        (s.application(**{LONG: 1}), {}),
        (s.annotated(x_cc=["a", "b"]), {"headers": {"CC": ["a", "b"]}}),
        (s.annotated(x_a=1, other=2), {"headers": {"x-a": 1}}),
        (s.annotated(x_basic_type="order"), {"type": "order"}),
        (s.annotated(x_opt_delivery_delay=UInt(5)), {"headers": {"x-delay": 5}}),
    ],
)
def test_a_field_of_1_0_in_0_9_1(sections: bytes, properties: dict[str, Any]) -> None:
    assert shown(sections, DATA) == ({"delivery_mode": 2} | properties, b"body")


SEQUENCE = encode_amqp(Described(ULong(0x76), [1, "two"]))
VALUE = encode_amqp(Described(ULong(0x77), "text"))


@pytest.mark.requirement("B14.2")
@pytest.mark.parametrize("body", [SEQUENCE, SEQUENCE * 2, VALUE, DATA + DATA, b""])
def test_a_body_that_is_not_one_data_section_stays_encoded(body: bytes) -> None:
    assert shown(body) == ({"delivery_mode": 2, "type": "amqp-1.0"}, body)


TYPES = [
    ("text", b"S" + table_of(b"text")),
    (b"octets", b"x" + table_of(b"octets")),
    (5, b"l" + (5).to_bytes(8, "big")),
    (ULong(5), b"l" + (5).to_bytes(8, "big")),
    (ULong(2**63), None),
    (UByte(5), b"B\x05"),
    (Short(-2), b"s\xff\xfe"),
    (UShort(5), b"u\x00\x05"),
    (UInt(5), b"i\x00\x00\x00\x05"),
    (Int(-2), b"I\xff\xff\xff\xfe"),
    (0.5, b"d" + bytes.fromhex("3fe0000000000000")),
    (Float(0.5), b"f" + bytes.fromhex("3f000000")),
    (True, b"t\x01"),
    (False, b"t\x00"),
    (TimestampMs(5999), b"T" + (5).to_bytes(8, "big")),
    (TimestampMs(-1), None),
    (Byte(-2), b"b\xfe"),
    (None, b"V"),
    (Symbol("text"), b"S" + table_of(b"text")),
    # RabbitMQ's tables have no line for these.
    (Char("c"), b"S" + table_of(b"c")),
    (U, b"S" + table_of(f"urn:uuid:{U}".encode())),
    (decimal128_of(Decimal("1.5")), b"D\x01\x00\x00\x00\x0f"),
    (decimal128_of(Decimal("1e9")), None),
    (Decimal32(b"\xff\xff\xff\xff"), None),
    (Described(ULong(5), 1), None),
]


@pytest.mark.requirement("B14.2")
@pytest.mark.parametrize(("value", "encoded"), TYPES)
def test_a_value_of_1_0_in_a_field_table(value: Any, encoded: bytes | None) -> None:
    assert field(value) == encoded


@pytest.mark.requirement("B14.2")
def test_lists_and_maps_of_annotations_are_arrays_and_tables() -> None:
    found, _ = shown(s.annotated(x_list=[1, ["a"]], x_map={Symbol("k"): {"n": None}}), DATA)
    assert found["headers"] == {"x-list": [1, ["a"]], "x-map": {"k": {"n": None}}}
    found, _ = shown(s.annotated(x_numbers=PairMap([(1, 2)]), x_array=TypedArray(0x71, [Int(1)])), DATA)
    assert found["headers"] == {"x-array": [1]}


def seen(body: bytes = b"body", **properties: Any) -> bytes:
    """The sections of a message of 0-9-1 for a client of 1.0, without what is carried."""
    run = FORMATS[AMQP_0_9_1].composed("", "q", {"delivery_mode": 2} | properties, body, None, 10**6)
    octets = bytes(converted(run, AMQP_1_0).raw)
    found = scan_sections(octets, 0, len(octets))
    if found.message_annotations is None:
        return octets
    pairs = annotations_of(octets, found.message_annotations)
    assert isinstance(pairs, dict)
    kept = {key: value for key, value in pairs.items() if key != "x-opt-amqp-0-9-1"}
    first, last = found.message_annotations
    return octets[:first] + (s.section(0x72, kept) if kept else b"") + octets[last:]


HEADER = d.Header(durable=True).encode()


@pytest.mark.requirement("B14.1")
@pytest.mark.parametrize(
    ("properties", "sections"),
    [
        ({"message_id": f"urn:uuid:{U}"}, d.Properties(message_id=U).encode()),
        ({"message_id": "urn:uuid:nothing"}, d.Properties(message_id="urn:uuid:nothing").encode()),
        ({"message_id": "id"}, d.Properties(message_id="id").encode()),
        ({"correlation_id": f"urn:uuid:{U}"}, d.Properties(correlation_id=U).encode()),
        ({"correlation_id": "id"}, d.Properties(correlation_id="id").encode()),
        ({"user_id": "guest"}, d.Properties(user_id=b"guest").encode()),
        ({"type": "order"}, s.annotated(x_basic_type="order")),
        ({"reply_to": "r"}, d.Properties(reply_to="r").encode()),
        ({"app_id": "a"}, d.Properties(group_id="a").encode()),
        ({"timestamp": 5}, d.Properties(creation_time=5000).encode()),
        ({"timestamp": 2**63}, b""),
        ({"content_type": "text/plain"}, d.Properties(content_type="text/plain").encode()),
        ({"content_type": "text/\u00e9"}, b""),
        ({"content_encoding": "gzip"}, d.Properties(content_encoding="gzip").encode()),
        ({"cluster_id": "c"}, b""),
        ({"headers": {"x-a": 1}}, s.annotated(x_a=Int(1))),
        ({"headers": {"n": 1}}, s.application(n=Int(1))),
        ({"headers": {"n": LONG}}, s.application(n=LONG)),
        ({"headers": {"n": [1], "m": {"k": 1}}}, b""),
        ({"headers": {"CC": ["a"]}}, s.annotated(x_cc=["a"])),
        ({"headers": {"x-list": [2**40, {"k": None}]}}, s.annotated(x_list=[2**40, {Symbol("k"): None}])),
    ],
)  # fmt: skip
def test_a_property_of_0_9_1_in_1_0(properties: dict[str, Any], sections: bytes) -> None:
    assert seen(**properties) == HEADER + sections + DATA


@pytest.mark.requirement("B14.1")
def test_delivery_mode_priority_and_expiration_are_in_the_header() -> None:
    header = d.Header(durable=True, priority=7, ttl=60_000).encode()
    assert seen(priority=7, expiration="60000") == header + DATA
    assert seen(delivery_mode=1) == d.Header(durable=False).encode() + DATA
    counted = d.Header(durable=True, delivery_count=2).encode()
    run = FORMATS[AMQP_0_9_1].composed("", "q", {"delivery_mode": 2}, b"body", None, 100)
    again = FORMATS[AMQP_0_9_1].with_delivery_count(run, 2)
    assert bytes(converted(again, AMQP_1_0).raw) == counted + DATA


@pytest.mark.parametrize("body", [VALUE, SEQUENCE * 2, DATA + DATA, b""])
def test_a_body_of_encoded_sections_becomes_sections_again(body: bytes) -> None:
    assert seen(body, type="amqp-1.0") == HEADER + body


@pytest.mark.parametrize("body", [b"no section", DATA, VALUE + VALUE, HEADER, b"\0\x53\x78\xc1\x01\0"])
def test_a_body_that_only_claims_to_be_sections_is_data(body: bytes) -> None:
    assert seen(body, type="amqp-1.0") == HEADER + s.annotated(x_basic_type="amqp-1.0") + s.data(body)


# -- on the way -------------------------------------------------------------------------------------


def test_a_run_of_the_format_is_left_alone() -> None:
    run = run_of(DATA)
    assert converted(run, AMQP_1_0) is run
    contents_ = contents(b"\0\0", b"x")
    assert converted(contents_, AMQP_0_9_1) is contents_


def test_a_run_keeps_its_messages_in_order() -> None:
    bodies_ = [b"1", b"", b"3" * 300_000, b"4"]
    run = run_of(
        *[s.message(d.Properties(subject="s").encode(), body=body) for body in bodies_], skip=b"skip"
    )
    there = converted(run, AMQP_0_9_1)
    assert there.count == 4 and there.largest_frame == 128 * 1024
    found = [FORMATS[AMQP_0_9_1].contents(there.slice(at, 1))[1] for at in range(4)]
    assert found == bodies_
    back = converted(there, AMQP_1_0)
    assert [parts(octets)["body"] for octets in back.contents()] == [s.data(body) for body in bodies_]
    assert back.largest_frame == max(map(len, back.contents()))


def changed(run: Run, change: Any) -> Run:
    """The message of 0-9-1 after a client has changed its properties and sent it again."""
    properties, body = FORMATS[AMQP_0_9_1].contents(run)
    properties.setdefault("headers", {})
    change(properties)
    return FORMATS[AMQP_0_9_1].composed(run.exchange, run.routing_key or "", properties, body, None, 10**6)


@pytest.mark.requirement("B14.4")
def test_a_client_of_0_9_1_changes_a_message_and_the_rest_of_it_comes_back() -> None:
    octets = s.message(
        s.annotated(x_a="a", other=ULong(1)),
        d.Properties(message_id=ULong(7), to="q", subject="s", creation_time=5001).encode(),
        s.application(kept=U, changed=Symbol("old"), gone=Symbol("x")),
    )

    def change(properties: dict[str, Any]) -> None:
        properties["message_id"] = "new"
        properties["headers"] |= {"changed": "new", "added": "more", "x-a": "b"}
        del properties["headers"]["gone"]

    back = converted(changed(converted(run_of(octets), AMQP_0_9_1), change), AMQP_1_0)
    expected = s.message(
        s.annotated(other=ULong(1), x_a="b"),
        d.Properties(message_id="new", to="q", subject="s", creation_time=5001).encode(),
        s.application(kept=U, changed="new", added="more"),
    )
    assert parts(bytes(back.raw))["fields"] == parts(expected)["fields"]


@pytest.mark.requirement("B14.3")
def test_a_client_of_1_0_changes_a_message_and_the_rest_of_it_comes_back() -> None:
    sent = {"cluster_id": "c", "headers": {"table": {"k": 1}, "n": 1, "text": "old"}, "delivery_mode": 2}
    run = FORMATS[AMQP_0_9_1].composed("", "q", sent, b"body", None, 100)
    octets = bytes(converted(run, AMQP_1_0).raw)
    found = scan_sections(octets, 0, len(octets))
    assert found.application_properties is not None
    first, last = found.application_properties
    again = octets[:first] + s.application(n=Int(1), text="new") + octets[last:]
    back = converted(run_of(again), AMQP_0_9_1)
    properties, _ = FORMATS[AMQP_0_9_1].contents(back)
    assert properties == sent | {"headers": {"table": {"k": 1}, "n": 1, "text": "new"}}


@pytest.mark.parametrize(
    "made_up",
    [
        {"expiration": b"no number"},
        {"message_id": b"x" * 300},
        {"headers/n": b"?"},
        {"headers/n": b"S\xff\xff\xff\xff"},
        {"headers/n": b""},
        {"priority": b""},
        {"timestamp": b"short"},
        {"user_id": b"admin"},
        {"delivery_mode": b"\2\2"},
        {"headers": b"x", "unknown": b"x"},
        [b"no map"],
    ],
)
def test_fields_that_a_client_of_1_0_made_up_do_no_harm(made_up: Any) -> None:
    octets = s.message(d.Header(durable=False).encode(), s.annotated(x_opt_amqp_0_9_1=made_up))
    back = converted(run_of(octets), AMQP_0_9_1)
    ((_, _, properties),) = FORMATS[AMQP_0_9_1].properties_in(back)
    assert not check_properties(properties, ANY_NUMBER).persistent
    assert FORMATS[AMQP_0_9_1].text(properties, "user_id") is None


@pytest.mark.parametrize(
    "made_up", [b"", b"no section", d.Header().encode(), d.Properties(user_id=b"admin").encode(), DATA]
)
def test_sections_that_a_client_of_0_9_1_made_up_do_no_harm(made_up: bytes) -> None:
    headers = {"x-amqp-1.0-properties": made_up, "x-amqp-1.0-other": made_up}
    run = FORMATS[AMQP_0_9_1].composed("", "q", {"headers": headers}, b"body", None, 100)
    octets = bytes(converted(run, AMQP_1_0).raw)
    found = scan_sections(octets, 0, len(octets))
    assert found.properties is None
    assert properties_of(converted(converted(run, AMQP_1_0), AMQP_0_9_1))[2] == b"body"


@pytest.mark.parametrize("name", ["small", "x-large"])
def test_a_content_header_fits_into_a_frame(name: str) -> None:
    octets = s.message(
        d.Properties(subject="y" * 100_000).encode(), s.application(n=1, **{name: "z" * 100_000})
    )
    there = converted(run_of(octets), AMQP_0_9_1)
    assert there.largest_frame <= 128 * 1024
    assert FORMATS[AMQP_0_9_1].contents(there)[0]["headers"] == {"n": 1, name: "z" * 100_000}
    large = s.message(s.application(n=1, **{name: "z" * 200_000}))
    assert shown(large) == ({"delivery_mode": 2, "headers": {"n": 1}}, b"body")
