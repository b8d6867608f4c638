"""The reasons for which a queue gives a message up."""

from __future__ import annotations

from enum import IntEnum


class Reason(IntEnum):
    """The reason for which a queue gives a message up. Journals have the values: never renumber."""

    REJECTED = 1
    EXPIRED = 2
    MAXLEN = 3
    DELIVERY_LIMIT = 4
