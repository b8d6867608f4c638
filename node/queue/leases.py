"""Leases with a token and maybe a deadline, for queues with a feature that asks for them.

Every queue has the ranges that are leased to each front end (`DeliveryState.leases`). These leases come in
addition: one object for each grant, whatever the number of its messages.

A deadline is in milliseconds since the epoch, by the clock of the owner that set it. The log has no
deadlines. A front end knows those of its consumers' messages, and tells them to a new owner, which compares
them with its own clock. A step of a clock, or clocks that differ, make a lease lapse early or late: that
costs a redelivery or time, and no message.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from node.delivery.settlements import NO_TOKEN
from node.ranges.range_map import RangeMap, Span
from node.ranges.range_set import Range, RangeSet, count_of, merged

NO_DEADLINE: Final = 1 << 63
"""The deadline of a lease without one."""

STEP_RANGES: Final = 1024
"""About so many ranges lapse in one step."""

REPLACED_DEADLINES: Final = 64
"""The heap of deadlines is made anew when it exceeds twice the number of leases by so many."""


class Lease(NamedTuple):
    """One grant: its front end and consumer, its token, its deadline, and the granted messages. Some of these
    may have another deadline since, see `Leases.renew`.
    """

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

    __slots__ = ("_deadlines", "_leases", "_left", "_looks", "_renewed", "_tokens", "lapsing")

    def __init__(self) -> None:
        self._tokens = RangeMap()
        self._leases: dict[int, Lease] = {}
        # The number of messages still under each lease.
        self._left: dict[int, int] = {}
        # The deadline of each message for which that differs from its lease's.
        self._renewed = RangeMap()
        # By token, when `lapse` looks at the lease next: at the earliest deadline of its messages, or before.
        self._looks: dict[int, int] = {}
        # A heap of (deadline, token) with all looks; looks that are not due any more may still be in it.
        self._deadlines: list[tuple[int, int]] = []
        self.lapsing = RangeSet()

    def __len__(self) -> int:
        """The number of leases."""
        return len(self._leases)

    def begin(self, front_end: int, consumer: int, token: int, ranges: list[Range], deadline: int) -> None:
        """Lease the messages until `deadline`. Earlier leases of them end. Where a lease has the token
        already, the messages join that lease, with a deadline of their own.
        """
        self.end(ranges)
        for first, last in ranges:
            self._tokens.set(first, last, token)
        known = self._leases.get(token)
        if known is not None:
            known.ranges.extend(ranges)
            self._left[token] += count_of(ranges)
            if known.deadline != deadline:
                self._postpone(ranges, token, deadline)
            return
        self._leases[token] = Lease(front_end, consumer, token, deadline, list(ranges))
        self._left[token] = count_of(ranges)
        self._await(deadline, token)

    def _await(self, deadline: int, token: int) -> None:
        """Have `lapse` look at a lease at its deadline, or at that of some of its messages."""
        if deadline >= self._looks.get(token, NO_DEADLINE):
            return
        self._looks[token] = deadline
        heappush(self._deadlines, (deadline, token))
        if len(self._deadlines) > 2 * len(self._looks) + REPLACED_DEADLINES:
            self._deadlines = [(look, of) for of, look in self._looks.items()]
            heapify(self._deadlines)

    def _postpone(self, ranges: list[Range], token: int, deadline: int) -> None:
        """Give messages under a lease another deadline than the lease has."""
        for first, last in ranges:
            self._renewed.set(first, last, deadline)
        self._await(deadline, token)

    def renew(
        self, ranges: list[Range], deadline: int, token: int = NO_TOKEN
    ) -> list[tuple[int, list[Range]]]:
        """Give the messages a later deadline, as far as they are under a lease that ends earlier; with a
        `token`, as far as they are under that lease. Returns (front end, its messages with the deadline).
        """
        renewed: dict[int, list[Range]] = {}
        for one in ranges:
            for first, last, current in self._tokens.spans(*one):
                if token not in (NO_TOKEN, current):
                    continue
                for start, end, former in self._renewed.cover(first, last, self._leases[current].deadline):
                    if former < deadline:
                        renewed.setdefault(current, []).append((start, end))
        found: dict[int, list[Range]] = {}
        for current, parts in renewed.items():
            self._postpone(parts, current, deadline)
            found.setdefault(self._leases[current].front_end, []).extend(parts)
        return [(front_end, merged(parts)) for front_end, parts in found.items()]

    def end(self, ranges: list[Range]) -> None:
        """End the leases of the messages, which are settled or given back."""
        for one in ranges:
            for first, last, token in self._tokens.spans(*one):
                left = self._left[token] - (last - first + 1)
                if left:
                    self._left[token] = left
                else:
                    del self._left[token], self._leases[token]
                    self._looks.pop(token, None)
            self._tokens.remove(*one)
            if self._renewed:
                self._renewed.remove(*one)
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
        while self._deadlines:
            look, token = self._deadlines[0]
            if self._looks.get(token) == look:
                return look
            heappop(self._deadlines)
        return NO_DEADLINE

    def lapse(self, now: int) -> list[tuple[int, list[Range]]]:
        """End leases whose deadline has come, up to a bound for one step. Returns (front end, the messages
        still under its leases), once for each front end. Messages with a later deadline stay under their
        lease.
        """
        found: dict[int, list[Range]] = {}
        steps = 0
        while steps < STEP_RANGES and self.wake <= now:
            _, token = heappop(self._deadlines)
            del self._looks[token]
            lease = self._leases[token]
            due, looked_at = self._look(lease, now)
            steps += looked_at
            if due:
                found.setdefault(lease.front_end, []).extend(due)
        lapsed = [(front_end, merged(due)) for front_end, due in found.items()]
        for _, due in lapsed:
            self.end(due)
            self.lapsing.update(due)
        return lapsed

    def _look(self, lease: Lease, now: int) -> tuple[list[Range], int]:
        """The messages under the lease whose deadline has come, and the number of ranges looked at, one at
        least. Sets the time of the next look.
        """
        whole = not self._renewed and self._left[lease.token] == count_of(lease.ranges)
        if whole and lease.deadline <= now:
            # None of them has been settled, given back or renewed.
            due = merged(lease.ranges)
            lease.ranges.clear()
            return due, len(due)
        due, rest, later = [], list[Range](), NO_DEADLINE
        for low, high, current in [span for one in lease.ranges for span in self._tokens.spans(*one)]:
            for first, last, deadline in self._renewed.cover(low, high, lease.deadline):
                if current != lease.token:
                    continue
                if deadline <= now:
                    due.append((first, last))
                else:
                    rest.append((first, last))
                    later = min(later, deadline)
        looked_at = max(1, len(due) + len(rest))
        lease.ranges[:] = merged(rest)
        self._await(later, lease.token)
        return merged(due), looked_at
