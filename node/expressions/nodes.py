"""The syntax tree of an expression, and its form between nodes.

The form is JSON: `[operator, value, part, part ...]`. Equal trees have equal octets, so that consumers with
one filter are found by its octets. A tree names each property with its domain, whichever dialect the text
was in.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final

from node.expressions.functions import FUNCTIONS
from node.expressions.operators import DIVIDED

LiteralValue = bool | int | float | str | None

LITERAL: Final = "literal"
BINARY: Final = "octets"
STANDARD: Final = "standard"
APPLICATION: Final = "application"
EXTENSION: Final = "extension"
PATH: Final = "path"
AND: Final = "and"
OR: Final = "or"
NOT: Final = "not"
NEGATED: Final = "neg"
LIKE: Final = "like"
IN: Final = "in"
BETWEEN: Final = "between"
IS_NULL: Final = "null"
ROW: Final = "row"
"""The values of all parts but the first, where the first is true. No text stands for it."""
COMPARISONS: Final = frozenset(("=", "<>", "<", "<=", ">", ">="))
ARITHMETIC: Final = frozenset(("+", "-", "*", "/", "%", DIVIDED))
NAMES: Final = frozenset((STANDARD, APPLICATION, EXTENSION))

MAX_TREE_DEPTH: Final = 100
"""The largest depth of a tree: evaluation takes a call for each level."""

MAX_NODES: Final = 2048
"""The largest number of operators, names and values: each message costs so much work at most."""

MAX_TREE_OCTETS: Final = 64 * 1024
"""The largest form of a tree between nodes."""

_PARTS: Final[dict[str, tuple[int, int]]] = {
    LITERAL: (0, 0),
    BINARY: (0, 0),
    STANDARD: (0, 0),
    APPLICATION: (0, 0),
    EXTENSION: (0, 0),
    PATH: (0, 0),
    AND: (2, MAX_NODES),
    OR: (2, MAX_NODES),
    NOT: (1, 1),
    NEGATED: (1, 1),
    LIKE: (1, 1),
    IN: (2, MAX_NODES),
    BETWEEN: (3, 3),
    IS_NULL: (1, 1),
    ROW: (1, MAX_NODES),
    **dict.fromkeys((*COMPARISONS, *ARITHMETIC), (2, 2)),
    **{name: (one.least, one.most or MAX_NODES) for name, one in FUNCTIONS.items()},
}
"""The least and the largest number of parts of each operator."""

_TEXT_VALUES: Final = frozenset((BINARY, STANDARD, APPLICATION, EXTENSION, LIKE))


class TreeError(ValueError):
    """The tree is too deep or too large, or its octets are malformed."""


class Node:
    """One operator or function with its parts. `value` is that of a literal, the name of a property, a path
    into the body, the hexadecimal digits of octets, or a pattern of LIKE, whose escape character is the
    backslash.

    `depth` and `size` are those of the tree below, with this node. Raises TreeError beyond the limits.
    """

    __slots__ = ("depth", "operator", "parts", "size", "value")

    def __init__(self, operator: str, value: LiteralValue = None, parts: tuple[Node, ...] = ()) -> None:
        self.operator = operator
        self.value = value
        self.parts = parts
        self.depth: int = 1 + max([part.depth for part in parts], default=0)
        self.size: int = 1 + sum([part.size for part in parts])
        if self.depth > MAX_TREE_DEPTH:
            raise TreeError(f"the expression is nested more than {MAX_TREE_DEPTH} deep")
        if self.size > MAX_NODES:
            raise TreeError(f"the expression has more than {MAX_NODES} operators and operands")

    def walk(self) -> Iterator[Node]:
        """This node, and all nodes below it."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.parts


def path_of(names: Iterable[str]) -> str:
    """A path into the body as a tree has it: a JSON Pointer (RFC 6901)."""
    return "".join(["/" + name.replace("~", "~0").replace("/", "~1") for name in names])


def names_of(path: str) -> tuple[str, ...]:
    """The inverse of `path_of`."""
    return tuple([name.replace("~1", "/").replace("~0", "~") for name in path.split("/")[1:]])


def conjunction(nodes: list[Node]) -> Node:
    """The tree that is true where all of the trees are. Raises TreeError beyond the limits."""
    parts = [part for node in nodes for part in (node.parts if node.operator == AND else (node,))]
    return parts[0] if len(parts) == 1 else Node(AND, None, tuple(parts))


def encode_tree(node: Node) -> bytes:
    """The octets of a tree. Raises TreeError beyond the limits."""
    data = json.dumps(_plain(node), ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )
    if len(data) > MAX_TREE_OCTETS:
        raise TreeError(f"the expression has more than {MAX_TREE_OCTETS} octets")
    return data


def decode_tree(data: bytes) -> Node:
    """The inverse of `encode_tree`. Raises TreeError."""
    if len(data) > MAX_TREE_OCTETS:
        raise TreeError(f"the expression has more than {MAX_TREE_OCTETS} octets")
    try:
        return _node(json.loads(data.decode("utf-8", "surrogatepass")), MAX_TREE_DEPTH)
    except TreeError:
        raise
    except (ValueError, RecursionError) as error:
        raise TreeError(f"the octets are no expression: {error}") from None


def _plain(node: Node) -> list[object]:
    return [node.operator, node.value, *map(_plain, node.parts)]


def _node(plain: object, depth: int) -> Node:
    """The tree of what `_plain` has made. Raises TreeError."""
    if not depth:
        raise TreeError(f"the expression is nested more than {MAX_TREE_DEPTH} deep")
    if not isinstance(plain, list) or len(plain) < 2 or not isinstance(plain[0], str):
        raise TreeError("an operator of the expression is malformed")
    operator, value = plain[0], plain[1]
    least, most = _PARTS.get(operator, (1, 0))
    parts = tuple([_node(part, depth - 1) for part in plain[2:]])
    if not least <= len(parts) <= most or not _fits(operator, value):
        raise TreeError(f"an operator {operator!r} of the expression is malformed")
    return Node(operator, value, parts)


def _fits(operator: str, value: object) -> bool:
    """Whether the operator can have the value."""
    if operator == LITERAL:
        return value is None or isinstance(value, bool | int | float | str)
    if operator == BINARY:
        return isinstance(value, str) and not len(value) % 2 and all(c in "0123456789abcdef" for c in value)
    if operator == PATH:
        return isinstance(value, str) and value.startswith("/")
    return isinstance(value, str) if operator in _TEXT_VALUES else value is None
