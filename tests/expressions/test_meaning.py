"""The meaning of expressions: tables of SQL-92 and JMS, and a slow evaluator beside the real one."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings

from node.expressions.evaluation import evaluation_of
from node.expressions.names import Dialect
from node.expressions.nodes import decode_tree, encode_tree
from node.expressions.parsing import parse_expression
from node.expressions.selector import Selector
from tests.expressions.trees import FACTS, TREES, KnownFacts, meaning, text_of

MESSAGE: dict[str, Any] = {
    "country": "UK", "weight": 5, "price": 10.5, "active": True, "premium": False, "zero": 0,
    "minus": -7, "large": (1 << 63) - 1, "ulong": (1 << 64) - 1, "text": "it's", "list": (),
}  # fmt: skip


def value(text: str, dialect: Dialect = Dialect.SELECTOR) -> Any:
    return evaluation_of(parse_expression(text, dialect))(KnownFacts(MESSAGE))


def takes(text: str) -> bool:
    return Selector(encode_tree(parse_expression(text, Dialect.SELECTOR))).takes(KnownFacts(MESSAGE))


@pytest.mark.requirement("B12.1")
@settings(max_examples=500)
@given(tree=TREES, facts=FACTS)
def test_an_expression_means_the_same_as_in_the_tables(tree: Any, facts: dict[str, Any]) -> None:
    found: Any = evaluation_of(tree)(KnownFacts(facts))
    expected = meaning(tree, facts)
    assert type(found) is type(expected)
    assert found == expected or (math.isnan(found) and math.isnan(expected))


@settings(max_examples=300)
@given(tree=TREES, facts=FACTS)
def test_a_text_means_the_same_as_the_tree_that_it_was_written_of(tree: Any, facts: dict[str, Any]) -> None:
    read = parse_expression(text_of(tree), Dialect.SELECTOR)
    assert repr(meaning(read, facts)) == repr(meaning(tree, facts))


@given(tree=TREES)
def test_a_tree_comes_back_from_its_octets(tree: Any) -> None:
    assert encode_tree(decode_tree(encode_tree(tree))) == encode_tree(tree)


UNKNOWN = ("absent", "absent = 1", "absent <> 1", "NOT absent", "absent LIKE 'x'", "absent NOT LIKE 'x'",
           "absent IN ('x')", "absent NOT IN ('x')", "absent BETWEEN 1 AND 2", "absent + 1 = 2",
           "weight / zero = 1", "country LIKE 'UK' AND absent = 1", "premium OR absent = 1",
           "weight LIKE '5'", "weight NOT LIKE '5'", "weight AND active", "-country = 1")  # fmt: skip


@pytest.mark.requirement("B12.1")
@pytest.mark.parametrize("text", UNKNOWN)
def test_neither_an_unknown_condition_nor_its_negation_takes_a_message(text: str) -> None:
    assert not takes(text)
    assert not takes(f"NOT ({text})")


@pytest.mark.parametrize(
    "text",
    [
        "absent IS NULL", "country IS NOT NULL", "list IS NOT NULL", "absent = 1 OR active",
        "NOT (absent = 1 AND premium)", "active", "NOT premium", "active = TRUE", "active <> false",
        "weight BETWEEN 5 AND 5", "weight NOT BETWEEN 6 AND 7", "country BETWEEN 'A' AND 'Z'",
        "weight IN (1, 5.0)", "country IN ('US', 'UK')", "country NOT IN ('US')", "text = 'it''s'",
        "country > 'UA'", "weight != 6", "weight <> 6", "AcTiVe IS NULL", "weight = 5L", "weight = 0x5",
        "price = 10.5e0", "price = 1.05E1d", "weight % 3 = 2", "minus % 3 = -1", "minus / 2 = -3",
        "price / 2 = 5.25", "1 + 2 * 3 = 7", "(1 + 2) * 3 = 9", "2 - 3 - 4 = -5", "- - weight = 5",
        "+weight = 5", "-weight = -5", "large + 1 < 0", "ulong = 18446744073709551615.0", "not not active",
        "1 = 1 OR 1 = 2 AND 1 = 3", "country = 'US' AND premium OR active", "7. = 7 AND .5 = 0.5",
        "9007199254740993 = 9007199254740992.0",
    ],
)  # fmt: skip
def test_what_takes_the_message(text: str) -> None:
    assert takes(text)


@pytest.mark.parametrize(
    "text",
    [
        "weight = '5'", "weight <> '5'", "active = 'TRUE'", "active > false", "country = 5", "list = 1",
        "country BETWEEN 1 AND 2", "weight IN ('5')", "1 < 2 AND premium",
    ],
)  # fmt: skip
def test_comparisons_of_unlike_types_are_false(text: str) -> None:
    assert value(text) is False


def test_the_dialect_of_oasis_divides_with_a_fraction() -> None:
    assert value("weight / 2", Dialect.SQL) == 2.5
    assert value("weight / 2") == 2
    assert value('country = "UK"', Dialect.SQL) is True
    assert value("country = 0x554B", Dialect.SQL) is True


def test_a_selector_of_many_alternatives_is_not_deep() -> None:
    assert takes(" OR ".join(["weight = 6"] * 60 + ["weight = 5"]))
