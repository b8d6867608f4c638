"""What an owner decides about messages when they come in, for the queues and properties that ask for it.

The decisions stand in the entry that brings the messages, behind them, so that every replica and the
next owner know them. Soft messages are in no log; what is decided about them goes to their queues alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from node.engine.content import properties_in, read_expiration
from node.engine.lifetimes import AT_ONCE
from node.engine.operations import Aspect
from node.engine.range_map import Span
from node.runs import Run

if TYPE_CHECKING:
    from cluster.owner import PartitionOwner

Annotations = dict[tuple[int, Aspect], list[Span]]
"""By queue and aspect."""


def decide(owner: PartitionOwner, run: Run, queues: Sequence[int], first: int, now: int) -> Annotations:
    """What is to be noted of a run whose messages are numbered from `first` on; `now` is wall clock."""
    found: Annotations = {}
    for queue in queues:
        expiries = _expiries(run, first, owner.settings_of(queue).message_ttl_ms, now)
        if expiries:
            found[queue, Aspect.EXPIRY] = expiries
    return found


def _expiries(run: Run, first: int, queue_ttl: int | None, now: int) -> list[Span]:
    """The least of the queue's time to live and the message's own counts."""
    if not run.special:
        return [] if queue_ttl is None else [(first, first + run.count - 1, expiry_of(queue_ttl, now))]
    spans = []
    for index, count, properties in properties_in(run):
        own = read_expiration(properties)
        lives = min((ttl for ttl in (own, queue_ttl) if ttl is not None), default=None)
        if lives is not None:
            spans.append((first + index, first + index + count - 1, expiry_of(lives, now)))
    return spans


def expiry_of(ttl: int, now: int) -> int:
    """The time at which a message expires that may wait for `ttl` milliseconds from now on."""
    return now + ttl if ttl else AT_ONCE
