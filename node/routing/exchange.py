"""The exchanges of one virtual host, their bindings, and the routing of messages to queues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from node.refusal import (
    AccessRefusedError,
    NotFoundError,
    PreconditionFailedError,
)
from node.routing.equivalence import check_equivalent_arguments, check_property
from node.routing.matching import (
    Binding,
    Destination,
    DestinationKind,
    DirectMatcher,
    FanoutMatcher,
    HeadersMatcher,
    Matcher,
    TopicMatcher,
)

CACHED_ROUTES: Final = 8192
DEFAULT_EXCHANGE: Final = ""
RESERVED_PREFIX: Final = "amq."
DELAYED_TYPE: Final = "x-delayed-message"


class ExchangeKind(Enum):
    """The types of AMQP 0-9-1 §3.1.3."""

    DIRECT = "direct"
    FANOUT = "fanout"
    TOPIC = "topic"
    HEADERS = "headers"

    @classmethod
    def named(cls, name: str) -> ExchangeKind:
        """The type of this name. Raises PreconditionFailedError for another name, as RabbitMQ 4 does; 503
        would end the connection.
        """
        try:
            return cls(name)
        except ValueError:
            raise PreconditionFailedError(f"unknown exchange type '{name}'") from None


@dataclass(frozen=True, slots=True)
class Exchange:
    """The properties of an exchange. Two declarations of one name must be equal.

    `auto_delete`: the exchange is deleted with its last binding. `internal`: clients may not publish to it.
    `alternate` names the exchange for messages that no binding matches. `delayed`: declared with the type of
    RabbitMQ's delayed message plugin; the exchange routes as its kind, and every queue honours `x-delay`.
    """

    name: str
    kind: ExchangeKind
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    alternate: str | None = None
    delayed: bool = False

    @property
    def type(self) -> str:
        """The type's name in the declaration."""
        return DELAYED_TYPE if self.delayed else self.kind.value

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the declaration that have an effect."""
        delayed = {"x-delayed-type": self.kind.value} if self.delayed else {}
        return delayed if self.alternate is None else {**delayed, "alternate-exchange": self.alternate}


def asked_kind(type_: str, arguments: Mapping[str, Any]) -> tuple[ExchangeKind, bool]:
    """The kind of exchange that a declaration asks for, and whether by the type of RabbitMQ's delayed message
    plugin, whose kind is in the argument `x-delayed-type`.

    Raises PreconditionFailedError for an unknown type.
    """
    if type_ != DELAYED_TYPE:
        return ExchangeKind.named(type_), False
    try:
        return ExchangeKind(arguments.get("x-delayed-type")), True
    except ValueError:
        raise PreconditionFailedError(
            "invalid argument, 'x-delayed-type' must be an existing exchange type"
        ) from None


PREDECLARED: Final = (
    *(
        Exchange(name, kind, durable=True)
        for name, kind in (
            (DEFAULT_EXCHANGE, ExchangeKind.DIRECT),
            ("amq.direct", ExchangeKind.DIRECT),
            ("amq.fanout", ExchangeKind.FANOUT),
            ("amq.topic", ExchangeKind.TOPIC),
            ("amq.match", ExchangeKind.HEADERS),
            ("amq.headers", ExchangeKind.HEADERS),
        )
    ),
    Exchange("amq.rabbitmq.trace", ExchangeKind.TOPIC, durable=True, internal=True),
)
"""The exchanges of §3.1.3, and those that RabbitMQ's tools expect."""

_PROPERTIES: Final = ("durable", "auto_delete", "internal")


def refuse_default(*names: str) -> None:
    """Raises AccessRefusedError where one of the exchanges is the default one (§3.1.3.1)."""
    if DEFAULT_EXCHANGE in names:
        raise AccessRefusedError("operation not permitted on the default exchange")


_MATCHERS: Final[dict[ExchangeKind, Callable[[], Matcher]]] = {
    ExchangeKind.DIRECT: DirectMatcher,
    ExchangeKind.FANOUT: FanoutMatcher,
    ExchangeKind.TOPIC: TopicMatcher,
    ExchangeKind.HEADERS: HeadersMatcher,
}


