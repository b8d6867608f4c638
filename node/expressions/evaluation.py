"""Turns the tree of an expression into functions over the facts of one message.

A selector takes a message where it is true, and not where it is false or unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from node.expressions.functions import FUNCTIONS
from node.expressions.nodes import (
    AND,
    APPLICATION,
    BETWEEN,
    BINARY,
    COMPARISONS,
    EXTENSION,
    IN,
    IS_NULL,
    LIKE,
    LITERAL,
    NEGATED,
    NOT,
    OR,
    PATH,
    ROW,
    STANDARD,
    LiteralValue,
    Node,
    names_of,
)
from node.expressions.operators import COMPARING, at_least, at_most, calculated, equal, negated
from node.expressions.patterns import LikePattern
from node.message.facts import Facts
from node.message.placed_facts import as_text

Evaluation = Callable[[Facts], object]
"""The value of an expression for a message; None for unknown."""


def evaluation_of(node: Node) -> Evaluation:
    """The function that a tree stands for."""
    return _COMPILERS.get(node.operator, _arithmetic)(node)


def _literal(node: Node) -> Evaluation:
    return _constant(node.value)


def _constant(value: object) -> Evaluation:
    def evaluate(facts: Facts) -> object:
        return value

    return evaluate


def _octets(node: Node) -> Evaluation:
    return _constant(as_text(bytes.fromhex(str(node.value))))


def _standard(node: Node) -> Evaluation:
    name = str(node.value)

    def evaluate(facts: Facts) -> object:
        return facts.standard(name)

    return evaluate


def _application(node: Node) -> Evaluation:
    name = str(node.value)

    def evaluate(facts: Facts) -> object:
        return facts.application(name)

    return evaluate


def _extension(node: Node) -> Evaluation:
    name = str(node.value)

    def evaluate(facts: Facts) -> object:
        return facts.extension(name)

    return evaluate


def _path(node: Node) -> Evaluation:
    names = names_of(str(node.value))

    def evaluate(facts: Facts) -> object:
        return facts.in_body(names)

    return evaluate


def _call(node: Node) -> Evaluation:
    """A function, all of whose values are asked for first."""
    parts = [evaluation_of(part) for part in node.parts]
    compute = FUNCTIONS[node.operator].compute

    def evaluate(facts: Facts) -> object:
        return compute([part(facts) for part in parts])

    return evaluate


# -- logic ------------------------------------------------------------------------------------------


def _and(node: Node) -> Evaluation:
    return _decided_by(False, node)


def _or(node: Node) -> Evaluation:
    return _decided_by(True, node)


def _decided_by(decisive: bool, node: Node) -> Evaluation:
    """The connective that is `decisive` where one of the parts is, and unknown where a part is unknown."""
    parts = [evaluation_of(part) for part in node.parts]
    other = not decisive

    def evaluate(facts: Facts) -> object:
        found: bool | None = other
        for part in parts:
            value = part(facts)
            if value is decisive:
                return decisive
            if value is not other:
                found = None
        return found

    return evaluate


def _not(node: Node) -> Evaluation:
    part = evaluation_of(node.parts[0])

    def evaluate(facts: Facts) -> object:
        value = part(facts)
        return not value if isinstance(value, bool) else None

    return evaluate


# -- conditions -------------------------------------------------------------------------------------


def _comparison(node: Node) -> Evaluation:
    left, right = evaluation_of(node.parts[0]), evaluation_of(node.parts[1])
    compare = COMPARING[node.operator]

    def evaluate(facts: Facts) -> object:
        return compare(left(facts), right(facts))

    return evaluate


def _between(node: Node) -> Evaluation:
    operand, low, high = [evaluation_of(part) for part in node.parts]

    def evaluate(facts: Facts) -> object:
        value = operand(facts)
        above, below = at_least(value, low(facts)), at_most(value, high(facts))
        if above is False or below is False:
            return False
        return None if above is None or below is None else True

    return evaluate


def _in(node: Node) -> Evaluation:
    operand, *others = [evaluation_of(part) for part in node.parts]
    texts = _texts(node.parts[1:])

    def evaluate(facts: Facts) -> object:
        value = operand(facts)
        if value is None:
            return None
        if texts is not None:
            return isinstance(value, str) and value in texts
        found: bool | None = False
        for other in others:
            same = equal(value, other(facts))
            if same:
                return True
            if same is None:
                found = None
        return found

    return evaluate


def _texts(parts: tuple[Node, ...]) -> frozenset[LiteralValue] | None:
    """The values of the parts, where all of them are texts."""
    found = [part.value for part in parts if part.operator == LITERAL and isinstance(part.value, str)]
    return frozenset(found) if len(found) == len(parts) else None


def _like(node: Node) -> Evaluation:
    operand, pattern = evaluation_of(node.parts[0]), LikePattern(str(node.value))

    def evaluate(facts: Facts) -> object:
        value = operand(facts)
        return pattern.matches(value) if isinstance(value, str) else None

    return evaluate


def _is_null(node: Node) -> Evaluation:
    operand = evaluation_of(node.parts[0])

    def evaluate(facts: Facts) -> object:
        return operand(facts) is None

    return evaluate


def _row(node: Node) -> Evaluation:
    condition, *parts = [evaluation_of(part) for part in node.parts]

    def evaluate(facts: Facts) -> object:
        if condition(facts) is not True:
            return None
        return tuple([part(facts) for part in parts])

    return evaluate


# -- arithmetic -------------------------------------------------------------------------------------


def _arithmetic(node: Node) -> Evaluation:
    left, right = evaluation_of(node.parts[0]), evaluation_of(node.parts[1])
    operator = node.operator

    def evaluate(facts: Facts) -> object:
        return calculated(operator, left(facts), right(facts))

    return evaluate


def _negated(node: Node) -> Evaluation:
    operand = evaluation_of(node.parts[0])

    def evaluate(facts: Facts) -> object:
        return negated(operand(facts))

    return evaluate


_COMPILERS: Final[dict[str, Callable[[Node], Evaluation]]] = {
    LITERAL: _literal,
    BINARY: _octets,
    STANDARD: _standard,
    APPLICATION: _application,
    EXTENSION: _extension,
    PATH: _path,
    **dict.fromkeys(FUNCTIONS, _call),
    AND: _and,
    OR: _or,
    NOT: _not,
    **dict.fromkeys(COMPARISONS, _comparison),
    BETWEEN: _between,
    IN: _in,
    LIKE: _like,
    IS_NULL: _is_null,
    ROW: _row,
    NEGATED: _negated,
}
"""By operator; all others are arithmetic."""
