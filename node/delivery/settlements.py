"""The outcomes of deliveries, and the gathering of many settlements into few."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from node.ranges.range_set import Numbers, Range, merged, ranges_of

NO_TOKEN: Final = 0
"""No lease has this token."""

BARRIER_TOKEN: Final = 1
"""The token of the delivery of a released barrier, which is no lease. No lease has this token."""

BARRIERS_AT_ONCE: Final = 64
"""The most barriers of a partition on their way: the owner does not know yet that they have come."""

UNLEASED: Final = 0
"""The number of a lease for deliveries that their queue has already let go: a client settles them, and the
broker hears nothing of it.
"""

TOKEN_SHIFT: Final = 48
"""The number of a lease, under which a session settles deliveries, has the number of their consumer in so
many bits, and the token of their lease above these: `token << TOKEN_SHIFT | consumer`.
"""

MOVES_SHIFT: Final = 40
"""The number of a consumer has so many bits of the number that its session knows, and above these how often
the consumer has moved from part to part of its queue (docs/decisions/0086-consumers-that-move.md).
"""

MOST_MOVES: Final = (1 << TOKEN_SHIFT - MOVES_SHIFT) - 1

_CONSUMER_MASK: Final = (1 << MOVES_SHIFT) - 1
_ATTACHED_MASK: Final = (1 << TOKEN_SHIFT) - 1


def consumer_of(lease: int) -> int:
    """The number of a consumer that its session knows, in the number of a lease or of an attached
    consumer.
    """
    return lease & _CONSUMER_MASK


def attached_as(lease: int) -> int:
    """The number, in the number of a lease, under which the consumer was attached to the part that gave the
    messages.
    """
    return lease & _ATTACHED_MASK


def moves_of(attached: int) -> int:
    """How often the consumer that is attached under this number has moved."""
    return attached >> MOVES_SHIFT


def moved_once_more(attached: int) -> int:
    """The number under which the consumer with this number is attached next."""
    return attached + (1 << MOVES_SHIFT)


def token_of(lease: int) -> int:
    """The token in the number of a lease; NO_TOKEN where the queue's leases have none."""
    return lease >> TOKEN_SHIFT


class Outcome(Enum):
    """The outcome of a delivery, with which a client settles it."""

    ACCEPTED = 1
    """The queue removes the message."""
    REJECTED = 2
    """The queue removes the message, or makes it a dead letter."""
    RETURNED = 3
    """The client gives the message back to its queue, and the delivery counts as failed."""
    RELEASED = 4
    """The message goes back to its queue, as if it had not been delivered."""
    UNDELIVERABLE_HERE = 5
    """As RELEASED, and this consumer gets the message no more (AMQP 1.0, part 3 §3.4.5)."""
    FAILED_UNDELIVERABLE_HERE = 6
    """As RETURNED, and this consumer gets the message no more."""
    ABANDONED = 7
    """The client has gone without an outcome. The queue keeps the message for the link of the consumer, if it
    has one; elsewhere as LOST.
    """
    LOST = 8
    """The message goes back to its queue, and the delivery counts as failed, without a word of the client."""

    @property
    def failed(self) -> bool:
        """Whether the delivery counts as failed, where the message goes back to its queue."""
        return self is Outcome.LOST or self.cancelled

    @property
    def cancelled(self) -> bool:
        """Whether the client itself has said that the delivery has failed."""
        return self in (Outcome.RETURNED, Outcome.FAILED_UNDELIVERABLE_HERE)

    @property
    def undeliverable_here(self) -> bool:
        """Whether the message goes back to its queue for other consumers alone."""
        return self in (Outcome.UNDELIVERABLE_HERE, Outcome.FAILED_UNDELIVERABLE_HERE)

    def told(self, *, cancels: bool) -> Outcome:
        """The outcome for owners that tell a client's word from other failed deliveries, or do not (not
        `cancels`).
        """
        return self if cancels or not self.cancelled else Outcome.LOST


class Settlement(NamedTuple):
    """Disjoint, sorted ranges of sequence numbers that a consumer settles with one outcome. `lease` is the
    number of a lease (`TOKEN_SHIFT`). `annotations`: what the client gives the messages that go back to their
    queue, or that it rejects (`node.wire.amqp10.modified`).
    """

    lease: int
    ranges: list[Range]
    outcome: Outcome
    annotations: bytes = b""


class Modification(NamedTuple):
    """The message annotations that a client gives messages which go back to their queue. `refused` is called,
    once at most, where the queue does not take the annotations: then the messages go back without.
    """

    annotations: bytes
    refused: Callable[[], None]


class Settlements:
    """The settled sequence numbers of one client, gathered into one settlement for each channel, lease and
    outcome.

    `gathered` is empty while there is nothing to take. A protocol without channels uses one channel number.
    """

    __slots__ = ("gathered",)

    def __init__(self) -> None:
        self.gathered: dict[tuple[Outcome, int, int], list[Range]] = {}

    def add(self, outcome: Outcome, channel: int, lease: int, numbers: Numbers) -> None:
        """Add sequence numbers: one or more, and none twice."""
        key = (outcome, channel, lease)
        ranges = self.gathered.get(key)
        if ranges is None:
            self.gathered[key] = ranges_of(numbers)
        elif ranges[-1][1] + 1 == numbers[0] and isinstance(numbers, range):
            ranges[-1] = (ranges[-1][0], numbers[-1])
        else:
            ranges += ranges_of(numbers)

    def take_all(self) -> list[tuple[int, Settlement]]:
        """Remove and return the settlements, each with its channel, in the order of their first numbers."""
        gathered, self.gathered = self.gathered, {}
        return [
            (channel, Settlement(lease, merged(ranges), outcome))
            for (outcome, channel, lease), ranges in gathered.items()
        ]
