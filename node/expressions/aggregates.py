"""The texts of a view's fields: an aggregate over messages, as `SUM(/price)`, or an expression.

An aggregate is one function of SQL-92 over an expression of the dialect QUEUE. `COUNT(*)` counts messages.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, NamedTuple

from node.expressions.errors import ExpressionError
from node.expressions.names import Dialect
from node.expressions.nodes import LITERAL, Node
from node.expressions.parsing import parse_expression


class Aggregate(StrEnum):
    """The functions over several messages."""

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


_CALL: Final = re.compile(r"\s*(count|sum|avg|min|max)\s*\(", re.IGNORECASE)


class Field(NamedTuple):
    """An aggregate of an expression; None for the expression itself."""

    aggregate: Aggregate | None
    tree: Node


def parse_field(text: str) -> Field:
    """The field that a text stands for. `COUNT(*)` is `COUNT(TRUE)`, as each message has that value.

    Raises ExpressionError with the column of the error.
    """
    call = _CALL.match(text)
    if call is None:
        return Field(None, parse_expression(text, Dialect.QUEUE))
    aggregate, begin, end = Aggregate(call[1].lower()), call.end(), len(text.rstrip())
    if not text.endswith(")", 0, end) or end == begin:
        raise ExpressionError(f"{aggregate.upper()}(...) has to be the whole field", end + 1)
    # Blanks stand for what is cut off, so that columns stay.
    operand = " " * begin + text[begin : end - 1]
    if aggregate is Aggregate.COUNT and operand.strip() == "*":
        return Field(aggregate, Node(LITERAL, value=True))
    return Field(aggregate, parse_expression(operand, Dialect.QUEUE))
