"""The ready messages of a queue, some of whose consumers have filters.

The owner keeps, for each different filter, the messages that it has looked at and those of them that match.
So a message is looked at once for a filter, however many consumers have the filter. A filter's ready messages
stand in an order of the queue's own kind. The work of one turn has a limit, and goes on in the next turn.

All of this is soft state: a new owner looks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from node.expressions.selector import Selector
from node.message.run import Run
from node.queue.consumers import Consumer, ConsumerKey
from node.queue.order import Order, OrderOver, PlacedOrder
from node.queue.values import Values
from node.ranges.range_set import Range, RangeSet, count_of, merged
from node.wire.formats import format_of

LOOK_STEPS: Final = 8000
"""About so many steps are taken in one turn: one for each part of a selector and message."""

LOOK_STEP_S: Final = 0.5e-6
"""Seconds that a step takes: compiled half of that, as sources twice."""

IDLE_S: Final = 0.3e-3
"""A node has little to do that does other work for so many seconds between two turns, in the mean of
`IDLE_TURNS`. One short turn is no sign of that: the cores of a busy node are others' as well.
"""

IDLE_TURNS: Final = 8

_BUSY_AT_MOST_S: Final = 4e-3
"""More than that, between two turns, counts as that: a node that has rested is not busy for long."""

LOOK_SHARE: Final = 0.135
"""The time for looks, as a share of that for other work."""

LOOK_LEAST: Final = 64
"""Each queue may take so many steps whenever it is served, whatever other queues take."""

_MESSAGE_STEPS: Final = 16
"""The steps to read the properties of a message."""

_TOLD_STEPS: Final = 4
"""The steps for a message whose headers are found without its other properties."""

_READ_STEPS: Final = 24
"""The steps to read messages from an entry."""

_OCTETS_A_STEP: Final = 512

_BODY_OCTETS_A_STEP: Final = 64
"""A body is decoded where the selector has a path into it."""

_AT_ONCE: Final = 8
"""So many filters of a queue at most look at messages in one turn."""

_FEW: Final = 4
"""Messages that may match are looked at one by one where they are fewer than one in so many."""

ReadMessages = Callable[[int, int], list[tuple[int, Run]]]
"""(first, last) -> the first messages of a closed range, as runs with their first numbers: one at least, and
as many as are read at once.
"""


class LookBudget:
    """The steps that are left for the queues of one owner in the turn of its node that has begun at `now`.

    Looks take their share of a busy node's time, and all the time that a node has left. Steps that a turn
    takes beyond its share are missing in the next turns, `LOOK_STEPS` of them at most.
    """

    __slots__ = ("_began", "_busy_s", "_given", "_least", "left", "now")

    def __init__(self, steps: int = LOOK_STEPS, least: int = LOOK_LEAST) -> None:
        self.left = self._given = steps
        self._least = least
        self.now = self._began = self._busy_s = 0.0

    def share(self) -> int:
        """The steps for one queue: so the first queues of a turn leave some to the others."""
        if self.now != self._began:
            looked_s = (self._given - self.left) * LOOK_STEP_S
            busy_s = max(0.0, self.now - self._began - looked_s)
            self._began = self.now
            self._busy_s += (min(busy_s, _BUSY_AT_MOST_S) - self._busy_s) / IDLE_TURNS
            paid = LOOK_STEPS if self._busy_s < IDLE_S else int(busy_s * LOOK_SHARE / LOOK_STEP_S)
            owed = min(LOOK_STEPS, max(0, -self.left))
            self.left = self._given = min(LOOK_STEPS, paid) - owed
        return max(self._least, self.left // 2)


class Looking:
    """Looks which messages a selector takes. `message_steps` are those for a message
    that has few octets.
    """

    __slots__ = ("_values", "message_steps", "selector", "unreadable")

    def __init__(self, selector: Selector) -> None:
        self.selector = selector
        self.message_steps = _MESSAGE_STEPS + selector.steps
        self._values = Values(selector)
        self.unreadable = 0
        """Messages in whose body the selector has found no members, as the body is none with members."""

    def within(self, run: Run, steps: int) -> int:
        """How many messages of a run, one at least, can be looked at in so many steps."""
        if not self.selector.by_body:
            return run.count
        if run.lengths is None:
            return min(run.count, max(1, steps // self._body_steps(run.stride)))
        for index, length in enumerate(run.lengths):
            steps -= self._body_steps(length)
            if steps < 0:
                return max(1, index)
        return run.count

    def _body_steps(self, octets: int) -> int:
        return self.message_steps + octets // _BODY_OCTETS_A_STEP

    def look(self, first: int, run: Run) -> tuple[list[Range], int]:
        """The messages of a run, numbered from `first` on, that match, and the steps that this took."""
        steps = _READ_STEPS + run.count + len(run.raw) // _OCTETS_A_STEP
        found: list[Range] = []
        for start, piece in self._candidates(run):
            told = self._values.by_headers(piece)
            if told is not None:
                steps += len(told) * _TOLD_STEPS
                found += [
                    (first + start + index, first + start + index + count - 1)
                    for index, count, value in told
                    if value is True
                ]
                continue
            for begin, one in self._values.pieces(piece):
                messages = format_of(one)
                for index, count, properties in messages.properties_in(one):
                    low = first + start + begin + index
                    if self.selector.by_body:
                        piece = one.slice(index, count)
                        steps += count * self.message_steps + len(piece.raw) // _BODY_OCTETS_A_STEP
                        found += self._by_body(low, piece, properties)
                        continue
                    steps += self.message_steps + len(properties) // _OCTETS_A_STEP
                    if self._values.value(one, properties) is True:
                        found.append((low, low + count - 1))
        return merged(found), steps

    def _by_body(self, first: int, run: Run, properties: bytes) -> Iterator[Range]:
        """The messages of a run with equal properties, numbered from `first` on, that match."""
        messages = format_of(run)
        for index in range(run.count):
            facts = messages.facts(run.slice(index, 1), properties)
            if self.selector.takes(facts):
                yield first + index, first + index
            self.unreadable += facts.unreadable

    def _candidates(self, run: Run) -> Iterator[tuple[int, Run]]:
        """(index, run) for the messages that may match: they have the selector's needle."""
        needle = self.selector.needle
        if not needle:
            yield 0, run
            return
        raw = run.raw if isinstance(run.raw, bytes) else bytes(run.raw)
        at = raw.find(needle)
        if at < 0:
            return
        lengths = run.lengths
        index, end = 0, run.stride if lengths is None else lengths[0]
        candidates: list[int] = []
        while at >= 0:
            while end <= at:
                index += 1
                end += run.stride if lengths is None else lengths[index]
            candidates.append(index)
            at = raw.find(needle, end)
        if len(candidates) * _FEW > run.count:
            yield 0, run
        else:
            for index in candidates:
                yield index, run.slice(index, 1)


