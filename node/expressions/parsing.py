"""Parses the text of an expression. Pure.

The work for a text is bounded: by its length, by the number of its tokens, which a cheap search counts before
the parser begins, and by the depth and the size of the tree. The parser keeps its own stack, so no text
makes it call too deep.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final, cast

from lark import Lark, Token, UnexpectedCharacters, UnexpectedInput
from lark.exceptions import VisitError

from node.expressions.errors import ExpressionError
from node.expressions.functions import FUNCTIONS
from node.expressions.grammar import GRAMMAR, PATH_STEP, QUEUE_GRAMMAR, TOKEN
from node.expressions.names import Dialect, UnknownNameError, resolved
from node.expressions.nodes import (
    AND,
    BETWEEN,
    BINARY,
    IN,
    IS_NULL,
    LIKE,
    LITERAL,
    MAX_TREE_DEPTH,
    NEGATED,
    NOT,
    OR,
    PATH,
    LiteralValue,
    Node,
    TreeError,
    path_of,
)
from node.expressions.operators import DIVIDED, LONG_MOST
from node.expressions.patterns import PatternError, escaped

MAX_CHARACTERS: Final = 4096
"""The largest length of a text, in characters."""

MAX_TOKENS: Final = 256

QUEUE_TEXT_OCTETS: Final = 8192
"""The largest length of a text of the dialect QUEUE, in octets of UTF-8."""

QUEUE_TEXT_TOKENS: Final = 1024

QUEUE_TREE_DEPTH: Final = 32
"""The largest depth of a tree of the dialect QUEUE."""

_TOKENS: Final = re.compile(TOKEN)
_STEPS: Final = re.compile(PATH_STEP)

Children = list[Any]


class Builder:
    """Makes the tree of an expression of one dialect. The parser calls the method of a rule with the tokens
    and trees below it.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._deepest = QUEUE_TREE_DEPTH if dialect is Dialect.QUEUE else MAX_TREE_DEPTH

    # -- conditions -----------------------------------------------------------------------------

    def disjunction(self, children: Children) -> Node:
        return self._made(children, OR, None, *children[::2])

    def conjunction(self, children: Children) -> Node:
        return self._made(children, AND, None, *children[::2])

    def inverted(self, children: Children) -> Node:
        return self._made(children, NOT, None, children[1])

    def comparison(self, children: Children) -> Node:
        left, operator, right = children
        return self._made(children, "<>" if operator == "!=" else str(operator), None, left, right)

    def between(self, children: Children) -> Node:
        trees = [child for child in children if isinstance(child, Node)]
        return self._unless(children, self._made(children, BETWEEN, None, *trees))

    def member(self, children: Children) -> Node:
        trees = [child for child in children if isinstance(child, Node)]
        return self._unless(children, self._made(children, IN, None, *trees))

    def like(self, children: Children) -> Node:
        pattern, *escape = [child for child in children if isinstance(child, Token) and child.type == "TEXT"]
        character = _unquoted(escape[0]) if escape else ""
        if escape and len(character) != 1:
            raise _error("ESCAPE takes one character", escape[0])
        try:
            made = escaped(_unquoted(pattern), character)
        except PatternError as error:
            raise _error(str(error), pattern) from None
        return self._unless(children, self._made(children, LIKE, made, children[0]))

    def is_null(self, children: Children) -> Node:
        return self._unless(children, self._made(children, IS_NULL, None, children[0]))

    # -- arithmetic -----------------------------------------------------------------------------

    def arithmetic(self, children: Children) -> Node:
        left, operator, right = children
        name = str(operator)
        if name == "/" and self._dialect is Dialect.SELECTOR:
            name = DIVIDED
        return self._made(children, name, None, left, right)

    def signed(self, children: Children) -> Node:
        sign, tree = children
        if tree.operator == LITERAL and type(tree.value) in (int, float):
            if sign == "+":
                return _in_range(sign, cast(Node, tree))
            return Node(LITERAL, -tree.value)
        minus = self._made(children, NEGATED, None, tree)
        return minus if sign == "-" else self._made(children, NEGATED, None, minus)

    # -- operands -------------------------------------------------------------------------------

    def text(self, children: Children) -> Node:
        return Node(LITERAL, _unquoted(children[0]))

    def quoted(self, children: Children) -> Node:
        token = children[0]
        text = str(token[1:-1]).replace('""', '"')
        if self._dialect is Dialect.SQL:
            return Node(LITERAL, text)
        return self._property(token, text, quoted=True)

    def fraction(self, children: Children) -> Node:
        number = float(children[0].rstrip("dDfF"))
        if math.isinf(number):
            raise _error(f"{children[0]} is out of range", children[0])
        return Node(LITERAL, number)

    def integer(self, children: Children) -> Node:
        return self._exact(children[0], int(children[0].rstrip("lL")))

    def hexadecimal(self, children: Children) -> Node:
        digits = children[0][2:]
        if self._dialect is Dialect.SQL:
            if len(digits) % 2 or digits[-1] in "lL":
                raise _error("octets have two hexadecimal digits each", children[0])
            return Node(BINARY, digits.lower())
        return self._exact(children[0], int(digits.rstrip("lL"), 16))

    def true(self, children: Children) -> Node:
        return Node(LITERAL, value=True)

    def false(self, children: Children) -> Node:
        return Node(LITERAL, value=False)

    def name(self, children: Children) -> Node:
        return self._property(children[0], str(children[0]), quoted=False)

    def path(self, children: Children) -> Node:
        steps = [one.groups() for one in _STEPS.finditer(children[0])]
        return Node(PATH, path_of([_step_name(*groups) for groups in steps]))

    def call(self, children: Children) -> Node:
        name, *trees = [child for child in children if not isinstance(child, Token) or child.type == "NAME"]
        function = FUNCTIONS.get(name.lower())
        if function is None:
            raise _error(f"there is no function {name}", name)
        if len(trees) < function.least or 0 < function.most < len(trees):
            raise _error(f"{name.upper()} does not take {len(trees)} values", name)
        return self._made(children, name.lower(), None, *trees)

    def _property(self, token: Token, name: str, *, quoted: bool) -> Node:
        try:
            return resolved(self._dialect, name, quoted=quoted)
        except UnknownNameError as error:
            raise _error(str(error), token) from None

    def _exact(self, token: Token, number: int) -> Node:
        # One more than the largest long is the smallest long behind a sign (`_checked`).
        if number > LONG_MOST + 1:
            raise _error(f"{token} is out of range", token)
        return Node(LITERAL, number)

    def _made(self, children: Children, operator: str, value: LiteralValue, *parts: Node) -> Node:
        try:
            made = Node(operator, value, tuple(parts))
            if made.depth > self._deepest:
                raise TreeError(f"the expression is nested more than {self._deepest} deep")
        except TreeError as error:
            token = next((child for child in children if isinstance(child, Token)), None)
            raise ExpressionError(str(error), 1 if token is None else _column(token)) from None
        return made

    def _unless(self, children: Children, condition: Node) -> Node:
        """The condition; its negation where NOT stands among the tokens."""
        negated = any(isinstance(child, Token) and child.type == "NOT" for child in children)
        return self._made(children, NOT, None, condition) if negated else condition


