"""Shows what a queue has ready without touching it: nothing is leased, counted or written to the log.

A page begins behind a bookmark, and what comes, goes or is delivered meanwhile moves no other message.
"""

from __future__ import annotations

from typing import Any, Final

from cluster.owner.failures import told_failures
from cluster.owner.state import OwnerState
from node.message.run import Run
from node.queue.dispatch import QueueOwner
from node.queue.operation_format import encode_publish

PAGE_OCTETS: Final = 1024 * 1024
"""No more messages are put into a page once it has so many octets."""

PAGE_MESSAGES: Final = 256


def page(owner: OwnerState, id: int, queue: QueueOwner, place: tuple[int, int], wanted: int) -> list[Any]:
    """Up to `wanted` messages behind a place: a priority, which does not count where there are none, and a
    message's number.

    Answers how many are ready, and for each message its level, its number, whether it would come as
    redelivered, and its content as the operation that publishes it to no queue.
    """
    rows: list[list[Any]] = []
    octets, left = 0, min(wanted, PAGE_MESSAGES)
    telling = owner.tells_failures(id)
    for at, (first, last) in queue.delivery.ready.behind(*place, left):
        for each in range(first, min(last, first + left - 1) + 1):
            if octets < PAGE_OCTETS:
                redelivered, run = _shown(owner, queue, each, telling)
                octets += len(run.raw)
                rows.append([at, each, redelivered, b"".join(encode_publish(run, []))])
                left -= 1
    return [len(queue.delivery.ready), rows]


def _shown(owner: OwnerState, queue: QueueOwner, number: int, telling: bool) -> tuple[bool, Run]:
    """A message as a consumer would get it."""
    redelivered, soft = number in queue.delivery.redelivered, queue.delivery.soft
    found = soft.runs(number, number) if number in soft.numbers else owner.contents(number, number)
    ((_, run),) = found
    if redelivered and telling:
        ((_, run),) = told_failures(queue, number, run)
    return redelivered, run
