"""Why a queue gives a message up."""

from __future__ import annotations

from enum import IntEnum


class Reason(IntEnum):
    """Why a queue gives a message up. Values stand in journals: never renumber."""

    REJECTED = 1
    EXPIRED = 2
    MAXLEN = 3
    DELIVERY_LIMIT = 4
