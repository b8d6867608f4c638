"""The condition that a text of the dialect QUEUE stands for, as queues and consumers have it."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from node.expressions.errors import ExpressionError
from node.expressions.names import Dialect
from node.expressions.nodes import TreeError, encode_tree
from node.expressions.parsing import parse_expression

_CACHED: Final = 4096
"""The trees of so many texts are remembered: a change of policies asks for those of all queues."""


@lru_cache(_CACHED)
def encoded_condition(text: str) -> bytes:
    """The octets of the text's tree, of which `Selector` makes a filter. Raises ExpressionError."""
    tree = parse_expression(text, Dialect.QUEUE)
    try:
        return encode_tree(tree)
    except TreeError as error:
        raise ExpressionError(str(error), 1) from None
