"""Moves a queue's messages from place to place, for its owner. Soft state, rebuilt by every new owner.

`node.queue.life` has the places, and the ways between them. `held` is what may be leased to a front end that
a new owner has not heard of yet (design rule 5). `scheduled` is what comes with a delay, and what comes back
to a queue that has failed messages rest: both are ready, or held, when they are due.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from node.message.run import Run
from node.queue.features.hooks import Hooks
from node.queue.features.registry import BY_MESSAGE, Shares, arrange, hooks_of, shares_of
from node.queue.grants import Settled
from node.queue.operations import OWNER, Aspect, Semantics
from node.queue.places import Places
from node.queue.queue import QueueState
from node.queue.schedule import Schedule
from node.queue.settings import PLAIN, QueueSettings
from node.ranges.numbers import count_of
from node.ranges.range_map import ABOVE_ALL, RangeMap, Span
from node.ranges.range_set import Range, RangeSet

NOTHING: Final[Mapping[Aspect, Sequence[Span]]] = MappingProxyType({})
"""What is decided about most messages."""


class DeliveryState(Places):
    """Moves messages from place to place, and has the queue's features hear of that."""

    __slots__ = ("_inherited", "_rests", "hooks", "shares")

    def __init__(
        self, state: QueueState, settings: QueueSettings, now: int, term: int = 0, fresh: bool = False
    ) -> None:
        """`now` is wall clock, in milliseconds."""
        super().__init__(state, settings, term, fresh)
        # Messages that wait for their time are ready in no order.
        later = self.annotations.logged(Aspect.DUE).where(now + 1, ABOVE_ALL)
        for part in state.withheld.ranges():
            later.remove(*part)
        self.scheduled = Schedule(later) if later else None
        ready = self.living(0, ABOVE_ALL).without((first, last) for first, last, _ in later.all())
        self.ready = arrange(settings, self.annotations, ready)
        # Until when messages rest that are about to come back.
        self._rests = RangeMap()
        # What is above was leased to nobody before this owner.
        self._inherited = state.mark
        self.shares: Shares = {} if settings is PLAIN else shares_of(self, {})
        self.hooks: Hooks = hooks_of(self.shares)
        if state.annotations:
            self._rest_again(later)
            for part in self.living(0, ABOVE_ALL).ranges():
                for aspect in BY_MESSAGE.keys() & state.annotations.keys():
                    self._note(aspect, self.annotations.logged(aspect).spans(*part))

    def reconfigure(self, settings: QueueSettings) -> None:
        """Policies have changed what is asked of the queue; never what makes it another kind of queue."""
        self.settings = settings
        self.shares = shares_of(self, self.shares)
        self.hooks = hooks_of(self.shares)

    @property
    def attended(self) -> bool:
        """Whether anything in the queue asks for more than to be stored and delivered."""
        return self.settings is not PLAIN or bool(self.shares) or self.scheduled is not None

    @property
    def passes_on(self) -> bool:
        """Whether what one consumer settles may let another one have more."""
        return self.ready.by_consumer or self.hooks.passes_on

    # -- messages come --------------------------------------------------------------------------

    def append(self, first: int, last: int) -> None:
        """Messages that an entry appended are ready, unless the same entry removed them again."""
        self.tally.published += last - first + 1
        if self.settings is PLAIN and not self.state.annotations:
            self.ready.add(first, last)
            return
        for part in self.living(first, last).ranges():
            self._place(*part)
            for aspect, values in self.state.annotations.items():
                if aspect in self.hooks.note or aspect in BY_MESSAGE:
                    self._note(aspect, values.spans(*part))

    def _place(self, first: int, last: int) -> None:
        """New messages are ready, or scheduled."""
        for start, end, due in self.annotations.cover(Aspect.DUE, first, last):
            if due:
                self._schedule(start, end, due)
            else:
                self.ready.add(start, end)

    def _note(self, aspect: Aspect, spans: Iterable[Span]) -> None:
        """Messages are new here, with these values of an aspect."""
        for span in spans:
            share = self.hooks.note.get(aspect)
            if share is None:
                declared = BY_MESSAGE.get(aspect)
                if declared is None or declared.by_message is None:
                    return
                share = self.shares[declared] = declared.by_message(self)
                self.hooks = hooks_of(self.shares)
            share.note(*span)

    def add_soft(self, first: int, run: Run, notes: Mapping[Aspect, Sequence[Span]] = NOTHING) -> None:
        """Messages that are in no log are ready. Their numbers come from the partition's sequence.

        They are gone with this owner: the next one must number above them, or a late settlement
        of one of these would hit another message. `notes` are what is decided about them.
        """
        self.tally.published += run.count
        self.soft.add(first, run)
        for aspect, spans in notes.items():
            self.soft.annotate(aspect, spans)
        self._place(first, first + run.count - 1)
        for aspect, spans in notes.items():
            self._note(aspect, spans)

    # -- delays ---------------------------------------------------------------------------------

    def _rest_again(self, later: RangeMap) -> None:
        """What came back to a former owner, and still rests, holds up its group."""
        if self.ready.by_consumer and later:
            for part in self.redelivered.ranges():
                for first, last, _ in later.spans(*part):
                    self.ready.rest(first, last)

    def _schedule(self, first: int, last: int, due: int) -> None:
        if self.scheduled is None:
            self.scheduled = Schedule(RangeMap())
        self.scheduled.add(first, last, due)

    def let_go(self, now: int) -> bool:
        """Scheduled messages that are due are ready, up to a bound for one step; whether there were any."""
        if self.scheduled is None or self.scheduled.wake > now:
            return False
        due = self.scheduled.step(now)
        for first, last in due:
            self.ready.rested(first, last)
            if self.awaited and first <= self._inherited:
                # The former owner's clock may have been ahead: it found this due, and handed it out.
                self.held.add(first, min(last, self._inherited))
                first = self._inherited + 1
            if first <= last:
                self.ready.add(first, last)
            for feature in self.hooks.ready:
                feature.ready(first, last, self.redelivered.intersection(first, last))
        return bool(due)

    # -- failed deliveries ----------------------------------------------------------------------

    def rest(self, front_end: int, ranges: Sequence[Range], now: int) -> list[Span]:
        """What the front end has of the ranges is about to come back, having failed: it is not ready before
        a time, which stands in the spans that are returned.
        """
        spans = [span for feature in self.hooks.rest for span in feature.rest(front_end, ranges, now)]
        for span in spans:
            self._rests.set(*span)
        return spans

    def exhausted(self, front_end: int, ranges: Sequence[Range]) -> list[Range]:
        """Of what the front end has of the ranges, having failed once more: what has failed too often."""
        return [part for feature in self.hooks.exhausted for part in feature.exhausted(front_end, ranges)]

    # -- leases ---------------------------------------------------------------------------------

    def find_waiting(self, first: int, last: int) -> list[Range]:
        """Take out what is leased to nobody, as far as this owner knows, but turns out to be somebody's.

        After the time limit what was held is ready, or leased to somebody else by now; and what the former
        owner found due is scheduled as long as this owner's clock is behind.
        """
        found = self.held.intersection(first, last) + self.ready.intersection(first, last)
        if self.scheduled is not None:
            found += self.scheduled.intersection(first, last)
        for part in found:
            self.held.remove(*part)
            self.ready.remove(*part)
            self._unschedule(*part)
        return found

    def lease_of(self, front_end: int) -> RangeSet:
        lease = self.leases.get(front_end)
        if lease is None:
            lease = self.leases[front_end] = RangeSet()
        return lease

    def settle(self, front_end: int, ranges: list[Range]) -> Settled:
        """The front end is done with messages that it was given.

        Also one whose lease was lost meanwhile may settle: the message has been processed. On an
        at-most-once queue only the owner's own removal settles.
        """
        if front_end != OWNER and self.state.semantics is Semantics.AT_MOST_ONCE:
            return Settled(0, [])
        lease = self.leases.get(front_end)
        count = lease.remove_all(ranges) if lease is not None else 0
        if self.ready.by_consumer:
            for part in ranges:
                self.ready.done(*part)
        for feature in self.hooks.settle:
            feature.settle(ranges)
        if self.redelivered:
            self.redelivered.remove_all(ranges)
        leased = count == count_of(ranges)
        if leased and not self.soft:
            return Settled(count, ranges)
        for part in ranges:
            if not leased:
                count += self.ready.remove(*part) + self.held.remove(*part) + self._unschedule(*part)
            self.soft.remove(*part)
            self._rests.remove(*part)
        if not leased and front_end != OWNER:
            self.given_out(max(ranges)[1])
        return Settled(count, [part for one in ranges for part in self.state.alive.intersection(*one)])

    def given_out(self, last: int) -> None:
        """A former owner has given this message out, and so what is older: a plain queue goes by age."""
        by_age = self.ready.by_age and not self.annotations.logged(Aspect.DUE)
        if by_age and last > self.granted:
            self.granted = last

    def release(self, front_end: int, first: int, last: int, redelivered: bool = True) -> int:
        """What the front end has leased of the range is ready again, in its place; return how many.

        Also what is held: only who had it can give it back. `redelivered` is False for messages
        that never reached a consumer; they are marked nevertheless once newer ones were granted.
        """
        places = (self.leases.get(front_end), self.held)
        return sum(
            self.give_back(place, place.intersection(first, last), redelivered) for place in places if place
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

    def give_back(self, place: RangeSet, parts: list[Range], redelivered: bool) -> int:
        count = 0
        # Newer ones were handed out meanwhile: only a redelivered message may come after them (0-9-1 §4.7).
        redelivered = redelivered or (bool(parts) and parts[-1][1] < self.granted)
        for part in parts:
            place.remove(*part)
            self.ready.done(*part)
            for feature in self.hooks.return_:
                feature.return_(*part)
            # Somebody else may have settled it meanwhile.
            for first, last in self.state.alive.intersection(*part) + self.soft.numbers.intersection(*part):
                count += self._come_back(first, last)
                if redelivered:
                    self.redelivered.add(first, last)
                for feature in self.hooks.ready:
                    feature.ready(first, last, [(first, last)] if redelivered else [])
        return count

    def _come_back(self, first: int, last: int) -> int:
        """Messages are ready again, or rest first; return how many are one or the other."""
        if not self._rests:
            return self.ready.add(first, last)
        for start, end, until in self._rests.cover(first, last):
            if until:
                self._rests.remove(start, end)
                self._schedule(start, end, until)
                self.ready.rest(start, end)
            else:
                self.ready.add(start, end)
        return last - first + 1

    def _unschedule(self, first: int, last: int) -> int:
        """Messages wait for no time any more; return how many did."""
        if self.scheduled is None:
            return 0
        self.ready.rested(first, last)
        return self.scheduled.remove(first, last)

    def purge(self, through: int = ABOVE_ALL) -> Settled:
        """Remove what is ready or scheduled up to a number, not what is leased or held (0-9-1 §1.7.2.7): how
        many, and what a PURGE must name.
        """
        gone = RangeSet(self.ready.intersection(0, through))
        if self.scheduled is not None:
            gone.update(self.scheduled.intersection(0, through))
        return Settled(len(gone), [part for one in gone.ranges() for part in self.take_out(*one)])

    def take_out(self, first: int, last: int) -> list[Range]:
        """Ready or scheduled messages, all of the range, are gone; returns what the log must hear of."""
        self.ready.remove(first, last)
        self._unschedule(first, last)
        self.redelivered.remove(first, last)
        self.soft.remove(first, last)
        for feature in self.hooks.settle:
            feature.settle([(first, last)])
        return self.state.alive.intersection(first, last)
