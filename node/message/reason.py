"""The reasons for which a queue gives a message up."""

from __future__ import annotations

from enum import IntEnum


class Reason(IntEnum):
    """The reason for which a queue gives a message up. Journals have the values: never renumber."""

    REJECTED = 1
    EXPIRED = 2
    MAXLEN = 3
    DELIVERY_LIMIT = 4
    REPLACED = 5
    """A newer message has the same key (queue argument x-key). No such message is a dead letter."""
    LENT = 6
    """Another owner of the queue gets the message (queue argument x-owners). The message has not died."""
