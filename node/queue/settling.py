"""What clients may ask of messages that they name by bookmark or by filter, and what becomes of these."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from node.ranges.range_map import Span


class Deed(IntEnum):
    """What a client asks. Messages between nodes have the numbers: never renumber."""

    ACKNOWLEDGE = 1
    """The message is settled: the queue removes it."""
    CANCEL = 2
    """The message goes back to the queue, and its delivery has failed by a client's word."""
    EXPIRE = 3
    """The message expires at once."""


class Became(IntEnum):
    """What has become of a message. Messages between nodes have the numbers: never renumber."""

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


class NamedMessages(NamedTuple):
    """Messages of a queue that a client names, and what it asks of them. `spans` has (first, last, number of
    failed deliveries): a message is cancelled once, however often the client's node asks. `cancels`: all
    nodes know that a client's word is a cancel.
    """

    queue: int
    deed: Deed
    spans: list[Span]
    cancels: bool
