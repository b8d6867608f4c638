"""Backlogs: how many messages a consumer may have got and not settled (docs/decisions/0050)."""

from __future__ import annotations

from typing import Final

NO_BACKLOG: Final = -1
"""The consumer asks for no backlog, or no backlog bounds it."""

USUAL_BACKLOG: Final = 1
"""The backlog of a consumer that asks for none, on a queue that caps the backlogs of its consumers."""


def backlog_of(asked: int, cap: int, *, no_ack: bool) -> int:
    """The most messages that a consumer may have unsettled, which has asked for `asked` on a queue with the
    cap `cap`; both may be NO_BACKLOG. Returns NO_BACKLOG where nothing but its credit bounds the consumer.

    0: the consumer gets no messages. A consumer that does not acknowledge has nothing unsettled, so that only
    0 bounds it.
    """
    if no_ack:
        return 0 if asked == 0 else NO_BACKLOG
    if cap == NO_BACKLOG:
        return asked
    return min(USUAL_BACKLOG if asked == NO_BACKLOG else asked, cap)
