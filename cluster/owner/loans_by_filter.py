"""Loans of the messages that a filter takes (docs/decisions/0092-filters-over-several-owners.md). Pure.

An owner asks the owners of the other parts for each filter whose consumers have room and which takes none of
the ready messages. The lender looks at its messages for that filter as for one of its own consumers: each
message once, some in each turn. The lender keeps what it has found until the filter is taken back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from cluster.owner.borrower import NO_LOAN, Borrower
from cluster.owner.context import QueueParts
from cluster.owner.dead_letters import MESSAGES_AT_ONCE, TRANSFERS_UNDER_WAY, DeadLetters
from cluster.owner.proposal import RETRY_INTERVAL_S
from cluster.owner.state import OwnerState
from cluster.owner.transfers import FIRST_TRANSIT_ID
from cluster.peers.link_messages import NOT_FOUND, NOTHING_TO_GET
from node.expressions.nodes import TreeError
from node.expressions.selector import Selector
from node.queue.consumers import Consumer
from node.queue.dispatch import QueueOwner
from node.queue.wanted import room_by_filter
from node.ranges.range_set import Range

NOTHING_MORE: Final = 0
"""In the place of the room: the owner takes the filter back."""

FilterAt = tuple[int, bytes]
"""A partition, or the front end that stands for it, and the octets of a filter."""


class AskingByFilter:
    """The questions of the owner of one partition to the owners of other parts."""

    def __init__(self, owner: OwnerState, parts: QueueParts, dead_letters: DeadLetters) -> None:
        self._owner, self._parts, self._dead_letters = owner, parts, dead_letters
        self._asked: dict[int, set[FilterAt]] = {}
        """The questions for each queue that are not answered."""
        self._wanting: dict[int, set[FilterAt]] = {}
        """The filters that the other owners remember for each queue."""
        self._coming: dict[int, dict[FilterAt, tuple[int, int]]] = {}
        """By queue and question: the number of the last loan that was told, and its messages."""

    def clear(self) -> None:
        """Forget everything: this node does not own the partition any more."""
        self._asked, self._wanting, self._coming = {}, {}, {}

    def forget(self, number: int) -> None:
        """A queue is dropped."""
        for kept in (self._asked, self._wanting, self._coming):
            kept.pop(number, None)

    def ask(self, number: int, queue: QueueOwner) -> None:
        """Ask the owners of the other parts, each once for each filter until it has answered. Take the
        filters back that no consumer has any more.
        """
        wanting = self._wanting.get(number)
        if queue.delivery.filtered is None and not wanting:
            return
        others = dict(self._parts.others(number))
        if wanting:
            self._take_back(number, queue, wanting, others)
        for filter, room in room_by_filter(queue).items():
            left = room - self._under_way(number, filter, others)
            for partition, part in others.items() if left > 0 else ():
                self._ask(number, (partition, filter), part, left)

    def _ask(self, number: int, key: FilterAt, part: int, room: int) -> None:
        asked = self._asked.setdefault(number, set())
        if key not in asked:
            asked.add(key)
            self._wanting.setdefault(number, set()).add(key)
            self._tell(number, key, part, room, partial(self._answered, number, key))

    def _tell(
        self, number: int, key: FilterAt, part: int, room: int, answered: Callable[[Any], None]
    ) -> None:
        partition, filter = key
        arguments = [*NOTHING_TO_GET, part, self._owner.partition, number, room, filter]
        self._dead_letters.link(partition).ask("lend_by_filter", arguments, answered)

    def _take_back(
        self, number: int, queue: QueueOwner, wanting: set[FilterAt], others: dict[int, int]
    ) -> None:
        for key in [key for key in wanting if key[1] not in queue.delivery.consumers.filters]:
            wanting.discard(key)
            part = others.get(key[0])
            if part is not None:
                self._tell(number, key, part, NOTHING_MORE, _heard)

    def _under_way(self, number: int, filter: bytes, others: dict[int, int]) -> int:
        """The messages of loans that were told for a filter, or taken for any, and are not applied yet."""
        coming = self._coming.get(number, {})
        for key, (loan, _) in list(coming.items()):
            taken = self._owner.front_ends.taken.get(FIRST_TRANSIT_ID + key[0])
            if key[0] not in others or (taken is not None and loan <= taken.accepted):
                del coming[key]
        told = sum(messages for key, (_, messages) in coming.items() if key[1] == filter)
        return self._owner.borrowed[number] + told

    def _answered(self, number: int, key: FilterAt, value: Any) -> None:
        """As `Loans` takes the answer to a question without a filter."""
        self._asked.get(number, set()).discard(key)
        if value == NOT_FOUND:
            self._owner.alarms.set(number, self._owner.wall_ms() + int(RETRY_INTERVAL_S * 1000))
        elif number in self._owner.queues:
            loan, messages = value
            if messages:
                self._coming.setdefault(number, {})[key] = (loan, messages)
            self._owner.serve_again(number)


def _heard(_: Any) -> None:
    """The other owner has heard that a filter is taken back."""


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
