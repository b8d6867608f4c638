"""What a client asks of the broker, and what it is told, in no protocol's words.

A session translates what its protocol says to these, and the HTTP API makes them as well. `Requests`
carries them out, each with the rights of the user who asks, and gives one result or refusal for each.

What comes by thousands has no object here: runs of publishes, settlements and credit are given to
`SessionCore` in batches, as they are.

Arguments have the names that RabbitMQ gives them (`x-max-length`, `alternate-exchange`, ...).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from node.refusal import Refusal
from node.routing.matching import Destination
from node.session.ports import Got, QueueDeclaration

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
    """Whether there is such an exchange. Result: Completed."""

    name: str


@dataclass(frozen=True, slots=True)
class DeleteExchange:
    """Result: Completed, also where there is no such exchange."""

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
    """Result: Completed, also where there is no such binding."""

    source: str
    destination: Destination
    key: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeclareQueue:
    """Result: QueueFound, with the name that the broker gave where the client gave none."""

    declaration: QueueDeclaration


@dataclass(frozen=True, slots=True)
class FindQueue:
    """Whether there is such a queue. Result: QueueFound."""

    name: str


@dataclass(frozen=True, slots=True)
class DeleteQueue:
    """Result: Removed, also where there is no such queue."""

    name: str
    if_unused: bool = False
    if_empty: bool = False


@dataclass(frozen=True, slots=True)
class PurgeQueue:
    """Remove what is ready. Result: Removed."""

    queue: str


@dataclass(frozen=True, slots=True)
class Consume:
    """`settled`: what is delivered is settled with its delivery. Result: Consuming."""

    queue: str
    credit: int
    """Messages that the consumer takes to begin with; further credit goes to the broker's port."""
    settled: bool = False
    exclusive: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cancel:
    """End a consumer; what it was given may still be settled. Result: Completed."""

    consumer: int


@dataclass(frozen=True, slots=True)
class Get:
    """One message, to be settled like a delivery unless `settled`. Result: Got, or Nothing."""

    queue: str
    settled: bool = False


Command = (
    DeclareExchange
    | FindExchange
    | DeleteExchange
    | Bind
    | Unbind
    | DeclareQueue
    | FindQueue
    | DeleteQueue
    | PurgeQueue
    | Consume
    | Cancel
    | Get
)


# -- results --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Completed:
    """Every node shows it."""


@dataclass(frozen=True, slots=True)
class QueueFound:
    name: str
    ready: int
    consumers: int


@dataclass(frozen=True, slots=True)
class Removed:
    """So many messages."""

    count: int


@dataclass(frozen=True, slots=True)
class Consuming:
    """`consumer` is the number that deliveries will name, and settlements and credit have to.

    `returnable`: what the consumer is given may go back to its queue, which keeps it until it is settled.
    `reply_to`: the address of direct replies to this consumer; empty for one of another queue.
    """

    consumer: int
    returnable: bool
    reply_to: str = ""


@dataclass(frozen=True, slots=True)
class Nothing:
    """The queue has no message that is ready."""


COMPLETED: Final = Completed()
NOTHING: Final = Nothing()

Result = Completed | QueueFound | Removed | Consuming | Got | Nothing

Answered = Callable[[Result | Refusal], None]
"""Takes what a command has come to, once."""
