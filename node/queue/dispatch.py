"""The owner's side of a queue: who gets which message. Soft state, rebuilt by every new owner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from node.queue.consumers import Consumer
from node.queue.delivery_state import DeliveryState
from node.queue.hooks import FeatureRegistry
from node.queue.lifecycle import Lifecycle
from node.queue.operations import OWNER, Semantics
from node.queue.queue import QueueState
from node.queue.settings import PLAIN, QueueSettings
from node.ranges.numbers import count_of, first_of, merged
from node.ranges.range_set import Range, RangeSet

MARK_AHEAD: Final = 20_000


class Grant(NamedTuple):
    """The messages of these ranges, in the order in which they are delivered, for a consumer.

    All are marked redelivered or none, and all are soft (`SoftMessages` has them) or none. With
    `removal` they must be gone before they are delivered: the owner commits a SETTLE (not for soft
    ones), delivers, and then calls `settle(OWNER, ranges)`.
    """

    front_end: int
    consumer: int
    ranges: list[Range]
    redelivered: bool
    removal: bool
    soft: bool

    @property
    def messages(self) -> int:
        """How many messages it is."""
        return count_of(self.ranges)

    def goes_on(self, other: Grant) -> bool:
        """Whether the other grant could be a part of this one, behind the rest."""
        return self[:2] == other[:2] and self[3:] == other[3:]


Fit = Callable[[int, list[Range], bool], int]
"""(front end, ranges, soft) → how many of the messages, from the first on, there is room for."""


class QueueOwner:
    """Hands out the messages of one queue: who gets which, as credit, order, features and the mark allow.

    `delivery` says where messages are, and has the consumers; `lifecycle` moves messages. `blocked` tells
    after a dispatch that a consumer with credit waits for a higher mark: ask `wanted_mark` and commit it;
    `unfinished`, that there was more to look at than is good for one turn: dispatch again; `crowded`, that
    there was not room for all on the way to front ends.
    """

    __slots__ = (
        "_asked_mark", "_stalled", "blocked", "crowded", "delivery", "lifecycle", "unfinished",
    )  # fmt: skip

    def __init__(
        self,
        state: QueueState,
        registry: FeatureRegistry,
        *,
        fresh: bool = False,
        settings: QueueSettings = PLAIN,
        now: int = 0,
        term: int = 0,
    ) -> None:
        """`registry` has the features that the queue may ask for. `now` is wall clock, in milliseconds;
        `term` is the owner's.

        `fresh` says that nothing of the queue can have been leased before, as of one that was just created.
        Otherwise what is alive up to the mark is held while attached front ends have not said what they still
        have.
        """
        self.delivery = DeliveryState(state, settings, term, fresh)
        self.lifecycle = Lifecycle(self.delivery, registry, now)
        self.blocked = False
        self.crowded = False
        self.unfinished = False
        self._stalled = 0
        self._asked_mark = state.mark

    # -- consumers ------------------------------------------------------------------------------

    def drain(self, front_end: int, consumer: int) -> int | None:
        """Take back the consumer's credit when there is nothing for it, and return how much that was.

        None while a message may still come: one that is ready, or held. Ask after `dispatch`.
        """
        delivery = self.delivery
        found = delivery.consumers.get(front_end, consumer)
        if found is None:
            return 0
        if found.sent < found.limit and (delivery.held or (delivery.ready and self._may_come(found))):
            return None
        return delivery.consumers.revoke(found)

    def _may_come(self, consumer: Consumer) -> bool:
        """Whether one of the ready messages is for the consumer."""
        delivery = self.delivery
        removal = consumer.no_ack or delivery.state.semantics is Semantics.AT_MOST_ONCE
        offered = bool(self._offered(consumer, 1)) and (removal or self._room(consumer, 1) > 0)
        return offered or bool(delivery.awaited) or self.unfinished

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
        delivery = self.delivery
        grants: list[Grant] = []
        self.blocked = self.crowded = self.unfinished = False
        for line in delivery.consumers.lines:
            stopped: list[Consumer] = []
            turns = 0
            while line and budget > 0 and delivery.ready:
                if turns == 0:
                    turns = len(line)
                    share = -(-min(len(delivery.ready), budget) // turns)
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
            if budget <= 0 and line and delivery.ready:
                # No other event would have the rest dispatched: the credit of consumers in line need not
                # change before they have used it.
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
        removal = consumer.no_ack or self.delivery.state.semantics is Semantics.AT_MOST_ONCE
        if self.lifecycle.hooks.room and not removal:
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
        for feature in self.lifecycle.hooks.room:
            wanted = feature.room(consumer, wanted)
        return wanted

    def _give_out(self, consumer: Consumer, grant: Grant) -> int:
        """Granted messages are ready no more; return how many they are."""
        delivery = self.delivery
        ranges, count = grant.ranges, grant.messages
        delivery.ready.hand_over((consumer.front_end, consumer.number), ranges, count)
        ranges = ranges if len(ranges) == 1 else merged(ranges)
        delivery.lease_of(OWNER if grant.removal else grant.front_end).update(ranges)
        if delivery.timed is not None and not grant.removal:
            self.lifecycle.begin_lease(grant.front_end, consumer, ranges)
        for feature in () if grant.removal else self.lifecycle.hooks.given:
            feature.given(consumer, ranges)
        newest = ranges[-1][1]
        if newest > delivery.granted:
            delivery.granted = newest
        return count

    def _grant(
        self, consumer: Consumer, offered: list[Range], removal: bool, fit: Fit | None
    ) -> Grant | None:
        """As much of ready messages as can be granted at once, and may be now; None for nothing."""
        delivery = self.delivery
        soft = redelivered = False
        if delivery.soft:
            soft, offered = _alike(delivery.soft.numbers, offered)
            removal = removal or (soft and consumer.removes_soft)
        if not (removal or soft):
            offered = self._below_mark(offered)
        if delivery.redelivered and offered:
            redelivered, offered = _alike(delivery.redelivered, offered)
        if fit is not None and offered:
            room, wanted = fit(consumer.front_end, offered, soft), count_of(offered)
            if room < wanted:
                self.crowded = True
                offered = first_of(offered, room)
        if not offered:
            return None
        return Grant(consumer.front_end, consumer.number, offered, redelivered, removal, soft)

    def _below_mark(self, offered: list[Range]) -> list[Range]:
        """The messages before the first one above the mark.

        A new owner must be able to tell what was never leased: that one waits for the mark.
        """
        mark = self.delivery.state.mark
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
        delivery = self.delivery
        consumer = delivery.consumers.get(front_end, number)
        if consumer is None or consumer.no_ack or not consumer.active:
            return []
        if delivery.state.semantics is Semantics.AT_MOST_ONCE:
            return []
        grants: list[Grant] = []
        for low, high in delivery.ready.intersection(first, last):
            while low <= high:
                soft, upto = delivery.soft.numbers.span(low)
                if not soft and low > delivery.state.mark:
                    break
                fitting = fit(front_end, [(low, high if upto is None else min(high, upto))], soft)
                end = low + self._room(consumer, fitting) - 1
                if end < low:
                    return grants
                delivery.ready.claim((front_end, number), low, end)
                delivery.lease_of(front_end).add(low, end)
                if delivery.timed is not None:
                    self.lifecycle.begin_lease(front_end, consumer, [(low, end)])
                for feature in self.lifecycle.hooks.given:
                    feature.given(consumer, [(low, end)])
                grants.append(
                    Grant(front_end, number, [(low, end)], redelivered=True, removal=False, soft=soft)
                )
                delivery.consumers.given(consumer, end - low + 1)
                low = end + 1
        return grants

    def _offered(
        self, consumer: Consumer, limit: int, alone: bool = True, begun: bool = False
    ) -> list[Range]:
        """The next messages for the consumer, up to `limit`; see `Order.offered`."""
        delivery = self.delivery
        ready = delivery.ready
        if ready.by_consumer and delivery.awaited:
            # A front end that has not answered may hold any message that keeps others back.
            return []
        offered = ready.offered(consumer, limit, alone=alone, begun=begun)
        self.unfinished = self.unfinished or ready.unfinished
        return offered

    # -- the mark -------------------------------------------------------------------------------

    def wanted_mark(self, upcoming_last: int) -> int | None:
        """The MARK that the next entry should carry, None when it needs none.

        `upcoming_last` is the last sequence number in use once that entry is applied. Ask for each
        queue that the entry publishes to, and for each that is `blocked`. The answer runs ahead, so
        that in steady state whatever is committed may be granted at once and marks are rare.
        """
        delivery = self.delivery
        if not delivery.consumers.acking or delivery.state.semantics is Semantics.AT_MOST_ONCE:
            return None
        upcoming = delivery.ready.unseen()
        position = upcoming_last if upcoming is None else max(upcoming[0], delivery.granted, self._stalled)
        if self._asked_mark >= min(position + MARK_AHEAD // 2, upcoming_last):
            return None
        self._asked_mark = position + MARK_AHEAD
        return self._asked_mark


def _alike(numbers: RangeSet, ranges: list[Range]) -> tuple[bool, list[Range]]:
    """Whether the first number of some ranges is in a set, and those up to the first that differs in that."""
    found: list[Range] = []
    inside, _ = numbers.span(ranges[0][0])
    for first, last in ranges:
        same, upto = numbers.span(first)
        if same is not inside:
            break
        if upto is not None and upto < last:
            found.append((first, upto))
            break
        found.append((first, last))
    return inside, found
