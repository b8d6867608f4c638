"""Messages that queues of a partition have discarded and that are not where they are to go yet. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from cluster.peers.ports import Ranges
from node.message.reason import Reason
from node.message.run import Run
from node.queue.operations import Aspect
from node.queue.partition import PartitionMachine
from node.ranges.range_set import Range, RangeSet

NO_DEAD: Final = RangeSet()


class SoftDeadMessages(NamedTuple):
    """Messages of a queue, from number `first` on, that are in no log."""

    queue: int
    first: int
    run: Run
    reason: Reason
    time_ms: int


class DeadMessages:
    """Of one partition, while this node owns it.

    `waiting`: dead messages, as the log knows, that are neither moved nor on their way, by queue. `leaving`:
    those that are on their way, or about to be as far as this owner has proposed. `soft`: those that are in
    no log, and not published yet. `fresh`: there are more since `DeadLetters.move` was called last.
    """

    def __init__(self, machine: PartitionMachine) -> None:
        self._machine = machine
        self.waiting: dict[int, RangeSet] = {}
        self.leaving: dict[int, RangeSet] = {}
        self.soft: list[SoftDeadMessages] = []
        self.fresh = False

    def clear(self) -> None:
        """This node owns the partition no more."""
        self.waiting, self.leaving, self.soft, self.fresh = {}, {}, [], False

    def logged(self, number: int, ranges: Ranges) -> None:
        """Messages of a queue are dead, and the log knows, perhaps not for the first time: who had lost a
        lease may settle nevertheless, while the next one's settlement is not committed.
        """
        state = self._machine.queues.get(number)
        deaths = None if state is None else state.annotations.get(Aspect.DEATH)
        if deaths is not None:
            self.wait(number, [span[:2] for part in ranges for span in deaths.spans(*part)])
        self.fresh = True

    def wait(self, number: int, dead: list[Range]) -> None:
        """Let dead messages of a queue wait, those of them that are not on their way."""
        waiting, leaving = RangeSet(dead), self.leaving.get(number, NO_DEAD)
        for part in dead if leaving else ():
            waiting.remove_all(leaving.intersection(*part))
        if waiting:
            self.waiting.setdefault(number, RangeSet()).update(waiting.ranges())
