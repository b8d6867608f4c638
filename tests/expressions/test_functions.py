"""The dialect of queues: functions, the rule of `/`, names, and the bounds on a text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.expressions.errors import ExpressionError
from node.expressions.evaluation import evaluation_of
from node.expressions.functions import FUNCTIONS, LONGEST_TEXT
from node.expressions.names import Dialect
from node.expressions.nodes import Node, TreeError, decode_tree, encode_tree
from node.expressions.parsing import (
    QUEUE_TEXT_OCTETS,
    QUEUE_TEXT_TOKENS,
    QUEUE_TREE_DEPTH,
    parse_expression,
)
from node.expressions.selector import needle_of
from tests.expressions.trees import KnownFacts

FACTS: dict[str, Any] = {
    "text": " Straße ", "long": "x" * (LONGEST_TEXT + 1), "minus": -7, "half": -2.5, "flag": True,
    "least": -(1 << 63), "huge": 1e300, "endless": float("inf"), "/a": 6, "/b": 3, "octets": b"\xff",
}  # fmt: skip


def value(text: str) -> Any:
    return evaluation_of(parse_expression(text, Dialect.QUEUE))(KnownFacts(FACTS))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("UPPER(text)", " STRASSE "), ("lower('ABC')", "abc"), ("Trim(text)", "Straße"),
        ("length(text)", 8), ("LENGTH(long)", LONGEST_TEXT + 1), ("LENGTH('')", 0),
        ("SUBSTR('hello', 2)", "ello"), ("SUBSTR('hello', 2, 3)", "ell"), ("SUBSTR('hello', 0, 2)", "h"),
        ("SUBSTR('hello', -3, 2)", ""), ("SUBSTR('hello', 9)", ""), ("SUBSTR('hello', 5, 9)", "o"),
        ("SUBSTR('hello', 2, 0)", ""), ("SUBSTR(long, 2, 3)", "xxx"),
        ("CONCAT('a', 'b', text)", "ab Straße "), ("ABS(minus)", 7), ("ABS(half)", 2.5),
        ("ABS(least)", -(1 << 63)), ("ROUND(half)", -3), ("ROUND(2.5)", 3), ("ROUND(2.4)", 2),
        ("ROUND(0.49999999999999994)", 0), ("ROUND(-0.2)", 0), ("ROUND(minus)", -7), ("ROUND(huge)", 1e300),
        ("ROUND(endless)", float("inf")), ("COALESCE(none, flag, 1)", True), ("COALESCE(none, none)", None),
        ("COALESCE(/none, /a)", 6), ("CONCAT(UPPER('a'), TRIM(' b '))", "Ab"),
    ],
)  # fmt: skip
def test_functions(text: str, found: object) -> None:
    got = value(text)
    assert got == found and type(got) is type(found)


@pytest.mark.parametrize(
    "text",
    [
        "UPPER(none)", "UPPER(minus)", "UPPER(octets)", "UPPER(long)", "LENGTH(minus)", "SUBSTR(text, '1')",
        "SUBSTR(text, 1, -1)", "SUBSTR(text, 1.5)", "SUBSTR(none, 1)", "SUBSTR(text, flag)",
        "CONCAT('a', none)", "CONCAT('a', 1)", "CONCAT(long, 'a')", "SUBSTR(long, 1)", "TRIM(flag)",
        "ABS('1')", "ABS(flag)", "ROUND(text)", "ROUND(flag)",
    ],
)  # fmt: skip
def test_a_function_of_another_type_or_of_too_long_a_text_is_unknown(text: str) -> None:
    assert value(text) is None


@pytest.mark.requirement("D9.1")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/a/2", None), ("/a / 2", 3), ("/a /2", 3), ("/a//b", 2), ("/a / /b", 2), ("12//a", 2),
        ("(/a)/(/b)", 2), ("1 -/a", -5), ("/b / 2", 1.5), ("-/a", -6), ("minus/2", -3.5),
    ],
)  # fmt: skip
def test_a_path_begins_where_an_operand_is_expected(text: str, found: object) -> None:
    assert value(text) == found


def refusal(text: str) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        parse_expression(text, Dialect.QUEUE)
    return caught.value


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("/", 1), ("/ a = 1", 1), ("1 = /", 5), ("/a/ = 1", 5), ("/a.b = 1", 3), ("a b", 3),
        ("/a-b/", 6), ("FOO(a)", 1), ("1 = 1 AND SUBSTR('a')", 11), ("UPPER(a, b)", 1), ("UPPER()", 7),
        ("CONCAT('a')", 1), ("amqp.nothing = 1", 1), ("/a = ", 6), ('/a/"b', 4), ("/[]", 1),
        ("[upper](a) = 'a'", 1),
    ],
)  # fmt: skip
def test_an_error_has_its_column(text: str, column: int) -> None:
    assert refusal(text).column == column


def test_other_dialects_have_neither_paths_nor_functions() -> None:
    for dialect in (Dialect.SELECTOR, Dialect.SQL):
        for text, column in (("/a = 1", 1), ("UPPER(a) = 'A'", 6)):
            with pytest.raises(ExpressionError) as caught:
                parse_expression(text, dialect)
            assert caught.value.column == column


@pytest.mark.requirement("D9.1")
def test_texts_that_are_too_large_are_refused_with_the_column() -> None:
    assert refusal("'" + "x" * QUEUE_TEXT_OCTETS + "'").column == QUEUE_TEXT_OCTETS + 1
    assert refusal("'" + "ü" * QUEUE_TEXT_OCTETS + "'").column == QUEUE_TEXT_OCTETS // 2 + 1
    assert refusal("(" * QUEUE_TEXT_OCTETS).column == QUEUE_TEXT_TOKENS + 1
    deep = "NOT " * (QUEUE_TREE_DEPTH - 1) + "a"
    assert parse_expression(deep, Dialect.QUEUE).depth == QUEUE_TREE_DEPTH
    assert refusal("NOT " + deep).reason == f"the expression is nested more than {QUEUE_TREE_DEPTH} deep"
    assert refusal("b = 1 AND " + "NOT " + deep).column == 11
    assert parse_expression("(" * 100 + "a" + ")" * 100, Dialect.QUEUE).size == 1
    assert parse_expression("'" + "x" * (QUEUE_TEXT_OCTETS - 2) + "'", Dialect.QUEUE).size == 1


def test_trees_with_the_new_operators_come_back_from_their_octets() -> None:
    tree = parse_expression("""CONCAT(/a/"b/c"/[~], 'x', SUBSTR(/d, 1)) = UPPER(e)""", Dialect.QUEUE)
    assert encode_tree(decode_tree(encode_tree(tree))) == encode_tree(tree)
    for octets in (b'["path","a"]', b'["path",null]', b'["upper",null]', b'["path","/a",["literal",1]]'):
        with pytest.raises(TreeError):
            decode_tree(octets)


def test_a_condition_on_the_body_has_no_needle() -> None:
    for text in ("/a = 'text'", "UPPER(colour) = 'RED'", "/a IN ('x', 'y')", "/a", "/a LIKE 'text%'"):
        assert needle_of(parse_expression(text, Dialect.QUEUE)) == b""
    assert needle_of(parse_expression("colour = 'reddish' AND /a = 1", Dialect.QUEUE)) == b"reddish"
    assert needle_of(parse_expression("colour = /a", Dialect.QUEUE)) == b"colour"


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(1 << 63), (1 << 63) - 1), st.floats(), st.text(max_size=6),
    st.just(()), st.binary(max_size=3),
)  # fmt: skip


@settings(max_examples=300)
@given(name=st.sampled_from(sorted(FUNCTIONS)), values=st.lists(VALUES, min_size=1, max_size=4))
def test_a_function_takes_any_values(name: str, values: list[Any]) -> None:
    function = FUNCTIONS[name]
    values = (values * 3)[: function.most or len(values) + 1]
    paths = tuple(Node("path", f"/{index}") for index in range(len(values)))
    found = evaluation_of(Node(name, None, paths))(
        KnownFacts({f"/{i}": each for i, each in enumerate(values)})
    )
    assert found is None or any(found is each for each in values) or isinstance(found, int | float | str)


@settings(max_examples=500)
@given(
    text=st.lists(
        st.sampled_from(
            ["/a", "/", "/0", "/[x]", '/"y"', " ", "a", "1", "'t'", "(", ")", ",", "=", "*", "-", "UPPER(",
             "COALESCE(", " AND ", " NOT ", " IN ", " LIKE ", " IS NULL", "[", '"', "."]
        ),
        max_size=12,
    ).map("".join)
)  # fmt: skip
def test_a_text_parses_or_is_refused_with_a_column(text: str) -> None:
    try:
        tree = parse_expression(text, Dialect.QUEUE)
    except ExpressionError as error:
        assert 1 <= error.column <= len(text) + 1
    else:
        assert encode_tree(decode_tree(encode_tree(tree))) == encode_tree(tree)
        evaluation_of(tree)(KnownFacts(FACTS))
