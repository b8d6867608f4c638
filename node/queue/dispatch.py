"""Dispatching: the owner of a queue grants ready messages to consumers. Soft state, which a new owner
rebuilds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from node.delivery.settlements import NO_TOKEN
from node.message.run import Run
from node.queue.consumers import Consumer, UndeliverableMessages
from node.queue.delivery_state import DeliveryState, Fairness
from node.queue.fairness import hand_out
from node.queue.filtering import FilteredOrder, LookBudget, ReadMessages
from node.queue.hooks import FeatureRegistry
from node.queue.leasing import UNTOLD, begin_lease
from node.queue.lifecycle import Lifecycle
from node.queue.operations import OWNER, Semantics
from node.queue.queue import QueueState
from node.queue.settings import PLAIN, QueueSettings
from node.ranges.cold import ColdSpace
from node.ranges.range_columns import first_of
from node.ranges.range_map import ABOVE_ALL
from node.ranges.range_set import Range, RangeSet, count_of, merged, up_to

MARK_AHEAD: Final = 20_000
"""A new mark is so many messages above the next one to be leased."""


class Grant(NamedTuple):
    """Messages granted to a consumer, as ranges in the order of delivery.

    All are marked redelivered or none, and all are soft (`SoftMessages`) or none. With `removal` the messages
    must be removed before they are delivered: the owner commits a SETTLE (soft messages need none), delivers,
    and then calls `settle(OWNER, ranges)`. `token` is that of their lease, where leases have tokens, and
    `until` the end of the lease in milliseconds since the epoch, where it has one.
    """

    front_end: int
    consumer: int
    ranges: list[Range]
    redelivered: bool
    removal: bool
    soft: bool
    token: int = NO_TOKEN
    until: int = UNTOLD

    @property
    def messages(self) -> int:
        """The number of messages."""
        return count_of(self.ranges)

    def goes_on(self, other: Grant) -> bool:
        """Whether the other grant can be appended to this one."""
        return self[:2] == other[:2] and self[3:] == other[3:]


Fit = Callable[[int, list[Range], bool], int]
"""(front end, ranges, soft) -> how many of the messages, from the first on, fit on the way to the
front end.
"""


class QueueOwner:
    """Grants the messages of one queue to consumers, as credit, order, filters, features and the mark allow.

    `delivery` has the places of messages, and the consumers; `lifecycle` moves messages. After a dispatch
    four flags say why it stopped. `blocked`: a consumer with credit waits for a higher mark, which the owner
    gets from `wanted_mark` and commits. `unfinished`: there is more to look at than one turn should; the
    owner dispatches again in the next turn. `looking`: the same is true, for consumers with filters alone.
    `crowded`: the way to a front end had no room for all messages.
    """

    __slots__ = (
        "_asked_mark",
        "_read",
        "_registry",
        "_stalled",
        "blocked",
        "crowded",
        "delivery",
        "lifecycle",
        "looking",
        "unfinished",
    )

    def __init__(
        self,
        state: QueueState,
        registry: FeatureRegistry,
        *,
        fresh: bool = False,
        settings: QueueSettings = PLAIN,
        now: int = 0,
        term: int = 0,
        read: ReadMessages | None = None,
        space: ColdSpace | None = None,
    ) -> None:
        """`now` is in milliseconds since the epoch; `term` is the owner's term. `read` gives the contents of
        messages in the log, for filters. `space`: see `Annotations.space`.

        `fresh`: no former owner can have leased a message of the queue, because it was just created.
        Otherwise the live messages up to the mark are held until all attached front ends have said which of
        them they still have.
        """
        self.delivery = DeliveryState(state, settings, term, fresh, space)
        self.lifecycle = Lifecycle(self.delivery, registry, now)
        self.blocked = self.crowded = self.looking = self.unfinished = False
        self._read, self._registry = read, registry
        self._stalled = 0
        self._asked_mark = state.mark

    # -- consumers ------------------------------------------------------------------------------

    def drain(self, front_end: int, consumer: int) -> int | None:
        """Take the consumer's credit away where the queue has no message for it; return how many messages the
        credit was.

        None while a ready or held message may still go to the consumer. A consumer that is not active gets
        no message. Called after `dispatch`.
        """
        delivery = self.delivery
        found = delivery.consumers.get(front_end, consumer)
        if found is None:
            return 0
        if delivery.consumers.refiltered:
            self._refilter()
        if found.sent < found.limit and (delivery.held or (delivery.ready and self._may_come(found))):
            return None
        return delivery.consumers.revoke(found)

    def keep_from(self, front_end: int, number: int, messages: list[Range]) -> None:
        """Deliver these messages to this consumer no more, as long as it and this owner stay.

        In a queue with groups the consumer gets nothing behind such a message before another one has it.
        """
        found = self.delivery.consumers.get(front_end, number)
        if found is not None:
            if found.undeliverable is None:
                found.undeliverable = UndeliverableMessages()
            found.undeliverable.keep(merged(messages), self._alive)

    def _alive(self, first: int, last: int) -> list[Range]:
        """The messages of the closed range that the queue has."""
        delivery = self.delivery
        durable = delivery.state.alive.intersection(first, last)
        return merged(durable + delivery.soft.numbers.intersection(first, last))

    def _may_come(self, consumer: Consumer) -> bool:
        """Whether the consumer may get one of the ready messages, now or in a later turn."""
        delivery = self.delivery
        if not consumer.active:
            return False
        removal = consumer.no_ack or delivery.state.semantics is Semantics.AT_MOST_ONCE
        filtered = delivery.filtered
        if filtered is not None:
            filtered.looking = False
        offered = bool(self.offered(consumer, 1)) and (removal or self.lease_room(consumer, 1) > 0)
        looking = filtered is not None and filtered.looking
        return offered or bool(delivery.awaited) or self.unfinished or looking

    @property
    def served(self) -> bool:
        """Whether the last `dispatch` granted all that consumers have credit for, as far as there was room.

        False: messages wait for a mark that is not committed yet, or for the next turn.
        """
        return not (self.blocked or self.unfinished)

    # -- filters --------------------------------------------------------------------------------

    def _refilter(self) -> None:
        """Have the order of ready messages know the filters that consumers have by now."""
        delivery = self.delivery
        selectors = delivery.consumers.selectors()
        filtered = delivery.filtered
        if not selectors:
            if filtered is not None:
                delivery.ready, delivery.filtered = filtered.whole, None
            return
        if filtered is None:
            filtered = FilteredOrder(delivery.ready, self.read_messages)
            delivery.ready = delivery.filtered = filtered
            declared, lifecycle = self._registry.by_filter, self.lifecycle
            if declared is not None and declared.by_filter is not None and declared not in lifecycle.shares:
                lifecycle.shares[declared] = declared.by_filter(delivery)
                lifecycle.hooks = self._registry.hooks_of(lifecycle.shares)
        filtered.have(selectors)

    def read_messages(self, first: int, last: int) -> list[tuple[int, Run]]:
        """See `ReadMessages`."""
        soft = self.delivery.soft
        if soft.numbers:
            inside, upto = soft.numbers.span(first)
            last = last if upto is None else min(upto, last)
            if inside:
                return soft.runs(first, last)
        assert self._read is not None
        return self._read(first, last)

    # -- granting -------------------------------------------------------------------------------

    def dispatch(self, budget: int, fit: Fit | None = None, looks: LookBudget | None = None) -> list[Grant]:
        """Grant up to `budget` ready messages, in the queue's order, to consumers with credit.

        Consumers of higher priority come first. Those of one priority take turns, each with an equal share of
        the ready messages, so that ranges stay long and no consumer starves, or get messages as the queue's
        fairness has it. `fit`: how many messages have room to a front end. `looks`: what looks may cost.
        """
        delivery = self.delivery
        self.blocked = self.crowded = self.looking = self.unfinished = False
        if delivery.consumers.refiltered:
            self._refilter()
        if delivery.filtered is not None:
            delivery.filtered.begin(looks or LookBudget())
        grants = self._resume(fit) if delivery.consumers.by_link else list[Grant]()
        in_turn = delivery.fairness is Fairness.ROUND_ROBIN
        for line in delivery.consumers.lines:
            turns, stopped = 0, list[Consumer]()
            if not in_turn:
                budget = hand_out(delivery, line, budget, partial(self._serve, grants, fit), self.lease_room)
            while in_turn and line and budget > 0 and delivery.ready:
                if turns == 0:
                    turns = len(line)
                    share = -(-min(len(delivery.ready), budget) // turns)
                turns -= 1
                consumer = line.popleft()
                granted = self._serve(grants, fit, consumer, min(budget, share), turns)
                budget -= granted
                if not granted:
                    stopped.append(consumer)
                elif consumer.sent < consumer.limit:
                    line.append(consumer)
                else:
                    consumer.in_line = False
            line.extendleft(reversed(stopped))
            if budget <= 0 and line and delivery.ready:
                # No other event makes the owner dispatch the rest: the consumers in line still have credit,
                # so their front ends may send no more.
                self.unfinished = True
        return grants

    def _serve(
        self, grants: list[Grant], fit: Fit | None, consumer: Consumer, share: int, rivals: int
    ) -> int:
        """Grant the consumer up to `share` messages within its credit; return how many.

        `rivals`: how many other consumers are still to be served in this turn.
        """
        granted = 0
        share = min(share, consumer.limit - consumer.sent)
        removal = consumer.no_ack or self.delivery.state.semantics is Semantics.AT_MOST_ONCE
        if self.lifecycle.hooks.room and not removal:
            share = self.lease_room(consumer, share)
        while granted < share:
            offered = self.offered(consumer, share - granted, rivals, granted > 0)
            grant = self._grant(consumer, offered, removal, fit) if offered else None
            if grant is None:
                break
            count, grant = self._give_out(consumer, grant)
            if granted and grants[-1].goes_on(grant):
                grants[-1].ranges.extend(grant.ranges)
            else:
                grants.append(grant)
            granted += count
        consumer.sent += granted
        return granted

    def lease_room(self, consumer: Consumer, wanted: int) -> int:
        """The number of messages, at most `wanted`, that the queue's features let the consumer lease now."""
        for feature in self.lifecycle.hooks.room:
            wanted = feature.room(consumer, wanted)
        return wanted

    def _give_out(self, consumer: Consumer, grant: Grant) -> tuple[int, Grant]:
        """Move granted messages from ready to leased; return how many they are, and the grant with its
        token.
        """
        delivery = self.delivery
        ranges, count = grant.ranges, grant.messages
        key = consumer.front_end, consumer.number
        in_order = ranges[0][0] <= delivery.offered_to
        if in_order and consumer.undeliverable is None and consumer.selector is None:
            delivery.ready.hand_over(key, ranges, count)
        else:
            for part in ranges:
                delivery.ready.claim(key, *part)
        ranges = ranges if len(ranges) == 1 else merged(ranges)
        delivery.lease_of(OWNER if grant.removal else grant.front_end).update(ranges)
        if delivery.timed is not None and not grant.removal:
            asking = self.lifecycle.hooks.lease_until
            token, until = begin_lease(delivery, asking, grant.front_end, consumer, ranges)
            grant = grant._replace(token=token, until=until)
        for feature in () if grant.removal else self.lifecycle.hooks.given:
            feature.given(consumer, ranges)
        newest = ranges[-1][1]
        if newest > delivery.granted:
            delivery.granted = newest
        return count, grant

    def _grant(
        self, consumer: Consumer, offered: list[Range], removal: bool, fit: Fit | None
    ) -> Grant | None:
        """A grant of the first of the offered messages that can go in one grant; None where none
        may go now.
        """
        delivery = self.delivery
        soft = redelivered = False
        if delivery.soft.numbers:
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

        A message above the mark waits for a higher mark: a new owner takes it that no message above the mark
        was ever leased.
        """
        mark = self.delivery.state.mark
        if offered[-1][1] <= mark and self.delivery.ready.by_age:
            return offered
        for i, (first, last) in enumerate(offered):
            if last > mark:
                if first <= mark:
                    return [*offered[:i], (first, mark)]
                if i == 0:
                    self.blocked, self._stalled = True, first
                return offered[:i]
        return offered

    def _resume(self, fit: Fit | None) -> list[Grant]:
        """Grant links that are attached again the messages that they have had before, as far as their credit
        admits. The log has that these are leased to the links.
        """
        delivery = self.delivery
        grants = list[Grant]()
        for consumer, ranges in delivery.links.resuming():
            wanted = first_of(ranges, max(0, consumer.limit - consumer.sent))
            count = count_of(wanted) if fit is None or not wanted else fit(consumer.front_end, wanted, False)
            self.crowded = self.crowded or count < count_of(wanted)
            ranges = first_of(wanted, count)
            if not ranges:
                continue
            grants.append(Grant(consumer.front_end, consumer.number, ranges, True, removal=False, soft=False))
            delivery.consumers.given(consumer, count)
            if consumer.resuming is not None:
                consumer.resuming.remove_all(ranges)
        return grants

    def link_of(self, grant: Grant) -> bytes:
        """The octets by which the log has to lease the messages of a grant to their link, before they are
        delivered; empty where it has not, or has done so before.
        """
        found = self.delivery.consumers.get(grant.front_end, grant.consumer)
        if found is None or grant.soft or found.link is None or self.delivery.links.linked(grant.ranges):
            return b""
        return found.link.lease(grant.front_end, grant.consumer)

    def regrant(self, front_end: int, number: int, first: int, last: int, fit: Fit) -> list[Grant]:
        """Grant a consumer again the messages of a range that it has given back (basic.recover), as far as
        they are ready.

        The grant takes no credit, as the consumer has given back as many messages. There is none where
        messages are removed before their delivery.
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
                end = low + self.lease_room(consumer, fitting) - 1
                if end < low:
                    return grants
                delivery.ready.claim((front_end, number), low, end)
                delivery.lease_of(front_end).add(low, end)
                asking = self.lifecycle.hooks.lease_until
                token, until = begin_lease(delivery, asking, front_end, consumer, [(low, end)])
                for feature in self.lifecycle.hooks.given:
                    feature.given(consumer, [(low, end)])
                grants.append(Grant(front_end, number, [(low, end)], True, False, soft, token, until))
                delivery.consumers.given(consumer, end - low + 1)
                low = end + 1
        return grants

    def offered(self, consumer: Consumer, limit: int, rivals: int = 0, begun: bool = False) -> list[Range]:
        """The next messages for the consumer, up to `limit`; see `Order.offered`."""
        delivery = self.delivery
        ready = delivery.ready
        if ready.by_consumer and delivery.awaited:
            # A front end that has not answered may have a message of any group.
            return []
        kept = None if consumer.undeliverable is None else consumer.undeliverable.numbers
        more = 0 if kept is None or ready.by_consumer else len(kept)
        offered = ready.offered(consumer, limit + more, rivals=rivals, begun=begun)
        if delivery.offered_to != ABOVE_ALL:
            offered = up_to(delivery.offered_to, offered)
            if not offered and delivery.offered_beyond:
                offered = first_of(list(delivery.ready_beyond()), limit + more)
        self.unfinished = self.unfinished or ready.unfinished
        if delivery.filtered is not None:
            self.looking = self.looking or delivery.filtered.looking
            delivery.tally.unreadable += delivery.filtered.unreadable
            delivery.filtered.unreadable = 0
        if kept and offered:
            if not ready.by_consumer:
                return first_of(_outside(kept, offered), limit)
            inside, alike = _alike(kept, offered)
            return [] if inside else alike
        return offered

    # -- the mark -------------------------------------------------------------------------------

    def wanted_mark(self, upcoming_last: int) -> int | None:
        """The MARK that the next entry should carry; None where it needs none.

        `upcoming_last` is the last sequence number in use once that entry is applied. The owner asks for each
        queue that the entry publishes to, and for each that is `blocked`. A mark is up to `MARK_AHEAD` above
        the messages to come, so that marks are rare, and committed messages can be granted at once.
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


def _outside(numbers: RangeSet, ranges: list[Range]) -> list[Range]:
    """The parts of the ranges that are not in the set, in the order of the ranges."""
    found: list[Range] = []
    for first, last in ranges:
        while first <= last:
            inside, upto = numbers.span(first)
            end = last if upto is None else min(upto, last)
            if not inside:
                found.append((first, end))
            first = end + 1
    return found


def _alike(numbers: RangeSet, ranges: list[Range]) -> tuple[bool, list[Range]]:
    """Whether the first number of the ranges is in the set, and the part of the ranges before the first
    number for which the answer differs.
    """
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
