"""Trees of expressions for Hypothesis, their texts as a client writes them, and a slow evaluator of them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from node.expressions.nodes import Node, path_of

NAMES = ("a", "b", "c")
COMPARING = ("=", "<>", "<", "<=", ">", ">=")
CALCULATING = ("+", "-", "*", "div", "%")

INTEGERS = st.one_of(st.integers(-3, 3), st.integers(-(1 << 63), (1 << 63) - 1))
FLOATS = st.one_of(st.sampled_from((0.0, 0.5, 1.0, -2.0)), st.floats(allow_nan=False, allow_infinity=False))
TEXTS = st.text("ab%_\\'", max_size=4)
VALUES = st.one_of(st.none(), st.booleans(), INTEGERS, FLOATS, TEXTS, st.just(()))
FACTS = st.dictionaries(st.sampled_from(NAMES), VALUES)


def node(operator: str, *parts: Node, value: Any = None) -> Node:
    return Node(operator, value, parts)


LITERALS = st.one_of(st.booleans(), INTEGERS, FLOATS, TEXTS).map(lambda value: Node("literal", value))
LEAVES = st.one_of(LITERALS, st.sampled_from(NAMES).map(lambda name: Node("application", name)))


def _larger(parts: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    many = st.lists(parts, min_size=2, max_size=3)
    return st.one_of(
        st.builds(node, st.sampled_from(COMPARING), parts, parts),
        st.builds(node, st.sampled_from(CALCULATING), parts, parts),
        st.builds(node, st.sampled_from(("not", "null")), parts),
        st.builds(lambda operator, found: node(operator, *found), st.sampled_from(("and", "or", "in")), many),
        st.builds(node, st.just("between"), parts, parts, parts),
        st.builds(lambda part, pattern: node("like", part, value=pattern), parts, PATTERNS),
    )


PATTERNS = st.lists(st.sampled_from(("a", "b", "'", "%", "_", "\\%", "\\_", "\\\\")), max_size=6).map("".join)
TREES = st.recursive(LEAVES, _larger, max_leaves=12)


class KnownFacts:
    """The facts of a message that has properties of its application alone."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self.values = values
        self.unreadable = False

    def standard(self, name: str) -> object:
        return self.values.get(f"amqp.{name}")

    def application(self, name: str) -> object:
        return self.values.get(name)

    def extension(self, name: str) -> object:
        return self.values.get(f"amqpx.{name}")

    def in_body(self, path: tuple[str, ...]) -> object:
        return self.values.get(path_of(path))


# -- text -------------------------------------------------------------------------------------------


def text_of(tree: Node) -> str:
    """The expression as a text, with parentheses around each part."""
    parts = [f"({text_of(part)})" for part in tree.parts]
    match tree.operator:
        case "literal":
            return _literal(tree.value)
        case "application":
            return str(tree.value)
        case "and" | "or":
            return f" {tree.operator.upper()} ".join(parts)
        case "not":
            return f"NOT {parts[0]}"
        case "null":
            return f"{parts[0]} IS NULL"
        case "in":
            return f"{parts[0]} IN ({', '.join(parts[1:])})"
        case "between":
            return f"{parts[0]} BETWEEN {parts[1]} AND {parts[2]}"
        case "like":
            return f"{parts[0]} LIKE {_literal(tree.value)} ESCAPE '\\'"
        case operator:
            return f"{parts[0]} {'/' if operator == 'div' else operator} {parts[1]}"


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


# -- meaning ----------------------------------------------------------------------------------------


def meaning(tree: Node, facts: Mapping[str, object]) -> Any:
    """The value of the expression, by the tables of SQL-92 and JMS; None for unknown."""
    parts = [meaning(part, facts) for part in tree.parts]
    match tree.operator:
        case "literal":
            return tree.value
        case "application":
            return facts.get(str(tree.value))
        case "and":
            known = [part if isinstance(part, bool) else None for part in parts]
            return False if False in known else None if None in known else True
        case "or":
            known = [part if isinstance(part, bool) else None for part in parts]
            return True if True in known else None if None in known else False
        case "not":
            return not parts[0] if isinstance(parts[0], bool) else None
        case "null":
            return parts[0] is None
        case "in":
            return _any([compared("=", parts[0], other) for other in parts[1:]])
        case "between":
            both = [compared(">=", parts[0], parts[1]), compared("<=", parts[0], parts[2])]
            return False if False in both else None if None in both else True
        case "like":
            return like(str(tree.value), parts[0]) if isinstance(parts[0], str) else None
        case operator if operator in COMPARING:
            return compared(operator, *parts)
        case operator:
            return computed(operator, *parts)


def _any(found: list[bool | None]) -> bool | None:
    return True if True in found else None if None in found else False


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else "other"


def compared(operator: str, left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    kinds = {_kind(left), _kind(right)}
    if len(kinds) > 1 or "other" in kinds:
        return False
    if "boolean" in kinds and operator not in ("=", "<>"):
        return False
    if float in (type(left), type(right)):
        left, right = float(left), float(right)
    return bool(
        {
            "=": left == right, "<>": left != right, "<": left < right,
            "<=": left <= right, ">": left > right, ">=": left >= right,
        }[operator]
    )  # fmt: skip


def computed(operator: str, left: Any, right: Any) -> Any:
    if _kind(left) != "number" or _kind(right) != "number":
        return None
    if float not in (type(left), type(right)):
        return _of_longs(operator, left, right)
    left, right = float(left), float(right)
    try:
        match operator:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
            case "%":
                return math.fmod(left, right)
            case _:
                return left / right
    except ZeroDivisionError:
        return (
            math.nan
            if left == 0 or math.isnan(left)
            else math.inf * math.copysign(1, left) * math.copysign(1, right)
        )
    except ValueError:
        return math.nan


def _of_longs(operator: str, left: int, right: int) -> int | None:
    if operator in ("div", "%") and right == 0:
        return None
    quotient = (
        0 if right == 0 else int(math.copysign(1, left) * math.copysign(1, right)) * (abs(left) // abs(right))
    )
    found = {
        "+": left + right, "-": left - right, "*": left * right, "div": quotient,
        "%": left - right * quotient,
    }[operator]  # fmt: skip
    low = found & ((1 << 64) - 1)
    return low - (1 << 64) if low >> 63 else low


def like(pattern: str, text: str) -> bool:
    """The pattern as a regular expression."""
    parts = []
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            parts.append(re.escape(next(characters)))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None
