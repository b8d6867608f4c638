"""The decoder of messages beside clients of AMQP 0-9-1 and the broker's own encoder of AMQP 1.0."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.messages import facts_of
from pipeline.message import amqp091, amqp10
from pipeline.message.content import Timestamp, plain
from pipeline.octets.cursor import MalformedError
from tests import messages
from tests.wire.amqp10 import sections

TABLES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31 - 1) | st.text(max_size=9),
    lambda held: st.lists(held, max_size=3) | st.dictionaries(st.text(max_size=9), held, max_size=3),
    max_leaves=9,
)


@pytest.mark.requirement("F8.2")
def test_all_properties_of_amqp_0_9_1() -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    headers = {
        "whole": 2**40,
        "part": Decimal("1.25"),
        "when": at,
        "octets": b"\xff",
        "none": None,
        "deep": [{}],
    }
    texts = {
        name: name
        for name in (
            "content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "message_id",
            "type", "user_id", "app_id", "cluster_id",
        )
    }  # fmt: skip
    octets = messages.content(
        b"body", headers=headers, delivery_mode=2, priority=7, timestamp=int(at.timestamp()), **texts
    )
    found = amqp091.content_of(octets)
    assert found.body == b"body"
    assert found.properties == {**texts, "delivery_mode": 2, "priority": 7, "timestamp": int(at.timestamp())}
    assert found.headers == {**headers, "when": Timestamp(int(at.timestamp()))}


@pytest.mark.requirement("F8.2")
@given(st.dictionaries(st.text(max_size=20), TABLES, max_size=4), st.binary(max_size=50))
def test_headers_and_bodies_of_amqp_0_9_1(headers: dict[str, Any], body: bytes) -> None:
    octets = messages.content(body, headers=headers)
    found = amqp091.content_of(octets)
    assert (found.headers, found.body) == (headers, body)
    assert amqp091.only_body(octets) == body


@pytest.mark.requirement("F8.2")
@given(st.binary(max_size=60), st.integers(0, 80), st.binary(max_size=9))
def test_a_body_is_found_without_the_properties_or_not_at_all(body: bytes, at: int, part: bytes) -> None:
    octets = messages.content(body, message_id="m")
    changed = octets[:at] + part + octets[at + len(part) :]
    found = amqp091.only_body(changed)
    try:
        expected = amqp091.content_of(changed).body
    except MalformedError:
        return
    assert found in (expected, None)
    several = messages.content(b"", message_id="m")[:11] + (2 * len(body)).to_bytes(8, "big")
    several += messages.content(b"", message_id="m")[19:]
    frame = octets[len(several) :]
    assert amqp091.content_of(several + 2 * frame).body == 2 * body
    assert amqp091.only_body(several + 2 * frame) in (2 * body, None)


@pytest.mark.requirement("F8.2")
def test_a_message_of_amqp_1_0() -> None:
    octets = sections.message(
        d.Header(durable=True, priority=4).encode(),
        sections.annotated(x_opt_place=3),
        d.Properties(message_id="id", subject="s", content_type="text/plain").encode(),
        sections.application(colour="red", size=1.5),
        body=b"one",
    ) + sections.data(b", two")
    found = amqp10.content_of(octets)
    assert found.properties == {
        "durable": True, "priority": 4, "message_id": "id", "subject": "s", "content_type": "text/plain",
    }  # fmt: skip
    assert found.headers == {"x-opt-place": 3, "colour": "red", "size": 1.5}
    assert found.body == b"one, two"


@pytest.mark.requirement("F8.2")
@given(sections.messages)
def test_every_message_of_amqp_1_0_that_the_broker_takes_decodes(octets: bytes) -> None:
    place = facts_of(octets, 0, len(octets)).sections.body
    found = amqp10.content_of(octets)
    if place is not None and not found.body.startswith(b"\x00\x53"):
        assert found.body in octets[slice(*place)] or octets.count(b"\x00Su") > 1
    json.dumps(plain(found._asdict()))


@pytest.mark.requirement("F8.2")
@given(st.binary(max_size=200))
def test_any_octets_are_a_message_or_malformed(octets: bytes) -> None:
    for decode in (amqp091.content_of, amqp10.content_of):
        try:
            plain(decode(octets)._asdict())
        except MalformedError as error:
            assert 0 <= error.at <= len(octets)


@given(
    sections.messages | st.just(messages.content(b"body", headers={"a": [1, {"b": "c"}]}, priority=3)),
    st.data(),
)
def test_messages_with_one_octet_changed_are_messages_or_malformed(octets: bytes, data: Any) -> None:
    changed = bytearray(octets or b"\0")
    changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    for decode in (amqp091.content_of, amqp10.content_of):
        try:
            plain(decode(bytes(changed))._asdict())
        except MalformedError as error:
            assert 0 <= error.at <= len(changed)


def test_arrays_of_values_without_octets_do_not_grow_beyond_their_message() -> None:
    array = b"\xf0" + (5).to_bytes(4, "big") + (2**31).to_bytes(4, "big") + b"\x41"
    with pytest.raises(MalformedError):
        amqp10.content_of(b"\x00\x53\x77" + array)
