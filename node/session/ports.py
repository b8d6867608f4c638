"""The broker, as sessions call it (`BrokerPort`). `node.session.subscriber` has the other direction.

`cluster.gateway.broker_port` implements `BrokerPort`. A method that needs an answer of another node takes a
callback, and calls it once, at once or in a later turn, with the result or the refusal. No method blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final, NamedTuple, Protocol

from node.delivery.backlog import NO_BACKLOG
from node.delivery.deeds import Became, Named
from node.delivery.settlements import Modification, Outcome, Settlement
from node.message.run import Run
from node.message.streams import FROM_NEXT, StreamOffset
from node.ranges.range_set import Range
from node.refusal import Refusal
from node.routing.exchange import Exchange
from node.routing.matching import Binding, Destination
from node.session.batch_port import BatchPort
from node.session.link_port import LinkPort
from node.session.logins import Login
from node.session.permissions import GrantedRights, Permissions, Scope
from node.session.queue_description import QueueDescription
from node.session.subscriber import Subscriber
from node.session.traffic import ExchangeFlow
from node.session.view_port import ViewPort
from node.wire.scram import ScramExchange


@dataclass(frozen=True, slots=True)
class QueueRef:
    """A queue that exists. `id` is unique in the cluster; `partition` is the one that has its log."""

    name: str
    partition: int
    id: int
    vhost: str

    def __str__(self) -> str:
        """The words for the queue in reply texts."""
        return f"queue '{self.name}' in vhost '{self.vhost}'"


@dataclass(frozen=True, slots=True)
class QueueDeclaration:
    """The properties of a queue to declare. For an empty name the broker generates one."""

    name: str
    durable: bool
    exclusive: bool
    auto_delete: bool
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """Numbers of a queue. `scheduled` counts the delayed messages that are not due; `ready` has
    none of them.
    """

    ready: int
    consumers: int
    leased: int
    scheduled: int = 0


class DeclaredQueue(NamedTuple):
    """A declared queue. `counts`: those of one that the declaration has made, where the owner tells them."""

    queue: QueueRef
    counts: QueueCounts | None = None
    created: bool = False
    """Whether the declaration created the queue, and no other one before."""


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    no_ack: bool
    exclusive: bool
    priority: int
    limit: int
    """The consumer's first credit, in messages."""

    browse: bool = False
    """The consumer is shown copies: see `node.session.commands.Consume`."""
    offset: StreamOffset = FROM_NEXT
    """The place at which a reader of a stream begins."""
    subscription: bytes = b""
    """The subscription of a reader of a stream (`node.queue.subscriptions`); empty for none."""
    filter: bytes = b""
    """The octets of the consumer's selector; empty for none."""
    link: bytes = b""
    """The link for which the queue is to keep its messages (`node.delivery.link_terms`); empty for none."""
    tells: bool = False
    """Deliveries state their bookmarks, and the ends of their leases (`MessageFormat.with_lease`)."""
    backlog: int = NO_BACKLOG
    """The backlog that the consumer asks for (`node.delivery.backlog`)."""
    replaces: int = 0
    """The consumer that goes on with these options and keeps its messages; 0 for a new consumer."""


@dataclass(init=False, slots=True)
class Got:
    """A run of one message that a client got (basic.get). The session settles it under the number `lease`
    (`node.delivery.settlements.TOKEN_SHIFT`). `ready` messages are left in the queue.
    """

    lease: Final[int]
    run: Final[Run]
    sequence: Final[int]
    redelivered: Final[bool]
    ready: Final[int]

    def __init__(self, lease: int, run: Run, sequence: int, redelivered: bool, ready: int) -> None:
        self.lease = lease
        self.run = run
        self.sequence = sequence
        self.redelivered = redelivered
        self.ready = ready


@dataclass(frozen=True, slots=True)
class Identity:
    """The user who has logged in, with the user's tags. For a user with an access token, `rights` are those
    that the token grants, and `lasts` the seconds until it ends.
    """

    user: str
    tags: tuple[str, ...] = ()
    rights: GrantedRights | None = None
    lasts: float = inf


Authenticated = Callable[[Identity | None, str], None]
"""Called with the identity; or with None and a reason for the log, which the client must not see."""


@dataclass(frozen=True, slots=True)
class VhostConnection:
    """A connection that is open in a virtual host. Its exclusive queues belong to the number `holder`."""

    scope: Scope
    holder: int


