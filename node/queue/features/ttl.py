"""Expiry of messages (queue argument x-message-ttl, property expiration)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from node.message.format import NO_EXPIRATION
from node.message.reason import Reason
from node.message.run import Run
from node.queue.argument import Argument, PolicyUse
from node.queue.argument_types import read_time
from node.queue.decision_format import encode_annotate
from node.queue.delivery_state import DeliveryState
from node.queue.feature import Declaration, Feature, FeatureContext, Incoming, Notes, Rule, ToldRun
from node.queue.operations import Aspect
from node.queue.order import Order
from node.queue.schedule import Schedule
from node.queue.settings import QueueSettings
from node.queue.stream_settings import is_stream
from node.ranges.range_columns import transposed
from node.ranges.range_map import RangeMap, Span
from node.ranges.range_set import Range, RangeSet
from node.wire.formats import format_of

MESSAGE_TTL: Final = Argument("x-message-ttl", read_time, "message_ttl_ms", policy=PolicyUse.LIMIT)

AT_ONCE: Final = 0
"""The expiry of a message with a time to live of 0: it goes to a consumer with credit now, or expires."""


class Lifetimes:
    """The messages of a queue that have an expiry: a time in milliseconds since the epoch, or AT_ONCE.

    An expired message stays here until it is removed: a leased message does not expire during its lease
    (seed 002, D5), but when it is ready again.
    """

    __slots__ = ("_at_once", "_back", "_expired", "_schedule")

    def __init__(self, expiries: RangeMap) -> None:
        """Takes over `expiries`, which is empty."""
        self._schedule = Schedule(expiries)
        self._expired = RangeSet()
        self._at_once = RangeSet()
        # Messages that may have become ready since `expired` and `passed_by` were last called.
        self._back = RangeSet()

    def __bool__(self) -> bool:
        return bool(self._schedule or self._expired or self._at_once)

    def add(self, spans: Sequence[Span]) -> None:
        """Add messages that have no expiry here yet. Spans (first, last, expiry) are in order."""
        later = [span for span in spans if span[2] != AT_ONCE]
        if later:
            self._schedule.add(*transposed(later, 3))
        for first, last, expiry in () if len(later) == len(spans) else spans:
            if expiry == AT_ONCE:
                self._at_once.add(first, last)
                self._back.add(first, last)

    def remove(self, first: int, last: int) -> None:
        """The messages are gone."""
        for place in (self._schedule, self._expired, self._at_once, self._back):
            if place:
                place.remove(first, last)

    def remove_all(self, ranges: list[Range]) -> None:
        """The messages of all the ranges are gone."""
        for place in (self._expired, self._at_once, self._back):
            if place:
                place.remove_all(ranges)
        if self._schedule:
            self._schedule.remove_all(ranges)

    def came_back(self, first: int, last: int, had: Iterable[Range] = ()) -> None:
        """The messages are ready. AT_ONCE messages of `had`, which a consumer had, have expired."""
        for one in had if self._at_once else ():
            for part in self._at_once.intersection(*one):
                self._at_once.remove(*part)
                self._expired.add(*part)
        for place in (self._expired, self._at_once):
            self._back.update(place.intersection(first, last))

    @property
    def wake(self) -> int:
        """The time at which `step` is to be called, in milliseconds since the epoch (see `Schedule.wake`)."""
        return self._schedule.wake

    def step(self, now: int) -> None:
        """Find the messages that have expired by now, up to a bound for one step."""
        if self._schedule.wake <= now:
            for part in self._schedule.step(now):
                self._expired.add(*part)
                self._back.add(*part)

    def expired(self, ready: Order) -> list[Range]:
        """Ready messages that have expired. Each is returned once, and again where it is given back."""
        return self._take(self._expired, ready) if self._back else []

    def passed_by(self, ready: Order) -> list[Range]:
        """Ready AT_ONCE messages, which no consumer has taken. Each is returned once, and again where it is
        given back.
        """
        return self._take(self._at_once, ready) if self._back else []

    def _take(self, place: RangeSet, ready: Order) -> list[Range]:
        looked_at = [part for one in self._back.ranges() for part in place.intersection(*one)]
        self._back.remove_all(looked_at)
        return [part for one in looked_at for part in ready.intersection(*one)]


NO_EXPIRIES: Final = RangeMap()


def expiry_of(ttl: int, now: int) -> int:
    """The expiry of a message that may wait for `ttl` milliseconds from `now` on: AT_ONCE for 0."""
    return now + ttl if ttl else AT_ONCE


class TimeToLive(Feature):
    """Has the queue discard expired messages."""

    def __init__(self, delivery: DeliveryState) -> None:
        super().__init__()
        self._delivery = delivery
        self._lifetimes = Lifetimes(delivery.annotations.new_map())

    def take_over(self, context: FeatureContext) -> None:
        """Give an expiry to messages that came in while the queue had no time to live."""
        delivery = self._delivery
        ttl = MESSAGE_TTL.of(delivery.settings)
        if ttl is None:
            return
        expiry = expiry_of(ttl, context.wall_ms())
        durable = _without(delivery.state.alive, delivery.annotations.logged(Aspect.EXPIRY), expiry)
        if durable:
            context.log(encode_annotate(context.number, Aspect.EXPIRY, durable))
        soft = _without(delivery.soft.numbers, delivery.soft.values.get(Aspect.EXPIRY, NO_EXPIRIES), expiry)
        delivery.soft.annotate(Aspect.EXPIRY, soft)
        for spans in (durable, soft):
            self.note(spans)

    def note(self, spans: Sequence[Span]) -> None:
        self._lifetimes.add(spans)

    def serve(self, context: FeatureContext, now: int) -> None:
        if self._lifetimes:
            self._lifetimes.step(now)
            context.discard(self._lifetimes.expired(self._delivery.ready), Reason.EXPIRED)

    def served(self, context: FeatureContext, *, complete: bool) -> None:
        if self._lifetimes:
            if complete:
                context.discard(self._lifetimes.passed_by(self._delivery.ready), Reason.EXPIRED)
            context.wake(self._lifetimes.wake)

    def as_told(self, ranges: list[Range], run: Run, now: int) -> Iterable[ToldRun]:
        """Messages of AMQP 1.0 state the time that they have left (part 3, section 3.2.1, ttl)."""
        if not run.special or not format_of(run).counts_down:
            return ((ranges, run),)
        return self._counted_down(ranges, run, now)

    def _counted_down(self, ranges: list[Range], run: Run, now: int) -> Iterator[ToldRun]:
        ttl, begin = MESSAGE_TTL.of(self._delivery.settings), 0
        for part in ranges:
            for first, last, expiry in self._delivery.annotations.cover(Aspect.EXPIRY, *part):
                piece = run.slice(begin, last - first + 1)
                begin += piece.count
                if expiry != AT_ONCE:
                    piece = format_of(piece).with_time_left(piece, expiry - now, ttl)
                yield [(first, last)], piece

    def settle(self, ranges: list[Range]) -> None:
        self._lifetimes.remove_all(ranges)

    def ready(self, first: int, last: int, had: list[Range]) -> None:
        self._lifetimes.came_back(first, last, had)


class Expiries(Rule):
    """States the expiry of messages, by the shorter of the queue's time to live and the message's expiration.

    Both run from the time at which the message is due.
    """

    def __init__(self, ttl: int | None) -> None:
        super().__init__(special_only=ttl is None)
        self._ttl = ttl

    def decide(self, incoming: Incoming, first: int, now: int, notes: Notes) -> None:
        ttl, found = self._ttl, list[Span]()
        if ttl is not None and not incoming.run.special:
            found.append((first, first + incoming.run.count - 1, expiry_of(ttl, now)))
        for start, end, delay, _, expiration in incoming.asked():
            if expiration == NO_EXPIRATION:
                lives = ttl
            else:
                lives = expiration if ttl is None else min(expiration, ttl)
            if lives is not None:
                found.append((first + start, first + end, expiry_of(lives, now + delay)))
        if found:
            notes[Aspect.EXPIRY] = found


def _without(messages: RangeSet, known: RangeMap, value: int) -> list[Span]:
    """Spans with this value for the messages that have none."""
    left = messages.without((first, last) for first, last, _ in known.all())
    return [(first, last, value) for first, last in left.ranges()]


def _share(delivery: DeliveryState, former: Feature | None) -> Feature | None:
    """Keeps the share where the settings ask for no time to live any more: messages keep their expiry. The
    messages of a stream have none.
    """
    if is_stream(delivery.settings):
        return None
    if former is None and MESSAGE_TTL.of(delivery.settings) is not None:
        return TimeToLive(delivery)
    return former


def _rule(settings: QueueSettings) -> Rule | None:
    return None if is_stream(settings) else Expiries(MESSAGE_TTL.of(settings))


FEATURE: Final[Declaration] = Declaration(
    MESSAGE_TTL, make=_share, rule=_rule, aspect=Aspect.EXPIRY, by_message=TimeToLive
)
