"""The barriers of one partition that are on their way to consumers, while this node owns it. Pure data."""

from __future__ import annotations

from collections import Counter

BarrierPlace = tuple[int, int]
"""A queue, and the number of a barrier in it."""


class BarriersUnderWay:
    """`releasing` has the barriers whose release is not in the log yet, and `showing` the released ones that
    wait for front ends which are greeting. `waiting` has, for each barrier that was sent, the front ends that
    have not told that they have it, and the negative numbers of the partitions of other parts whose consumers
    may not have it. `full` has the queues with barriers for which there are too many others.

    Of queues with several owners: `unplaced` has the barriers that some part may not have in its log;
    `untold` has by front end the last batch that the front end hears of when there is no such barrier any
    more. `placing` has the barriers whose generation has come, and is not in the log yet. `loans` counts the
    loans that the owner has taken, by queue. `elsewhere` has what `waiting` is to have of other parts, for
    barriers that are not sent yet.
    """

    def __init__(self) -> None:
        self.releasing: set[BarrierPlace] = set()
        self.showing: set[BarrierPlace] = set()
        self.waiting: dict[BarrierPlace, set[int]] = {}
        self.full: set[int] = set()
        self.unplaced: set[BarrierPlace] = set()
        self.untold: dict[int, int] = {}
        self.placing: set[BarrierPlace] = set()
        self.elsewhere: dict[BarrierPlace, set[int]] = {}
        self.loans: Counter[int] = Counter()

    @property
    def count(self) -> int:
        """How many barriers are on their way."""
        return len(self.releasing) + len(self.showing) + len(self.waiting)

    def clear(self) -> None:
        """Forget everything: this node does not own the partition any more."""
        self.releasing, self.showing, self.waiting, self.full = set(), set(), {}, set()
        self.unplaced, self.untold, self.placing, self.elsewhere = set(), {}, set(), {}
        self.loans.clear()
