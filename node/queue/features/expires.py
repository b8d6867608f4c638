"""Deletes a queue that no client has used for a time (queue argument x-expires)."""

from __future__ import annotations

from typing import Final

from node.queue.argument import Argument, PolicyUse
from node.queue.argument_types import read_positive_time
from node.queue.feature import Declaration, Description, Rule
from node.queue.settings import QueueSettings

EXPIRES: Final = Argument("x-expires", read_positive_time, "expires_ms", policy=PolicyUse.LIMIT)


class UnusedTime(Rule):
    """States after how many milliseconds without a client's use the queue is deleted."""

    def __init__(self, limit_ms: int) -> None:
        super().__init__()
        self._limit_ms = limit_ms

    def describe(self, description: Description) -> None:
        description.unused_ms = self._limit_ms


def _rule(settings: QueueSettings) -> Rule | None:
    limit = EXPIRES.of(settings)
    return None if limit is None else UnusedTime(limit)


FEATURE: Final[Declaration] = Declaration(EXPIRES, rule=_rule)
