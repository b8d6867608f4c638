"""The views over one queue, and the order of ready messages that tells them what comes and goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from node.queue.consumers import Consumer, ConsumerKey
from node.queue.filtering import LookBudget, ReadMessages
from node.queue.order import Order, OrderOver
from node.queue.view import View
from node.queue.view_terms import ViewTerms
from node.ranges.range_map import ABOVE_ALL
from node.ranges.range_set import Range, up_to

_VERSION_BITS: Final = 40
"""Two views that an owner begins under one name have no version in common."""


def _no_turn() -> None:
    """The queue has not been served yet. It will be."""


class ViewedMessages:
    """The views of one queue, by name. Soft state: a new owner looks at the queue's messages anew.

    The queue is served again where messages come or go between two turns.
    """

    __slots__ = ("_awake", "_begun", "_deepest", "_next", "_serve_again", "by_name", "order")

    def __init__(self, whole: Order) -> None:
        """`order` takes over `whole`, which has the ready messages."""
        self.order = ViewedOrder(whole, self)
        self.by_name: dict[str, View] = {}
        self._serve_again: Callable[[], None] = _no_turn
        self._awake = False
        self._begun = 0
        self._deepest = ABOVE_ALL
        self._next = 0

    def have(self, wanted: Iterable[ViewTerms]) -> None:
        """Keep the views with these terms, begin with new ones, and drop all others."""
        kept: dict[str, View] = {}
        for terms in wanted:
            known = self.by_name.get(terms.name)
            if known is None or known.terms != terms:
                self._begun += 1
                shown = up_to(self._deepest, list(self.order.ranges()))
                known = View(terms, shown, self._begun << _VERSION_BITS)
            kept[terms.name] = known
        self.by_name = kept

    # -- messages come and go -------------------------------------------------------------------

    def add(self, first: int, last: int) -> None:
        """Messages become ready."""
        self._changed()
        if first <= self._deepest:
            for view in self.by_name.values():
                view.add(first, min(last, self._deepest))

    def remove(self, first: int, last: int) -> None:
        """Messages are ready no more."""
        self._changed()
        for view in self.by_name.values():
            view.remove(first, last)

    def gone(self, ranges: list[Range]) -> None:
        """Messages leave the queue."""
        for view in self.by_name.values():
            view.gone(ranges)

    def _changed(self) -> None:
        if not self._awake:
            self._awake = True
            self._serve_again()

    # -- turns ----------------------------------------------------------------------------------

    def begin(self, serve_again: Callable[[], None]) -> None:
        """The queue is about to be served, and `look` follows. `serve_again` has it served in the next
        turn.
        """
        self._awake, self._serve_again = True, serve_again

    def look(self, deepest: int, read: ReadMessages, looks: LookBudget) -> bool:
        """Look at messages, as far as this turn has steps for them; return whether there is more to do.
        `deepest` is the last message that the queue shows. Raises DamagedEntryError where `read` does.
        """
        self._show(deepest)
        wanting = [view for view in self.by_name.values() if view.wants]
        if wanting:
            share = max(1, looks.share() // len(wanting))
            start = self._next % len(wanting)
            self._next = start + 1
            for view in wanting[start:] + wanting[:start]:
                looks.left -= view.step(read, share)
        self._awake = any(view.wants for view in wanting)
        return self._awake

    def _show(self, deepest: int) -> None:
        """The queue shows its messages up to another one."""
        former, self._deepest = self._deepest, deepest
        for part in self.order.intersection(former + 1, deepest) if former < deepest else ():
            self.add(*part)
        if deepest < former:
            self.remove(deepest + 1, ABOVE_ALL)


class ViewedOrder(OrderOver):
    """The ready messages of a queue with views."""

    __slots__ = ("_views",)

    def __init__(self, whole: Order, views: ViewedMessages) -> None:
        super().__init__(whole, by_age=whole.by_age)
        self._views = views

    # -- messages come and go -------------------------------------------------------------------

    def add(self, first: int, last: int) -> int:
        self._views.add(first, last)
        return self.whole.add(first, last)

    def remove(self, first: int, last: int) -> int:
        removed = self.whole.remove(first, last)
        if removed:
            self._views.remove(first, last)
        return removed

    def clear(self) -> None:
        self.whole.clear()
        self._views.remove(0, ABOVE_ALL)

    def hand_over(self, consumer: ConsumerKey, ranges: list[Range], count: int) -> None:
        self.whole.hand_over(consumer, ranges, count)
        for part in ranges:
            self._views.remove(*part)

    def claim(self, consumer: ConsumerKey, first: int, last: int) -> None:
        self.whole.claim(consumer, first, last)
        self._views.remove(first, last)

    def done(self, ranges: list[Range]) -> None:
        self.whole.done(ranges)

    def rest(self, first: int, last: int) -> None:
        self.whole.rest(first, last)

    def rested(self, first: int, last: int) -> None:
        self.whole.rested(first, last)

    # -- asking ---------------------------------------------------------------------------------

    def offered(self, consumer: Consumer, limit: int, *, rivals: int, begun: bool) -> list[Range]:
        found = self.whole.offered(consumer, limit, rivals=rivals, begun=begun)
        self.unfinished = self.whole.unfinished
        return found
