"""Shows the messages of a queue that wait, by their numbers, and says whether a transaction may move them to
another queue (docs/decisions/0055). Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from cluster.owner.admission import left_out
from cluster.owner.annotating import annotated_from
from cluster.owner.state import OwnerState
from cluster.peers.link_messages import NOT_FOUND, TAKEN_OUT_FIRST, Ranges
from node.message.run import Run
from node.queue.delivery_state import DeliveryState
from node.queue.dispatch import QueueOwner
from node.queue.entry_format import encode_publish
from node.queue.feature import Incoming
from node.queue.operations import OWNER, TRANSACTION, Publish, Semantics, Settle
from node.ranges.range_set import Range, RangeSet, count_of, merged

SHOWN_OCTETS: Final = 512 * 1024
"""An answer with so many octets of messages gets no further message."""

_NONE: Final = RangeSet()

READ_AT_ONCE: Final = 64
"""Messages that are read before their octets are counted."""


def waiting(delivery: DeliveryState, ranges: Iterable[Range]) -> Ranges:
    """The messages of the ranges that no client has, delayed ones and those at rest included."""
    found: Ranges = []
    for first, last in ranges:
        found += delivery.ready.intersection(first, last)
        if delivery.scheduled is not None:
            found += delivery.scheduled.intersection(first, last)
    return merged(sorted(found))


def entrust_waiting(delivery: DeliveryState, front_end: int, first: int, last: int) -> None:
    """Have a transaction of the front end take messages that wait: no consumer gets them any more."""
    for part in delivery.find_waiting(front_end, first, last):
        delivery.lease_of(TRANSACTION).add(*part)
        if delivery.ready.by_consumer:
            delivery.ready.claim((TRANSACTION, 0), *part)


class Reservations:
    """The messages that front ends have been shown and are about to move. No consumer gets them before the
    transaction, or for one to two intervals of `release_old`. Not in the log: a new owner has them wait.
    """

    def __init__(self, owner: OwnerState) -> None:
        self._owner = owner
        # By front end and queue; a front end is shown anew what its last transaction has not moved.
        self._reserved: dict[tuple[int, int], RangeSet] = {}
        self._old: set[tuple[int, int]] = set()

    def clear(self) -> None:
        """Forget everything: this node does not own the partition any more."""
        self._reserved, self._old = {}, set()

    def show(self, front_end: int, number: int, ranges: Ranges, wanted: int, *, reserves: bool) -> list[Any]:
        """The first `wanted` messages of the ranges that wait, as far as an answer has room. `reserves`: the
        front end is about to move them; with 0 wanted messages it moves none any more.

        Returns rows, the number of a run's first message and the run as an encoded publish to no queue, and
        the number from which on to ask for the others, 0 for none. Raises DamagedEntryError.
        """
        queue = self._owner.queues.get(number)
        if queue is None:
            return NOT_FOUND
        if queue.delivery.state.semantics is Semantics.AT_MOST_ONCE:
            return TAKEN_OUT_FIRST
        if reserves:
            self._release((front_end, number))
        rows, behind = _rows(queue, ranges, wanted)
        if reserves and rows:
            reserved = self._reserved[front_end, number] = RangeSet()
            for first, run, _ in rows:
                reserved.update([(first, first + run.count - 1)])
            for part in reserved.ranges():
                entrust_waiting(queue.delivery, OWNER, *part)
        return [[[first, octets] for first, _, octets in rows], behind]

    def take(self, front_end: int, settlement: Settle) -> None:
        """The transaction has begun to which the messages go."""
        reserved = self._reserved.get((front_end, settlement.queue))
        if reserved is not None:
            reserved.remove_all(settlement.ranges)

    def may_leave(self, front_end: int, settlement: Settle) -> bool:
        """Whether a transaction of the front end may take all these messages out of their queue."""
        queue = self._owner.queues.get(settlement.queue)
        if queue is None or queue.delivery.state.semantics is Semantics.AT_MOST_ONCE:
            return False
        found = RangeSet(waiting(queue.delivery, settlement.ranges))
        reserved = self._reserved.get((front_end, settlement.queue), _NONE)
        for one in settlement.ranges:
            found.update(reserved.intersection(*one))
        return len(found) == count_of(settlement.ranges)

    def release_old(self) -> None:
        """Have the messages wait whose front ends have moved none since the last call but one."""
        for key in self._old & self._reserved.keys():
            self._release(key)
        self._old = set(self._reserved)

    def _release(self, key: tuple[int, int]) -> None:
        self._old.discard(key)
        reserved = self._reserved.pop(key, _NONE)
        queue = self._owner.queues.get(key[1])
        if queue is not None and reserved:
            for part in list(reserved.ranges()):
                queue.lifecycle.release(TRANSACTION, *part, redelivered=False)
            self._owner.mark(key[1])


def _rows(queue: QueueOwner, ranges: Ranges, wanted: int) -> tuple[list[tuple[int, Run, bytes]], int]:
    """Runs with their first numbers and octets, and the number behind the last one, 0 for the end."""
    rows: list[tuple[int, Run, bytes]] = []
    octets = 0
    for first, last in waiting(queue.delivery, ranges):
        while first <= last:
            if wanted <= 0 or octets >= SHOWN_OCTETS:
                return rows, first
            end = min(last, first + min(wanted, READ_AT_ONCE) - 1)
            for start, run in _stored(queue, first, end):
                rows.append((start, run, b"".join(encode_publish(run, []))))
                octets += len(run.raw)
            wanted -= end - first + 1
            first = end + 1
    return rows, 0


def _stored(queue: QueueOwner, first: int, last: int) -> Iterator[tuple[int, Run]]:
    """The messages as they came, with the annotations that clients have given them since."""
    delivery = queue.delivery
    while first <= last:
        for start, run in queue.read_messages(first, last):
            soft = start in delivery.soft.numbers
            yield from annotated_from((delivery.soft if soft else delivery.state).remarks, start, run)
            first = start + run.count


def may_enter(owner: OwnerState, publish: Publish, run: Run) -> bool:
    """Whether the queues are there, and one of them takes each message of the run: a message that the filters
    of all queues kept out would be lost.
    """
    for number in publish.queues:
        state = owner.machine.queues.get(number)
        if number not in owner.queues or state is None or state.sealed:
            return False
    without = left_out(owner, Incoming(run), publish.queues)
    if len(without) < len(publish.queues):
        return True
    taken, whole = RangeSet(), RangeSet([(0, run.count - 1)])
    for one in without.values():
        taken.update(whole.without(one.ranges).ranges())
    return len(taken) == run.count
