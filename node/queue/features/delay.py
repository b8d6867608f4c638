"""Delayed messages (header x-delay), which every queue takes.

The log has the due time of each, in milliseconds since the epoch. `node.queue.schedule` has the messages that
are not due yet.
"""

from __future__ import annotations

from typing import Final

from node.queue.feature import Declaration, Incoming, Notes, Rule
from node.queue.operations import Aspect
from node.queue.settings import QueueSettings
from node.queue.stream_settings import is_stream


class Delays(Rule):
    """States the due time of messages with a delay."""

    def __init__(self) -> None:
        super().__init__(special_only=True)

    def decide(self, incoming: Incoming, first: int, now: int, notes: Notes) -> None:
        due = [
            (first + start, first + end, now + delay) for start, end, delay, _, _ in incoming.asked() if delay
        ]
        if due:
            notes[Aspect.DUE] = due


_DELAYS: Final = Delays()


def _rule(settings: QueueSettings) -> Rule | None:
    return None if is_stream(settings) else _DELAYS


FEATURE: Final[Declaration] = Declaration(rule=_rule)
