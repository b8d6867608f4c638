"""Batches of commands about queues: their commands, the port of the broker, and its answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from node.refusal import Refusal
from node.session.queue_description import QueueDescription


@dataclass(frozen=True, slots=True)
class MakeQueue:
    """Make a queue. `may_exist`: a queue of the name that is there is compared with the command."""

    name: str
    durable: bool
    auto_delete: bool
    arguments: dict[str, Any]
    may_exist: bool


@dataclass(frozen=True, slots=True)
class AssertQueue:
    """A queue must be there, with these properties, and these arguments; None: without the argument."""

    name: str
    properties: dict[str, bool]
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class UpdateQueue:
    """Change arguments of a queue, of those that policies may set; None takes the argument away."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RemoveQueue:
    """Delete a queue with its messages."""

    name: str


@dataclass(frozen=True, slots=True)
class RenameQueue:
    """Give a queue the name `to`. Its messages, consumers, bindings and views stay."""

    name: str
    to: str


@dataclass(frozen=True, slots=True)
class QueryQueues:
    """Describe the queue of a name, or, where the name is empty, all queues of the virtual host; those alone
    that have these properties and arguments.
    """

    name: str
    properties: dict[str, bool]
    arguments: dict[str, Any]


BatchCommand = MakeQueue | AssertQueue | UpdateQueue | RemoveQueue | RenameQueue | QueryQueues


class CommandDone(NamedTuple):
    """The outcome of one command. `created`: it has made its queue. `found`: the queues of a query. `cut`:
    there are more of them.
    """

    created: bool = False
    found: Sequence[QueueDescription] = ()
    cut: bool = False


class RefusedCommand(NamedTuple):
    """The number of the command that has been refused, counted from 0, and with it the batch. -1: the batch
    has no outcome that this node knows.
    """

    number: int
    refusal: Refusal


TakeBatch = Callable[[list[CommandDone], RefusedCommand | None], None]
"""Called with the outcome of each command, or with the refusal of a batch that has changed nothing."""


class BatchPort(Protocol):
    """The catalog, as batches see it."""

    def carry_out(self, vhost: str, holder: int, commands: Sequence[BatchCommand], answer: TakeBatch) -> None:
        """Carry out a batch whole or not at all. `answer` comes once every node sees the outcome. `holder` is
        the number of a connection, to which exclusive queues belong.
        """
