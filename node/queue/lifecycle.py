"""Moves a queue's messages from place to place, for its owner. Soft state, which every new owner rebuilds.

`node.queue.life` has the places and the transitions. `held` are the messages that a front end may have which
has not answered the new owner yet (design rule 5). `scheduled` are delayed messages, and messages that rest
after a failed delivery; when they are due they are ready, or held.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from node.delivery.settlements import NO_TOKEN
from node.message.reason import Reason
from node.message.run import Run
from node.queue.delivery_state import DeliveryState
from node.queue.hooks import FeatureRegistry, Hooks, Shares
from node.queue.leases import Leases
from node.queue.leasing import UNKNOWN, take_over_leases
from node.queue.operations import LINKS, OWNER, TAKES, Aspect, Semantics
from node.queue.schedule import Schedule
from node.queue.settings import PLAIN, QueueSettings
from node.queue.settled import Settled
from node.ranges.range_columns import total, transposed
from node.ranges.range_map import ABOVE_ALL, RangeMap, Span
from node.ranges.range_set import Range, RangeSet, count_of, merged, up_to

NO_NOTES: Final[Mapping[Aspect, Sequence[Span]]] = MappingProxyType({})
"""No annotations, as most messages have."""

NO_SPANS: Final = RangeMap()
"""A front end has told nothing."""


class Lifecycle:
    """Moves messages from place to place, and calls the hooks of the queue's features (`shares`)."""

    __slots__ = ("_delivery", "_inherited", "_lost", "_registry", "_rests", "hooks", "shares")

    def __init__(self, delivery: DeliveryState, registry: FeatureRegistry, now: int) -> None:
        """Places the live messages for a new owner. `now` is in milliseconds since the epoch."""
        self._delivery, self._registry = delivery, registry
        state, settings, known = delivery.state, delivery.settings, delivery.annotations
        # Messages with a due time ahead are scheduled, and not in the order of ready ones.
        later = known.logged(Aspect.DUE).where(now + 1, ABOVE_ALL, known.new_map())
        # By a clock that is behind the former owner's, discarded messages may have a due time ahead, too.
        dead = known.logged(Aspect.DEATH).coverage() if later else RangeSet()
        taken = delivery.hold_taken()
        for part in (*state.withheld.ranges(), *dead.ranges(), *taken.ranges()):
            later.remove(*part)
        delivery.scheduled = Schedule(later) if later else None
        ready = delivery.state.living(0, ABOVE_ALL).without((first, last) for first, last, _ in later.all())
        kept = delivery.keep_for_links(ready := ready.without(taken.ranges()))
        delivery.ready = registry.arrange(settings, known, ready.without(kept))
        # The time until which messages rest that are about to be given back.
        self._rests = RangeMap()
        # No former owner leased messages above this one.
        self._inherited = state.mark
        # Whether a front end was lost that may have had held messages.
        self._lost = False
        self.shares: Shares = {} if settings is PLAIN else registry.shares_of(delivery, {})
        self.hooks: Hooks = registry.hooks_of(self.shares)
        self._keep_leases()
        if state.annotations:
            self._rest_again(later)
            for part in delivery.state.living(0, ABOVE_ALL).ranges():
                for aspect, spans in known.walk(registry.by_message, *part):
                    self._note(aspect, spans)
        if not delivery.fresh and state.attached and state.semantics is Semantics.AT_LEAST_ONCE:
            self._hold()

    def reconfigure(self, settings: QueueSettings) -> None:
        """Take over new settings after a change of policies, which never change a queue's kind."""
        self._delivery.settings = settings
        self.shares = self._registry.shares_of(self._delivery, self.shares)
        self.hooks = self._registry.hooks_of(self.shares)
        self._keep_leases()

    def _keep_leases(self) -> None:
        """Give new leases tokens where a feature asks for deadlines. Earlier leases have none."""
        delivery = self._delivery
        if not self.hooks.lease_until:
            delivery.timed = None
        elif delivery.timed is None:
            delivery.timed = Leases()

    @property
    def attended(self) -> bool:
        """Whether the queue or one of its messages asks for a feature, or links are to be kept."""
        delivery = self._delivery
        features = delivery.settings is not PLAIN or bool(self.shares) or delivery.scheduled is not None
        return features or LINKS in delivery.leases or delivery.targets.any

    @property
    def passes_on(self) -> bool:
        """Whether a consumer's settlement may let another consumer get more."""
        return self._delivery.ready.by_consumer or self.hooks.passes_on

    # -- new messages ---------------------------------------------------------------------------

    def append(self, first: int, last: int) -> None:
        """Place the messages that a committed entry has appended, except those that the entry
        removed again.
        """
        delivery = self._delivery
        delivery.tally.published += last - first + 1
        if delivery.settings is PLAIN and not delivery.state.annotations:
            delivery.ready.add(first, last)
            return
        for part in delivery.state.living_parts(first, last):
            self._place(*part)
            for aspect, values in delivery.state.annotations.items():
                if aspect in self.hooks.note or aspect in self._registry.by_message:
                    self._note(aspect, values.spans(*part))

    def brought_back(self, ranges: Sequence[Range]) -> None:
        """Mark the messages that came in again, and that a consumer may have got before."""
        for one in ranges:
            self._delivery.redelivered.update(self._delivery.state.returned.intersection(*one))

    def _place(self, first: int, last: int) -> None:
        """Make new messages ready, or schedule those with a due time."""
        delivery, known = self._delivery, self._delivery.annotations
        if not known.has_values(Aspect.DUE) or not (later := known.columns(Aspect.DUE, first, last))[0]:
            delivery.ready.add(first, last)
            return
        self._schedule(*later)
        if total(later[0], later[1]) < last - first + 1:
            for start, end, due in delivery.annotations.cover(Aspect.DUE, first, last):
                if not due:
                    delivery.ready.add(start, end)

    def _note(self, aspect: Aspect, spans: Sequence[Span]) -> None:
        """Tell the feature of an aspect the values of new messages."""
        if not spans:
            return
        share = self.hooks.note.get(aspect)
        if share is None:
            declared = self._registry.by_message.get(aspect)
            if declared is None or declared.by_message is None:
                return
            share = self.shares[declared] = declared.by_message(self._delivery)
            self.hooks = self._registry.hooks_of(self.shares)
        share.note(spans)

    def add_soft(self, first: int, run: Run, notes: Mapping[Aspect, Sequence[Span]] = NO_NOTES) -> None:
        """Place messages that are in no log, with their annotations. Their numbers are of the partition's
        sequence.

        The next owner, who does not have them, must number above them: otherwise a late settlement of such a
        message would settle another one.
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
        """Have messages that rest since a former owner hold up their groups."""
        delivery = self._delivery
        if delivery.ready.by_consumer and later:
            for part in delivery.redelivered.ranges():
                for first, last, _ in later.spans(*part):
                    delivery.ready.rest(first, last)

    def _schedule(self, firsts: array[int], lasts: array[int], due: array[int]) -> None:
        """Schedule the messages of the spans, which are ascending, for the due times."""
        delivery = self._delivery
        if delivery.scheduled is None:
            delivery.scheduled = Schedule(delivery.annotations.new_map())
        delivery.scheduled.add(firsts, lasts, due)

    def let_go(self, now: int) -> bool:
        """Make due messages ready, up to a bound for one step; return whether there were any."""
        delivery = self._delivery
        if delivery.scheduled is None or delivery.scheduled.wake > now:
            return False
        due = delivery.scheduled.step(now)
        if delivery.ready.by_consumer:
            for part in due:
                delivery.ready.rested(*part)
        ready = due
        if delivery.awaited:
            # By the former owner's clock a message may have been due earlier, and been leased.
            delivery.held.update(up_to(self._inherited, due))
            ready = [(max(first, self._inherited + 1), last) for first, last in due if last > self._inherited]
        delivery.ready.add_all(ready)
        for feature in self.hooks.ready:
            for first, last in ready:
                feature.ready(first, last, delivery.redelivered.intersection(first, last))
        return bool(due)

    # -- failed deliveries ----------------------------------------------------------------------

    def rest(self, front_end: int, ranges: Sequence[Range], now: int) -> list[Span]:
        """The time until which the front end's messages rest, whose delivery has failed and which are about
        to be given back: as spans, in milliseconds since the epoch. Messages without a time are ready at
        once.
        """
        spans = [span for feature in self.hooks.rest for span in feature.rest(front_end, ranges, now)]
        for span in spans:
            self._rests.set(*span)
        return spans

    def exhausted(
        self, front_end: int, ranges: Sequence[Range], cancelled: bool
    ) -> list[tuple[Reason, list[Range]]]:
        """The front end's messages of the ranges that are beyond a limit with one more failure, by the reason
        for which the queue discards them; as `Feature.exhausted`.
        """
        found = [(one.reason, one.exhausted(front_end, ranges, cancelled)) for one in self.hooks.exhausted]
        return [one for one in found if one[1]]

    def cancelled(self, front_end: int, ranges: Sequence[Range]) -> list[Span]:
        """See `Feature.cancelled`."""
        return [span for one in self.hooks.cancelled for span in one.cancelled(front_end, ranges)]

    # -- leases ---------------------------------------------------------------------------------

    def lapsed(self, front_end: int, ranges: list[Range]) -> None:
        """Make messages of the front end whose lease has lapsed ready again, marked redelivered; not those
        that have been settled or given back since.

        A RETURN_FAILED of the messages must have been applied before.
        """
        delivery = self._delivery
        lease, timed = delivery.leases.get(front_end), delivery.timed
        if lease is None or timed is None:
            return
        lapsing = timed.lapsing.intersections(merged(ranges))
        parts = [part for one in lapsing for part in lease.intersection(*one)]
        for part in parts if delivery.soft.numbers else ():
            delivery.soft.count_failure(*part)
        self.give_back(lease, parts, redelivered=True)

    def settle(self, front_end: int, ranges: list[Range], token: int = NO_TOKEN) -> Settled:
        """The front end settles messages.

        A front end may also settle messages whose lease it has lost, as its client has processed them, unless
        another lease with a token has begun (`DeliveryState.settleable`). On an at-most-once queue only the
        owner's removal settles.
        """
        delivery = self._delivery
        if front_end != OWNER and delivery.state.semantics is Semantics.AT_MOST_ONCE:
            return Settled(0, [])
        if delivery.timed is not None or delivery.leases.get(TAKES):
            ranges = delivery.settleable(front_end, ranges, token)
            if not ranges:
                return Settled(0, [])
        if delivery.timed is not None:
            delivery.timed.end(ranges)
        if delivery.lost:
            delivery.lost.settled(ranges)
        if delivery.settling:
            delivery.settling.remove_all(ranges)
        lease = delivery.leases.get(front_end)
        count = lease.remove_all(ranges) if lease is not None else 0
        leased = count == count_of(ranges)
        if delivery.ready.by_consumer:
            delivery.ready.done(ranges if leased else delivery.unleased(ranges))
        for feature in self.hooks.settle:
            feature.settle(ranges)
        if delivery.redelivered:
            delivery.redelivered.remove_all(ranges)
        if leased and not delivery.soft.numbers:
            return Settled(count, ranges)
        for part in ranges:
            if not leased:
                count += count_of(delivery.find_waiting(front_end, *part)) + delivery.links.settled(*part)
            delivery.soft.remove(*part)
            self._rests.remove(*part)
        if not leased and front_end != OWNER:
            delivery.given_out(max(ranges)[1])
            delivery.settling.update(delivery.leased_elsewhere(front_end, ranges))
        return Settled(count, delivery.state.alive.intersections(merged(ranges)))

    def release(self, front_end: int, first: int, last: int, redelivered: bool = True) -> int:
        """Give the front end's messages of the range back to the queue; return how many are back.

        Held messages stay held until all front ends have answered. A former owner may have ended the lease
        without the front end's knowledge, and another front end have the message. `redelivered` is False for
        messages that never reached a consumer; they are marked all the same once newer ones were granted.
        """
        delivery = self._delivery
        delivery.lost.given_back(front_end, first, last)
        if redelivered and (held := delivery.held.intersection(first, last)):
            delivery.given_out(held[-1][1])
            delivery.redelivered.update(held)
        lease = delivery.leases.get(front_end)
        count = self.give_back(lease, lease.intersection(first, last), redelivered) if lease else 0
        freed = delivery.links.freed(first, last) if LINKS in delivery.leases else []
        return count + (self.give_back(delivery.leases[LINKS], freed, redelivered) if freed else 0)

    def release_unheld(self, front_end: int, held: Sequence[Range]) -> None:
        """Give back the front end's leased messages that are not in `held`: they never reached the
        front end.
        """
        lease = self._delivery.leases.get(front_end)
        if not lease:
            return
        unheld = lease.without(held)
        self._delivery.links.keep(lease, list(unheld.ranges()))
        for first, last in list(unheld.ranges()):
            self.release(front_end, first, last, redelivered=False)

    def give_back(self, place: RangeSet, parts: list[Range], redelivered: bool) -> int:
        """Move messages out of a place, a lease or the held ones, back to the queue; return how many."""
        # Where newer messages have been delivered, only a redelivered one may follow them (0-9-1 §4.7).
        newest = ABOVE_ALL if redelivered else self._delivery.newest_delivered(parts)
        older = [(first, min(last, newest)) for first, last in parts if first <= newest]
        newer = [(max(first, newest + 1), last) for first, last in parts if last > newest]
        return self._move_back(place, older, redelivered=True) + self._move_back(place, newer)

    def _move_back(self, place: RangeSet, parts: list[Range], redelivered: bool = False) -> int:
        delivery = self._delivery
        count = 0
        if delivery.timed is not None and parts:
            delivery.timed.end(parts)
        for part in parts:
            place.remove(*part)
            delivery.ready.done([part])
            for feature in self.hooks.return_:
                feature.return_(*part)
            # A consumer that had lost its lease may have settled some of the messages meanwhile.
            back = delivery.state.alive.intersection(*part) + delivery.soft.numbers.intersection(*part)
            if delivery.settling:
                back = list(RangeSet(back).without(delivery.settling.ranges()).ranges())
                delivery.settling.remove(*part)
            count += count_of(back)
            if redelivered:
                delivery.redelivered.update(back)
            for first, last in self._regain(part, back) if delivery.lost else back:
                self._come_back(first, last)
                for feature in self.hooks.ready:
                    feature.ready(first, last, [(first, last)] if redelivered else [])
        return count

    def _regain(self, part: Range, living: list[Range]) -> list[Range]:
        """Lease the living messages of `part` again to front ends that have lost the leases, and whose
        consumers still have the messages; return the other living messages.
        """
        regained, left = self._delivery.lost.take(part, living)
        for front_end, first, last, consumer in regained:
            self._rests.remove(first, last)
            self._take_over(front_end, (first, last), RangeMap([(first, last, consumer)]))
        return left

    def _come_back(self, first: int, last: int) -> None:
        """Make messages ready again, or have them rest first."""
        delivery = self._delivery
        if not self._rests:
            delivery.ready.add(first, last)
            return
        for start, end, until in self._rests.cover(first, last):
            if until:
                self._rests.remove(start, end)
                self._schedule(*transposed([(start, end, until)], 3))
                delivery.ready.rest(start, end)
            else:
                delivery.ready.add(start, end)

    def purge(self, through: int = ABOVE_ALL) -> Settled:
        """The ready and scheduled messages up to a number, which leave their places; leased and held ones
        stay (0-9-1 §1.7.2.7). A PURGE must name the ranges.
        """
        delivery = self._delivery
        gone = RangeSet(delivery.ready.intersection(0, through))
        if delivery.scheduled is not None:
            gone.update(delivery.scheduled.intersection(0, through))
        return Settled(len(gone), [part for one in gone.ranges() for part in self.take_out(*one)])

    def take_out(self, first: int, last: int) -> list[Range]:
        """Remove ready or scheduled messages; return the ranges that an operation in the log must name."""
        delivery = self._delivery
        delivery.ready.remove(first, last)
        delivery.unschedule(first, last)
        delivery.redelivered.remove(first, last)
        for feature in self.hooks.settle:
            feature.settle([(first, last)])
        delivery.soft.remove(first, last)
        return delivery.state.alive.intersection(first, last)

    # -- front ends lost and owners changed -----------------------------------------------------

    def _hold(self) -> None:
        """Hold the messages that may be leased until the attached front ends have answered."""
        delivery = self._delivery
        parts = delivery.ready.intersection(0, delivery.state.mark)
        delivery.held.update(parts)
        delivery.ready.remove(0, delivery.state.mark)
        if delivery.held or delivery.scheduled:
            delivery.awaited = set(delivery.state.attached)
        delivery.given_out(max(delivery.state.delivered, delivery.links.kept.last or 0))

    def lost_front_end(self, front_end: int) -> None:
        """The front end is lost: its consumers end, and its leased messages are ready again, marked
        redelivered.

        A RETURN_FAILED of the leased messages must have been applied before.
        """
        delivery = self._delivery
        delivery.consumers.detach_all(front_end)
        delivery.consumers.resume(front_end)
        delivery.lost.forget(front_end)
        lease = delivery.leases.pop(front_end, None)
        if lease is not None:
            delivery.links.keep(lease, list(lease.ranges()))
            ranges = list(lease.ranges())
            for part in ranges if delivery.soft.numbers else ():
                delivery.soft.count_failure(*part)
            self.give_back(lease, ranges, redelivered=True)
        if front_end in delivery.awaited:
            self._lost = True
            self._answered(front_end)

    def reattached(
        self,
        front_end: int,
        ranges: list[Range],
        holders: Iterable[Span] = (),
        tokens: Iterable[Span] = (),
        ends: Iterable[Span] = (),
    ) -> list[Range]:
        """The front end answers a new owner: `ranges` are the messages that it has not settled, and those
        that it has settled in batches without an answer. Returns the ranges leased to it from now on.
        `holders` are (first, last, consumer), for queues whose order is by consumer. `tokens` are (first,
        last, token), for queues whose leases have tokens: of two front ends that tell a message, the one with
        the newer lease has it. `ends` are (first, last, end of the lease), see `leasing.take_over_leases`.

        When all awaited front ends have answered, messages that no front end has are ready.
        """
        delivery, consumers, leases = self._delivery, RangeMap(holders), RangeMap(tokens)
        until = RangeMap(ends)
        accepted = [part for one in ranges for part in delivery.find_waiting(front_end, *one)]
        if delivery.timed is not None:
            for other, part in delivery.timed.outranked(front_end, leases.all()):
                delivery.lease_of(other).remove(*part)
                delivery.ready.done([part])
                accepted.append(part)
        for part in accepted:
            self._take_over(front_end, part, consumers, leases, until)
        if delivery.timed is None:
            # A message whose lease has lapsed is its consumer's no more.
            lost = delivery.leased_elsewhere(front_end, ranges)
            delivery.lost.tell(front_end, [span for one in lost for span in consumers.cover(*one, UNKNOWN)])
        self._answered(front_end)
        return sorted(accepted)

    def _take_over(
        self,
        front_end: int,
        part: Range,
        consumers: RangeMap,
        tokens: RangeMap = NO_SPANS,
        ends: RangeMap = NO_SPANS,
    ) -> None:
        """Lease messages to a front end whose consumers have them already."""
        delivery = self._delivery
        delivery.lease_of(front_end).add(*part)
        take_over_leases(delivery, self.hooks.lease_until, front_end, part, tokens, ends)
        if delivery.ready.by_consumer:
            for start, end, consumer in consumers.cover(*part, UNKNOWN):
                delivery.ready.claim((front_end, consumer), start, end)

    def _answered(self, front_end: int) -> None:
        delivery = self._delivery
        if front_end in delivery.awaited:
            delivery.awaited.remove(front_end)
            if not delivery.awaited:
                self.release_held(redelivered=self._lost)

    def wait_for(self, front_ends: Collection[int]) -> bool:
        """The time limit is over: wait no longer for others than these front ends, which are greeting.
        Returns whether one of them may have held messages.
        """
        delivery = self._delivery
        delivery.consumers.resume_others(front_ends)
        silent = delivery.awaited.difference(front_ends)
        delivery.awaited -= silent
        self._lost = self._lost or bool(silent)
        return bool(delivery.awaited)

    def release_held(self, redelivered: bool) -> int:
        """Make the held messages ready, which no front end has; return how many.

        `redelivered`: a front end that may have had some of them was lost. Messages older than one that a
        former owner has leased are marked in any case: they were leased as well, and lost on their way.
        """
        held = self._delivery.held
        self._delivery.awaited.clear()
        return self.give_back(held, list(held.ranges()), redelivered)