class Exchanges:
    """The exchanges, queue names and bindings of the virtual host `vhost`. A refusal changes nothing."""

    def __init__(self, vhost: str = "/") -> None:
        self._vhost = vhost
        self._exchanges: dict[str, Exchange] = {each.name: each for each in PREDECLARED}
        self._matchers: dict[str, Matcher] = {each.name: _MATCHERS[each.kind]() for each in PREDECLARED}
        self._queues: set[str] = set()
        self._by_source: dict[str, dict[Binding, None]] = {}
        self._by_destination: dict[Destination, dict[Binding, None]] = {}
        self._policy_alternates: dict[str, str] = {}
        # Cached answers, cleared when a binding or an exchange changes.
        self._routes: dict[tuple[str, str], frozenset[str]] = {}
        self._header_names: dict[str, tuple[str, ...] | None] = {}

    # -- declarations ---------------------------------------------------------------------------

    def get(self, name: str) -> Exchange:
        """Raises NotFoundError."""
        try:
            return self._exchanges[name]
        except KeyError:
            raise NotFoundError(f"no {self._named(name)}") from None

    def _named(self, exchange: str) -> str:
        return f"exchange '{exchange}' in vhost '{self._vhost}'"

    def __iter__(self) -> Iterator[Exchange]:
        return iter(self._exchanges.values())

    def declared(self, exchange: Exchange) -> bool:
        """Whether the exchange exists.

        Raises AccessRefusedError for the default exchange, and for a reserved name that no exchange has;
        PreconditionFailedError where an exchange with the name has other properties.
        """
        name = exchange.name
        refuse_default(name)
        present = self._exchanges.get(name)
        if present is None:
            if name.startswith(RESERVED_PREFIX):
                raise AccessRefusedError(
                    f"exchange name '{name}' contains reserved prefix '{RESERVED_PREFIX}*'"
                )
            return False
        subject = self._named(name)
        check_property(subject, "type", exchange.type, present.type)
        for each in _PROPERTIES:
            check_property(subject, each, getattr(exchange, each), getattr(present, each))
        check_equivalent_arguments(
            subject, exchange.arguments, present.arguments, ("alternate-exchange", "x-delayed-type")
        )
        return True

    def declare(self, exchange: Exchange) -> None:
        """Add the exchange, unless it exists. Raises as `declared` does."""
        if not self.declared(exchange):
            self._exchanges[exchange.name] = exchange
            self._matchers[exchange.name] = _MATCHERS[exchange.kind]()
            self._changed()

    def set_policy_alternates(self, alternates: dict[str, str]) -> None:
        """Set the alternate exchanges that policies give, by exchange. An exchange's own has precedence."""
        if alternates != self._policy_alternates:
            self._policy_alternates = alternates
            self._changed()

    def set_policy_alternate(self, name: str, alternate: str) -> None:
        """As `set_policy_alternates`, for one exchange."""
        if self._policy_alternates.get(name) != alternate:
            self._policy_alternates[name] = alternate
            self._changed()

    def _alternate(self, name: str) -> str | None:
        own = self._exchanges[name].alternate
        return self._policy_alternates.get(name) if own is None else own

    def delete(self, name: str, if_unused: bool = False) -> list[str]:
        """Delete an exchange and its bindings; return the names of all deleted exchanges, with auto-deleted
        ones.

        Raises AccessRefusedError for a pre-declared exchange, NotFoundError, and PreconditionFailedError
        where `if_unused` is set and the exchange is the source of bindings.
        """
        refuse_default(name)
        if name.startswith(RESERVED_PREFIX):
            raise AccessRefusedError(f"deletion of system {self._named(name)} not allowed")
        self.get(name)
        if if_unused and self._by_source.get(name):
            raise PreconditionFailedError(f"{self._named(name)} in use")
        for binding in self._by_source.get(name, {}):
            self._forget_destination(binding)
        self._drop(name)
        return [name, *self._unbind_all(Destination(DestinationKind.EXCHANGE, name))]

    def add_queue(self, name: str) -> None:
        """Add a queue. The default exchange routes to it at once (§3.1.3.1)."""
        self._queues.add(name)

    def remove_queue(self, name: str) -> list[str]:
        """Remove a queue with its bindings (§3.1.5); return the exchanges that are auto-deleted with them."""
        self._queues.discard(name)
        return self._unbind_all(Destination(DestinationKind.QUEUE, name))

    # -- bindings -------------------------------------------------------------------------------

    def bind(self, binding: Binding) -> bool:
        """Add a binding; return whether it is new.

        Raises NotFoundError, AccessRefusedError for the default exchange, and PreconditionFailedError for
        arguments that are invalid for the exchange's type.
        """
        if self.bound(binding):
            return False
        bindings = self._by_source.setdefault(binding.source, {})
        self._matchers[binding.source].add(binding)
        bindings[binding] = None
        self._by_destination.setdefault(binding.destination, {})[binding] = None
        self._changed()
        return True

    def unbind(self, binding: Binding) -> list[str]:
        """Remove a binding, if it exists; return the exchanges that are auto-deleted with it.

        Raises NotFoundError, and AccessRefusedError for the default exchange.
        """
        if not self.bound(binding):
            return []
        self._forget_destination(binding)
        if not self._remove_from_source(binding):
            return []
        gone = binding.source
        return [gone, *self._unbind_all(Destination(DestinationKind.EXCHANGE, gone))]

    def bindings(self, source: str | None = None, destination: Destination | None = None) -> list[Binding]:
        """The explicit bindings of a source, to a destination, or both; all without either."""
        if destination is not None:
            found = self._by_destination.get(destination, {})
            return [each for each in found if source is None or each.source == source]
        sources = self._by_source.values() if source is None else [self._by_source.get(source, {})]
        return [binding for bindings in sources for binding in bindings]

    def bound(self, binding: Binding) -> bool:
        """Whether the binding exists. Raises NotFoundError and AccessRefusedError as `bind` does."""
        kind, name = binding.destination
        exchanges = (binding.source, name) if kind is DestinationKind.EXCHANGE else (binding.source,)
        refuse_default(*exchanges)
        for exchange in exchanges:
            self.get(exchange)
        if kind is DestinationKind.QUEUE and name not in self._queues:
            raise NotFoundError(f"no queue '{name}' in vhost '{self._vhost}'")
        return binding in self._by_source.get(binding.source, {})

    def _unbind_all(self, destination: Destination) -> list[str]:
        """Remove all bindings to a deleted object; return the exchanges that are auto-deleted with them."""
        gone: list[str] = []
        pending = [destination]
        while pending:
            for binding in self._by_destination.pop(pending.pop(), {}):
                if self._remove_from_source(binding):
                    gone.append(binding.source)
                    pending.append(Destination(DestinationKind.EXCHANGE, binding.source))
        return gone

    def _remove_from_source(self, binding: Binding) -> bool:
        """Take the binding out of its source, and delete an auto-delete source with its last binding. Returns
        whether the source is deleted.
        """
        bindings = self._by_source[binding.source]
        del bindings[binding]
        self._matchers[binding.source].remove(binding)
        self._changed()
        if bindings:
            return False
        # A registry that was restored meanwhile has no place for a source without bindings: both list the
        # source's next binding last.
        del self._by_source[binding.source]
        if not self._exchanges[binding.source].auto_delete:
            return False
        self._drop(binding.source)
        return True

    def _drop(self, name: str) -> None:
        del self._exchanges[name], self._matchers[name]
        self._by_source.pop(name, None)
        self._changed()

    def _changed(self) -> None:
        self._routes.clear()
        self._header_names.clear()

    def _forget_destination(self, binding: Binding) -> None:
        bindings = self._by_destination.get(binding.destination, {})
        bindings.pop(binding, None)
        if not bindings:
            self._by_destination.pop(binding.destination, None)

    # -- routing --------------------------------------------------------------------------------

    def uses_headers(self, exchange: str) -> bool:
        """Whether `route` depends on the message's headers for this exchange. Raises NotFoundError."""
        return self.header_names(exchange) is not None

    def header_names(self, exchange: str) -> tuple[str, ...] | None:
        """The names of the headers on which `route` depends for this exchange, sorted; None for an exchange
        that reads no headers. Raises NotFoundError.
        """
        if exchange not in self._header_names:
            self.get(exchange)
            names, reads = set[str](), False
            for reached in self._reachable(exchange):
                matcher = self._matchers[reached]
                names |= matcher.header_names
                reads = reads or matcher.uses_headers
            self._header_names[exchange] = tuple(sorted(names)) if reads else None
        return self._header_names[exchange]

    def _reachable(self, exchange: str) -> Iterator[str]:
        pending, seen = [exchange], {exchange}
        while pending:
            name = pending.pop()
            yield name
            fresh = {each for each in self._following(name) if each in self._exchanges} - seen
            seen |= fresh
            pending += fresh

    def _following(self, name: str) -> Iterable[str]:
        alternate = self._alternate(name)
        if alternate is not None:
            yield alternate
        for binding in self._by_source.get(name, ()):
            if binding.destination.kind is DestinationKind.EXCHANGE:
                yield binding.destination.name

    def route(
        self,
        exchange: str,
        routing_key: str,
        headers: Mapping[str, Any] | None = None,
        copies: Sequence[str] = (),
    ) -> frozenset[str]:
        """The names of the queues that a message goes to. Raises NotFoundError.

        `headers` None stands for a message without headers. `copies` are further routing keys.
        """
        if copies:
            self.get(exchange)
            return self._find(exchange, (routing_key, *copies), headers or {})[0]
        found = self._routes.get((exchange, routing_key))
        if found is None:
            self.get(exchange)
            found, fixed = self._find(exchange, (routing_key,), headers or {})
            if fixed:
                if len(self._routes) >= CACHED_ROUTES:
                    self._routes.clear()
                self._routes[exchange, routing_key] = found
        return found

    def _find(
        self, exchange: str, keys: Sequence[str], headers: Mapping[str, Any]
    ) -> tuple[frozenset[str], bool]:
        """The queues, and whether the answer can be cached until a binding or an exchange changes."""
        queues: set[str] = set()
        fixed = True
        pending, seen = [exchange], {exchange}
        while pending:
            name = pending.pop()
            following: list[str] = []
            if name == DEFAULT_EXCHANGE:
                # Queues are declared and deleted too often to clear the cache for them.
                fixed = False
                named = [key for key in keys if key in self._queues]
                matched = bool(named)
                queues.update(named)
            else:
                matcher = self._matchers[name]
                fixed = fixed and not matcher.uses_headers
                destinations = [each for key in keys for each in matcher.match(key, headers)]
                matched = bool(destinations)
                for kind, target in destinations:
                    if kind is DestinationKind.QUEUE:
                        queues.add(target)
                    else:
                        following.append(target)
            alternate = self._alternate(name)
            if not matched and alternate is not None:
                following.append(alternate)
            fresh = [each for each in following if each in self._exchanges and each not in seen]
            seen.update(fresh)
            pending += fresh
        return frozenset(queues), fixed
