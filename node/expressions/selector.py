"""A selector: an expression that takes messages, or does not."""

from __future__ import annotations

from typing import Final

from node.expressions.expression import Expression
from node.expressions.nodes import (
    AND,
    APPLICATION,
    COMPARISONS,
    IN,
    IS_NULL,
    LIKE,
    LITERAL,
    NAMES,
    NOT,
    OR,
    Node,
    decode_tree,
)
from node.expressions.patterns import LikePattern
from node.message.facts import Facts


class Selector(Expression):
    """The selector with these octets, which `encode_tree` has made.

    `needle` are octets that a message has which the selector takes; empty where there are none such. Messages
    without them need not be looked at.
    """

    __slots__ = ("needle",)

    def __init__(self, data: bytes) -> None:
        """Raises TreeError for malformed octets."""
        super().__init__(data)
        self.needle: Final = needle_of(decode_tree(data))

    def takes(self, facts: Facts) -> bool:
        """Whether the selector is true for a message."""
        return self.value(facts) is True


def needle_of(tree: Node) -> bytes:
    """The longest octets that are sure to stand in a message for which the condition is true.

    The value of an application's text is in the message as it is, and the name of its property as well. A
    comparison with a property that the message lacks is unknown. One character alone may be of the type char,
    whose octets are others.
    """
    if tree.operator == AND:
        return max(map(needle_of, tree.parts), key=len)
    if tree.operator in (OR, IS_NULL) or (tree.operator == NOT and tree.parts[0].operator != IS_NULL):
        return b""
    if tree.operator == NOT:
        return _name(tree.parts[0].parts[0])
    if tree.operator in COMPARISONS:
        left, right = tree.parts
        return _of_comparison(tree.operator, left, right) or _of_comparison(tree.operator, right, left)
    if tree.operator == LIKE:
        name, piece = _name(tree.parts[0]), _text(LikePattern(str(tree.value)).piece)
        return max(name, piece, key=len) if name else b""
    return _name(tree.parts[0]) if tree.operator == IN else _name(tree)


def _of_comparison(operator: str, left: Node, right: Node) -> bytes:
    """The octets for a comparison of an application's property with a literal."""
    name = _name(left)
    if not name or right.operator in NAMES:
        return name
    if operator == "=" and right.operator == LITERAL and isinstance(right.value, str):
        return max(name, _text(right.value), key=len)
    return name


def _text(value: str) -> bytes:
    """The octets of a text; none for one character."""
    return value.encode("utf-8", "surrogatepass") if len(value) > 1 else b""


def _name(node: Node) -> bytes:
    """The name of an application's property; no octets for another operand."""
    return str(node.value).encode("utf-8", "surrogatepass") if node.operator == APPLICATION else b""
