"""Begins and renews leases with a token and maybe a deadline (`node.queue.leases`), as the features of a
queue ask for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from node.delivery.settlements import NO_TOKEN
from node.queue.consumers import Consumer
from node.queue.delivery_state import DeliveryState
from node.queue.feature import Feature
from node.queue.leases import NO_DEADLINE
from node.ranges.range_map import RangeMap
from node.ranges.range_set import Range

UNKNOWN: Final = 0
"""The number of a consumer that the owner does not know."""

UNTOLD: Final = 0
"""Stands for the end of a lease that has none, or whose end its front end does not know."""

BACK_IN_QUEUE: Final = -1
"""Stands for the end of a lease whose message another client has given back to the queue."""

NO_LEASE: Final = (NO_TOKEN, UNTOLD)


class Renewed(NamedTuple):
    """The end of renewed leases in milliseconds since the epoch, and their messages by front end."""

    until: int
    messages: list[tuple[int, list[Range]]]


def begin_lease(
    delivery: DeliveryState,
    asking: Sequence[Feature],
    front_end: int,
    consumer: Consumer,
    ranges: list[Range],
) -> tuple[int, int]:
    """Lease messages to a consumer of a front end. `asking` are the features that set deadlines. Returns the
    token of the lease and its end in milliseconds since the epoch; NO_LEASE where leases have no tokens.
    """
    timed = delivery.timed
    if timed is None:
        return NO_LEASE
    deadline = _deadline(delivery, asking, consumer)
    delivery.token += 1
    timed.begin(front_end, consumer.number, delivery.token, ranges, deadline)
    return delivery.token, deadline if deadline < NO_DEADLINE else UNTOLD


def take_over_leases(
    delivery: DeliveryState,
    asking: Sequence[Feature],
    front_end: int,
    part: Range,
    tokens: RangeMap,
    ends: RangeMap,
) -> None:
    """Take over the leases of messages that a front end had from a former owner, with the tokens and the ends
    that the front end has told. A lease ends no later than one that would begin now.
    """
    timed = delivery.timed
    if timed is None:
        return
    latest = _deadline(delivery, asking, None)
    for first, last, token in tokens.cover(*part, NO_TOKEN):
        if token == NO_TOKEN:
            delivery.token += 1
            token = delivery.token
        for start, end, until in ends.cover(first, last, UNTOLD):
            deadline = latest if until == UNTOLD else min(until, latest)
            timed.begin(front_end, UNKNOWN, token, [(start, end)], deadline)


def renew_leases(
    delivery: DeliveryState, asking: Sequence[Feature], ranges: list[Range], token: int = NO_TOKEN
) -> Renewed:
    """Let the leases of messages last as long as leases that begin now: all of their leases, or, with a
    `token`, those messages alone that are under that lease.
    """
    timed = delivery.timed
    deadline = NO_DEADLINE if timed is None else _deadline(delivery, asking, None)
    if timed is None or deadline >= NO_DEADLINE:
        return Renewed(UNTOLD, [])
    return Renewed(deadline, timed.renew(ranges, deadline, token))


def _deadline(delivery: DeliveryState, asking: Iterable[Feature], consumer: Consumer | None) -> int:
    """The deadline of a lease that begins now; `consumer` is None where only its front end knows it."""
    return min([one.lease_until(consumer, delivery.now) for one in asking], default=NO_DEADLINE)
