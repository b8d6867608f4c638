"""Finds the bindings that match a message, for each type of exchange (AMQP 0-9-1 §3.1.3).

A matcher is a container of bindings with a `match`. `node.routing.exchange` adds no binding twice, and
removes none that a matcher does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from node.refusal import PreconditionFailedError

NormalValue = tuple[str, Any]
NormalTable = tuple[tuple[str, NormalValue], ...]


class DestinationKind(Enum):
    """The target of a binding."""

    QUEUE = "queue"
    EXCHANGE = "exchange"


class Destination(NamedTuple):
    """A queue or an exchange of the same virtual host."""

    kind: DestinationKind
    name: str


class Binding(NamedTuple):
    """A rule of an exchange. Bindings are equal when all four parts are equal. Make them with `of`."""

    source: str
    destination: Destination
    key: str
    arguments: NormalTable

    @classmethod
    def of(
        cls, source: str, destination: Destination, key: str = "", arguments: Mapping[str, Any] | None = None
    ) -> Binding:
        """A binding with the arguments of a bind method, which may come in any order."""
        return cls(source, destination, key, normal_table(arguments or {}))


def normal_value(value: object) -> NormalValue:
    """A hashable form of a field value with its type class. Two forms are equal exactly when AMQP's values
    are:
    1, 1.0 and True are three values, a text and its octets are one.
    """
    if value is None:
        return "void", None
    for kind, name in _TYPE_CLASSES:
        if isinstance(value, kind):
            return name, value
    if isinstance(value, str):
        return "string", value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytes | bytearray | memoryview):
        return "string", bytes(value)
    if isinstance(value, Mapping):
        return "table", normal_table(value)
    if isinstance(value, Iterable):
        return "array", tuple(map(normal_value, value))
    return type(value).__name__, value


# bool first, because Python's bool is an int.
_TYPE_CLASSES: Final[tuple[tuple[type, str], ...]] = ((bool, "bool"), (int, "int"), (float, "float"))


def normal_table(table: Mapping[str, Any]) -> NormalTable:
    """A field table in hashable form: sorted by name, with values of `normal_value`."""
    return tuple(sorted(((name, normal_value(value)) for name, value in table.items()), key=_field_name))


def _field_name(item: tuple[str, NormalValue]) -> str:
    return item[0]


class Matcher(Protocol):
    """The bindings of one exchange, indexed for `match`."""

    uses_headers: ClassVar[bool]
    """Whether `match` reads the headers."""

    @property
    def header_names(self) -> frozenset[str]:
        """The names of the headers that `match` reads."""

    def add(self, binding: Binding) -> None:
        """Add a binding. Raises PreconditionFailedError where its arguments are invalid."""

    def remove(self, binding: Binding) -> None:
        """Remove a binding that was added."""

    def match(self, key: str, headers: Mapping[str, Any]) -> Iterable[Destination]:
        """The destinations of a message. A destination may come more than once."""


class DirectMatcher:
    """Matches bindings whose key equals the routing key (§3.1.3.1)."""

    uses_headers: ClassVar[bool] = False
    header_names: ClassVar[frozenset[str]] = frozenset()

    def __init__(self) -> None:
        self._by_key: dict[str, dict[Binding, None]] = {}

    def add(self, binding: Binding) -> None:
        self._by_key.setdefault(binding.key, {})[binding] = None

    def remove(self, binding: Binding) -> None:
        bindings = self._by_key[binding.key]
        del bindings[binding]
        if not bindings:
            del self._by_key[binding.key]

    def match(self, key: str, headers: Mapping[str, Any]) -> Iterable[Destination]:
        return [binding.destination for binding in self._by_key.get(key, ())]


class FanoutMatcher:
    """Matches every binding (§3.1.3.2)."""

    uses_headers: ClassVar[bool] = False
    header_names: ClassVar[frozenset[str]] = frozenset()

    def __init__(self) -> None:
        self._bindings: dict[Binding, None] = {}

    def add(self, binding: Binding) -> None:
        self._bindings[binding] = None

    def remove(self, binding: Binding) -> None:
        del self._bindings[binding]

    def match(self, key: str, headers: Mapping[str, Any]) -> Iterable[Destination]:
        return [binding.destination for binding in self._bindings]


class _Node:
    """A node in the trie of patterns: the words that may follow, and the bindings whose pattern ends here.

    `step` is the last step of a walk (`TopicMatcher.match`) that has reached the node.
    """

    __slots__ = ("bindings", "following", "repeats", "step")

    def __init__(self, repeats: bool = False) -> None:
        self.repeats = repeats
        self.following: dict[str, _Node] = {}
        self.bindings: dict[Binding, None] = {}
        self.step = 0


class TopicMatcher:
    """Matches patterns of words separated by dots: `*` is one word, `#` is zero or more words (§3.1.3.3)."""

    uses_headers: ClassVar[bool] = False
    header_names: ClassVar[frozenset[str]] = frozenset()

    def __init__(self) -> None:
        self._root = _Node()
        self._step = 0

    def add(self, binding: Binding) -> None:
        node = self._root
        for word in _words(binding.key):
            node = node.following.setdefault(word, _Node(repeats=word == "#"))
        node.bindings[binding] = None

    def remove(self, binding: Binding) -> None:
        words = _words(binding.key)
        path = [self._root]
        for word in words:
            path.append(path[-1].following[word])
        del path[-1].bindings[binding]
        for word in reversed(words):
            node = path.pop()
            if node.bindings or node.following:
                break
            del path[-1].following[word]

    def match(self, key: str, headers: Mapping[str, Any]) -> Iterable[Destination]:
        # The walk keeps all nodes that the words so far can lead to. That is linear in the words for any
        # patterns; backtracking would be exponential in the number of "#".
        places = self._reached([self._root])
        for word in _words(key):
            following: list[_Node] = []
            for node in places:
                if node.repeats:
                    following.append(node)
                if node.following:
                    child = node.following.get(word)
                    if child is not None:
                        following.append(child)
                    child = node.following.get("*")
                    if child is not None:
                        following.append(child)
            places = self._reached(following)
        return [binding.destination for node in places for binding in node.bindings]

    def _reached(self, nodes: list[_Node]) -> list[_Node]:
        """Each of the nodes once, and those that they reach by a `#` that stands for no word."""
        self._step = step = self._step + 1
        places: list[_Node] = []
        while nodes:
            further: list[_Node] = []
            for node in nodes:
                if node.step != step:
                    node.step = step
                    places.append(node)
                    child = node.following.get("#") if node.following else None
                    if child is not None:
                        further.append(child)
            nodes = further
        return places


def _words(key: str) -> list[str]:
    return key.split(".") if key else []


_MODES: Final = ("all", "any", "all-with-x", "any-with-x")
"""The values of x-match. The last two are RabbitMQ's, and compare arguments named `x-…` as well."""


