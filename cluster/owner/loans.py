"""Loans between the owners of one queue (docs/decisions/0074-several-owners.md). Pure.

An owner whose consumers have credit, and which has no message ready, asks the owners of the other parts. An
owner that is asked lends its oldest messages that none of its own consumers can take. Without such messages
it remembers who asks.

An owner whose last consumer has left takes its questions back: no loan should come to a part without
consumers. The owner of a part that is to go lends without being asked, to each of the others in turn.

A loan is a transfer (`cluster.owner.dead_letters`). One entry of the lender makes the messages dead, for the
reason LENT, and has the transfer with its number. The messages leave the lender when that entry is committed:
so a message is in one part at each moment, whichever node is lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from cluster.owner.asking import Asking
from cluster.owner.barriers_of_parts import BarriersOfParts
from cluster.owner.borrower import NO_LOAN, Borrower
from cluster.owner.context import QueueParts
from cluster.owner.dead_letters import (
    MESSAGES_AT_ONCE,
    OCTETS_AT_ONCE,
    STEP,
    TRANSFERS_UNDER_WAY,
    DeadLetters,
)
from cluster.owner.loans_by_filter import LendingByFilter
from cluster.owner.state import OwnerState
from cluster.peers.link_messages import NOT_FOUND
from node.message.deaths import encode_death
from node.message.reason import Reason
from node.queue.decision_format import encode_annotate, encode_transfer
from node.queue.dispatch import QueueOwner
from node.queue.entry_format import encode_return
from node.queue.operations import OWNER, Aspect, Semantics
from node.queue.transfers import Transfer
from node.ranges.range_set import Range, RangeSet, count_of

NOT_ASKED: Final = 0
"""In the place of the front end and of the request: no owner has asked for the loan."""


class Loans:
    """The loans of one partition's queues, while this node owns the partition."""

    def __init__(self, owner: OwnerState, parts: QueueParts, dead_letters: DeadLetters) -> None:
        self._owner, self._parts, self._dead_letters = owner, parts, dead_letters
        self.barriers = BarriersOfParts(owner, parts, dead_letters)
        self.by_filter = LendingByFilter(owner, dead_letters, self._lend_of)
        self._asking = Asking(owner, parts, dead_letters)
        self._by_filter_last = False
        self._asks: dict[int, dict[int, Borrower]] = {}
        """The other owners that wait for messages of each queue, as front ends, in the order in which they
        have asked.
        """

    def clear(self) -> None:
        """Forget everything: this node does not own the partition any more."""
        self._asks = {}
        self.by_filter.clear()
        self._asking.clear()
        self.barriers.clear()

    def forget(self, number: int) -> None:
        """A queue is dropped."""
        for front_end, ask in self._asks.pop(number, {}).items():
            # The partition may get another part of the same queue later.
            self._owner.front_ends.answer(front_end, ask.request, NOT_FOUND)
        self.by_filter.forget(number)
        self._asking.forget(number)
        self.barriers.forget(number)

    def forget_borrower(self, front_end: int, part: int) -> None:
        """A part of another owner is to go, and gets no loan any more."""
        for number, asks in self._asks.items():
            if front_end in asks and asks[front_end].queue == part:
                self._taken_back_by(front_end, number)
        self.by_filter.lose(front_end, part)

    def taken_over(self, number: int) -> None:
        """This node owns a queue that another one has owned, and may have asked for."""
        parts = self._parts.others(number)
        if parts:
            self._asking.taken_over(number, dict(parts))
            self.barriers.taken_over(number)

    def served(self, number: int) -> None:
        """The queue has given its consumers what they can take: lend of the rest, or borrow.

        Raises DamagedEntryError.
        """
        queue = self._owner.queues.get(number)
        if queue is not None and self._owner.knows_loans():
            self.barriers.served(number, queue)
            self._asking.ask_by_filter(number, queue)
            if _lendable(queue):
                self._lend_in_turn(number, queue)
                if self._parts.closes(number):
                    self._lend_away(number, queue)
            else:
                self._asking.ask(number, queue)
            if not queue.delivery.consumers.count:
                self._asking.take_back(number)

    # -- the lender -----------------------------------------------------------------------------

    def asked(
        self, front_end: int, request: int, number: int, partition: int, part: int, wanted: int
    ) -> None:
        """The owner of another part has room. The answer comes with a loan. An owner without room takes its
        question back: that question is answered, unless it has been by a loan.
        """
        if not wanted:
            self._taken_back_by(front_end, number)
            self.by_filter.take_back(front_end, number)
            self._owner.front_ends.answer(front_end, request, None)
            return
        if number not in self._owner.queues:
            self._owner.front_ends.answer(front_end, request, NOT_FOUND)
            return
        self._asks.setdefault(number, {})[front_end] = Borrower(request, partition, part, wanted)
        self._owner.serve_again(number)

    def _taken_back_by(self, front_end: int, number: int) -> None:
        ask = self._asks.get(number, {}).pop(front_end, None)
        if ask is not None:
            self._owner.front_ends.answer(front_end, ask.request, [*NO_LOAN])

    def _lend_in_turn(self, number: int, queue: QueueOwner) -> None:
        """Lend to the owners that ask for a filter, and to the others: the kind that has got the last loan
        comes last.
        """
        if not self.by_filter.wished(number):
            self._lend_to_all(number, queue)
            return
        kinds = [self.by_filter.lend, self._lend_to_all]
        for lend in reversed(kinds) if self._by_filter_last else kinds:
            before = len(queue.delivery.ready)
            lend(number, queue)
            if len(queue.delivery.ready) < before:
                self._by_filter_last = lend == self.by_filter.lend

    def _lend_to_all(self, number: int, queue: QueueOwner) -> None:
        """Lend ready messages to the owners that wait for some."""
        asks = self._asks.get(number, {})
        for front_end, ask in list(asks.items()):
            if self._owner.front_ends.current(front_end) is None:
                # A new owner there, or this one when it greets again, asks anew.
                del asks[front_end]
            elif _lendable(queue) and len(self._dead_letters.link(ask.partition)) < TRANSFERS_UNDER_WAY:
                del asks[front_end]
                self._lend(number, queue, front_end, ask)

    def _lend_away(self, number: int, queue: QueueOwner) -> None:
        """Lend ready messages of a part that is to go to each of the others. The end of a loan has the queue
        served again.
        """
        for partition, part in self._parts.heirs(number):
            if _lendable(queue) and len(self._dead_letters.link(partition)) < TRANSFERS_UNDER_WAY:
                self._lend(number, queue, NOT_ASKED, Borrower(NOT_ASKED, partition, part, MESSAGES_AT_ONCE))

    def _lend(self, number: int, queue: QueueOwner, front_end: int, ask: Borrower) -> None:
        """Lend the oldest messages."""
        self._lend_of(number, queue, front_end, ask, queue.delivery.offered())

    def _lend_of(
        self, number: int, queue: QueueOwner, front_end: int, ask: Borrower, ready: Iterable[Range]
    ) -> None:
        """Put a loan of ready messages into the next entry. It leaves with the commit of that entry, never
        before.
        """
        owner, ranges = self._owner, self._oldest(ready, ask.wanted)
        loan = self._dead_letters.next_number(ask.partition)
        transfer = Transfer(number, loan, (ask.queue,), tuple(ranges))
        had = list[Range]()
        if queue.delivery.state.semantics is Semantics.AT_LEAST_ONCE:
            had = [part for one in ranges for part in queue.delivery.redelivered.intersection(*one)]
        for one in ranges:
            queue.lifecycle.take_out(*one)
        value = encode_death(Reason.LENT, owner.wall_ms())
        deaths = encode_annotate(number, Aspect.DEATH, [(*one, value) for one in ranges])
        operations = [encode_return(number, had, False)] if had else []
        operations += [deaths, encode_transfer(ask.partition, transfer)]
        owner.dead_messages.leaving.setdefault(number, RangeSet()).update(ranges)
        owner.proposal.add_batch(OWNER, 0, owner.next_sequence, operations)
        owner.proposal.committed.append(partial(self._lent, front_end, ask, transfer))
        owner.wake()

    def _oldest(self, ready: Iterable[Range], wanted: int) -> list[Range]:
        """Up to `wanted` messages of the ranges, the oldest ones, as many as one entry should move."""
        found, octets, left = list[Range](), 0, min(wanted, MESSAGES_AT_ONCE)
        for first, last in ready:
            while first <= last and left > 0 and octets < OCTETS_AT_ONCE:
                end = min(last, first + min(left, STEP) - 1)
                octets += sum(len(run.raw) for _, run in self._owner.contents(first, end))
                found.append((first, end))
                left -= end - first + 1
                first = end + 1
            if left <= 0 or octets >= OCTETS_AT_ONCE:
                break
        return list(RangeSet(found).ranges())

    def _lent(self, front_end: int, ask: Borrower, transfer: Transfer) -> None:
        """The entry of a loan is committed."""
        self._dead_letters.link(ask.partition).send(transfer)
        told = [transfer.number, count_of(list(transfer.ranges))]
        self._owner.front_ends.answer(front_end, ask.request, told)


def _lendable(queue: QueueOwner) -> bool:
    """Whether the queue has a message to lend: none behind a barrier that is not sent yet."""
    return bool(queue.delivery.ready) and any(True for _ in queue.delivery.offered())