class Route(Protocol):
    """The queues that messages with one exchange and routing key go to; false without a queue."""

    @property
    def flow(self) -> ExchangeFlow:
        """The counters of the exchange."""

    def __bool__(self) -> bool: ...


Done = Callable[[Refusal | None], None]
TakeGot = Callable[[Got | None, Refusal | None], None]

NamedAnswer = Callable[[dict[Became, list[Range]], Refusal | None], None]
"""Called with the messages by what has become of them."""

RenewalAnswer = Callable[[int, list[Range], Refusal | None], None]
"""Called with the end of renewed leases in milliseconds since the epoch, and their messages; those under no
lease that ends earlier are left out.
"""

TargetAnswer = Callable[[int, Sequence[bytes], Refusal | None], None]
"""Called with the number of an attached target, 0 where the queue keeps none, and its unsettled tags."""


class TargetPort(Protocol):
    """The targets that queues keep for the links of clients that send, as sessions see them. The numbers are
    those of `attach`; a target that is not attached has no effect on its queue.
    """

    @property
    def known(self) -> bool:
        """Whether all nodes know targets."""

    def attach(self, queue: QueueRef, link: bytes, lost: Callable[[], None], answer: TargetAnswer) -> None:
        """A link (`node.delivery.link_terms`) is attached: it has its target from now on, and no other link
        publishes there. `lost` is called if the link loses the target to another one, before the queue
        refuses a message of the link for that reason.
        """

    def receiving(self, target: int, tags: Sequence[bytes]) -> AbstractContextManager[None]:
        """The messages that are published in this context to the target's queue have come in deliveries with
        these tags. The queue keeps the tags of those that it takes. The queue refuses all of them if the link
        has lost its target to another one.
        """

    def committing(self, received: Sequence[tuple[int, Sequence[bytes]]]) -> AbstractContextManager[None]:
        """The transaction that is committed in this context has deliveries with these tags, by targets. It is
        refused if a link has lost its target.
        """

    def settle(self, target: int, tags: Sequence[bytes]) -> None:
        """The client has settled deliveries: the queue keeps their tags no more."""

    def detach(self, target: int, closed: bool) -> None:
        """The link is gone. The queue keeps the target for the time of the link; `closed`: no more."""