def _unquoted(token: Token) -> str:
    return str(token[1:-1]).replace("''", "'")


def _step_name(plain: str | None, bracketed: str | None, quoted: str | None) -> str:
    """The name that one step of a path has in one of its three forms."""
    return plain or bracketed or (quoted or "").replace('""', '"')


def _in_range(sign: Token, tree: Node) -> Node:
    if isinstance(tree.value, int) and tree.value > LONG_MOST:
        raise _error(f"{tree.value} is out of range", sign)
    return tree


def _column(token: Token) -> int:
    return (token.start_pos or 0) + 1


def _error(reason: str, token: Token) -> ExpressionError:
    return ExpressionError(reason, _column(token))


def _parser(dialect: Dialect) -> Callable[[str], Any]:
    grammar = QUEUE_GRAMMAR if dialect is Dialect.QUEUE else GRAMMAR
    made = Lark(
        grammar, parser="lalr", lexer="contextual", transformer=Builder(dialect), maybe_placeholders=False
    )
    return cast(Callable[[str], Any], made.parse)


_PARSERS: Final = {dialect: _parser(dialect) for dialect in Dialect}
"""The parsers, made once when the module is imported: that takes longer than a turn of the event loop."""


def parse_expression(text: str, dialect: Dialect) -> Node:
    """The tree of an expression. Raises ExpressionError with the column of the error."""
    _check_length(text, dialect)
    most = QUEUE_TEXT_TOKENS if dialect is Dialect.QUEUE else MAX_TOKENS
    for count, token in enumerate(_TOKENS.finditer(text)):
        if count == most:
            raise ExpressionError(f"the expression has more than {most} tokens", token.start() + 1)
    try:
        tree = _PARSERS[dialect](text)
    except UnexpectedInput as error:
        raise _syntax_error(text, error) from None
    except VisitError as wrapped:
        raise wrapped.orig_exc from None
    return _checked(text, cast(Node, tree))


def _check_length(text: str, dialect: Dialect) -> None:
    """Raises ExpressionError with the column of the first character beyond the limit."""
    if dialect is not Dialect.QUEUE:
        if len(text) > MAX_CHARACTERS:
            reason = f"the expression has more than {MAX_CHARACTERS} characters"
            raise ExpressionError(reason, MAX_CHARACTERS + 1)
        return
    octets = text[: QUEUE_TEXT_OCTETS + 1].encode("utf-8", "surrogatepass")
    if len(octets) > QUEUE_TEXT_OCTETS:
        column = len(octets[:QUEUE_TEXT_OCTETS].decode("utf-8", "ignore")) + 1
        raise ExpressionError(f"the expression has more than {QUEUE_TEXT_OCTETS} octets", column)


def _syntax_error(text: str, error: UnexpectedInput) -> ExpressionError:
    """The error that the parser has found, with its place."""
    if isinstance(error, UnexpectedCharacters):
        at = error.pos_in_stream or 0
        return ExpressionError(f"unexpected {text[at : at + 1]!r}", at + 1)
    token = getattr(error, "token", None)
    if token is None or token.type == "$END":
        return ExpressionError("the expression ends too early", len(text) + 1)
    return ExpressionError(f"unexpected {str(token)[:32]!r}", _column(token))


def _checked(text: str, tree: Node) -> Node:
    """The tree. Raises ExpressionError for a number that only a sign would bring into range."""
    for node in tree.walk():
        if node.operator == LITERAL and type(node.value) is int and node.value > LONG_MOST:
            raise ExpressionError(f"{node.value} is out of range", max(0, text.find(str(node.value))) + 1)
    return tree
