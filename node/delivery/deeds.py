"""The deeds that clients ask for messages which they name by bookmark or by filter, and their outcomes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple, Protocol

from node.ranges.range_set import Range


class Deed(IntEnum):
    """A request of a client. Messages between nodes have the numbers: never renumber."""

    ACKNOWLEDGE = 1
    """The message is settled: the queue removes it."""
    CANCEL = 2
    """The message goes back to the queue, and its delivery has failed by a client's word."""
    EXPIRE = 3
    """The message expires at once."""
    MOVE = 4
    """The message goes to another queue, where no client has it."""
    COPY = 5
    """Another queue gets the message too, where no client has it."""
    REPLAY = 6
    """The message is published anew and leaves its queue, where no client has it."""
    REPLAY_COPY = 7
    """The message is published anew and stays in its queue, where no client has it."""
    UNDO = 8
    """The message, which has left the queue, is in it again at its old place."""

    @property
    def copies(self) -> bool:
        """Whether a message stays in its queue, which is not that of the deed."""
        return self in (Deed.COPY, Deed.REPLAY_COPY)


class Became(IntEnum):
    """The outcome for one message. Messages between nodes have the numbers: never renumber."""

    SETTLED = 1
    """The deed is done, and committed. A message that has gone back since the client asked is cancelled."""
    GONE = 2
    """The queue does not have the message any more."""
    NOT_FOUND = 3
    """The queue has never had the message."""
    LEASED = 4
    """A consumer has the message, and only that consumer may settle it (`x-leasing`)."""
    IN_TRANSACTION = 5
    """A transaction has settled the message, and its outcome is not known."""
    NOT_LEASED = 6
    """No consumer has the message, so it cannot be cancelled."""
    REFUSED = 7
    """The other queue does not take the message."""
    LEFT = 8
    """The request has ended before the message, by its limit or by a refusal."""
    UNROUTED = 9
    """The message stays: no queue takes it where it is published anew, or the user may not publish there."""
    IN_QUEUE = 10
    """The queue has the message, so it cannot be brought back."""


NO_LIMIT: Final = 1 << 63
"""As many messages as there are."""


class MoveTarget(NamedTuple):
    """The queue to which messages are moved or copied."""

    partition: int
    queue: int


class ReplayTarget(NamedTuple):
    """The exchange and the routing key with which messages are published anew. With None they are those with
    which a message was published first, before queues gave it up.
    """

    exchange: str | None = None
    routing_key: str | None = None


class Replaying(Protocol):
    """Prepares messages of a queue to be published anew."""

    def published(self, run: Any) -> Iterator[tuple[int, Any, Any]]:
        """(place of the first message in the run, the messages as they are published, their route) for each
        stretch of messages with one route, in order. A run is a `node.message.run.Run`, a route is a
        `node.session.ports.Route`, and None where no queue takes the messages.
        """


@dataclass(frozen=True, slots=True)
class Named:
    """Messages that a client names by their numbers, and maybe by a filter, the octets of a selector, and
    what it asks of them: those of the numbers that the filter takes. `searches`: the numbers are a
    stretch of the queue. `target` is where the messages of a move, a copy or a replay go. The deed is done
    for `limit` messages at most. `tries`: nothing is done, the messages are counted as if it were.
    `since`, `until`: the kind and the value of a place in their stream (`node.message.streams.StreamOffset`),
    from which on they are, and before which; None for all.
    """

    deed: Deed
    ranges: list[Range]
    filter: bytes = b""
    target: MoveTarget | Replaying | None = None
    limit: int = NO_LIMIT
    tries: bool = False
    searches: bool = False
    since: tuple[int, int] | None = None
    until: tuple[int, int] | None = None
