"""Leases with a token and maybe a deadline, for queues with a feature that asks for them.

Every queue has the ranges that are leased to each front end (`DeliveryState.leases`). These leases come in
addition: one object for each grant, whatever the number of its messages.

A deadline is in milliseconds since the epoch, by the clock of the owner that set it. The log has no
deadlines, so no other clock is compared with them. A step of the clock makes a lease lapse early or late:
that costs a redelivery or time, and no message.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from node.delivery.settlements import NO_TOKEN
from node.ranges.range_map import RangeMap, Span
from node.ranges.range_set import Range, RangeSet, count_of

NO_DEADLINE: Final = 1 << 63
"""The deadline of a lease without one."""

STEP_RANGES: Final = 1024
"""About so many ranges lapse in one step."""

REPLACED_DEADLINES: Final = 64
"""The heap of deadlines is made anew when it exceeds twice the number of leases by so many."""


class Lease(NamedTuple):
    """One grant: its front end and consumer, its token, its deadline, and the granted messages."""

    front_end: int
    consumer: int
    token: int
    deadline: int
    ranges: list[Range]


TERM_SHIFT: Final = 32
"""The bits of a token below the term of the owner that made the token. So tokens ascend over all owners."""


class Leases:
    """The lease of each message.

    `lapsing` are the messages whose lease has lapsed, and that have not been settled or given back since.
    """

    __slots__ = ("_deadlines", "_leases", "_left", "_tokens", "lapsing")

    def __init__(self) -> None:
        self._tokens = RangeMap()
        self._leases: dict[int, Lease] = {}
        # The number of messages still under each lease.
        self._left: dict[int, int] = {}
        # A heap of (deadline, token); leases that have ended may still be in it.
        self._deadlines: list[tuple[int, int]] = []
        self.lapsing = RangeSet()

    def __len__(self) -> int:
        """The number of leases."""
        return len(self._leases)

    def begin(self, front_end: int, consumer: int, token: int, ranges: list[Range], deadline: int) -> None:
        """Lease the messages until `deadline`. Earlier leases of them end. Where a lease has the token
        already, the messages join that lease.
        """
        self.end(ranges)
        for first, last in ranges:
            self._tokens.set(first, last, token)
        known = self._leases.get(token)
        if known is not None:
            known.ranges.extend(ranges)
            self._left[token] += count_of(ranges)
            return
        self._leases[token] = Lease(front_end, consumer, token, deadline, list(ranges))
        self._left[token] = count_of(ranges)
        if deadline < NO_DEADLINE:
            heappush(self._deadlines, (deadline, token))
            if len(self._deadlines) > 2 * len(self._leases) + REPLACED_DEADLINES:
                self._deadlines = [(one.deadline, one.token) for one in self._leases.values()]
                heapify(self._deadlines)

    def end(self, ranges: list[Range]) -> None:
        """End the leases of the messages, which are settled or given back."""
        for one in ranges:
            for first, last, token in self._tokens.spans(*one):
                left = self._left[token] - (last - first + 1)
                if left:
                    self._left[token] = left
                else:
                    del self._left[token], self._leases[token]
            self._tokens.remove(*one)
        if self.lapsing:
            self.lapsing.remove_all(ranges)

    def of(self, number: int) -> Lease | None:
        """The lease of the message; None without one."""
        return self._leases.get(self._tokens.get(number))

    def settleable(self, front_end: int, ranges: list[Range], token: int = NO_TOKEN) -> list[Range]:
        """The messages that the front end may settle: those under a lease of the front end, or, with a
        `token`, under that lease; and those under no lease, because the front end may have lost its lease.
        """
        found: list[Range] = []
        for one in ranges:
            for first, last, current in self._tokens.cover(*one):
                if current == NO_TOKEN:
                    settles = True
                elif token == NO_TOKEN:
                    settles = self._leases[current].front_end == front_end
                else:
                    settles = current == token
                if not settles:
                    continue
                if found and found[-1][1] + 1 == first:
                    found[-1] = (found[-1][0], last)
                else:
                    found.append((first, last))
        return found

    def outranked(self, front_end: int, spans: Iterable[Span]) -> list[tuple[int, Range]]:
        """The messages that other front ends have under an older lease than the one in `spans`, which are
        (first, last, token) of the front end's leases. Returns (the other front end, messages).
        """
        found: list[tuple[int, Range]] = []
        for first, last, token in spans:
            for start, end, current in self._tokens.spans(first, last):
                holder = self._leases[current].front_end
                if current < token and holder != front_end:
                    found.append((holder, (start, end)))
        return found

    @property
    def wake(self) -> int:
        """The time at which `lapse` is to be called, in milliseconds since the epoch; NO_DEADLINE
        for never.
        """
        while self._deadlines and self._deadlines[0][1] not in self._leases:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else NO_DEADLINE

    def lapse(self, now: int) -> list[tuple[int, list[Range]]]:
        """End leases whose deadline has come, up to a bound for one step. Returns (front end, the messages
        still under the lease) for each.
        """
        found: list[tuple[int, list[Range]]] = []
        ranges = 0
        while ranges < STEP_RANGES and self.wake <= now:
            _, token = heappop(self._deadlines)
            lease = self._leases[token]
            left = [
                (first, last)
                for one in lease.ranges
                for first, last, current in self._tokens.spans(*one)
                if current == token
            ]
            self.end(left)
            self.lapsing.update(left)
            found.append((lease.front_end, left))
            ranges += len(left)
        return found
