"""The owner's side of a queue: who gets which message. Soft state, rebuilt by every new owner."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from node.queue.consumers import Consumer
from node.queue.delivery_state import DeliveryState
from node.queue.grants import Fit, Grant, alike
from node.queue.operations import OWNER, Semantics
from node.queue.queue import QueueState
from node.queue.settings import PLAIN, QueueSettings
from node.ranges.numbers import count_of, first_of, merged
from node.ranges.range_map import RangeMap, Span
from node.ranges.range_set import Range

MARK_AHEAD: Final = 20_000

UNKNOWN: Final = 0
"""The number of no consumer."""


class QueueOwner(DeliveryState):
    """Hands out the messages of one queue, and knows its consumers.

    `fresh` says that nothing of the queue can have been leased before, as of one that was just
    created. Otherwise what is alive up to the mark is held while attached front ends have not said
    what they still have. `blocked` tells after a dispatch that a consumer with credit waits for a
    higher mark: ask `wanted_mark` and commit it; `unfinished`, that there was more to look at than is
    good for one turn: dispatch again.
    """

    __slots__ = (
        "_asked_mark", "_lost", "_stalled", "blocked", "crowded", "unfinished",
    )  # fmt: skip

    def __init__(
        self,
        state: QueueState,
        fresh: bool = False,
        settings: QueueSettings = PLAIN,
        now: int = 0,
        term: int = 0,
    ) -> None:
        """`now` is wall clock, in milliseconds; `term` that of the owner."""
        super().__init__(state, settings, now, term, fresh)
        self.blocked = False
        self.crowded = False
        self.unfinished = False
        self._lost = False
        self._stalled = 0
        self._asked_mark = state.mark
        if not fresh and state.attached and state.semantics is Semantics.AT_LEAST_ONCE:
            self._hold()

    def _hold(self) -> None:
        parts = self.ready.intersection(0, self.state.mark)
        self.held.update(parts)
        self.ready.remove(0, self.state.mark)
        if self.held or self.scheduled:
            self.awaited = set(self.state.attached)
        self.given_out(self.state.settled)

    # -- consumers ------------------------------------------------------------------------------

    def drain(self, front_end: int, consumer: int) -> int | None:
        """Take back the consumer's credit when there is nothing for it, and return how much that was.

        None while a message may still come: one that is ready, or held. Ask after `dispatch`.
        """
        found = self.consumers.get(front_end, consumer)
        if found is None:
            return 0
        if found.sent < found.limit and (self.held or (self.ready and self._may_come(found))):
            return None
        return self.consumers.revoke(found)

    def _may_come(self, consumer: Consumer) -> bool:
        """Whether something of what is ready is for the consumer."""
        removal = consumer.no_ack or self.state.semantics is Semantics.AT_MOST_ONCE
        offered = bool(self._offered(consumer, 1)) and (removal or self._room(consumer, 1) > 0)
        return offered or bool(self.awaited) or self.unfinished

    @property
    def served(self) -> bool:
        """Whether the last `dispatch` gave out all that consumers have credit for, as far as there is room.

        Else some may be waiting for a mark that is on its way to the log, or for the next turn.
        """
        return not (self.blocked or self.unfinished)

    # -- who gets what --------------------------------------------------------------------------

    def dispatch(self, budget: int, fit: Fit | None = None) -> list[Grant]:
        """Grant up to `budget` ready messages, oldest first, to consumers with credit.

        Higher priorities first; within one, consumers take turns, each with an equal share of what
        is ready, so that few consumers get long ranges and no consumer waits for ever. `fit` says
        how much of a range there is room for on the way to a front end; `crowded` tells afterwards
        that there was not room for all.
        """
        grants: list[Grant] = []
        self.blocked = self.crowded = self.unfinished = False
        for line in self.consumers.lines:
            stopped: list[Consumer] = []
            turns = 0
            while line and budget > 0 and self.ready:
                if turns == 0:
                    turns = len(line)
                    share = -(-min(len(self.ready), budget) // turns)
                turns -= 1
                consumer = line.popleft()
                granted = self._serve(consumer, min(budget, share), grants, fit, not line)
                budget -= granted
                if not granted:
                    stopped.append(consumer)
                elif consumer.sent < consumer.limit:
                    line.append(consumer)
                else:
                    consumer.in_line = False
            line.extendleft(reversed(stopped))
            if budget <= 0 and line and self.ready:
                # Nobody else would ask for the rest: the credit of those in line need not change before
                # they have all that it is for.
                self.unfinished = True
        return grants

    def _serve(
        self, consumer: Consumer, share: int, grants: list[Grant], fit: Fit | None, alone: bool
    ) -> int:
        """Grant up to `share` messages within the consumer's credit; return how many.

        `alone`: no other consumer stands in the line.
        """
        granted = 0
        share = min(share, consumer.limit - consumer.sent)
        removal = consumer.no_ack or self.state.semantics is Semantics.AT_MOST_ONCE
        if self.hooks.room and not removal:
            share = self._room(consumer, share)
        while granted < share:
            offered = self._offered(consumer, share - granted, alone, granted > 0)
            grant = self._grant(consumer, offered, removal, fit) if offered else None
            if grant is None:
                break
            count = self._give_out(consumer, grant)
            if granted and grants[-1].goes_on(grant):
                grants[-1].ranges.extend(grant.ranges)
            else:
                grants.append(grant)
            granted += count
        consumer.sent += granted
        return granted

    def _room(self, consumer: Consumer, wanted: int) -> int:
        """How many messages the queue's features let the consumer lease now, up to `wanted`."""
        for feature in self.hooks.room:
            wanted = feature.room(consumer, wanted)
        return wanted

    def _give_out(self, consumer: Consumer, grant: Grant) -> int:
        """What is granted is ready no more; return how many messages that is."""
        ranges, count = grant.ranges, grant.messages
        self.ready.hand_over((consumer.front_end, consumer.number), ranges, count)
        ranges = ranges if len(ranges) == 1 else merged(ranges)
        self.lease_of(OWNER if grant.removal else grant.front_end).update(ranges)
        for feature in () if grant.removal else self.hooks.given:
            feature.given(consumer, ranges)
        newest = ranges[-1][1]
        if newest > self.granted:
            self.granted = newest
        return count

    def _grant(
        self, consumer: Consumer, offered: list[Range], removal: bool, fit: Fit | None
    ) -> Grant | None:
        """As much of ready messages as can be granted at once, and may be now; None for nothing."""
        soft = redelivered = False
        if self.soft:
            soft, offered = alike(self.soft.numbers, offered)
            removal = removal or (soft and consumer.removes_soft)
        if not (removal or soft):
            offered = self._below_mark(offered)
        if self.redelivered and offered:
            redelivered, offered = alike(self.redelivered, offered)
        if fit is not None and offered:
            room, wanted = fit(consumer.front_end, offered, soft), count_of(offered)
            if room < wanted:
                self.crowded = True
                offered = first_of(offered, room)
        if not offered:
            return None
        return Grant(consumer.front_end, consumer.number, offered, redelivered, removal, soft)

    def _below_mark(self, offered: list[Range]) -> list[Range]:
        """What comes before the first message above the mark.

        A new owner must be able to tell what was never leased: that one waits for the mark.
        """
        mark = self.state.mark
        for i, (first, last) in enumerate(offered):
            if last > mark:
                if first <= mark:
                    return [*offered[:i], (first, mark)]
                if i == 0:
                    self.blocked, self._stalled = True, first
                return offered[:i]
        return offered

    def regrant(self, front_end: int, number: int, first: int, last: int, fit: Fit) -> list[Grant]:
        """Grant what is ready of messages that a consumer had before to that consumer, if it is there.

        Its credit is not asked: it has given back as much. Nothing where messages are removed before they
        are delivered.
        """
        consumer = self.consumers.get(front_end, number)
        if consumer is None or consumer.no_ack or not consumer.active:
            return []
        if self.state.semantics is Semantics.AT_MOST_ONCE:
            return []
        grants: list[Grant] = []
        for low, high in self.ready.intersection(first, last):
            while low <= high:
                soft, upto = self.soft.numbers.span(low)
                if not soft and low > self.state.mark:
                    break
                fitting = fit(front_end, [(low, high if upto is None else min(high, upto))], soft)
                end = low + self._room(consumer, fitting) - 1
                if end < low:
                    return grants
                self.ready.claim((front_end, number), low, end)
                self.lease_of(front_end).add(low, end)
                for feature in self.hooks.given:
                    feature.given(consumer, [(low, end)])
                grants.append(
                    Grant(front_end, number, [(low, end)], redelivered=True, removal=False, soft=soft)
                )
                self.consumers.given(consumer, end - low + 1)
                low = end + 1
        return grants

    def _offered(
        self, consumer: Consumer, limit: int, alone: bool = True, begun: bool = False
    ) -> list[Range]:
        """What comes next for the consumer, up to `limit` messages; see `Order.offered`."""
        ready = self.ready
        if ready.by_consumer and self.awaited:
            # A front end that has not answered may hold any message that keeps others back.
            return []
        offered = ready.offered(consumer, limit, alone=alone, begun=begun)
        self.unfinished = self.unfinished or ready.unfinished
        return offered

    # -- front ends lost and owners changed -----------------------------------------------------

    def lost_front_end(self, front_end: int) -> None:
        """The front end is dead: its consumers are gone, its leases ready again, marked redelivered.

        A RETURN that counts a failed delivery of what it had leased must have been applied before.
        """
        self.consumers.detach_all(front_end)
        self.consumers.resume(front_end)
        lease = self.leases.pop(front_end, None)
        if lease is not None:
            ranges = list(lease.ranges())
            for part in ranges if self.soft else ():
                self.soft.count_failure(*part)
            self.give_back(lease, ranges, redelivered=True)
        if front_end in self.awaited:
            self._lost = True
            self._answered(front_end)

    def reattached(
        self, front_end: int, ranges: Iterable[Range], holders: Iterable[Span] = ()
    ) -> list[Range]:
        """The front end says what it holds: what it has not settled, and what it has settled in
        batches that were not acknowledged yet. Returns the ranges that are leased to it from now on.
        `holders` tells, of a queue that keeps order by key, which of its consumers has what.

        When all that were awaited have answered, what nobody holds is ready.
        """
        accepted: list[Range] = []
        consumers = RangeMap(holders)
        for first, last in ranges:
            for part in self.find_waiting(first, last):
                self.lease_of(front_end).add(*part)
                accepted.append(part)
                if self.ready.by_consumer:
                    for start, end, consumer in consumers.cover(*part, UNKNOWN):
                        self.ready.claim((front_end, consumer), start, end)
        if accepted:
            self.given_out(max(accepted)[1])
        self._answered(front_end)
        return sorted(accepted)

    def _answered(self, front_end: int) -> None:
        if front_end in self.awaited:
            self.awaited.remove(front_end)
            if not self.awaited:
                self.release_held(redelivered=self._lost)

    def release_held(self, redelivered: bool) -> int:
        """Nobody holds what is still held: it is ready; return how many messages that makes.

        `redelivered` when a front end that may have had some of them was lost. What is older than something
        that a former owner has given out was given out as well, and got lost on its way.
        """
        self.awaited.clear()
        older = self.held.intersection(0, self.granted)
        count = self.give_back(self.held, older, redelivered=True)
        return count + self.give_back(self.held, list(self.held.ranges()), redelivered)

    # -- the mark -------------------------------------------------------------------------------

    def wanted_mark(self, upcoming_last: int) -> int | None:
        """The MARK that the next entry should carry, None when it needs none.

        `upcoming_last` is the last sequence number in use once that entry is applied. Ask for each
        queue that the entry publishes to, and for each that is `blocked`. The answer runs ahead, so
        that in steady state whatever is committed may be granted at once and marks are rare.
        """
        if not self.consumers.acking or self.state.semantics is Semantics.AT_MOST_ONCE:
            return None
        upcoming = self.ready.unseen()
        position = upcoming_last if upcoming is None else max(upcoming[0], self.granted, self._stalled)
        if self._asked_mark >= min(position + MARK_AHEAD // 2, upcoming_last):
            return None
        self._asked_mark = position + MARK_AHEAD
        return self._asked_mark
