"""The commands of clients, and their results, independent of any protocol.

A protocol's session translates its requests to commands, and the HTTP API makes commands as well. `Requests`
carries a command out with the rights of the user who gives it, and answers with one result or one refusal.

Publishes, settlements and credit are no commands: a session gives them to `SessionCore` in batches.

Arguments have RabbitMQ's names (`x-max-length`, `alternate-exchange`, ...).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from node.delivery.backlog import NO_BACKLOG
from node.delivery.deeds import NO_LIMIT, Became, Deed, MoveTarget, ReplayTarget
from node.message.streams import StreamOffset
from node.ranges.range_set import Range
from node.refusal import Refusal
from node.routing.matching import Binding, Destination
from node.session.ports import Got, QueueDeclaration
from node.session.queue_description import QueueDescription
from node.session.view_port import ViewRows, ViewVersion

# -- commands -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeclareExchange:
    """`kind` names an exchange type, also that of RabbitMQ's delayed message plugin. Result: Completed."""

    name: str
    kind: str = "direct"
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FindExchange:
    """Find out whether the exchange exists. Result: Completed, or a refusal with NotFoundError."""

    name: str


@dataclass(frozen=True, slots=True)
class DeleteExchange:
    """Result: Completed, also where the exchange does not exist."""

    name: str
    if_unused: bool = False


@dataclass(frozen=True, slots=True)
class Bind:
    """Result: Completed."""

    source: str
    destination: Destination
    key: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unbind:
    """Result: Completed, also where the binding does not exist."""

    source: str
    destination: Destination
    key: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeclareQueue:
    """Result: QueueFound, with the name that the broker generated where the declaration has none."""

    declaration: QueueDeclaration


@dataclass(frozen=True, slots=True)
class FindQueue:
    """Find out whether the queue exists. Result: QueueFound, or a refusal with NotFoundError."""

    name: str


@dataclass(frozen=True, slots=True)
class DescribeQueue:
    """Result: QueueDescribed."""

    name: str


@dataclass(frozen=True, slots=True)
class ListBindings:
    """Find the bindings that clients have made between two ends. Result: BindingsFound."""

    source: str
    destination: Destination


@dataclass(frozen=True, slots=True)
class DeleteQueue:
    """Result: Removed; with 0 messages where the queue does not exist."""

    name: str
    if_unused: bool = False
    if_empty: bool = False


@dataclass(frozen=True, slots=True)
class PurgeQueue:
    """Remove the messages that no consumer has. Result: Removed."""

    queue: str


X_MAX_BACKLOG: Final = "x-max-backlog"
"""The argument of a consumer that asks for a backlog (`node.delivery.backlog`)."""

X_TELL: Final = "x-tell"
"""The argument of a consumer that is told the bookmark of each message, and the end of its lease."""

X_BROWSE: Final = "x-browse"
"""The argument of a consumer that is shown copies (`Consume.browse`)."""


