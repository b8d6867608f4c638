"""What a log entry did to a partition: what its owner acts on, and its observers hear."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from node.queue.operations import LoggedTransactional
from node.ranges.range_set import RangeSet


@dataclass(init=False, slots=True)
class Applied:
    """What the entry at a log index did.

    `appended` are (queue, first, last), `returned` (front end, queue, first, last), exactly the messages
    that were alive. `acknowledged` maps each front end with batches in the entry to the highest number
    applied. `transactions` are the steps of transactions over several partitions, in log order.
    """

    index: int
    appended: list[tuple[int, int, int]]
    returned: list[tuple[int, int, int, int]]
    created: list[int]
    dropped: list[int]
    acknowledged: dict[int, int]
    transactions: list[LoggedTransactional]

    def __init__(self, index: int, acknowledged: dict[int, int] | None = None) -> None:
        self.index = index
        self.appended = []
        self.returned = []
        self.created = []
        self.dropped = []
        self.acknowledged = acknowledged or {}
        self.transactions = []

    def withhold(self, rows: Iterable[tuple[int, int, int]]) -> None:
        """Of what the entry has appended so far, messages that are not to be seen yet."""
        hidden: dict[int, RangeSet] = {}
        for queue, first, last in rows:
            hidden.setdefault(queue, RangeSet()).add(first, last)
        appended, self.appended = self.appended, []
        for queue, first, last in appended:
            shown = RangeSet([(first, last)])
            shown.remove_all(hidden[queue].intersection(first, last) if queue in hidden else ())
            self.appended += [(queue, *part) for part in shown.ranges()]
