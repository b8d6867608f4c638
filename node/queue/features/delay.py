"""Messages that are ready only after a while (header x-delay). Any queue takes them.

When each is due stands in the log, in milliseconds since the epoch; `node.queue.schedule` has those that are
not due yet.
"""

from __future__ import annotations

from typing import Final

from node.queue.feature import Declaration, Incoming, Notes, Rule
from node.queue.operations import Aspect
from node.queue.settings import QueueSettings


class Delays(Rule):
    """Says when messages are due that ask for a delay."""

    def __init__(self) -> None:
        super().__init__(special_only=True)

    def decide(self, incoming: Incoming, first: int, now: int, notes: Notes) -> None:
        for start, end, asked in incoming.asked():
            if asked.delay_ms:
                due = (first + start, first + end, now + asked.delay_ms)
                notes.setdefault(Aspect.DUE, []).append(due)


_DELAYS: Final = Delays()


def _rule(settings: QueueSettings) -> Rule | None:
    return _DELAYS


FEATURE: Final[Declaration] = Declaration(rule=_rule)
