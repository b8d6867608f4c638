"""The events of a message's life as a log tells them (requirement X8): plain values, which nodes send each
other and HTTP clients get.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple


class Happened(StrEnum):
    """The kinds of events in the life of a message."""

    PUBLISHED = "published"
    WITHHELD = "withheld"
    """The message waits for the outcome of its transaction."""
    COMMITTED = "committed"
    ABORTED = "aborted"
    REFERRED = "referred"
    """A new queue has got the message from the past of its stream."""
    BROUGHT_BACK = "brought_back"
    """A client has brought the message back, which had left the queue."""
    DELAYED = "delayed"
    EXPIRES = "expires"
    LEASED = "leased"
    HELD = "held"
    """A new owner has learned that a client has the message."""
    LINKED = "linked"
    """The queue keeps the message for the link of the consumer that gets it."""
    TAKEN = "taken"
    """A transaction over several partitions is to settle the message."""
    RETURNED = "returned"
    SETTLED = "settled"
    REJECTED = "rejected"
    EXPIRED = "expired"
    DROPPED = "dropped"
    """The queue was over a limit."""
    FAILED = "failed"
    """Too many deliveries have failed."""
    REPLACED = "replaced"
    PURGED = "purged"
    DELETED = "deleted"
    """The queue was deleted."""
    LEAVING = "leaving"
    """A dead letter is on its way to another partition."""
    MOVED = "moved"
    LOST_TRACK = "unknown"
    """Entries are gone that may have told of the message."""


class Occurrence(NamedTuple):
    """One event in the life of a message. `entry` is the log index, with its `term`; `time` is that of the
    owner's clock, in milliseconds since the epoch, 0 where the log has none. `queue` is the queue's id, 0
    where several are meant. `facts` has the other facts, in plain values.
    """

    happened: Happened
    entry: int
    term: int
    time: int
    queue: int
    facts: dict[str, Any]


class LeadKind(StrEnum):
    """How a lead names a message."""

    NUMBER = "number"
    TRANSFER = "transfer"
    """By a transfer of dead letters: the batch `number` of the front end."""
    TRANSACTION = "transaction"


class Lead(NamedTuple):
    """Where a message goes on, in a partition: under a `number` there, or as the one at `place` among `total`
    messages that come with a batch or a transaction of a front end.
    """

    partition: int
    kind: LeadKind
    number: int
    front_end: int = 0
    place: int = 0
    total: int = 1


def read_lead(plain: Sequence[Any]) -> Lead:
    """A lead from its plain values. Raises ValueError for an unknown kind, and TypeError."""
    partition, kind, *others = plain
    return Lead(partition, LeadKind(kind), *others)
