"""Texts that are no expressions, names of properties, and the bounds on the work for a text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.expressions.errors import ExpressionError
from node.expressions.names import Dialect
from node.expressions.nodes import (
    MAX_NODES,
    MAX_TREE_DEPTH,
    MAX_TREE_OCTETS,
    Node,
    TreeError,
    conjunction,
    decode_tree,
    encode_tree,
)
from node.expressions.parsing import MAX_CHARACTERS, MAX_TOKENS, parse_expression


def refusal(text: str, dialect: Dialect = Dialect.SELECTOR) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        parse_expression(text, dialect)
    return caught.value


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 1),
        ("   ", 4),
        ("a =", 4),
        ("a = = 1", 5),
        ("a = 1 OR OR b = 2", 10),
        ("a = 'x", 5),
        ("a = 1)", 6),
        ("(a = 1", 7),
        ("a BETWEEN 1", 12),
        ("a IN ()", 7),
        ("a LIKE b", 8),
        ("a LIKE 'x' ESCAPE 'xy'", 19),
        ("a LIKE 'x!' ESCAPE '!'", 8),
        ("a\n=\n;", 5),
        ("5a = 1", 1),
        ("a = 9223372036854775808", 5),
        ("a = 1e999", 5),
        ("amqp.nothing = 1", 1),
        ("1 = amqp.delivery_count", 5),
        ("JMSRedelivered = TRUE", 1),
        ("1 = 1 AND amqpx.quorate.nothing = 1", 11),
        ("amqpx.nothing = 1", 1),
        ("a = b = c", 7),
    ],
)
@pytest.mark.requirement("B12.1", "E8.4")
def test_an_error_has_its_column(text: str, column: int) -> None:
    assert refusal(text).column == column
    assert str(refusal(text)).endswith(f" at column {column}")


@pytest.mark.requirement("E8.1", "E8.2", "E8.3", "E8.5")
@pytest.mark.parametrize(
    ("name", "domain", "found"),
    [
        ("amqp.message_id", "standard", "message_id"),
        ("amqp.message-id", "standard", "message_id"),
        ("amqp.priority", "standard", "priority"),
        ("application.message_id", "application", "message_id"),
        ("application.[x-y z]", "application", "x-y z"),
        ("amqpx.quorate.x_exchange", "extension", "quorate.x_exchange"),
        ("amqpx.acme.colour", "extension", "acme.colour"),
        # Without a domain: standard, then extensions, then the application's.
        ("message_id", "standard", "message_id"),
        ("subject", "standard", "subject"),
        ("x_routing_key", "extension", "quorate.x_routing_key"),
        ("colour", "application", "colour"),
        ("priority", "application", "priority"),
        ("com.acme.colour", "application", "com.acme.colour"),
        ('"x-y"', "application", "x-y"),
        ("JMSPriority", "standard", "priority"),
        ("JMSMessageID", "standard", "message_id"),
        ("JMSCorrelationID", "standard", "correlation_id"),
        ("JMSTimestamp", "standard", "creation_time"),
        ("JMSType", "standard", "subject"),
        ("JMSDeliveryMode", "standard", "delivery_mode"),
        ("JMSExpiration", "standard", "absolute_expiry_time"),
        ("JMSDestination", "standard", "to"),
        ("JMSReplyTo", "standard", "reply_to"),
        ("JMSXGroupID", "standard", "group_id"),
        ("JMSXGroupSeq", "standard", "group_sequence"),
        ("inner", "application", "inner"),
        ("$dollar", "application", "$dollar"),
    ],
)
def test_a_name_stands_for_a_property(name: str, domain: str, found: str) -> None:
    tree = parse_expression(name, Dialect.SELECTOR)
    assert (tree.operator, tree.value) == (domain, found)


@pytest.mark.parametrize(
    ("name", "domain", "found"),
    [
        ("subject", "application", "subject"),
        ("p.subject", "standard", "subject"),
        ("properties.group-sequence", "standard", "group_sequence"),
        ("h.priority", "standard", "priority"),
        ("header.durable", "standard", "durable"),
        ("a.subject", "application", "subject"),
        ("application_properties.[x-y]", "application", "x-y"),
        ("[x-y]", "application", "x-y"),
        ("b.c", "application", "b.c"),
    ],
)
def test_a_name_in_the_dialect_of_oasis(name: str, domain: str, found: str) -> None:
    text = name.replace("group-sequence", "group_sequence")
    tree = parse_expression(text, Dialect.SQL)
    assert (tree.operator, tree.value) == (domain, found)


def test_an_unknown_field_of_a_section_is_an_error() -> None:
    assert refusal("a.x = 1 AND p.nothing = 1", Dialect.SQL).column == 13


@pytest.mark.requirement("B12.5")
def test_texts_that_are_too_large_are_refused() -> None:
    assert refusal("a" * (MAX_CHARACTERS + 1)).column == MAX_CHARACTERS + 1
    assert refusal("(" * MAX_CHARACTERS).column == MAX_TOKENS + 1
    assert refusal("NOT " * (MAX_TREE_DEPTH + 5) + "a").reason.startswith("the expression is nested")
    assert refusal("-" * (MAX_TREE_DEPTH + 5) + "a").reason.startswith("the expression is nested")
    assert parse_expression("(" * 100 + "a" + ")" * 100, Dialect.SELECTOR).size == 1


@settings(max_examples=500)
@given(
    text=st.one_of(
        st.text(max_size=60),
        st.lists(
            st.sampled_from(
                [
                    "a",
                    "b",
                    "amqp.to",
                    "JMSType",
                    "1",
                    "1.5",
                    "'x'",
                    '"y"',
                    "[z]",
                    "(",
                    ")",
                    ",",
                    "=",
                    "<>",
                    "<",
                    "+",
                    "-",
                    "*",
                    "/",
                    "%",
                    "AND",
                    "or",
                    "NOT",
                    "BETWEEN",
                    "IN",
                    "LIKE",
                    "ESCAPE",
                    "IS",
                    "NULL",
                    "true",
                ]
            ),
            max_size=30,
        ).map(" ".join),
    ),
    dialect=st.sampled_from(Dialect),
)
def test_any_text_parses_or_is_refused(text: str, dialect: Dialect) -> None:
    try:
        tree = parse_expression(text, dialect)
    except ExpressionError as error:
        assert 1 <= error.column <= len(text) + 1
    else:
        assert encode_tree(decode_tree(encode_tree(tree))) == encode_tree(tree)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'["literal"]',
        b'["nothing",null]',
        b'["and",null]',
        b'["=",1,["literal",1]]',
        b'["literal",[]]',
        b'["octets","x"]',
        b'["application",5]',
        b'["not",null,5]',
        b"[" * 5000 + b"]" * 5000,
        b'["not",null,' * (MAX_TREE_DEPTH + 1) + b'["literal",true]' + b"]" * (MAX_TREE_DEPTH + 1),
        b" " * (MAX_TREE_OCTETS + 1),
        b'["and",null' + b',["literal",true]' * (MAX_NODES + 1) + b"]",
    ],
)
def test_octets_that_are_no_tree_are_refused(data: bytes) -> None:
    with pytest.raises(TreeError):
        decode_tree(data)


@given(data=st.binary(max_size=40))
def test_any_octets_are_a_tree_or_are_refused(data: bytes) -> None:
    try:
        tree = decode_tree(data)
    except TreeError:
        return
    assert decode_tree(encode_tree(tree)).size == tree.size


def test_a_conjunction_of_conjunctions_is_flat() -> None:
    one = parse_expression("a AND b", Dialect.SELECTOR)
    assert [part.value for part in conjunction([one, one]).parts] == ["a", "b", "a", "b"]
    assert conjunction([Node("literal", value=True)]).operator == "literal"