def look_through(
    looking: Looking, read: ReadMessages, messages: Range, steps: int
) -> tuple[list[Range], int, int]:
    """Look at messages of a closed range, which are all there, in about so many steps. Returns those that
    match, the steps taken, and the number of the first message not looked at.
    """
    first, last = messages
    most, taken, found = max(1, steps // looking.message_steps), 0, list[Range]()
    for start, run in read(first, min(last, first + most - 1)):
        piece = looking.within(run, steps - taken)
        matching, cost = looking.look(start, run.slice(0, piece))
        found += matching
        taken += cost
        first = start + piece
        if piece < run.count:
            break
    return found, taken, first


class FilteredMessages:
    """The messages of a queue as one filter sees them. `ready` are those that match and are ready; `unseen`
    are those that are ready, and that the owner has not looked at. `looked` and `matching` have leased
    messages as well. The filter `wants` another turn, in which it has `steps`; it has none of its own where
    it has looked at all messages so far.
    """

    __slots__ = ("looked", "looking", "matching", "ready", "steps", "unseen", "wants")

    def __init__(self, selector: Selector, ready: Order, unseen: PlacedOrder) -> None:
        self.looking = Looking(selector)
        self.ready = ready
        self.unseen = unseen
        self.looked = RangeSet()
        self.matching = RangeSet()
        self.steps: int | None = None
        self.wants = False

    def add(self, first: int, last: int) -> None:
        """Messages become ready. Some may be known, as they were leased."""
        while first <= last:
            looked, upto = self.looked.span(first)
            end = last if upto is None else min(upto, last)
            if looked:
                for part in self.matching.intersection(first, end):
                    self.ready.add(*part)
            else:
                self.unseen.add(first, end)
            first = end + 1

    def remove(self, first: int, last: int) -> None:
        """Messages are ready no more."""
        self.ready.remove(first, last)
        self.unseen.remove(first, last)

    def gone(self, ranges: list[Range]) -> None:
        """Messages leave the queue."""
        self.looked.remove_all(ranges)
        self.matching.remove_all(ranges)

    def take_in(self, first: int, last: int, matching: Iterable[Range]) -> None:
        """The owner has looked at ready messages, some of which match."""
        self.unseen.remove(first, last)
        self.looked.add(first, last)
        for part in matching:
            self.matching.add(*part)
            self.ready.add(*part)


class FilteredOrder(OrderOver):
    """The ready messages of a queue, for consumers with filters and without. `whole` has all of them.

    `looking` is True after `offered` where the consumer may get one of the messages that the owner has still
    to look at. `unreadable` counts as that of `Looking`.
    """

    __slots__ = ("_looks", "_next", "_read", "_steps", "_views", "looking", "unreadable")

    def __init__(self, whole: Order, read: ReadMessages) -> None:
        """Takes over `whole`. `read` may raise DamagedEntryError."""
        super().__init__(whole, by_age=False)
        self.looking = False
        self.unreadable = 0
        self._looks = LookBudget()
        self._steps = LOOK_STEPS
        self._next = 0
        self._read = read
        self._views: dict[bytes, FilteredMessages] = {}

    def have(self, selectors: Iterable[Selector]) -> None:
        """Keep these filters, begin with new ones, and drop all others."""
        views: dict[bytes, FilteredMessages] = {}
        for each in selectors:
            view = self._views.get(each.data)
            views[each.data] = view or FilteredMessages(each, self.whole.twin(), self.whole.placed())
        self._views = views

    def gone(self, ranges: list[Range]) -> None:
        """Messages leave the queue."""
        for view in self._views.values():
            view.gone(ranges)

    def begin(self, looks: LookBudget) -> None:
        """A turn begins, with a share of these steps. Filters that wanted more share half of the steps; if
        there are many, some have a turn later. The other half is for filters that look at messages as these
        come.
        """
        self._looks, self.looking = looks, False
        steps = looks.share()
        wanting = [view for view in self._views.values() if view.wants]
        start = self._next % len(wanting) if wanting else 0
        served = (wanting[start:] + wanting[:start])[:_AT_ONCE]
        self._next = start + len(served)
        self._steps = steps // 2 if served else steps
        for view in wanting:
            view.steps = 0
        for view in served:
            view.steps, view.wants = max(1, steps // 2 // len(served)), False

    def views(self) -> list[FilteredMessages]:
        """The messages as each filter sees them."""
        return list(self._views.values())

    # -- messages come and go -------------------------------------------------------------------

    def add(self, first: int, last: int) -> int:
        for view in self._views.values():
            view.add(first, last)
        return self.whole.add(first, last)

    def remove(self, first: int, last: int) -> int:
        for view in self._views.values():
            view.remove(first, last)
        return self.whole.remove(first, last)

    def clear(self) -> None:
        self.whole.clear()
        for view in self._views.values():
            view.ready.clear()
            view.unseen.clear()

    # -- serving --------------------------------------------------------------------------------

    def offered(self, consumer: Consumer, limit: int, *, rivals: int, begun: bool) -> list[Range]:
        view = None if consumer.selector is None else self._views.get(consumer.selector.data)
        if view is None:
            found = self.whole.offered(consumer, limit, rivals=rivals, begun=begun)
            self.unfinished = self.whole.unfinished
            return found
        while True:
            found = view.ready.offered(consumer, limit, rivals=rivals, begun=begun)
            self.unfinished = view.ready.unfinished
            next_unseen = view.unseen.front()
            if next_unseen is None:
                view.steps = None
                return found
            found = view.unseen.ahead(found, next_unseen[0])
            # The consumer may get none of the messages that it does not get any more.
            enough = bool(found) and (consumer.undeliverable is None or count_of(found) >= limit)
            if enough or (self.by_consumer and begun and rivals):
                return found
            left = self._steps if view.steps is None else view.steps
            if left <= 0:
                self.looking = view.wants = True
                return found
            self._look(view, left, *next_unseen)

    def _look(self, view: FilteredMessages, left: int, first: int, last: int) -> None:
        """Look at the first messages of a range that the owner has not looked at, in about `left` steps."""
        most = max(1, left // view.looking.message_steps)
        last = min(last, first + most - 1)
        matching: list[Range] = []
        end, before, unreadable = first, left, view.looking.unreadable
        for start, run in self._read(first, last):
            count = view.looking.within(run, left)
            found, steps = view.looking.look(start, run.slice(0, count))
            matching += found
            left -= steps
            end = start + count - 1
            if count < run.count or (view.looking.selector.by_body and left <= 0):
                break
        self._looks.left -= before - left
        self.unreadable += view.looking.unreadable - unreadable
        if view.steps is None:
            self._steps = left
        else:
            view.steps = left
        view.take_in(first, end, matching)

    def hand_over(self, consumer: ConsumerKey, ranges: list[Range], count: int) -> None:
        self.whole.hand_over(consumer, ranges, count)
        for part in ranges:
            self._taken(consumer, *part)

    def claim(self, consumer: ConsumerKey, first: int, last: int) -> None:
        self.whole.claim(consumer, first, last)
        self._taken(consumer, first, last)

    def _taken(self, consumer: ConsumerKey, first: int, last: int) -> None:
        for view in self._views.values():
            view.unseen.remove(first, last)
            view.ready.claim(consumer, first, last)

    def done(self, ranges: list[Range]) -> None:
        for order in self._orders():
            order.done(ranges)

    def rest(self, first: int, last: int) -> None:
        for order in self._orders():
            order.rest(first, last)

    def rested(self, first: int, last: int) -> None:
        for order in self._orders():
            order.rested(first, last)

    def _orders(self) -> list[Order]:
        return [self.whole, *[view.ready for view in self._views.values()]]
