"""A selector: an expression that takes messages, or does not."""

from __future__ import annotations

from typing import Final, NamedTuple

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

RARE_OCTETS: Final = 3
"""A value with so many octets is seldom found in a message that has another value."""


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
    """The octets that are sure to stand in a message for which the condition is true, of those that few other
    messages may have.

    The value of an application's text is in the message as it is, and the name of its property as well. A
    comparison with a property that the message lacks is unknown. One character alone may be of the type char,
    whose octets are others.
    """
    return _needle(tree).octets


class _Needle(NamedTuple):
    """Octets of a message. Properties often have the same names in all messages: a value is `rare`."""

    rare: bool
    octets: bytes

    @property
    def rank(self) -> tuple[bool, int]:
        return self.rare, len(self.octets)


_NONE: Final = _Needle(False, b"")


def _needle(tree: Node) -> _Needle:
    if tree.operator == AND:
        return _rarest(*map(_needle, tree.parts))
    if tree.operator in (OR, IS_NULL) or (tree.operator == NOT and tree.parts[0].operator != IS_NULL):
        return _NONE
    if tree.operator == NOT:
        return _name(tree.parts[0].parts[0])
    if tree.operator in COMPARISONS:
        left, right = tree.parts
        return _rarest(_of_comparison(tree.operator, left, right), _of_comparison(tree.operator, right, left))
    if tree.operator == LIKE:
        name = _name(tree.parts[0])
        return _rarest(name, _text(LikePattern(str(tree.value)).piece)) if name.octets else _NONE
    return _name(tree.parts[0]) if tree.operator == IN else _name(tree)


def _rarest(*needles: _Needle) -> _Needle:
    return max(needles, key=lambda one: one.rank)


def _of_comparison(operator: str, left: Node, right: Node) -> _Needle:
    """The octets for a comparison of an application's property with a literal."""
    name = _name(left)
    if not name.octets or right.operator in NAMES:
        return name
    if operator == "=" and right.operator == LITERAL and isinstance(right.value, str):
        return _rarest(name, _text(right.value))
    return name


def _text(value: str) -> _Needle:
    """The octets of a text; none for one character. A short text stands in many messages by chance."""
    if len(value) == 1:
        return _NONE
    octets = value.encode("utf-8", "surrogatepass")
    return _Needle(len(octets) >= RARE_OCTETS, octets)


def _name(node: Node) -> _Needle:
    """The name of an application's property; no octets for another operand."""
    if node.operator != APPLICATION:
        return _NONE
    return _Needle(False, str(node.value).encode("utf-8", "surrogatepass"))
