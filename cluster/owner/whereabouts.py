"""Where a message of a queue is now, as the queue's owner knows. Pure."""

from __future__ import annotations

from typing import Any

from node.queue.dispatch import QueueOwner
from node.queue.operations import LINKS, OWNER, TAKES, TRANSACTION
from node.queue.order import Order
from node.ranges.range_set import count_of

_HOLDERS = {
    OWNER: "removing",
    TRANSACTION: "in_transaction",
    LINKS: "kept_for_link",
    TAKES: "taken",
}


def whereabouts(queue: QueueOwner, number: int) -> dict[str, Any]:
    """The place of a message, with what is known about that: `ready`, with the messages `ahead` where the
    queue's order is by age; `leased`, with the front end that has the message in `to`; `removing`,
    `in_transaction`, `kept_for_link`; `taken`, for a reader; `held`, for front ends that may have the
    message; `resting`; `dead`, on its way as a dead letter; `gone`.
    """
    delivery = queue.delivery
    for holder, lease in delivery.leases.items():
        if lease.intersection(number, number):
            place = _HOLDERS.get(holder, "leased")
            return {"place": place, **({"to": holder} if place == "leased" else {})}
    if delivery.ready.intersection(number, number):
        return {"place": "ready", **_ahead(delivery.ready, number)}
    if delivery.held.intersection(number, number):
        return {"place": "held"}
    if delivery.scheduled is not None and delivery.scheduled.intersection(number, number):
        return {"place": "resting"}
    if delivery.state.alive.intersection(number, number):
        return {"place": "withheld" if not delivery.state.shown(number, number) else "dead"}
    return {"place": "gone"}


def _ahead(ready: Order, number: int) -> dict[str, Any]:
    return {"ahead": count_of(ready.intersection(0, number - 1)) if number else 0} if ready.by_age else {}
