"""How each exchange type finds the bindings of a message (AMQP 0-9-1 §3.1.3).

A matcher is a container of bindings with a `match`. Adding what is there and removing what is not
there cannot happen: `node.routing.exchange` sees to that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
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
    """A rule of an exchange. Bindings are equal when all four parts are; make them with `of`."""

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
    """A field value with its type class, hashable, so that equal means equal to AMQP:
    1, 1.0 and True are three values, text and its octets are one.
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


# bool first: to Python it is an int.
_TYPE_CLASSES: Final[tuple[tuple[type, str], ...]] = ((bool, "bool"), (int, "int"), (float, "float"))


def normal_table(table: Mapping[str, Any]) -> NormalTable:
    """A field table in normal form: sorted by name, values normal."""
    return tuple(sorted(((name, normal_value(value)) for name, value in table.items()), key=_field_name))


def _field_name(item: tuple[str, NormalValue]) -> str:
    return item[0]


class Matcher(Protocol):
    """The bindings of one exchange, arranged for finding."""

    uses_headers: ClassVar[bool]

    def add(self, binding: Binding) -> None:
        """Take in a binding. Raises PreconditionFailedError when its arguments make no sense."""

    def remove(self, binding: Binding) -> None:
        """Take out a binding that was added."""

    def match(self, key: str, headers: Mapping[str, Any]) -> Iterable[Destination]:
        """Where a message goes, possibly naming a destination more than once."""


class DirectMatcher:
    """Binding key equals routing key (§3.1.3.1)."""

    uses_headers: ClassVar[bool] = False

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
    """Every binding (§3.1.3.2)."""

    uses_headers: ClassVar[bool] = False

    def __init__(self) -> None:
        self._bindings: dict[Binding, None] = {}

    def add(self, binding: Binding) -> None:
        self._bindings[binding] = None

    def remove(self, binding: Binding) -> None:
        del self._bindings[binding]

    def match(self, key: str, headers: Mapping[str, Any]) -> Iterable[Destination]:
        return [binding.destination for binding in self._bindings]


@dataclass(slots=True, eq=False)
class _Node:
    """A place in the trie of patterns: the words that may follow, and the patterns that end here."""

    repeats: bool = False
    following: dict[str, _Node] = field(default_factory=dict)
    bindings: dict[Binding, None] = field(default_factory=dict)


class TopicMatcher:
    """Words divided by dots; `*` stands for one word, `#` for none or more (§3.1.3.3)."""

    uses_headers: ClassVar[bool] = False

    def __init__(self) -> None:
        self._root = _Node()

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
        # All places that the words so far can lead to, at once: linear in the words, whatever
        # the patterns, where trying one pattern after the other would be exponential in its "#"s.
        places = _with_empty_repeats([self._root])
        for word in _words(key):
            following: dict[_Node, None] = {}
            for node in places:
                if node.repeats:
                    following[node] = None
                for child in (node.following.get(word), node.following.get("*")):
                    if child is not None:
                        following[child] = None
            places = _with_empty_repeats(following)
        return [binding.destination for node in places for binding in node.bindings]


def _words(key: str) -> list[str]:
    return key.split(".") if key else []


def _with_empty_repeats(nodes: Iterable[_Node]) -> Iterable[_Node]:
    """The places, and those that a `#` standing for no word leads to."""
    places = dict.fromkeys(nodes)
    pending = list(places)
    while pending:
        child = pending.pop().following.get("#")
        if child is not None and child not in places:
            places[child] = None
            pending.append(child)
    return places


_MODES: Final = ("all", "any", "all-with-x", "any-with-x")
"""Values of x-match. The last two are RabbitMQ's, and look at fields named `x-…` as well."""


class HeadersMatcher:
    """Fields of the message's headers property (§3.1.3.4). Fields named `x-…` count only when asked for."""

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
    """Raises PreconditionFailedError."""
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
