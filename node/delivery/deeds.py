"""The deeds that clients ask for messages which they name by bookmark or by filter, and their outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from node.ranges.range_set import Range


class Deed(IntEnum):
    """A request of a client. Messages between nodes have the numbers: never renumber."""

    ACKNOWLEDGE = 1
    """The message is settled: the queue removes it."""
    CANCEL = 2
    """The message goes back to the queue, and its delivery has failed by a client's word."""
    EXPIRE = 3
    """The message expires at once."""


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


@dataclass(frozen=True, slots=True)
class Named:
    """Messages that a client names by their numbers or by a filter, which has the octets of a selector, and
    what it asks of them. An empty filter stands for the numbers.
    """

    deed: Deed
    ranges: list[Range]
    filter: bytes = b""