class BrokerPort(Protocol):
    """The broker, as sessions see it. `holder` is the number of a connection, to which exclusive queues
    belong.
    """

    permissions: Permissions
    targets: TargetPort
    links: LinkPort
    views: ViewPort
    batches: BatchPort

    def ready(self) -> bool:
        """Whether this node's catalog is up to date. A session takes no input of its client while
        it is not.
        """

    def wait_ready(self, subscriber: Subscriber) -> None:
        """Call `subscriber.unblocked` when `ready` is true again."""

    def wait_no_more(self, subscriber: Subscriber) -> None:
        """Do not call `unblocked` after `wait_ready`: the session has ended."""

    def authenticate(self, login: Login, remote: str, answer: Authenticated) -> None:
        """Check a client's login; `remote` is the client's IP address."""

    @property
    def offers_scram(self) -> bool:
        """Whether there are users who can log in by SCRAM, and the configuration lets them."""

    def begin_scram(self) -> ScramExchange:
        """Begin a client's exchange by SCRAM. With a right proof its user and verifier are a `ScramLogin`."""

    def enter(self, subscriber: Subscriber, identity: Identity, vhost: str) -> VhostConnection:
        """Open a connection in a virtual host. Raises EntryRefusedError."""

    def change_rights(self, holder: int, identity: Identity) -> Scope:
        """The user of an open connection has a new token: the scope from now on. Raises EntryRefusedError
        where the token grants nothing in the virtual host of the connection.
        """

    def channel_opened(self, user: str) -> None:
        """A connection of the user has opened a channel. Raises EntryRefusedError where the user has too
        many.
        """

    def release_holder(self, holder: int, released: Callable[[], None]) -> None:
        """Delete the exclusive queues of a closed connection. Calls back when no client sees them
        any more.
        """

    def exchange(self, vhost: str, name: str) -> Exchange:
        """Raises NotFoundError."""

    def queue(self, vhost: str, name: str, holder: int) -> QueueRef:
        """Raises NotFoundError, HomeNodeDownError, OutsideDomainError for a queue in a domain of other nodes,
        and ResourceLockedError for an exclusive queue of another connection.
        """

    def reply_queue(self, vhost: str, holder: int) -> QueueRef:
        """Declare a queue for direct replies to one channel. The queue is deleted with its consumer."""

    def owner_elsewhere(self, vhost: str, name: str, holder: int) -> tuple[str, int] | None:
        """The host and the port for clients of the node that owns the queue. None where this node owns the
        queue, where no owner is known, and where the configuration wants no redirects. Raises as `queue`.
        """

    def find_local_queue(self, vhost: str, name: str) -> QueueRef:
        """The queue for direct replies, or the server-named exclusive queue, with this name, on the node that
        the name states. Raises NotFoundError where the name states no running node.
        """

    def describe(self, queue: QueueRef) -> QueueDescription:
        """Raises NotFoundError for a queue that has gone meanwhile."""

    def bindings(
        self, vhost: str, source: str, destination: Destination
    ) -> list[tuple[Binding, Mapping[str, Any]]]:
        """The bindings that clients have made between both, with their arguments."""

    def header_names(self, scope: Scope, exchange: str) -> tuple[str, ...] | None:
        """The names of the headers on which routes of the exchange depend; None where there are none.

        Raises NotFoundError, and AccessRefusedError where the user may not write to the exchange.
        """

    def route_alike(
        self, scope: Scope, exchange: str, key: str, alike: bytes, headers: Callable[[], Mapping[str, Any]]
    ) -> Route:
        """As `route`, for messages with the headers that `alike` stands for (`MessageFormat.header_keys`).
        `headers` reads them. Equal routes are one object.
        """

    def route_keys(
        self, scope: Scope, exchange: str, keys: Sequence[str]
    ) -> tuple[Sequence[tuple[int, Route]], Refusal | None]:
        """The routes of messages by their routing keys, in order: (number of messages in a row, their route).

        Where the route of a message is refused, the list ends before it, and the refusal is given. Equal
        routes are one object.
        """

    @property
    def keeps_keys(self) -> bool:
        """Whether the queues of all nodes take a run of messages with different routing keys."""

    @property
    def keeps_sections(self) -> bool:
        """Whether the queues of all nodes take messages of AMQP 1.0 as they come
        (`node.wire.formats.AMQP_1_0`). Otherwise a session converts messages before it publishes them.
        """

    @property
    def knows_filters(self) -> bool:
        """Whether the owners on all nodes know the filters of consumers. Otherwise no filter is in force."""

    @property
    def knows_expressions(self) -> bool:
        """Whether the owners on all nodes read filters of the dialect of queues, and filter what enters a
        queue.
        """

    @property
    def knows_links(self) -> bool:
        """Whether all nodes know links for which queues keep messages (`ConsumerOptions.link`)."""

    def route(
        self,
        scope: Scope,
        exchange: str,
        key: str,
        headers: Mapping[str, Any] | None = None,
        copies: Sequence[str] = (),
    ) -> Route:
        """Find the queues of a message. `copies` are its further routing keys.

        Raises NotFoundError, and AccessRefusedError where the user may not write to the exchange, or the
        exchange is internal.
        """

    def publish(self, subscriber: Subscriber, channel: int, run: Run, route: Route, first_tag: int) -> bool:
        """Publish a run to the queues of a route, which has at least one. The messages have the tags from
        `first_tag` on in `Subscriber.confirm` and `reject`; 0: no confirms.

        False: a link is full; the session publishes no more until `unblocked` is called.
        """

    def commit(
        self, publishes: Sequence[tuple[Run, Route]], settled: Sequence[Settlement], answer: Done
    ) -> None:
        """Publish along routes, each with at least one queue, and settle, atomically.

        Answers without a refusal once everything is on the disks of a majority. With a refusal no message
        has been published or will be, and the messages that were to be settled are returned to their queues.
        """

    def still_leads(self, route: Route) -> bool:
        """Whether a route found earlier leads to a queue that exists now."""

    def when_visible(self, done: Callable[[], None]) -> None:
        """Call `done` when the catalog of every node has what this node's catalog has now.

        Commands that change the catalog answer after that, too.
        """

    def declare_exchange(self, vhost: str, exchange: Exchange, answer: Done) -> None: ...
    def delete_exchange(self, vhost: str, name: str, if_unused: bool, answer: Done) -> None: ...
    def bind(self, vhost: str, binding: Binding, arguments: dict[str, Any], answer: Done) -> None: ...
    def unbind(self, vhost: str, binding: Binding, arguments: dict[str, Any], answer: Done) -> None: ...

    def declare_queue(
        self,
        vhost: str,
        declaration: QueueDeclaration,
        holder: int,
        answer: Callable[[DeclaredQueue | None, Refusal | None], None],
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
        self,
        subscriber: Subscriber,
        queue: QueueRef,
        options: ConsumerOptions,
        answer: Callable[[int, Refusal | None], None],
    ) -> None: ...

    def topic_under(self, queue: QueueRef) -> QueueRef | None:
        """The stream under a queue; None where the queue is over none, or the stream is gone."""

    def keeps_until_settled(self, queue: QueueRef) -> bool:
        """Whether the queue keeps a delivered message until it is settled. False for a queue that removes a
        message before the delivery (at-most-once).
        """

    def leave(self, consumer: int, done: Callable[[], None], closed: bool = False) -> None:
        """End a consumer at its client's request. `done` is called when messages that the same session
        published before have been delivered to the consumer, as far as it had credit, and its auto-delete
        queue is deleted if this was the last consumer.
        """

    def cancel(self, consumer: int, done: Callable[[], None]) -> None:
        """End a consumer with its channel or connection: the broker delivers no more to it, and takes
        settlements until `forget`. `done` is called when its auto-delete queue is deleted if this was the
        last consumer.
        """

    def forget(self, consumer: int) -> None:
        """The channel of the consumer is closed: the session settles nothing of it any more."""

    def get(self, queue: QueueRef, no_ack: bool, answer: TakeGot, filter: bytes = b"") -> None:
        """`filter` are the octets of a selector; the client gets the first message that this takes."""

    # `lease` is the number that came with the messages, see `node.delivery.settlements.TOKEN_SHIFT`.
    # Settlements of messages that the consumer has no more, and of unknown consumers, are ignored.

    def credit(self, consumer: int, limit: int) -> None:
        """The consumer takes `limit` messages in all since it began. A lower limit revokes credit."""

    def drain(self, consumer: int, limit: int, done: Callable[[], None]) -> None:
        """As `credit`; then take away the credit for which the queue has no message.

        `done` is called once: when the consumer has got all messages that are ready for it now, up to the
        limit, or has ended. From then on it has no credit before the next `credit`. A call of `credit` before
        `done` stands: that credit is not taken away.
        """

    def settle(self, lease: int, ranges: list[Range]) -> None:
        """The client has accepted the messages: the queue removes them."""

    def unsettled_of(self, consumer: int) -> list[Range] | None:
        """The messages that the link of a new consumer has had before, and has not settled: they are
        delivered again. None where the queue keeps no messages for links.
        """

    def backlog_of(self, consumer: int) -> int:
        """How many unsettled messages a new consumer may have, or `node.delivery.backlog.NO_BACKLOG`; later
        numbers come by `Subscriber.backlog_changed`.
        """

    def when_settled(self, consumer: int, done: Callable[[], None]) -> None:
        """Call back once a majority has all settlements of the consumer up to now on disk; never where the
        only node that has the queue is down."""

    def renew(self, lease: int, ranges: list[Range]) -> None:
        """The client goes on working on the messages: where their lease has an end, the lease begins anew."""

    def renew_leases(self, queue: QueueRef, ranges: list[Range], answer: RenewalAnswer) -> None:
        """Let the leases of messages begin anew, those of other clients too."""

    def settle_named(self, queue: QueueRef, named: Named, answer: NamedAnswer) -> None:
        """Settle messages, those of other clients too."""

    def abandon(self, lease: int, ranges: list[Range]) -> None:
        """The client has gone without an outcome. The queue keeps the messages for the consumer's link, if it
        has one; else they go back, and their deliveries have failed."""

    def give_back(
        self,
        lease: int,
        ranges: list[Range],
        outcome: Outcome,
        change: Modification | None = None,
    ) -> None:
        """Return the messages to the queue. `outcome.undeliverable_here`: the queue keeps the messages for
        other consumers, as long as its owner and this consumer stay. In a queue with groups the consumer gets
        no later message before another one has them. `change` is without effect while a member of the cluster
        does not know it.
        """

    def discard(self, lease: int, ranges: list[Range], error: bytes = b"") -> None:
        """The client has rejected the messages. Dead letters have its `error`, encoded annotations."""
