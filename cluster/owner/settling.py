"""Settles messages that a client names by bookmark, those of other clients too, and finds the messages that a
client names by filter (docs/decisions/0053). Pure.

The owner settles a message for the front end that has it, as that front end would: the same operations go
into the log. So an owner that is asked again, after another one was lost, finds what was done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from cluster.owner.discarding import discard, discard_leased
from cluster.owner.intake import take_return, take_settle
from cluster.owner.links import give_kept_back
from cluster.owner.moving import waiting
from cluster.owner.state import OwnerState
from cluster.peers.link_messages import NOT_FOUND, Ranges
from node.delivery.deeds import Became, Deed
from node.expressions.selector import Selector
from node.message.reason import Reason
from node.queue.delivery_state import DeliveryState
from node.queue.dispatch import QueueOwner
from node.queue.filtering import LookBudget, Looking, look_through
from node.queue.leasing import BACK_IN_QUEUE
from node.queue.operations import LINKS, OWNER, TAKES, TRANSACTION, Return, Semantics, Settle
from node.ranges.range_map import RangeMap, Span
from node.ranges.range_set import RangeSet

FOUND_SPANS: Final = 1024
"""A search goes on with the next request after so many spans."""

Later = Callable[[int, Callable[[], None]], None]
"""(queue, callback): calls back when something may have become of the messages that the owner holds."""


class NamedMessages(NamedTuple):
    """Messages of a queue that a client names, and the deed that it asks for. `spans` has (first, last,
    number of failed deliveries): a message is cancelled once, however often the client's node asks.
    `cancels`: all nodes know that a client's word is a cancel.
    """

    queue: int
    deed: Deed
    spans: list[Span]
    cancels: bool


def settle_named(
    owner: OwnerState, asked: NamedMessages, later: Later, answer: Callable[[Any], None]
) -> None:
    """Settle messages. Answers, once that is applied, the ranges of messages by what became of them."""
    queue = owner.queues.get(asked.queue)
    if queue is None:
        answer(NOT_FOUND)
        return
    again = partial(settle_named, owner, asked, later, answer)
    held = queue.delivery.held
    if any(held.intersection(first, last) for first, last, _ in asked.spans):
        # A front end that has not greeted yet may have the message.
        later(asked.queue, again)
        return
    if asked.deed is Deed.CANCEL and owner.returning(asked.queue):
        # A message on its way back to the queue is not cancelled a second time. Callbacks behind this one may
        # tell that it is back.
        later(asked.queue, again)
        owner.serve_again(asked.queue)
        return
    queue.delivery.now = owner.wall_ms()
    became = _Settling(owner, queue, asked).carry_out()
    rows = [[int(one), list(ranges.ranges())] for one, ranges in became.items() if ranges]
    owner.mark(asked.queue)
    owner.after_proposed(partial(answer, rows))


class _Settling:
    """One request of a client, carried out in one go."""

    def __init__(self, owner: OwnerState, queue: QueueOwner, asked: NamedMessages) -> None:
        self._owner, self._queue, self._asked = owner, queue, asked
        self._number, self._delivery = asked.queue, queue.delivery
        self._became = {one: RangeSet() for one in Became}

    def carry_out(self) -> dict[Became, RangeSet]:
        """Settle what can be settled. Returns all messages by what became of them."""
        asked = RangeSet((first, last) for first, last, _ in self._asked.spans)
        known = self._owner.next_sequence - 1
        for first, last in asked.ranges():
            if last > known:
                self._note(Became.NOT_FOUND, [(max(first, known + 1), last)])
        left = _there(self._delivery, list(asked.ranges()))
        for holder, lease in list(self._delivery.leases.items()):
            mine = [part for one in left.ranges() for part in lease.intersection(*one)]
            if mine:
                left.remove_all(mine)
                self._settle_leased(holder, mine)
        self._settle_waiting(list(left.ranges()))
        for ranges in list(self._became.values()):
            asked.remove_all(list(ranges.ranges()))
        self._note(Became.GONE, list(asked.ranges()))
        return self._became

    def _note(self, became: Became, ranges: Ranges) -> None:
        self._became[became].update(ranges)

    def _log(self, operation: bytes | None) -> None:
        if operation is not None:
            self._owner.operation(operation)

    def _settle_leased(self, holder: int, ranges: Ranges) -> None:
        """Settle messages that a front end has, or that are kept for links."""
        removing = self._delivery.state.semantics is Semantics.AT_MOST_ONCE or holder == OWNER
        if holder == TRANSACTION:
            self._note(Became.IN_TRANSACTION, ranges)
        elif removing:
            self._note(Became.GONE, ranges)
        elif holder == TAKES or self._owner.described(self._number).strict_leases:
            self._note(Became.LEASED, ranges)
        elif self._asked.deed is Deed.CANCEL:
            self._cancel(holder, ranges)
        else:
            self._note(Became.SETTLED, ranges)
            if self._asked.deed is Deed.ACKNOWLEDGE:
                self._log(take_settle(self._owner, holder, Settle(self._number, ranges)))
            else:
                self._log(discard_leased(self._owner, self._number, holder, ranges, Reason.EXPIRED))

    def _settle_waiting(self, ranges: Ranges) -> None:
        """Settle messages that no consumer has. A message that is in no place is about to leave."""
        found = waiting(self._delivery, ranges)
        if not found:
            return
        if self._asked.deed is Deed.CANCEL:
            self._by_failures(found, Became.NOT_LEASED)
            return
        self._note(Became.SETTLED, found)
        if self._asked.deed is Deed.ACKNOWLEDGE:
            self._log(take_settle(self._owner, OWNER, Settle(self._number, found)))
        else:
            discard(self._owner, self._number, self._queue, found, Reason.EXPIRED)

    # -- cancels --------------------------------------------------------------------------------

    def _by_failures(self, ranges: Ranges, otherwise: Became) -> Ranges:
        """The messages whose deliveries have failed as often as when the client asked, which are noted as
        `otherwise`. The others have gone back since.
        """
        expected = RangeMap(sorted(span for span in self._asked.spans if span[2]))
        same = RangeSet()
        for low, high, failures in _failures(self._delivery, ranges):
            spans = expected.cover(low, high)
            same.update((first, last) for first, last, former in spans if former == failures)
        self._note(Became.SETTLED, list(RangeSet(ranges).without(same.ranges()).ranges()))
        self._note(otherwise, list(same.ranges()))
        return list(same.ranges())

    def _cancel(self, holder: int, ranges: Ranges) -> None:
        """Give messages back to the queue for the front end that has them."""
        delivery, returning = self._delivery, RangeSet()
        going = delivery.links.lapsing if delivery.timed is None else delivery.timed.lapsing
        returning.update(part for one in ranges for part in going.intersection(*one))
        if holder != LINKS and self._owner.front_ends.current(holder) is None:
            # The owner has given the front end up: its messages go back by themselves.
            returning.update(ranges)
        self._note(Became.NOT_LEASED, list(returning.ranges()))
        staying = list(RangeSet(ranges).without(returning.ranges()).ranges())
        mine = self._by_failures(staying, Became.SETTLED)
        if not mine:
            return
        if holder == LINKS:
            give_kept_back(self._owner, self._number, self._queue, mine, cancelled=self._asked.cancels)
        else:
            self._return(holder, mine)

    def _return(self, front_end: int, ranges: Ranges) -> None:
        owner, number = self._owner, self._number
        self._log(take_return(owner, front_end, Return(number, ranges, True, cancelled=self._asked.cancels)))
        self._delivery.links.given_back(ranges)
        owner.await_return(number)
        owner.after_proposed(partial(_gone_back, owner, number, front_end, ranges))


def _gone_back(owner: OwnerState, number: int, front_end: int, ranges: Ranges) -> None:
    """The return of a front end's messages is applied: they are ready. Tells the front end before the queue
    delivers them again, also to other consumers of that front end.
    """
    queue = owner.queues.get(number)
    if queue is None:
        return
    queue.delivery.links.lapsed(ranges)
    owner.front_ends.tell_lease_end(front_end, number, ranges, BACK_IN_QUEUE)
    for part in ranges:
        owner.returned(front_end, number, *part)


def _there(delivery: DeliveryState, ranges: Ranges) -> RangeSet:
    """The messages of the ranges that the queue has, and that no consumer has settled."""
    there = RangeSet()
    for one in ranges:
        there.update(delivery.state.living(*one).ranges())
        there.update(delivery.soft.numbers.intersection(*one))
        there.remove_all(delivery.settling.intersection(*one))
    return there


def _failures(delivery: DeliveryState, ranges: Ranges) -> Iterator[Span]:
    """The failed deliveries of messages that the queue has, as spans."""
    for first, last in ranges:
        soft = delivery.soft.numbers.intersection(first, last)
        for part in soft:
            yield from delivery.failures(*part)
        for part in RangeSet([(first, last)]).without(soft).ranges():
            yield from delivery.failures(*part)


# -- the search ---------------------------------------------------------------------------------------


class Search(NamedTuple):
    """A question for the messages in ranges that a filter takes; an empty one takes all."""

    queue: int
    filter: bytes
    ranges: Ranges


class Found(NamedTuple):
    """The messages that a search has found, as (first, last, failed deliveries), with the number from which
    on to search next, 0 for none, and that of the last message that there is.
    """

    spans: list[Span]
    next: int
    through: int


def find_named(owner: OwnerState, queue: QueueOwner, asked: Search, looks: LookBudget) -> Found:
    """Find messages, as far as this turn has steps for that. Raises DamagedEntryError, and TreeError for the
    filter of a later release.
    """
    delivery, through = queue.delivery, owner.next_sequence - 1
    looking = Looking(Selector(asked.filter)) if asked.filter else None
    if looking is not None:
        # A filter takes the messages that the queue shows alone; a bookmark names any message.
        through = min(through, delivery.deepest)
    left, spans = looks.share(), list[Span]()
    for first, last in asked.ranges:
        last = min(last, through)
        while first <= last:
            if left <= 0 or len(spans) >= FOUND_SPANS:
                return _found(queue, looking, spans, first, through)
            there, end = _stretch(delivery, first, last)
            steps, matching, behind = 1, [(first, end)], end + 1
            if there and looking is not None:
                matching, steps, behind = look_through(looking, queue.read_messages, (first, end), left)
            if there:
                living = _there(delivery, matching)
                spans += sorted(_failures(delivery, list(living.ranges())))
            left -= steps
            looks.left -= steps
            first = behind
    return _found(queue, looking, spans, 0, through)


def _found(queue: QueueOwner, looking: Looking | None, spans: list[Span], first: int, through: int) -> Found:
    if looking is not None:
        queue.delivery.tally.unreadable += looking.unreadable
    return Found(spans, first, through)


def _stretch(delivery: DeliveryState, first: int, last: int) -> tuple[bool, int]:
    """Whether the queue has message `first`, and the last message up to which that is so."""
    end = last
    for there in (delivery.soft.numbers, delivery.state.alive):
        inside, upto = there.span(first)
        if inside:
            return True, last if upto is None else min(upto, last)
        end = end if upto is None else min(upto, end)
    return False, end
