"""The terms of a view over a queue's messages, and where a queue's settings have them.

A view has a row for each group of messages, which have equal values of the group's expressions, with those
values and with aggregates over the messages. A view without such expressions has one row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from node.expressions.aggregates import Aggregate, Field, parse_field
from node.expressions.errors import ExpressionError
from node.expressions.names import Dialect
from node.expressions.nodes import LITERAL, ROW, Node, TreeError, encode_tree
from node.expressions.parsing import parse_expression
from node.queue.settings import QueueSettings

MOST_FIELDS: Final = 64
"""The most fields of a view."""

MOST_GROUPINGS: Final = 16
"""The most expressions by which a view groups messages."""

_CACHED: Final = 1024
"""The terms of so many definitions are remembered: a change of policies asks for those of all queues."""

_SETTING: Final = "views"


class ViewError(ValueError):
    """The definition of a view is wrong. The text names the part, and the column where it is an
    expression.
    """


class ViewTerms(NamedTuple):
    """The expressions and aggregates of a view.

    `row` are the octets of a tree whose parts are the view's filter, the `groupings` expressions of the
    group, and the operands of the aggregates, whose `functions` these are. `fields` are names with the place
    of their values among the values of the group and the aggregates.
    """

    name: str
    row: bytes
    groupings: int
    functions: tuple[Aggregate, ...]
    fields: tuple[tuple[str, int], ...]


def view_terms(name: str, filter: str, group_by: Sequence[str], fields: Mapping[str, str]) -> ViewTerms:
    """The terms of a view by its texts; an empty `filter` takes all messages. Raises ViewError."""
    return _terms(name, filter, tuple(group_by), tuple(fields.items()))


@lru_cache(_CACHED)
def _terms(
    name: str, filter: str, group_by: tuple[str, ...], fields: tuple[tuple[str, str], ...]
) -> ViewTerms:
    if not 1 <= len(fields) <= MOST_FIELDS:
        raise ViewError(f"a view has 1 to {MOST_FIELDS} fields")
    if len(group_by) > MOST_GROUPINGS:
        raise ViewError(f"a view groups by {MOST_GROUPINGS} expressions at most")
    condition = _parsed("filter", filter).tree if filter else Node(LITERAL, value=True)
    groups = [_parsed(f"group_by {text!r}", text).tree for text in group_by]
    known = [encode_tree(tree) for tree in groups]
    functions, operands, places = list[Aggregate](), list[Node](), list[tuple[str, int]]()
    for field, text in fields:
        aggregate, tree = _parsed(f"field {field!r}", text, parse_field)
        if aggregate is not None:
            places.append((field, len(groups) + len(operands)))
            functions.append(aggregate)
            operands.append(tree)
        elif encode_tree(tree) in known:
            places.append((field, known.index(encode_tree(tree))))
        else:
            raise ViewError(f"field {field!r} is neither an aggregate nor an expression of group_by")
    return ViewTerms(name, _row(condition, *groups, *operands), len(groups), tuple(functions), tuple(places))


def _row(*parts: Node) -> bytes:
    try:
        return encode_tree(Node(ROW, None, parts))
    except TreeError as error:
        raise ViewError(f"all together, {error}") from None


def _expression(text: str) -> Field:
    return Field(None, parse_expression(text, Dialect.QUEUE))


def _parsed(part: str, text: str, parse: Callable[[str], Field] = _expression) -> Field:
    """A part of the definition. Raises ViewError."""
    try:
        return parse(text)
    except ExpressionError as error:
        raise ViewError(f"{part}: {error}") from None


def with_views(settings: QueueSettings, views: tuple[ViewTerms, ...]) -> QueueSettings:
    """The settings with these views over the queue."""
    return QueueSettings(settings.semantics, **{**settings.asked, _SETTING: views}) if views else settings


def views_of(settings: QueueSettings) -> tuple[ViewTerms, ...]:
    """The views over a queue with these settings."""
    found: tuple[ViewTerms, ...] = settings.asked.get(_SETTING, ())
    return found
