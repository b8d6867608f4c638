"""What the front end needs of the broker behind it. `cluster.gateway.broker_port` implements it.

Calls that need an answer of other nodes take a callback; it is called in a later turn, or at once,
with the result or the refusal. Nothing here blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol

from node.message.run import Run
from node.ranges.numbers import Numbers, Range
from node.refusal import Refusal
from node.routing.exchange import Exchange
from node.routing.matching import Binding
from node.session.logins import Login
from node.session.permissions import Permissions, Scope
from node.session.traffic import ExchangeFlow


@dataclass(frozen=True, slots=True)
class QueueRef:
    """A queue as a session refers to it."""

    name: str
    partition: int
    id: int
    vhost: str

    def __str__(self) -> str:
        """As reply texts name it."""
        return f"queue '{self.name}' in vhost '{self.vhost}'"


@dataclass(frozen=True, slots=True)
class QueueDeclaration:
    """What a queue is to be. An empty name asks the broker to give one."""

    name: str
    durable: bool
    exclusive: bool
    auto_delete: bool
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """`scheduled` are the messages that are not due yet: they are not ready."""

    ready: int
    consumers: int
    leased: int
    scheduled: int = 0


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    no_ack: bool
    exclusive: bool
    priority: int
    limit: int
    """The credit to begin with."""


@dataclass(init=False, slots=True)
class Got:
    """A message that was asked for. `consumer` is the number to settle it under; `ready` are left."""

    consumer: Final[int]
    run: Final[Run]
    sequence: Final[int]
    redelivered: Final[bool]
    ready: Final[int]

    def __init__(self, consumer: int, run: Run, sequence: int, redelivered: bool, ready: int) -> None:
        self.consumer = consumer
        self.run = run
        self.sequence = sequence
        self.redelivered = redelivered
        self.ready = ready


@dataclass(frozen=True, slots=True)
class Identity:
    """Who logged in."""

    user: str
    tags: tuple[str, ...] = ()


Authenticated = Callable[[Identity | None, str], None]
"""Takes who it is; or None and why, for the log and never for the client."""


@dataclass(frozen=True, slots=True)
class VhostConnection:
    """A connection in a virtual host; `holder` is the number that exclusive queues belong to."""

    scope: Scope
    holder: int


class Outcome(Enum):
    """What becomes of a message that a client was given."""

    ACCEPTED = 1
    REJECTED = 2
    """Not to be delivered again."""
    RETURNED = 3
    """Back to its queue, and counted as a delivery that failed."""
    RELEASED = 4
    """Back to its queue, as if it had not been delivered."""


class Settlement(NamedTuple):
    """Ranges of a consumer's sequence numbers, and what becomes of them."""

    consumer: int
    ranges: list[Range]
    outcome: Outcome


class Subscriber(Protocol):
    """A session, as the broker sees it."""

    def deliver(self, consumer: int, run: Run, numbers: Numbers, redelivered: bool) -> None: ...
    def confirm(self, channel: int, first: int, last: int) -> None: ...
    def reject(self, channel: int, first: int, last: int) -> None: ...
    def consumer_cancelled(self, consumer: int) -> None: ...
    def unblocked(self) -> None: ...
    def force_close(self, reason: str) -> None: ...

    @property
    def channel_count(self) -> int: ...


class Route(Protocol):
    """Where messages with one exchange and key go; false when nowhere."""

    @property
    def flow(self) -> ExchangeFlow:
        """What is counted of the exchange."""

    def __bool__(self) -> bool: ...


Done = Callable[[Refusal | None], None]