class HeadersMatcher:
    """Matches bindings by fields of the message's headers (§3.1.3.4). Arguments named `x-…` are compared only
    with the modes `all-with-x` and `any-with-x`.
    """

    uses_headers: ClassVar[bool] = True

    def __init__(self) -> None:
        self._wanted: dict[Binding, tuple[bool, NormalTable]] = {}

    def add(self, binding: Binding) -> None:
        mode = _mode(dict(binding.arguments).get("x-match", ("string", b"all")))
        with_x = mode.endswith("-with-x")
        wanted = tuple(
            item
            for item in binding.arguments
            if not item[0].startswith("x-") or (with_x and item[0] != "x-match")
        )
        self._wanted[binding] = (mode.startswith("all"), wanted)

    @property
    def header_names(self) -> frozenset[str]:
        return frozenset(name for _, wanted in self._wanted.values() for name, _ in wanted)

    def remove(self, binding: Binding) -> None:
        del self._wanted[binding]

    def match(self, key: str, headers: Mapping[str, Any]) -> Iterable[Destination]:
        present = {name: normal_value(value) for name, value in headers.items()}
        found = []
        for binding, (match_all, wanted) in self._wanted.items():
            hits = (
                name in present and (value[0] == "void" or present[name] == value) for name, value in wanted
            )
            if all(hits) if match_all else any(hits):
                found.append(binding.destination)
        return found


def _mode(value: NormalValue) -> str:
    """The mode in an argument x-match. Raises PreconditionFailedError."""
    kind, given = value
    if kind != "string":
        raise PreconditionFailedError(f"Invalid x-match field type {kind} (value {given}); expected longstr")
    mode = str(given, "utf-8", "replace")
    if mode not in _MODES:
        known = ", ".join(_MODES[:-1])
        raise PreconditionFailedError(
            f"Invalid x-match field value '{mode}'; expected {known}, or {_MODES[-1]}"
        )
    return mode
