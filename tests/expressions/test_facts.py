"""Facts of messages of both protocols, and the octets that a message must have which a selector takes."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.expressions.names import Dialect
from node.expressions.nodes import encode_tree
from node.expressions.parsing import parse_expression
from node.expressions.selector import Selector, needle_of
from node.message.run import Run
from node.wire.amqp10.definitions import Header, Properties
from node.wire.amqp10.encoding import encode_amqp, write_encoded_map
from node.wire.amqp10.values import Char, Decimal128, Symbol, TimestampMs, UByte, ULong, decimal128_of
from node.wire.formats import format_of
from tests.expressions.trees import TREES
from tests.messages import content, run_of

ID = UUID(int=0x1234567890ABCDEF)


def section(code: int, pairs: dict[Any, Any]) -> bytes:
    return bytes((0, 0x53, code)) + write_encoded_map(
        [encode_amqp(part) for pair in pairs.items() for part in pair]
    )


def run10(
    application: dict[str, Any],
    properties: Properties | None = None,
    header: Header | None = None,
    annotations: dict[Any, Any] | None = None,
    exchange: str = "e",
    key: str = "k",
) -> Run:
    raw = b"".join(
        (
            b"" if header is None else header.encode(),
            section(0x72, annotations) if annotations else b"",
            b"" if properties is None else properties.encode(),
            section(0x74, application) if application else b"",
            b"\x00\x53\x75\xa0\x01x",
        )
    )
    return Run(exchange, key, 0, True, 1, 0, len(raw), None, len(raw), raw, False, 1)


def facts(run: Run) -> Any:
    ((_, _, properties),) = format_of(run).properties_in(run)
    return format_of(run).facts(run, properties)


APPLICATION: dict[str, Any] = {
    "colour": "red",
    "number": UByte(5),
    "octets": b"abc",
    "raw": b"\xff",
    "id": ID,
    "char": Char("x"),
    "cost": decimal128_of(Decimal("1.5")),
    "none": None,
    "infinite": Decimal128(b"\x78" + bytes(15)),
}


@pytest.mark.requirement("B12.1")
def test_facts_of_a_message_of_amqp_1_0() -> None:
    properties = Properties(
        message_id=ID,
        user_id=b"me",
        to="there",
        subject="news",
        reply_to="back",
        correlation_id=ULong(7),
        content_type=Symbol("text/plain"),
        creation_time=TimestampMs(1234),
        group_id="g",
        group_sequence=3,
    )
    found = facts(run10(APPLICATION, properties, Header(priority=9, ttl=1000), {Symbol("amqpx.acme.x"): 3}))
    standard = {
        "message_id": str(ID),
        "user_id": "me",
        "to": "there",
        "subject": "news",
        "reply_to": "back",
        "correlation_id": 7,
        "content_type": "text/plain",
        "content_encoding": None,
        "creation_time": 1234,
        "group_id": "g",
        "group_sequence": 3,
        "priority": 9,
        "ttl": 1000,
        "durable": True,
        "delivery_mode": "PERSISTENT",
        "absolute_expiry_time": None,
    }
    assert {name: found.standard(name) for name in standard} == standard
    expected = {
        "colour": "red",
        "number": 5,
        "octets": "abc",
        "raw": b"\xff",
        "id": ID.bytes,
        "char": "x",
        "cost": 1.5,
        "none": None,
        "absent": None,
        "infinite": (),
    }
    assert {name: found.application(name) for name in expected} == expected
    assert found.extension("quorate.x_exchange") == "e"
    assert found.extension("quorate.x_routing_key") == "k"
    assert found.extension("acme.x") == 3
    assert found.extension("acme.y") is None


@pytest.mark.requirement("B12.1")
def test_facts_of_a_message_of_amqp_0_9_1() -> None:
    headers = {
        "colour": "red",
        "number": 5,
        "cost": Decimal("1.5"),
        "x-own": "hidden",
        "list": [1],
        "flag": True,
        "when": datetime.fromtimestamp(5, UTC),
    }
    found = facts(
        run_of(
            [
                content(
                    b"x",
                    headers=headers,
                    message_id=f"urn:uuid:{ID}",
                    correlation_id="c",
                    user_id="me",
                    app_id="g",
                    priority=3,
                    expiration="500",
                    timestamp=12,
                    delivery_mode=2,
                    content_type="text/plain",
                    type="t",
                )
            ],
            exchange="e",
            key="k",
        )
    )
    standard = {
        "message_id": str(ID),
        "correlation_id": "c",
        "user_id": "me",
        "group_id": "g",
        "priority": 3,
        "ttl": 500,
        "creation_time": 12_000,
        "content_type": "text/plain",
        "durable": True,
        "subject": None,
        "reply_to": None,
        "to": None,
        "delivery_mode": "PERSISTENT",
    }
    assert {name: found.standard(name) for name in standard} == standard
    expected = {
        "colour": "red",
        "number": 5,
        "cost": 1.5,
        "x-own": None,
        "list": None,
        "flag": True,
        "when": 5000,
    }
    assert {name: found.application(name) for name in expected} == expected
    assert found.extension("quorate.x_exchange") == "e"
    assert found.extension("acme.x") is None


def test_a_message_that_states_nothing() -> None:
    for run in (run10({}), run_of([content(b"x")])):
        found = facts(run)
        assert found.standard("priority") == 4
        assert found.standard("ttl") is None
        assert found.application("a") is None


def test_malformed_sections_have_no_facts() -> None:
    raw = b"\x00\x53\x74\xc1\x03\x02\xff\xff\x00\x53\x75\xa0\x01x"
    found = facts(Run("", "q", 0, True, 1, 0, len(raw), None, len(raw), raw, False, 1))
    assert found.application("a") is None


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(),
    st.text(max_size=6),
    st.text("ab%_\\'", max_size=4),
    st.text(max_size=4).map(str.encode),
    st.characters(codec="utf-8").map(Char),
    st.uuids(),
)
HEADER_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(1 << 31), (1 << 31) - 1), st.text("ab%_\\'", max_size=4)
)


@settings(max_examples=500)
@given(tree=TREES, values=st.dictionaries(st.sampled_from("abc"), VALUES))
def test_a_message_that_a_selector_takes_has_the_needle(tree: Any, values: dict[str, Any]) -> None:
    run = run10(values)
    if Selector(encode_tree(tree)).takes(facts(run)):
        assert needle_of(tree) in bytes(run.raw)


@settings(max_examples=300)
@given(tree=TREES, values=st.dictionaries(st.sampled_from("abc"), HEADER_VALUES, min_size=1))
def test_a_message_of_amqp_0_9_1_has_the_needle(tree: Any, values: dict[str, Any]) -> None:
    run = run_of([content(b"x", headers=values)])
    if Selector(encode_tree(tree)).takes(facts(run)):
        assert needle_of(tree) in bytes(run.raw)


def test_needles() -> None:
    def needle(text: str) -> bytes:
        return needle_of(parse_expression(text, Dialect.SELECTOR))

    assert needle("colour = 'reddish'") == b"reddish"
    assert needle("'reddish' = colour AND a = 1") == b"reddish"
    assert needle("colour LIKE '%purple%d'") == b"purple"
    assert needle("colour = 'red'") == b"red"
    assert needle("colour = 're'") == b"colour"
    assert needle("weight_of_all > 5 AND colour = 'red'") == b"red"
    assert needle("c LIKE '%purple%d'") == b"purple"
    assert needle("weight > 5 OR colour = 'red'") == b""
    assert needle("NOT colour = 'reddish'") == b""
    assert needle("colour IS NOT NULL") == b"colour"
    assert needle("colour IN ('reddish', 'bluish')") == b"colour"
    assert needle("subject = 'reddish'") == b""
    assert needle("colour = 'r'") == b"colour"
