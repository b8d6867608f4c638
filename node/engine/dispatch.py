"""The owner's side of a queue: who gets which message. Soft state, rebuilt by every new owner.

Places of a message that the queue still needs:

    place      leaves by                  to
    ready      dispatch                   leased, or removing (lease of OWNER)
    leased     settle                     gone
               release, lost_front_end    ready
    removing   settle(OWNER, ...)         gone
    held       reattached                 leased
               release, release_held      ready
    ready      purge                      gone

`held` is what may be leased to somebody whom a new owner has not heard of yet (design rule 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from node.engine.consumers import Consumer, Consumers
from node.engine.grants import Fit, Grant, Settled
from node.engine.lifetimes import Lifetimes
from node.engine.operations import OWNER, Aspect, Semantics
from node.engine.queue import QueueState
from node.engine.ranges import Range, RangeSet
from node.engine.settings import PLAIN, QueueSettings
from node.engine.soft import SoftMessages
from node.engine.tally import Tally
from node.runs import Run

MARK_AHEAD: Final = 20_000


class QueueOwner:
    """Ready messages, leases and consumers of one queue.

    `fresh` says that nothing of the queue can have been leased before, as of one that was just
    created. Otherwise what is alive up to the mark is held while attached front ends have not said
    what they still have. `blocked` tells after a dispatch that a consumer with credit waits for a
    higher mark: ask `wanted_mark` and commit it.
    """

    __slots__ = (
        "_asked_mark", "_granted", "_lost", "awaited", "blocked", "consumers", "crowded", "held", "leases",
        "lifetimes", "ready", "redelivered", "settings", "soft", "state", "tally",
    )  # fmt: skip

    def __init__(self, state: QueueState, fresh: bool = False, settings: QueueSettings = PLAIN) -> None:
        self.state = state
        self.settings = settings
        self.ready = state.alive.copy()
        self.held = RangeSet()
        self.leases: dict[int, RangeSet] = {}
        self.redelivered = state.returned.copy()
        self.soft = SoftMessages()
        self.tally = Tally()
        self.lifetimes: Lifetimes | None = None
        self.consumers = Consumers()
        self.awaited: set[int] = set()
        self.blocked = False
        self.crowded = False
        self._lost = False
        self._granted = 0
        self._asked_mark = state.mark
        if state.annotations:
            self._note_annotations(0, state.alive.last or 0)
        if not fresh and state.attached and state.semantics is Semantics.AT_LEAST_ONCE:
            self._hold()

    def _hold(self) -> None:
        parts = self.ready.intersection(0, self.state.mark)
        self.held.update(parts)
        self.ready.remove(0, self.state.mark)
        if self.held:
            self.awaited = set(self.state.attached)

    # -- consumers ------------------------------------------------------------------------------

    def drain(self, front_end: int, consumer: int) -> int | None:
        """Take back the consumer's credit when there is nothing for it, and return how much that was.

        None while a message may still come: one that is ready, or held. Ask after `dispatch`.
        """
        found = self.consumers.get(front_end, consumer)
        if found is None:
            return 0
        if found.sent < found.limit and (self.ready or self.held):
            return None
        return self.consumers.revoke(found)

    @property
    def leased_count(self) -> int:
        """Messages given to consumers and not settled."""
        return sum(map(len, self.leases.values()))

    # -- messages -------------------------------------------------------------------------------

    def append(self, first: int, last: int) -> None:
        """Messages that an entry appended are ready, unless the same entry removed them again."""
        self.tally.published += last - first + 1
        if self.settings is PLAIN:
            self.ready.add(first, last)
        else:
            self.ready.update(self.state.alive.intersection(first, last))
        if self.state.annotations:
            self._note_annotations(first, last)

    def _note_annotations(self, first: int, last: int) -> None:
        """Take notice of what was decided about messages that are new here."""
        expiries = self.state.annotations.get(Aspect.EXPIRY)
        if expiries is not None:
            for span in expiries.spans(first, last):
                self.note_expiry(*span)

    def note_expiry(self, first: int, last: int, expiry: int) -> None:
        """The messages are to go at a time: milliseconds since the epoch, or `lifetimes.AT_ONCE`."""
        if self.lifetimes is None:
            self.lifetimes = Lifetimes()
        self.lifetimes.add(first, last, expiry)

    @property
    def attended(self) -> bool:
        """Whether anything in the queue asks for more than to be stored and delivered."""
        return self.settings is not PLAIN or self.lifetimes is not None

    def add_soft(self, first: int, run: Run) -> None:
        """Messages that are in no log are ready. Their numbers come from the partition's sequence.

        They are gone with this owner: the next one must number above them, or a late settlement
        of one of these would hit another message.
        """
        self.tally.published += run.count
        self.soft.add(first, run)
        self.ready.add(first, first + run.count - 1)

    def dispatch(self, budget: int, fit: Fit | None = None) -> list[Grant]:
        """Grant up to `budget` ready messages, oldest first, to consumers with credit.

        Higher priorities first; within one, consumers take turns, each with an equal share of what
        is ready, so that few consumers get long ranges and no consumer waits for ever. `fit` says
        how much of a range there is room for on the way to a front end; `crowded` tells afterwards
        that there was not room for all.
        """
        grants: list[Grant] = []
        self.blocked = self.crowded = False
        for line in self.consumers.lines:
            stopped: list[Consumer] = []
            turns = 0
            while line and budget > 0 and self.ready:
                if turns == 0:
                    turns = len(line)
                    share = -(-min(len(self.ready), budget) // turns)
                turns -= 1
                consumer = line.popleft()
                granted = self._serve(consumer, min(budget, share), grants, fit)
                budget -= granted
                if not granted:
                    stopped.append(consumer)
                elif consumer.sent < consumer.limit:
                    line.append(consumer)
                else:
                    consumer.in_line = False
            if stopped:
                self.blocked = True
                line.extendleft(reversed(stopped))
        return grants

    def _serve(self, consumer: Consumer, share: int, grants: list[Grant], fit: Fit | None) -> int:
        """Grant up to `share` messages within the consumer's credit; return how many."""
        granted = 0
        share = min(share, consumer.limit - consumer.sent)
        removal = consumer.no_ack or self.state.semantics is Semantics.AT_MOST_ONCE
        holder = OWNER if removal else consumer.front_end
        while granted < share:
            front = self.ready.front()
            if front is None:
                break
            first, last = front
            last = min(last, first + share - granted - 1)
            soft = redelivered = False
            if self.soft:
                soft, upto = self.soft.numbers.span(first)
                last = last if upto is None else min(last, upto)
            if not (removal or soft) and last > self.state.mark:
                # A new owner must be able to tell what was never leased: wait for the mark.
                if first > self.state.mark:
                    break
                last = self.state.mark
            if self.redelivered:
                redelivered, upto = self.redelivered.span(first)
                last = last if upto is None else min(last, upto)
            if fit is not None:
                room = fit(consumer.front_end, first, last, soft)
                self.crowded = self.crowded or room < last
                if room < first:
                    break
                last = room
            self.ready.remove(first, last)
            self._lease(holder).add(first, last)
            grants.append(Grant(consumer.front_end, consumer.number, first, last, redelivered, removal, soft))
            granted += last - first + 1
            if last > self._granted:
                self._granted = last
        consumer.sent += granted
        return granted

    def regrant(self, front_end: int, number: int, first: int, last: int, fit: Fit) -> list[Grant]:
        """Grant what is ready of messages that a consumer had before to that consumer, if it is there.

        Its credit is not asked: it has given back as much. Nothing where messages are removed before they
        are delivered.
        """
        consumer = self.consumers.get(front_end, number)
        if consumer is None or consumer.no_ack or self.state.semantics is Semantics.AT_MOST_ONCE:
            return []
        grants: list[Grant] = []
        for low, high in self.ready.intersection(first, last):
            while low <= high:
                soft, upto = self.soft.numbers.span(low)
                if not soft and low > self.state.mark:
                    break
                end = fit(front_end, low, high if upto is None else min(high, upto), soft)
                if end < low:
                    return grants
                self.ready.remove(low, end)
                self._lease(front_end).add(low, end)
                grants.append(Grant(front_end, number, low, end, redelivered=True, removal=False, soft=soft))
                self.consumers.given(consumer, end - low + 1)
                low = end + 1
        return grants

    def _lease(self, front_end: int) -> RangeSet:
        lease = self.leases.get(front_end)
        if lease is None:
            lease = self.leases[front_end] = RangeSet()
        return lease

    def settle(self, front_end: int, first: int, last: int) -> Settled:
        """The front end is done with messages that it was given.

        Also one whose lease was lost meanwhile may settle: the message has been processed. On an
        at-most-once queue only the owner's own removal settles; what consumers say later changes
        nothing.
        """
        if front_end != OWNER and self.state.semantics is Semantics.AT_MOST_ONCE:
            return Settled(0, [])
        lease = self.leases.get(front_end)
        count = lease.remove(first, last) if lease is not None else 0
        if self.redelivered:
            self.redelivered.remove(first, last)
        if self.lifetimes is not None:
            self.lifetimes.remove(first, last)
        if count == last - first + 1 and not self.soft:
            return Settled(count, [(first, last)])
        if count != last - first + 1:
            count += self.ready.remove(first, last) + self.held.remove(first, last)
        if self.soft:
            self.soft.remove(first, last)
        return Settled(count, self.state.alive.intersection(first, last))

    def release(self, front_end: int, first: int, last: int, redelivered: bool = True) -> int:
        """What the front end has leased of the range is ready again, in its place; return how many.

        Also what is held: only who had it can give it back. `redelivered` is False for messages
        that never reached a consumer; they are marked nevertheless once newer ones were granted.
        """
        places = (self.leases.get(front_end), self.held)
        return sum(
            self._give_back(place, place.intersection(first, last), redelivered) for place in places if place
        )

    def release_unheld(self, front_end: int, held: Sequence[Range]) -> None:
        """The front end says that it has only `held`: what else it was given has reached nobody."""
        lease = self.leases.get(front_end)
        if not lease:
            return
        unheld = lease.copy()
        unheld.remove_all(held)
        for first, last in list(unheld.ranges()):
            self.release(front_end, first, last, redelivered=False)

    def _give_back(self, place: RangeSet, parts: list[Range], redelivered: bool) -> int:
        count = 0
        # Newer ones were handed out meanwhile: only a redelivered message may come after them (0-9-1 §4.7).
        redelivered = redelivered or (bool(parts) and parts[-1][1] < self._granted)
        for part in parts:
            place.remove(*part)
            # Somebody else may have settled it meanwhile.
            for first, last in self.state.alive.intersection(*part) + self.soft.numbers.intersection(*part):
                count += self.ready.add(first, last)
                if redelivered:
                    self.redelivered.add(first, last)
                if self.lifetimes is not None:
                    self.lifetimes.came_back(first, last)
        return count

    def purge(self) -> Settled:
        """Remove all that is ready, not what is leased or held: (how many, what a PURGE must name)."""
        count = len(self.ready)
        return Settled(count, [part for one in list(self.ready.ranges()) for part in self.take_out(*one)])

    def take_out(self, first: int, last: int) -> list[Range]:
        """Ready messages, all of the range, leave the queue; returns what the log must hear of."""
        self.ready.remove(first, last)
        self.redelivered.remove(first, last)
        self.soft.remove(first, last)
        if self.lifetimes is not None:
            self.lifetimes.remove(first, last)
        return self.state.alive.intersection(first, last)

    # -- front ends lost and owners changed -----------------------------------------------------

    def lost_front_end(self, front_end: int) -> list[Range]:
        """The front end is dead: its consumers are gone, its leases ready again, marked redelivered.

        Returns what it had leased, for a RETURN that makes the next owner know, too.
        """
        self.consumers.detach_all(front_end)
        lease = self.leases.pop(front_end, None)
        ranges = list(lease.ranges()) if lease is not None else []
        if lease is not None:
            self._give_back(lease, ranges, redelivered=True)
        if front_end in self.awaited:
            self._lost = True
            self._answered(front_end)
        return ranges

    def reattached(self, front_end: int, ranges: Iterable[Range]) -> list[Range]:
        """The front end says what it holds: what it has not settled, and what it has settled in
        batches that were not acknowledged yet. Returns the ranges that are leased to it from now on.

        When all that were awaited have answered, what nobody holds is ready.
        """
        accepted: list[Range] = []
        for first, last in ranges:
            # After the time limit what was held is ready, or leased to somebody else by now.
            for place in (self.held, self.ready):
                for part in place.intersection(first, last):
                    place.remove(*part)
                    self._lease(front_end).add(*part)
                    accepted.append(part)
        self._answered(front_end)
        return sorted(accepted)

    def _answered(self, front_end: int) -> None:
        if front_end in self.awaited:
            self.awaited.remove(front_end)
            if not self.awaited:
                self.release_held(redelivered=self._lost)

    def release_held(self, redelivered: bool) -> int:
        """Nobody holds what is still held: it is ready; return how many messages that makes.

        `redelivered` when a front end that may have had some of them was lost.
        """
        self.awaited.clear()
        return self._give_back(self.held, list(self.held.ranges()), redelivered)

    # -- the mark -------------------------------------------------------------------------------

    def wanted_mark(self, upcoming_last: int) -> int | None:
        """The MARK that the next entry should carry, None when it needs none.

        `upcoming_last` is the last sequence number in use once that entry is applied. Ask for each
        queue that the entry publishes to, and for each that is `blocked`. The answer runs ahead, so
        that in steady state whatever is committed may be granted at once and marks are rare.
        """
        if not self.consumers.acking or self.state.semantics is Semantics.AT_MOST_ONCE:
            return None
        oldest = self.ready.first
        position = upcoming_last if oldest is None else max(oldest, self._granted)
        if self._asked_mark >= min(position + MARK_AHEAD // 2, upcoming_last):
            return None
        self._asked_mark = position + MARK_AHEAD
        return self._asked_mark
