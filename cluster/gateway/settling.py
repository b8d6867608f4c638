"""Settles messages that a client names by bookmark or by filter, with the owner of their queue.

The owner is asked for bounded parts, one after the other. A part may be asked again, of another owner: it is
acknowledged, cancelled or expired once (`cluster.owner.settling`), moved or copied once
(`cluster.gateway.moving`), and brought back once (`cluster.gateway.undoing`).
"""

from __future__ import annotations

from typing import Any, Final

from cluster.gateway.link import Links
from cluster.gateway.moving import Moving
from cluster.gateway.refusals import refusal_of
from cluster.gateway.undoing import Undoing
from cluster.peers.link_messages import NOTHING_TO_GET, Delivery, Ranges
from node.delivery.deeds import NO_LIMIT, Became, Deed, Named
from node.queue.operations import ANY_MESSAGES
from node.ranges.range_map import Span
from node.ranges.range_set import RangeSet
from node.refusal import Refusal
from node.session.ports import NamedAnswer, QueueRef

PART_RANGES: Final = 512
"""The owner is asked for so many ranges of named messages at once."""

ROUNDS: Final = 64
"""A request with a limit ends after so many questions, however few messages it has found by then."""


class NamedSettling:
    """One request of a client."""

    def __init__(
        self,
        links: Links,
        queue: QueueRef,
        named: Named,
        answer: NamedAnswer,
        *,
        cancels: bool,
        moving: Moving | Undoing | None,
    ) -> None:
        """`cancels`: all nodes know that a client's word is a cancel. `moving` carries out moves, copies and
        replays, and brings messages back.
        """
        self._links, self._queue, self._answer = links, queue, answer
        self._named, self._cancels, self._moving = named, cancels, moving
        self._left, self._limit = named.ranges, named.limit
        self._rounds = ROUNDS
        self._finds = bool(named.filter) or named.deed not in (Deed.ACKNOWLEDGE, Deed.EXPIRE) or named.tries
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
        self._rounds -= 1
        if part and (self._limit <= 0 or (not self._rounds and self._named.limit < NO_LIMIT)):
            self._became[Became.LEFT].update([*part, *self._left])
            part = []
        if not part:
            self._answer({one: list(ranges.ranges()) for one, ranges in self._became.items() if ranges}, None)
        elif self._finds:
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
            if not self._named.searches:
                looked = RangeSet(_cut(part, 0, behind - 1 if behind else ANY_MESSAGES))
                missing = looked.without((first, last) for first, last, _ in spans)
                self._missing(list(missing.ranges()), spans, through)
            if undoes:
                spans = self._outcomes(spans)
            some, rest = self._within_limit(spans)
            if next := rest or behind:
                last = through if self._named.searches else ANY_MESSAGES
                self._left = [*_cut(part, next, last), *self._left]
            self._settle(some)

        undoes = self._named.deed is Deed.UNDO
        self._ask("find_undone" if undoes else "find_named", [self._named.filter, part], found)

    def _outcomes(self, spans: list[Span]) -> list[Span]:
        """The messages that can be brought back, among those whose outcomes the owner has told. Of the
        others, the client is told about those that it has named.
        """
        for first, last, became in () if self._named.searches else spans:
            if became != Became.SETTLED:
                self._became[Became(became)].add(first, last)
        return [span for span in spans if span[2] == Became.SETTLED]

    def _missing(self, missing: Ranges, spans: list[Span], through: int) -> None:
        """Messages that the queue does not have: the owner tells a cancel of them from one that was done. A
        client may not know whether the queue has a message that the filter does not take.
        """
        if self._named.filter:
            self._became[Became.NOT_FOUND].update(missing)
        elif self._named.deed is Deed.CANCEL and not self._named.tries:
            spans += [(first, last, 0) for first, last in missing]
        else:
            self._became[Became.GONE].update(_cut(missing, 0, through))
            self._became[Became.NOT_FOUND].update(_cut(missing, through + 1, ANY_MESSAGES))

    def _within_limit(self, spans: list[Span]) -> tuple[list[Span], int]:
        """The first spans that the limit leaves room for, and the first message of the others, 0 for none."""
        kept = list[Span]()
        for first, last, failures in sorted(spans):
            if self._limit <= 0:
                return kept, first
            end = min(last, first + self._limit - 1)
            self._limit -= end - first + 1
            kept.append((first, end, failures))
            if end < last:
                return kept, end + 1
        return kept, 0

    def _settle(self, spans: list[Span]) -> None:
        def settled(value: Any, _: Delivery | None = None) -> None:
            if self._refused(value):
                return
            for became, ranges in value:
                self._became[Became(became)].update((first, last) for first, last in ranges)
            if self._became[Became.LEFT]:
                self._limit = 0
            self.go_on()

        named = [(first, last) for first, last, _ in spans]
        if not spans:
            self.go_on()
        elif self._named.tries:
            settled([[int(Became.SETTLED), named]])
        elif self._moving is not None:
            self._moving.carry_out(named, settled)
        else:
            self._ask("settle_named", [int(self._named.deed), spans, self._cancels], settled)


def _cut(ranges: Ranges, low: int, high: int) -> Ranges:
    """The ranges between two numbers, these included."""
    return [(max(first, low), min(last, high)) for first, last in ranges if first <= high and last >= low]
