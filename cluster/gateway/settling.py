"""Settles messages that a client names by bookmark or by filter, with the owner of their queue.

The owner is asked for bounded parts, one after the other. A part may be asked again, of another owner: it is
acknowledged, cancelled or expired once (`cluster.owner.settling`).
"""

from __future__ import annotations

from typing import Any, Final

from cluster.gateway.link import Links
from cluster.gateway.refusals import refusal_of
from cluster.peers.link_messages import NOTHING_TO_GET, Delivery, Ranges
from node.delivery.deeds import Became, Deed, Named
from node.queue.operations import ANY_MESSAGES
from node.ranges.range_map import Span
from node.ranges.range_set import Range, RangeSet
from node.refusal import Refusal
from node.session.ports import NamedAnswer, QueueRef

PART_RANGES: Final = 512
"""The owner is asked for so many ranges of named messages at once."""


class NamedSettling:
    """One request of a client."""

    def __init__(
        self, links: Links, queue: QueueRef, named: Named, answer: NamedAnswer, *, cancels: bool
    ) -> None:
        """`cancels`: all nodes know that a client's word is a cancel."""
        self._links, self._queue, self._answer = links, queue, answer
        self._deed, self._filter, self._cancels = named.deed, named.filter, cancels
        self._left: list[Range] = [(0, ANY_MESSAGES)] if named.filter else named.ranges
        self._became = {one: RangeSet() for one in Became}

    def _ask(self, name: str, arguments: list[Any], answered: Any) -> None:
        # An owner of an earlier release answers that there is no such queue.
        link = self._links.to(self._queue.partition)
        self._links.request(link, name, [*NOTHING_TO_GET, self._queue.id, *arguments], answered)

    def _refused(self, value: Any) -> bool:
        refusal: Refusal | None = refusal_of(self._queue, value)
        if refusal is not None:
            self._answer({}, refusal)
        return refusal is not None

    def go_on(self) -> None:
        """Settle the next messages. A filter takes those that the queue has now."""
        part, self._left = self._left[:PART_RANGES], self._left[PART_RANGES:]
        if not part:
            self._answer({one: list(ranges.ranges()) for one, ranges in self._became.items() if ranges}, None)
        elif self._filter or self._deed is Deed.CANCEL:
            self._find(part)
        else:
            self._settle([(first, last, 0) for first, last in part])

    def _find(self, part: Ranges) -> None:
        """Have the owner find messages, and tell how often their deliveries have failed."""

        def found(value: Any, _: Delivery | None) -> None:
            if self._refused(value):
                return
            rows, behind, through = value
            spans = [(first, last, failures) for first, last, failures in rows]
            if behind:
                last = through if self._filter else ANY_MESSAGES
                self._left = [*_cut(part, behind, last), *self._left]
            if not self._filter:
                looked = RangeSet(_cut(part, 0, behind - 1 if behind else ANY_MESSAGES))
                missing = looked.without((first, last) for first, last, _ in spans)
                spans += [(first, last, 0) for first, last in missing.ranges()]
            self._settle(spans)

        self._ask("find_named", [self._filter, part], found)

    def _settle(self, spans: list[Span]) -> None:
        def settled(value: Any, _: Delivery | None) -> None:
            if self._refused(value):
                return
            for became, ranges in value:
                self._became[Became(became)].update((first, last) for first, last in ranges)
            self.go_on()

        if spans:
            self._ask("settle_named", [int(self._deed), spans, self._cancels], settled)
        else:
            self.go_on()


def _cut(ranges: Ranges, low: int, high: int) -> Ranges:
    """The ranges between two numbers, these included."""
    return [(max(first, low), min(last, high)) for first, last in ranges if first <= high and last >= low]
