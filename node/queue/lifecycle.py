"""Moves a queue's messages from place to place, for its owner. Soft state, rebuilt by every new owner.

`node.queue.life` has the places, and the ways between them. `held` is what may be leased to a front end that
a new owner has not heard of yet (design rule 5). `scheduled` is what comes with a delay, and what comes back
to a queue that has failed messages rest: both are ready, or held, when they are due.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from node.message.run import Run
from node.queue.consumers import Consumer
from node.queue.delivery_state import DeliveryState
from node.queue.hooks import FeatureRegistry, Hooks, Shares
from node.queue.leases import NO_DEADLINE, NO_TOKEN, Leases
from node.queue.operations import OWNER, Aspect, Semantics
from node.queue.schedule import Schedule
from node.queue.settings import PLAIN, QueueSettings
from node.ranges.numbers import count_of
from node.ranges.range_map import ABOVE_ALL, RangeMap, Span
from node.ranges.range_set import Range, RangeSet

NO_NOTES: Final[Mapping[Aspect, Sequence[Span]]] = MappingProxyType({})
"""The decisions about most messages."""


UNKNOWN: Final = 0
"""The number of no consumer."""


@dataclass(init=False, slots=True)
class Settled:
    """How many messages were settled, and the ranges that the log must hear of."""

    count: int
    durable: list[Range]

    def __init__(self, count: int, durable: list[Range]) -> None:
        self.count = count
        self.durable = durable


class Lifecycle:
    """Moves messages from place to place, and has the queue's features hear of that.

    `hooks` are those of the features that the queue asks for, or its messages do.
    """

    __slots__ = ("_delivery", "_inherited", "_lost", "_registry", "_rests", "hooks", "shares")

    def __init__(self, delivery: DeliveryState, registry: FeatureRegistry, now: int) -> None:
        """Puts the messages that are alive where they are for a new owner; `now` is wall clock, in
        milliseconds.
        """
        self._delivery, self._registry = delivery, registry
        state, settings = delivery.state, delivery.settings
        # Messages that wait for their time are ready in no order.
        later = delivery.annotations.logged(Aspect.DUE).where(now + 1, ABOVE_ALL)
        # By a clock that is behind also messages are due later that have been discarded meanwhile.
        dead = delivery.annotations.logged(Aspect.DEATH).coverage() if later else RangeSet()
        for part in (*state.withheld.ranges(), *dead.ranges()):
            later.remove(*part)
        delivery.scheduled = Schedule(later) if later else None
        ready = delivery.living(0, ABOVE_ALL).without((first, last) for first, last, _ in later.all())
        delivery.ready = registry.arrange(settings, delivery.annotations, ready)
        # Until when messages rest that are about to come back.
        self._rests = RangeMap()
        # No owner before this one leased messages above.
        self._inherited = state.mark
        # Whether a front end was lost that may have had some of what is held.
        self._lost = False
        self.shares: Shares = {} if settings is PLAIN else registry.shares_of(delivery, {})
        self.hooks: Hooks = registry.hooks_of(self.shares)
        self._keep_leases()
        if state.annotations:
            self._rest_again(later)
            for part in delivery.living(0, ABOVE_ALL).ranges():
                for aspect in registry.by_message.keys() & state.annotations.keys():
                    self._note(aspect, delivery.annotations.logged(aspect).spans(*part))
        if not delivery.fresh and state.attached and state.semantics is Semantics.AT_LEAST_ONCE:
            self._hold()

    def reconfigure(self, settings: QueueSettings) -> None:
        """Policies have changed what is asked of the queue; never what makes it another kind of queue."""
        self._delivery.settings = settings
        self.shares = self._registry.shares_of(self._delivery, self.shares)
        self.hooks = self._registry.hooks_of(self.shares)
        self._keep_leases()

    def _keep_leases(self) -> None:
        """Leases have tokens from now on where a feature asks for deadlines; earlier ones have none."""
        delivery = self._delivery
        if not self.hooks.lease_until:
            delivery.timed = None
        elif delivery.timed is None:
            delivery.timed = Leases()

    @property
    def attended(self) -> bool:
        """Whether anything in the queue asks for more than to be stored and delivered."""
        delivery = self._delivery
        return delivery.settings is not PLAIN or bool(self.shares) or delivery.scheduled is not None

    @property
    def passes_on(self) -> bool:
        """Whether what one consumer settles may let another one have more."""
        return self._delivery.ready.by_consumer or self.hooks.passes_on

    # -- messages come --------------------------------------------------------------------------

    def append(self, first: int, last: int) -> None:
        """Messages that an entry appended are ready, unless the same entry removed them again."""
        delivery = self._delivery
        delivery.tally.published += last - first + 1
        if delivery.settings is PLAIN and not delivery.state.annotations:
            delivery.ready.add(first, last)
            return
        for part in delivery.living(first, last).ranges():
            self._place(*part)
            for aspect, values in delivery.state.annotations.items():
                if aspect in self.hooks.note or aspect in self._registry.by_message:
                    self._note(aspect, values.spans(*part))

    def _place(self, first: int, last: int) -> None:
        """New messages are ready, or scheduled."""
        delivery = self._delivery
        for start, end, due in delivery.annotations.cover(Aspect.DUE, first, last):
            if due:
                self._schedule(start, end, due)
            else:
                delivery.ready.add(start, end)

    def _note(self, aspect: Aspect, spans: Iterable[Span]) -> None:
        """Messages are new here, with these values of an aspect."""
        for span in spans:
            share = self.hooks.note.get(aspect)
            if share is None:
                declared = self._registry.by_message.get(aspect)
                if declared is None or declared.by_message is None:
                    return
                share = self.shares[declared] = declared.by_message(self._delivery)
                self.hooks = self._registry.hooks_of(self.shares)
            share.note(*span)

    def add_soft(self, first: int, run: Run, notes: Mapping[Aspect, Sequence[Span]] = NO_NOTES) -> None:
        """Messages that are in no log are ready. Their numbers come from the partition's sequence.

        They are gone with this owner: the next one must number above them, or a late settlement
        of one of these would hit another message. `notes` are what is decided about them.
        """
        delivery = self._delivery
        delivery.tally.published += run.count
        delivery.soft.add(first, run)
        for aspect, spans in notes.items():
            delivery.soft.annotate(aspect, spans)
        self._place(first, first + run.count - 1)
        for aspect, spans in notes.items():
            self._note(aspect, spans)

    # -- delays ---------------------------------------------------------------------------------

    def _rest_again(self, later: RangeMap) -> None:
        """Messages that came back to a former owner, and still rest, hold up their group."""
        delivery = self._delivery
        if delivery.ready.by_consumer and later:
            for part in delivery.redelivered.ranges():
                for first, last, _ in later.spans(*part):
                    delivery.ready.rest(first, last)

    def _schedule(self, first: int, last: int, due: int) -> None:
        delivery = self._delivery
        if delivery.scheduled is None:
            delivery.scheduled = Schedule(RangeMap())
        delivery.scheduled.add(first, last, due)

    def let_go(self, now: int) -> bool:
        """Scheduled messages that are due are ready, up to a bound for one step; whether there were any."""
        delivery = self._delivery
        if delivery.scheduled is None or delivery.scheduled.wake > now:
            return False
        due = delivery.scheduled.step(now)
        for first, last in due:
            delivery.ready.rested(first, last)
            if delivery.awaited and first <= self._inherited:
                # The former owner's clock may have been ahead: it found this due, and handed it out.
                delivery.held.add(first, min(last, self._inherited))
                first = self._inherited + 1
            if first <= last:
                delivery.ready.add(first, last)
            for feature in self.hooks.ready:
                feature.ready(first, last, delivery.redelivered.intersection(first, last))
        return bool(due)

    # -- failed deliveries ----------------------------------------------------------------------

    def rest(self, front_end: int, ranges: Sequence[Range], now: int) -> list[Span]:
        """The front end is about to give back its messages of the ranges, whose delivery has failed. Returns
        until when they rest, in milliseconds since the epoch; those without such a time are ready at once.
        """
        spans = [span for feature in self.hooks.rest for span in feature.rest(front_end, ranges, now)]
        for span in spans:
            self._rests.set(*span)
        return spans

    def exhausted(self, front_end: int, ranges: Sequence[Range]) -> list[Range]:
        """Those of the front end's messages that have failed too often when they fail once more."""
        return [part for feature in self.hooks.exhausted for part in feature.exhausted(front_end, ranges)]

    # -- leases ---------------------------------------------------------------------------------

    def find_waiting(self, first: int, last: int) -> list[Range]:
        """Take out messages that this owner has given to no front end, and that a front end says it has.

        After the time limit messages that were held are ready, or leased to another front end by now; and
        messages that the former owner found due are scheduled as long as this owner's clock is behind.
        """
        delivery = self._delivery
        found = delivery.held.intersection(first, last) + delivery.ready.intersection(first, last)
        if delivery.scheduled is not None:
            found += delivery.scheduled.intersection(first, last)
        for part in found:
            delivery.held.remove(*part)
            delivery.ready.remove(*part)
            self._unschedule(*part)
        return found

    def begin_lease(self, front_end: int, consumer: Consumer | None, ranges: list[Range]) -> None:
        """A queue whose leases have tokens has given the messages to a consumer; None: to one that only the
        front end knows.
        """
        delivery = self._delivery
        if delivery.timed is not None:
            now = delivery.now
            deadline = min(
                [one.lease_until(consumer, now) for one in self.hooks.lease_until], default=NO_DEADLINE
            )
            number = UNKNOWN if consumer is None else consumer.number
            delivery.timed.begin(front_end, number, ranges, deadline)

    def lapsed(self, front_end: int, ranges: list[Range]) -> None:
        """The front end's leases of the messages have lapsed: those that are lapsing still are ready again,
        marked redelivered.

        A RETURN that counts a failed delivery of the messages must have been applied before.
        """
        delivery = self._delivery
        lease, timed = delivery.leases.get(front_end), delivery.timed
        if lease is None or timed is None:
            return
        lapsing = [part for one in ranges for part in timed.lapsing.intersection(*one)]
        parts = [part for one in lapsing for part in lease.intersection(*one)]
        for part in parts if delivery.soft else ():
            delivery.soft.count_failure(*part)
        self.give_back(lease, parts, redelivered=True)

    def settleable(self, front_end: int, ranges: list[Range], token: int = NO_TOKEN) -> list[Range]:
        """Those of the messages that the front end may settle: where leases have tokens none under a lease of
        another front end, or with another token than the one that is named.
        """
        timed = self._delivery.timed
        return ranges if timed is None else timed.settleable(front_end, ranges, token)

    def returnable(self, front_end: int, ranges: list[Range]) -> list[Range]:
        """Those of the messages that the front end can give back. Where leases have tokens these are no
        messages whose lease has lapsed: they come back without the front end, their delivery counted.
        """
        delivery = self._delivery
        if delivery.timed is None:
            return ranges
        parts = RangeSet(part for one in ranges for part in delivery.leased(front_end, *one))
        return list(parts.without(delivery.timed.lapsing.ranges()).ranges())

    def settle(self, front_end: int, ranges: list[Range], token: int = NO_TOKEN) -> Settled:
        """The front end is done with messages that it was given.

        Also one whose lease was lost may settle: the message has been processed, unless another lease with
        a token has begun, see `settleable`. On an at-most-once queue only the owner's removal settles.
        """
        delivery = self._delivery
        if front_end != OWNER and delivery.state.semantics is Semantics.AT_MOST_ONCE:
            return Settled(0, [])
        if delivery.timed is not None:
            ranges = self.settleable(front_end, ranges, token)
            if not ranges:
                return Settled(0, [])
            delivery.timed.end(ranges)
        lease = delivery.leases.get(front_end)
        count = lease.remove_all(ranges) if lease is not None else 0
        if delivery.ready.by_consumer:
            for part in ranges:
                delivery.ready.done(*part)
        for feature in self.hooks.settle:
            feature.settle(ranges)
        if delivery.redelivered:
            delivery.redelivered.remove_all(ranges)
        leased = count == count_of(ranges)
        if leased and not delivery.soft:
            return Settled(count, ranges)
        for part in ranges:
            if not leased:
                count += delivery.ready.remove(*part) + delivery.held.remove(*part) + self._unschedule(*part)
            delivery.soft.remove(*part)
            self._rests.remove(*part)
        if not leased and front_end != OWNER:
            self.given_out(max(ranges)[1])
        return Settled(count, [part for one in ranges for part in delivery.state.alive.intersection(*one)])

    def given_out(self, last: int) -> None:
        """A former owner has given this message out, and so what is older: a plain queue goes by age."""
        delivery = self._delivery
        by_age = delivery.ready.by_age and not delivery.annotations.logged(Aspect.DUE)
        if by_age and last > delivery.granted:
            delivery.granted = last

    def release(self, front_end: int, first: int, last: int, redelivered: bool = True) -> int:
        """The front end's messages of the range are ready again, in their places; return how many.

        Also those that are held: only the front end that had them can give them back. `redelivered` is False
        for messages that never reached a consumer; they are marked nevertheless once newer ones were granted.
        """
        delivery = self._delivery
        places = (delivery.leases.get(front_end), delivery.held)
        return sum(
            self.give_back(place, place.intersection(first, last), redelivered) for place in places if place
        )

    def release_unheld(self, front_end: int, held: Sequence[Range]) -> None:
        """The front end says that it has only `held`: its other messages never reached it."""
        lease = self._delivery.leases.get(front_end)
        if not lease:
            return
        unheld = lease.copy()
        unheld.remove_all(held)
        for first, last in list(unheld.ranges()):
            self.release(front_end, first, last, redelivered=False)

    def give_back(self, place: RangeSet, parts: list[Range], redelivered: bool) -> int:
        delivery = self._delivery
        count = 0
        # Newer ones were handed out meanwhile: only a redelivered message may come after them (0-9-1 §4.7).
        redelivered = redelivered or (bool(parts) and parts[-1][1] < delivery.granted)
        if delivery.timed is not None:
            delivery.timed.end(parts)
        for part in parts:
            place.remove(*part)
            delivery.ready.done(*part)
            for feature in self.hooks.return_:
                feature.return_(*part)
            # A consumer that had lost its lease may have settled them meanwhile.
            for first, last in delivery.state.alive.intersection(*part) + delivery.soft.numbers.intersection(
                *part
            ):
                count += self._come_back(first, last)
                if redelivered:
                    delivery.redelivered.add(first, last)
                for feature in self.hooks.ready:
                    feature.ready(first, last, [(first, last)] if redelivered else [])
        return count

    def _come_back(self, first: int, last: int) -> int:
        """Messages are ready again, or rest first; return how many are one or the other."""
        delivery = self._delivery
        if not self._rests:
            return delivery.ready.add(first, last)
        for start, end, until in self._rests.cover(first, last):
            if until:
                self._rests.remove(start, end)
                self._schedule(start, end, until)
                delivery.ready.rest(start, end)
            else:
                delivery.ready.add(start, end)
        return last - first + 1

    def _unschedule(self, first: int, last: int) -> int:
        """Messages wait for no time any more; return how many did."""
        delivery = self._delivery
        if delivery.scheduled is None:
            return 0
        delivery.ready.rested(first, last)
        return delivery.scheduled.remove(first, last)

    def purge(self, through: int = ABOVE_ALL) -> Settled:
        """Remove what is ready or scheduled up to a number, not what is leased or held (0-9-1 §1.7.2.7): how
        many, and what a PURGE must name.
        """
        delivery = self._delivery
        gone = RangeSet(delivery.ready.intersection(0, through))
        if delivery.scheduled is not None:
            gone.update(delivery.scheduled.intersection(0, through))
        return Settled(len(gone), [part for one in gone.ranges() for part in self.take_out(*one)])

    def take_out(self, first: int, last: int) -> list[Range]:
        """Ready or scheduled messages, all of the range, are gone; returns what the log must hear of."""
        delivery = self._delivery
        delivery.ready.remove(first, last)
        self._unschedule(first, last)
        delivery.redelivered.remove(first, last)
        delivery.soft.remove(first, last)
        for feature in self.hooks.settle:
            feature.settle([(first, last)])
        return delivery.state.alive.intersection(first, last)

    # -- front ends lost and owners changed -----------------------------------------------------

    def _hold(self) -> None:
        """Messages that may be leased are held until the front ends that may have them have answered."""
        delivery = self._delivery
        parts = delivery.ready.intersection(0, delivery.state.mark)
        delivery.held.update(parts)
        delivery.ready.remove(0, delivery.state.mark)
        if delivery.held or delivery.scheduled:
            delivery.awaited = set(delivery.state.attached)
        self.given_out(delivery.state.settled)

    def lost_front_end(self, front_end: int) -> None:
        """The front end is dead: its consumers are gone, its leases ready again, marked redelivered.

        A RETURN that counts a failed delivery of what it had leased must have been applied before.
        """
        delivery = self._delivery
        delivery.consumers.detach_all(front_end)
        delivery.consumers.resume(front_end)
        lease = delivery.leases.pop(front_end, None)
        if lease is not None:
            ranges = list(lease.ranges())
            for part in ranges if delivery.soft else ():
                delivery.soft.count_failure(*part)
            self.give_back(lease, ranges, redelivered=True)
        if front_end in delivery.awaited:
            self._lost = True
            self._answered(front_end)

    def reattached(
        self, front_end: int, ranges: Iterable[Range], holders: Iterable[Span] = ()
    ) -> list[Range]:
        """The front end says what it holds: what it has not settled, and what it has settled in
        batches that were not acknowledged yet. Returns the ranges that are leased to it from now on.
        `holders` tells, of a queue that keeps order by key, which of its consumers has what.

        A deadline begins anew: the time that was left the former owner alone knew. When all that were awaited
        have answered, messages that no front end has are ready.
        """
        delivery = self._delivery
        accepted: list[Range] = []
        consumers = RangeMap(holders)
        for first, last in ranges:
            for part in self.find_waiting(first, last):
                delivery.lease_of(front_end).add(*part)
                self.begin_lease(front_end, None, [part])
                accepted.append(part)
                if delivery.ready.by_consumer:
                    for start, end, consumer in consumers.cover(*part, UNKNOWN):
                        delivery.ready.claim((front_end, consumer), start, end)
        if accepted:
            self.given_out(max(accepted)[1])
        self._answered(front_end)
        return sorted(accepted)

    def _answered(self, front_end: int) -> None:
        delivery = self._delivery
        if front_end in delivery.awaited:
            delivery.awaited.remove(front_end)
            if not delivery.awaited:
                self.release_held(redelivered=self._lost)

    def release_held(self, redelivered: bool) -> int:
        """No front end has the messages that are still held: they are ready; return how many.

        `redelivered` when a front end that may have had some of them was lost. Messages older than one that a
        former owner has given out were given out as well, and got lost on their way.
        """
        delivery = self._delivery
        delivery.awaited.clear()
        older = delivery.held.intersection(0, delivery.granted)
        count = self.give_back(delivery.held, older, redelivered=True)
        return count + self.give_back(delivery.held, list(delivery.held.ranges()), redelivered)