@dataclass(frozen=True, slots=True)
class Consume:
    """Start a consumer. `settled`: a delivery is settled when it is made (no-ack). Result: Consuming.

    `browse`: the consumer is shown a copy of each ready message, and of those that become ready later. The
    queue keeps the messages, and ignores the consumer's settlements. The consumer counts nowhere as one.
    """

    queue: str
    credit: int
    """The consumer's first credit in messages; further credit goes through `SessionCore.credit`."""
    settled: bool = False
    exclusive: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)
    """`x-priority`, `X_MAX_BACKLOG`, `X_TELL`, `X_BROWSE`, `node.names.X_LEASE_LINGER`, `X_SUBSCRIPTION`
    (`node.message.streams`), `node.names.X_REPLACE`, and `x-filter` (`node.session.filter_arguments`).
    """
    browse: bool = False
    offset: Any = None
    """Where a reader of a stream begins, as `node.session.stream_offsets` reads it."""
    filter: bytes = b""
    """The consumer gets the messages alone that this selector takes (`node.expressions.nodes`); empty for
    all messages.
    """
    link: bytes = b""
    """The link for which the queue is to keep the consumer's messages, where the queue does that
    (`node.delivery.link_terms`); empty for none.
    """
    replaces: int = 0
    """The consumer that goes on with the terms of this command; 0 to start a new one."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """End a consumer. The client may still settle its deliveries. `closed`: the queue is to keep no message
    for the link of the consumer. Result: Completed.
    """

    consumer: int
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Get:
    """Take one message, which the client has to settle unless `settled`. Result: Got, or Nothing."""

    queue: str
    settled: bool = False


@dataclass(frozen=True, slots=True)
class RenewLeases:
    """Let the leases of messages begin anew, those of other clients too. A bookmark names each message
    (`node.message.bookmarks`). Result: LeasesRenewed.
    """

    queue: str
    bookmarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SettleMessages:
    """Acknowledge, cancel or expire messages, those of other clients too; move or copy those that no client
    has to another queue, which the user may write; publish those anew; or bring back messages that have left
    the queue. A bookmark names each message, or, without bookmarks, a filter names those that the queue has
    (docs/expressions.md), or that its stream has, from the bookmark `first` to the bookmark `last`, which may
    be empty. `condition`: the octets of a selector that messages must meet, too.
    `target`, `limit`, `tries`, `since` and `until`: see `node.delivery.deeds.Named`. Result: MessagesSettled.
    """

    queue: str
    deed: Deed
    bookmarks: tuple[str, ...] = ()
    filter: str = ""
    target: MoveTarget | ReplayTarget | None = None
    first: str = ""
    last: str = ""
    limit: int = NO_LIMIT
    tries: bool = False
    condition: bytes = b""
    since: StreamOffset | None = None
    until: StreamOffset | None = None


@dataclass(frozen=True, slots=True)
class ReadView:
    """Read the rows of a view, where they have the version `known` up to `wait_ms` milliseconds later.
    Result: ViewRead. `keyed`: with the keys of the rows, and without rows where the version is `known`.
    """

    view: str
    known: ViewVersion
    wait_ms: int
    keyed: bool = False


Command = (
    DeclareExchange
    | FindExchange
    | DeleteExchange
    | Bind
    | Unbind
    | DeclareQueue
    | FindQueue
    | DescribeQueue
    | ListBindings
    | DeleteQueue
    | PurgeQueue
    | Consume
    | Cancel
    | Get
    | RenewLeases
    | SettleMessages
    | ReadView
)


# -- results --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Completed:
    """The command has taken effect, and the catalog of every node shows it."""


@dataclass(frozen=True, slots=True)
class QueueFound:
    name: str
    ready: int
    consumers: int
    created: bool = False
    """Whether a declaration has created the queue."""


@dataclass(frozen=True, slots=True)
class QueueDescribed:
    queue: QueueDescription
    ready: int
    consumers: int


@dataclass(frozen=True, slots=True)
class BindingsFound:
    """Each binding with its arguments."""

    bindings: list[tuple[Binding, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Removed:
    """The command has removed `count` messages."""

    count: int


@dataclass(frozen=True, slots=True)
class Consuming:
    """The consumer has started. `consumer` is its number in deliveries, settlements and credit.

    `returnable`: the queue keeps a message until it is settled, so that a delivery can go back to the queue.
    `reply_to`: the address of direct replies, where the consumer's queue is that of direct replies; else
    empty. `unsettled`: the messages that the consumer's link has had before, and has not settled; None where
    the queue keeps no messages for the link. `backlog`: how many unsettled messages the consumer may have, or
    `node.delivery.backlog.NO_BACKLOG`.
    """

    consumer: int
    returnable: bool
    reply_to: str = ""
    unsettled: list[Range] | None = None
    backlog: int = NO_BACKLOG


@dataclass(frozen=True, slots=True)
class Nothing:
    """The queue has no ready message."""


@dataclass(frozen=True, slots=True)
class LeasesRenewed:
    """The leases of the messages with these bookmarks end at `until`, in milliseconds since the epoch. The
    other messages are under no lease that ends earlier.
    """

    until: int
    bookmarks: list[str]


@dataclass(frozen=True, slots=True)
class MessagesSettled:
    """The outcomes for messages: how many have each of them, and the outcome for each message that was named
    by a bookmark. `left`: the bookmarks of the first and the last message with which another request may go
    on; None where the request has come to the end.
    """

    counts: dict[Became, int]
    bookmarks: dict[str, Became]
    left: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class ViewRead:
    found: ViewRows


COMPLETED: Final = Completed()
NOTHING: Final = Nothing()

Result = (
    Completed
    | QueueFound
    | QueueDescribed
    | BindingsFound
    | Removed
    | Consuming
    | Got
    | Nothing
    | LeasesRenewed
    | MessagesSettled
    | ViewRead
)

Answered = Callable[[Result | Refusal], None]
"""Called once for each command, with its result or its refusal."""
