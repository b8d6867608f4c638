"""Messages that queues of a partition have discarded, and whose dead letters have not arrived yet. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from cluster.peers.link_messages import Ranges
from node.message.reason import Reason
from node.message.run import Run
from node.ranges.range_set import RangeSet

NO_DEAD: Final = RangeSet()


class SoftDeadMessages(NamedTuple):
    """Dead messages of a queue, from number `first` on, that are not in the log."""

    queue: int
    first: int
    run: Run
    reason: Reason
    time_ms: int


class DeadMessages:
    """The dead messages of one partition, while this node owns it.

    `waiting` has the dead messages in the log that are neither moved nor on their way, by queue. `leaving`
    has those on their way, those included whose transfer is proposed only. `soft` has dead messages that are
    not in the log, and not published yet.
    """

    def __init__(self) -> None:
        self.waiting: dict[int, RangeSet] = {}
        self.leaving: dict[int, RangeSet] = {}
        self.soft: list[SoftDeadMessages] = []

    def clear(self) -> None:
        """Forget everything: this node does not own the partition any more."""
        self.waiting, self.leaving, self.soft = {}, {}, []

    def wait(self, number: int, dead: Ranges) -> None:
        """Have dead messages of a queue wait, without those that are on their way."""
        waiting, leaving = RangeSet(dead), self.leaving.get(number, NO_DEAD)
        for part in dead if leaving else ():
            waiting.remove_all(leaving.intersection(*part))
        if waiting:
            self.waiting.setdefault(number, RangeSet()).update(waiting.ranges())
