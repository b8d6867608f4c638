"""The filter-set of a source (part 3, section 3.5.8): which of its filters are in force, and their condition.

A filter that the node does not know is not in force, and the answer to the attach leaves it out. The property
filters and `amqp:sql-filter` are those of the OASIS filter expressions, `apache.org:selector-filter:string`
is that of JMS clients (https://www.amqp.org/specification/1.0/filters). `quorate:filter` is this node's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from node.expressions.errors import ExpressionError
from node.expressions.names import PROPERTY_FIELDS, Dialect
from node.expressions.nodes import (
    APPLICATION,
    BINARY,
    LIKE,
    LITERAL,
    STANDARD,
    Node,
    TreeError,
    conjunction,
    encode_tree,
)
from node.expressions.parsing import parse_expression
from node.expressions.patterns import literal
from node.message.streams import OffsetKind, StreamOffset
from node.wire.amqp10.errors import FilterError
from node.wire.amqp10.values import AmqpValue, DecimalOctets, Described, TimestampMs

MAX_FIELDS: Final = 16
"""The largest number of fields in one property filter: the OASIS draft asks a node for a limit (7.1)."""


class FilterSet(NamedTuple):
    """The filters of a source that are in force, by their names; None for none. `condition` are the octets of
    the selector that stands for all of them (`node.expressions.nodes`); empty for none. `offset` is where a
    reader of a stream begins (`node.session.stream_offsets`).
    """

    kept: dict[str, AmqpValue] | None
    condition: bytes
    offset: Any = None


NO_FILTERS: Final = FilterSet(None, b"")


def filter_set(asked: Mapping[Any, AmqpValue] | None, *, expressions: bool = True) -> FilterSet:
    """The filters that a peer asks for. `expressions`: every owner reads the expressions of queues.

    Raises FilterError where a filter is known and does not parse.
    """
    kept: dict[str, AmqpValue] = {}
    trees: list[Node] = []
    offset: Any = None
    for name, value in (asked or {}).items():
        if isinstance(value, Described) and _descriptor(value) == _STREAM_OFFSET:
            kept[name], offset = value, _offset(value.value)
            continue
        read = _READERS.get(_descriptor(value))
        known = read is not None and (expressions or read is not _expression)
        if known and read is not None and isinstance(value, Described):
            try:
                trees.append(read(value.value))
            except (ExpressionError, TreeError, ValueError) as error:
                raise FilterError(f"the filter '{name}' does not parse: {error}") from None
            kept[name] = value
    if not kept:
        return NO_FILTERS
    try:
        return FilterSet(kept, encode_tree(conjunction(trees)) if trees else b"", offset)
    except TreeError as beyond:
        raise FilterError(str(beyond)) from None


def _descriptor(value: AmqpValue) -> str | int | None:
    found = value.descriptor if isinstance(value, Described) else None
    return found if isinstance(found, str | int) else None


_STREAM_OFFSET: Final = "rabbitmq:stream-offset-spec"
"""The descriptor of RabbitMQ's filter that states where a reader of a stream begins."""


def _offset(value: AmqpValue) -> object:
    """A time as a place in a stream; every other value as it is."""
    return StreamOffset(OffsetKind.TIME, max(0, value)) if isinstance(value, TimestampMs) else value


# -- selectors --------------------------------------------------------------------------------------


def _selector(value: AmqpValue) -> Node:
    return _parsed(value, Dialect.SELECTOR)


def _sql(value: AmqpValue) -> Node:
    return _parsed(value, Dialect.SQL)


def _expression(value: AmqpValue) -> Node:
    return _parsed(value, Dialect.QUEUE)


def _parsed(value: AmqpValue, dialect: Dialect) -> Node:
    if not isinstance(value, str):
        raise ValueError("the expression is no string")
    return parse_expression(value, dialect)


# -- property filters -------------------------------------------------------------------------------


def _properties(value: AmqpValue) -> Node:
    def field(name: str) -> Node:
        known = name.replace("-", "_")
        if known not in PROPERTY_FIELDS or "_" in name:
            raise ValueError(f"there is no property {name}")
        return Node(STANDARD, known)

    return _fields(value, field)


def _application_properties(value: AmqpValue) -> Node:
    return _fields(value, lambda name: Node(APPLICATION, name))


def _fields(value: AmqpValue, named: Callable[[str], Node]) -> Node:
    """The conjunction of the fields' conditions. A field without a value matches any message."""
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise ValueError("the filter is no map with names for keys")
    if not 0 < len(value) <= MAX_FIELDS:
        raise ValueError(f"the filter has {len(value)} fields, and may have 1 to {MAX_FIELDS}")
    fields = [(named(name), reference) for name, reference in value.items()]
    conditions = [_condition(node, reference) for node, reference in fields if reference is not None]
    return conjunction(conditions) if conditions else Node(LITERAL, value=True)


def _condition(node: Node, reference: AmqpValue) -> Node:
    """The condition that a property matches a reference value."""
    if isinstance(reference, str) and reference.startswith("&"):
        kind, text = reference[:3], reference[3:]
        if kind == "&s:":
            return Node(LIKE, "%" + literal(text), (node,))
        if kind == "&p:":
            return Node(LIKE, literal(text) + "%", (node,))
        if not reference.startswith("&&"):
            raise ValueError(f"'{reference[:32]}' begins with an unknown modifier")
        reference = reference[1:]
    return Node("=", None, (node, _reference(node, reference)))


def _reference(node: Node, reference: AmqpValue) -> Node:
    if isinstance(reference, bool):
        return Node(LITERAL, reference)
    if isinstance(reference, int):
        return Node(LITERAL, int(reference))
    if isinstance(reference, float):
        return Node(LITERAL, float(reference))
    if isinstance(reference, str):
        return Node(LITERAL, str(reference))
    if isinstance(reference, bytes):
        return Node(BINARY, reference.hex())
    if isinstance(reference, UUID):
        # Ids are facts as texts, other uuids as octets.
        return (
            Node(LITERAL, str(reference))
            if node.operator == STANDARD
            else Node(BINARY, reference.bytes.hex())
        )
    if isinstance(reference, DecimalOctets):
        return Node(LITERAL, float(reference.number()))
    raise ValueError("a reference value is of no simple type")


_READERS: Final[dict[str | int | None, Callable[[AmqpValue], Node]]] = {
    "apache.org:selector-filter:string": _selector,
    0x0000468C00000004: _selector,
    "amqp:sql-filter": _sql,
    0x120: _sql,
    "amqp:properties-filter": _properties,
    0x173: _properties,
    "amqp:application-properties-filter": _application_properties,
    0x174: _application_properties,
    "quorate:filter": _expression,
}
"""By descriptors."""
