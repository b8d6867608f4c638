"""The values of `Aspect.BARRIER`. Pure.

The first part of a queue with several owners numbers the queue's barriers from 1 on: their generations. The
value of a barrier of a queue with one owner is its state alone, as it has no generation.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

_STATE_BITS: Final = 3
_ORIGIN_BITS: Final = 32

RELEASED_THROUGH: Final = b"barrier"
"""The place of a part in its log (`node.queue.subscriptions`): the generation of the last barrier whose
release the part has.
"""


class BarrierState(IntEnum):
    """The values of `Aspect.BARRIER`. Journals have the numbers: never renumber."""

    PENDING = 1
    """The barrier waits for the messages before it."""
    RELEASED = 2
    """The consumers get it."""
    ASKED = 3
    """The first part of a queue with several owners has not numbered it, and it is not on its way there."""
    SENT = 4
    """It is on its way to the first part, which numbers it and gives it to the other parts."""
    BORROWED = 5
    """No barrier: another owner has lent the message, and the message stands before barriers that have lower
    numbers here.
    """


class BarrierValue(NamedTuple):
    """`generation`: of a BORROWED message the generation of the first barrier behind it; 0 where the first
    part has not numbered the barrier yet. `origin`: the partition of the part that publishers gave the
    barrier to; 0 for the part itself.
    """

    state: BarrierState
    generation: int = 0
    origin: int = 0

    @property
    def encoded(self) -> int:
        """The value of the annotation."""
        return (self.generation << _ORIGIN_BITS | self.origin) << _STATE_BITS | self.state


def barrier_value(value: int) -> BarrierValue:
    """The inverse of `BarrierValue.encoded`. Raises ValueError for a state of a later release."""
    rest = value >> _STATE_BITS
    state = BarrierState(value & (1 << _STATE_BITS) - 1)
    return BarrierValue(state, rest >> _ORIGIN_BITS, rest & (1 << _ORIGIN_BITS) - 1)