class BrokerPort(Protocol):
    """The broker, as sessions see it. `holder` numbers the connection that exclusive queues belong to."""

    permissions: Permissions

    def ready(self) -> bool:
        """Whether this node's catalog may be relied upon now; if not, no client is read from."""

    def wait_ready(self, subscriber: Subscriber) -> None:
        """Have `subscriber.unblocked` called when `ready` is true again."""

    def wait_no_more(self, subscriber: Subscriber) -> None:
        """The subscriber is gone, and takes no call of `unblocked`."""

    def authenticate(self, login: Login, remote: str, answer: Authenticated) -> None:
        """Check who a client says to be; `remote` is its address."""

    def enter(self, subscriber: Subscriber, user: str, vhost: str) -> VhostConnection:
        """Open a connection in a virtual host. Raises EntryRefusedError."""

    def channel_opened(self, user: str) -> None:
        """Raises EntryRefusedError where that was one channel too many."""

    def release_holder(self, holder: int, released: Callable[[], None]) -> None:
        """The connection is closed: its exclusive queues go. Calls back when no client sees them any more."""

    def exchange(self, vhost: str, name: str) -> Exchange:
        """Raises NotFoundError."""

    def queue(self, vhost: str, name: str, holder: int) -> QueueRef:
        """Raises NotFoundError, HomeNodeDownError, ResourceLockedError for another's exclusive queue."""

    def reply_queue(self, vhost: str, holder: int) -> QueueRef:
        """A queue for direct replies to one channel; it goes with its consumer."""

    def find_reply_queue(self, vhost: str, name: str) -> QueueRef:
        """Where a queue of this name would be, on whichever node. Raises NotFoundError where nowhere."""

    def needs_headers(self, scope: Scope, exchange: str) -> bool:
        """Raises NotFoundError; AccessRefusedError to a user who may not write to the exchange."""

    def route(
        self,
        scope: Scope,
        exchange: str,
        key: str,
        headers: Mapping[str, Any] | None = None,
        copies: Sequence[str] = (),
    ) -> Route:
        """`copies` are further keys. Raises NotFoundError and AccessRefusedError (no permission to write,
        internal exchange).
        """

    def publish(self, subscriber: Subscriber, channel: int, run: Run, route: Route, first_tag: int) -> bool:
        """Publish a run along a route that leads somewhere, to be confirmed from `first_tag` on (0: not).

        False: publish no more until `subscriber.unblocked` is called.
        """

    def commit(
        self, publishes: Sequence[tuple[Run, Route]], settled: Sequence[Settlement], answer: Done
    ) -> None:
        """Publish along routes that lead somewhere, and settle, as one.

        Answers without a refusal once everything is durable on a majority. With one nothing has been done
        and nothing will be: the messages that were to be settled are returned.
        """

    def still_leads(self, route: Route) -> bool:
        """Whether a route that was found earlier leads to a queue that is there now."""

    def when_visible(self, done: Callable[[], None]) -> None:
        """Call `done` once what this node's catalog shows now is seen on every node."""

    def declare_exchange(self, vhost: str, exchange: Exchange, answer: Done) -> None: ...
    def delete_exchange(self, vhost: str, name: str, if_unused: bool, answer: Done) -> None: ...
    def bind(self, vhost: str, binding: Binding, arguments: dict[str, Any], answer: Done) -> None: ...
    def unbind(self, vhost: str, binding: Binding, arguments: dict[str, Any], answer: Done) -> None: ...

    def declare_queue(
        self,
        vhost: str,
        declaration: QueueDeclaration,
        holder: int,
        answer: Callable[[QueueRef | None, Refusal | None], None],
    ) -> None: ...

    def delete_queue(
        self,
        queue: QueueRef,
        if_unused: bool,
        if_empty: bool,
        answer: Callable[[int, Refusal | None], None],
    ) -> None: ...

    def purge(self, queue: QueueRef, answer: Callable[[int, Refusal | None], None]) -> None: ...
    def count(self, queue: QueueRef, answer: Callable[[QueueCounts, Refusal | None], None]) -> None: ...

    def consume(
        self, subscriber: Subscriber, queue: QueueRef, options: ConsumerOptions,
        answer: Callable[[int, Refusal | None], None],
    ) -> None: ...  # fmt: skip

    def keeps_until_settled(self, queue: QueueRef) -> bool:
        """Whether the queue still has what it delivered, or removed it before (at-most-once)."""

    def leave(self, consumer: int, done: Callable[[], None]) -> None:
        """End a consumer at its client's wish. `done` is called once what the same session published before
        has come to the consumer, as far as that had credit, and its queue is gone if it goes with it.
        """

    def cancel(self, consumer: int, done: Callable[[], None]) -> None:
        """Deliver no more; what was delivered may still be settled. `done` is called once the queue is gone,
        if it goes with the consumer.
        """

    def forget(self, consumer: int) -> None:
        """Nothing of the consumer can still be settled: its channel is gone."""

    def get(
        self, queue: QueueRef, no_ack: bool, answer: Callable[[Got | None, Refusal | None], None]
    ) -> None: ...

    def credit(self, consumer: int, limit: int) -> None: ...
    def settle(self, consumer: int, ranges: list[Range]) -> None: ...
    def give_back(self, consumer: int, ranges: list[Range], failed: bool) -> None: ...

    def discard(self, consumer: int, ranges: list[Range]) -> None: ...
