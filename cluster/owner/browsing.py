"""Shows the ready messages of a queue: the owner leases and counts nothing, and writes nothing to the log.

A page begins behind a bookmark. Messages that arrive, leave or are delivered between two pages do not change
the places of the others.
"""

from __future__ import annotations

from typing import Any, Final

from cluster.owner.failures import with_failure_counts
from cluster.owner.state import OwnerState
from node.message.run import Run
from node.queue.dispatch import QueueOwner
from node.queue.entry_format import encode_publish

PAGE_OCTETS: Final = 1024 * 1024
"""A page of so many octets gets no further message."""

PAGE_MESSAGES: Final = 256


def page(owner: OwnerState, id: int, queue: QueueOwner, place: tuple[int, int], wanted: int) -> list[Any]:
    """Up to `wanted` messages behind a place, which is a priority and a message's number. A queue without
    priorities ignores the priority.

    Returns the number of ready messages, and a row for each message: its priority, its number, whether it
    would be delivered as redelivered, and its content as an encoded publish to no queue.
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
    """A message as a consumer would get it, and whether it would be redelivered."""
    redelivered, soft = number in queue.delivery.redelivered, queue.delivery.soft
    found = soft.runs(number, number) if number in soft.numbers else owner.contents(number, number)
    ((_, run),) = found
    if redelivered and telling:
        ((_, run),) = with_failure_counts(queue, number, run)
    return redelivered, run
