"""Loans of the messages that a filter takes (docs/decisions/0092-filters-over-several-owners.md). Pure.

The owner of another part asks for each filter of its consumers (`cluster.owner.asking`). The lender looks at
its messages for that filter as for one of its own consumers: each message once, some in each turn. The lender
keeps what it has found until the filter is taken back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cluster.owner.borrower import NO_LOAN, NOTHING_MORE, Borrower, FilterAt
from cluster.owner.dead_letters import MESSAGES_AT_ONCE, TRANSFERS_UNDER_WAY, DeadLetters
from cluster.owner.state import OwnerState
from cluster.peers.link_messages import NOT_FOUND
from node.expressions.nodes import TreeError
from node.expressions.selector import Selector
from node.queue.consumers import Consumer
from node.queue.dispatch import QueueOwner
from node.ranges.range_set import Range


@dataclass(slots=True)
class FilteredBorrower:
    """Another owner, which wants messages that a filter takes for its part `queue`. Its front end has said so
    in `epoch`. `stand_in` has the place of the consumers there in the order of ready messages. `question`:
    the owner waits for a loan.
    """

    queue: int
    epoch: int | None
    selector: Selector
    stand_in: Consumer
    question: Borrower | None


Lend = Callable[[int, QueueOwner, int, Borrower, list[Range]], None]
"""(number, queue, front end, borrower, ranges): lend the oldest messages of the ranges."""


class LendingByFilter:
    """The questions of other owners to the owner of one partition."""

    def __init__(self, owner: OwnerState, dead_letters: DeadLetters, lend: Lend) -> None:
        self._owner, self._dead_letters, self._lend = owner, dead_letters, lend
        self._wishes: dict[int, dict[FilterAt, FilteredBorrower]] = {}
        """By queue, and by front end and filter; the owner that has asked last comes last."""

    def clear(self) -> None:
        """Forget everything: this node does not own the partition any more."""
        self._wishes = {}

    def forget(self, number: int) -> None:
        """A queue is dropped."""
        for (front_end, _), wish in self._wishes.pop(number, {}).items():
            self._answer(front_end, wish, NOT_FOUND)

    def wished(self, number: int) -> list[FilteredBorrower]:
        """The filters for which other owners want messages of a queue."""
        return list(self._wishes.get(number, {}).values())

    def asked(
        self,
        front_end: int,
        request: int,
        number: int,
        partition: int,
        part: int,
        wanted: int,
        filter: bytes,
    ) -> None:
        """The owner of another part has room for messages that a filter takes. The answer comes with a loan.
        `wanted` may be NOTHING_MORE: the question is answered, unless it has been by a loan.
        """
        queue, key = self._owner.queues.get(number), (front_end, filter)
        if wanted == NOTHING_MORE:
            self._drop(number, [key])
            self._owner.front_ends.answer(front_end, request, None)
            return
        selector = _read(filter)
        if queue is None or selector is None:
            self._owner.front_ends.answer(front_end, request, NOT_FOUND)
            return
        wishes = self._wishes.setdefault(number, {})
        former = wishes.pop(key, None)
        question = Borrower(request, partition, part, wanted)
        stand_in = Consumer(
            front_end, request, 0, no_ack=True, exclusive=False, counted=False, sent=0, limit=0
        )
        stand_in.selector = selector
        epoch = self._owner.front_ends.epoch(front_end)
        wishes[key] = FilteredBorrower(part, epoch, selector, stand_in, question)
        if former is None:
            self._look(number)
        self._owner.serve_again(number)

    def take_back(self, front_end: int, number: int, part: int | None = None) -> None:
        """An owner wants nothing more, or nothing more for one of its parts."""
        wishes = self._wishes.get(number, {})
        of_part = (key for key, wish in wishes.items() if part is None or wish.queue == part)
        self._drop(number, [key for key in of_part if key[0] == front_end])

    def lose(self, front_end: int, part: int) -> None:
        """A part of another owner is to go, and gets no loan any more."""
        for number in list(self._wishes):
            self.take_back(front_end, number, part)

    def _drop(self, number: int, keys: list[FilterAt]) -> None:
        wishes = self._wishes.get(number, {})
        dropped = [(key[0], wishes.pop(key)) for key in keys if key in wishes]
        for front_end, wish in dropped:
            self._answer(front_end, wish, [*NO_LOAN])
        if dropped:
            self._look(number)

    def _answer(self, front_end: int, wish: FilteredBorrower, value: Any) -> None:
        """Answer a question, unless the owner there has changed since, or greets anew and asks again."""
        if wish.question is not None and wish.epoch == self._owner.front_ends.epoch(front_end):
            self._owner.front_ends.answer(front_end, wish.question.request, value)

    def _look(self, number: int) -> None:
        """Have the queue look at messages for the filters that are wanted by now."""
        queue = self._owner.queues.get(number)
        if queue is not None:
            wished = self._wishes.get(number, {}).values()
            queue.delivery.consumers.look_for(wish.selector for wish in wished)
            self._owner.serve_again(number)

    def lend(self, number: int, queue: QueueOwner) -> None:
        """Lend ready messages to the owners that wait for some that their filters take.

        Raises DamagedEntryError.
        """
        wishes = self._wishes.get(number)
        if not wishes:
            return
        epoch = self._owner.front_ends.epoch
        # A new owner there, or this one when it greets again, asks anew.
        self._drop(number, [key for key, wish in wishes.items() if wish.epoch != epoch(key[0])])
        for (front_end, _), wish in list(wishes.items()):
            ask = wish.question
            if ask is None or len(self._dead_letters.link(ask.partition)) >= TRANSFERS_UNDER_WAY:
                continue
            wanted = min(ask.wanted, MESSAGES_AT_ONCE) if queue.delivery.ready else 0
            found = queue.offered(wish.stand_in, wanted) if wanted else []
            if found:
                wish.question = None
                self._lend(number, queue, front_end, ask, found)


def _read(filter: bytes) -> Selector | None:
    """The filter; None for one of a later release."""
    try:
        return Selector(filter)
    except TreeError:
        return None
