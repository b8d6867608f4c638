"""An expression over the facts of a message, as queues and consumers have it."""

from __future__ import annotations

from typing import Final

from node.expressions.evaluation import evaluation_of
from node.expressions.nodes import APPLICATION, EXTENSION, PATH, STANDARD, decode_tree
from node.message.facts import Facts


class Expression:
    """The expression with these octets, which `encode_tree` has made.

    `steps` is a measure of the work for a message. `by_key`: the expression asks for the routing key.
    `by_body`: it has paths into the body, so messages with equal properties have values of their own.
    `lone_property` says whether the expression is a property of applications, and no more.
    `headers` are the properties of applications that it asks for, where it asks for nothing else; else none.
    """

    __slots__ = ("_evaluate", "by_body", "by_key", "data", "headers", "lone_property", "steps")

    def __init__(self, data: bytes) -> None:
        """Raises TreeError for malformed octets."""
        self.data: Final = data
        tree = decode_tree(data)
        self._evaluate = evaluation_of(tree)
        self.steps: Final = tree.size
        self.by_key: Final = any(
            node.operator == EXTENSION and node.value == "quorate.x_routing_key" for node in tree.walk()
        )
        self.by_body: Final = any(node.operator == PATH for node in tree.walk())
        others = any(node.operator in (STANDARD, EXTENSION, PATH) for node in tree.walk())
        names = {str(node.value): None for node in tree.walk() if node.operator == APPLICATION}
        self.lone_property: Final = tree.operator == APPLICATION
        self.headers: Final = () if others else tuple(names)

    def value(self, facts: Facts) -> object:
        """The value of the expression for a message; None for unknown."""
        return self._evaluate(facts)
