"""The barriers of one partition that are on their way to consumers, while this node owns it. Pure data."""

from __future__ import annotations

BarrierPlace = tuple[int, int]
"""A queue, and the number of a barrier in it."""


class BarriersUnderWay:
    """`releasing` has the barriers whose release is not in the log yet, and `showing` the released ones that
    wait for front ends which are greeting. `waiting` has, for each barrier that was sent, the front ends that
    have not told that they have it. `full` has the queues with barriers for which there are too many others.
    """

    def __init__(self) -> None:
        self.releasing: set[BarrierPlace] = set()
        self.showing: set[BarrierPlace] = set()
        self.waiting: dict[BarrierPlace, set[int]] = {}
        self.full: set[int] = set()

    @property
    def count(self) -> int:
        """How many barriers are on their way."""
        return len(self.releasing) + len(self.showing) + len(self.waiting)

    def clear(self) -> None:
        """Forget everything: this node does not own the partition any more."""
        self.releasing, self.showing, self.waiting, self.full = set(), set(), {}, set()
