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
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

from node.delivery.settlements import NO_TOKEN
from node.ranges.range_map import RangeMap, Span
from node.ranges.range_set import Range, RangeSet, count_of, merged

NO_DEADLINE: Final = 1 << 63
"""The deadline of a lease without one."""

STEP_RANGES: Final = 1024
"""About so many ranges lapse in one step."""

REPLACED_LOOKS: Final = 64
"""The looks are listed anew when there are more than twice the number of leases and so many."""


@dataclass(init=False, slots=True, eq=False)
class Lease:
    """One grant: its front end and consumer, its token, its deadline, and the granted messages. Some of these
    may have another deadline since, see `Leases.renew`. `left` counts the messages still under the lease.
    `Leases.lapse` looks at the lease at the time `look`: at the earliest deadline of its messages, or before.
    """

    front_end: int
    consumer: int
    token: int
    deadline: int
    ranges: list[Range]
    left: int
    look: int

    def __init__(self, front_end: int, consumer: int, token: int, deadline: int, ranges: list[Range]) -> None:
        self.front_end, self.consumer, self.token = front_end, consumer, token
        self.deadline, self.ranges = deadline, ranges
        self.left, self.look = count_of(ranges), NO_DEADLINE


TERM_SHIFT: Final = 32
"""The bits of a token below the term of the owner that made the token. So tokens ascend over all owners."""


class Leases:
    """The lease of each message.

    `lapsing` are the messages whose lease has lapsed, and that have not been settled or given back since.
    """

    __slots__ = ("_deadlines", "_leases", "_looks", "_looks_listed", "_renewed", "_tokens", "lapsing")

    def __init__(self) -> None:
        self._tokens = RangeMap()
        self._leases: dict[int, Lease] = {}
        # The deadline of each message for which that differs from its lease's.
        self._renewed = RangeMap()
        # By deadline, the leases to look at then. Those with another look since may still be listed.
        self._looks: dict[int, list[Lease]] = {}
        self._looks_listed = 0
        # A heap of the keys of `_looks`: leases that began at once have one deadline.
        self._deadlines: list[int] = []
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
            known.left += count_of(ranges)
            if known.deadline != deadline:
                self._postpone(ranges, known, deadline)
            return
        lease = self._leases[token] = Lease(front_end, consumer, token, deadline, list(ranges))
        self._await(deadline, lease)
        if self._looks_listed > 2 * len(self._leases) + REPLACED_LOOKS:
            self._list_anew()

    def _await(self, deadline: int, lease: Lease) -> None:
        """Have `lapse` look at a lease at its deadline, or at that of some of its messages."""
        if deadline >= lease.look:
            return
        lease.look = deadline
        self._list(lease)

    def _list_anew(self) -> None:
        """List the leases for their looks, without those that are listed and over."""
        self._looks.clear()
        self._deadlines.clear()
        self._looks_listed = 0
        for lease in self._leases.values():
            if lease.look < NO_DEADLINE:
                self._list(lease)

    def _list(self, lease: Lease) -> None:
        """List a lease for its look."""
        listed = self._looks.get(lease.look)
        if listed is None:
            listed = self._looks[lease.look] = []
            heappush(self._deadlines, lease.look)
        listed.append(lease)
        self._looks_listed += 1

    def _postpone(self, ranges: list[Range], lease: Lease, deadline: int) -> None:
        """Give messages under a lease another deadline than the lease has."""
        for first, last in ranges:
            self._renewed.set(first, last, deadline)
        self._await(deadline, lease)

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
            lease = self._leases[current]
            self._postpone(parts, lease, deadline)
            found.setdefault(lease.front_end, []).extend(parts)
        return [(front_end, merged(parts)) for front_end, parts in found.items()]

    def end(self, ranges: list[Range]) -> None:
        """End the leases of the messages, which are settled or given back."""
        for one in ranges:
            for first, last, token in self._tokens.spans(*one):
                lease = self._leases[token]
                lease.left -= last - first + 1
                if not lease.left:
                    lease.look = NO_DEADLINE
                    del self._leases[token]
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
            deadline = self._deadlines[0]
            listed = self._looks[deadline]
            while listed and listed[-1].look != deadline:
                listed.pop()
                self._looks_listed -= 1
            if listed:
                return deadline
            del self._looks[deadline]
            heappop(self._deadlines)
        return NO_DEADLINE

    def lapse(self, now: int) -> list[tuple[int, list[Range]]]:
        """End leases whose deadline has come, up to a bound for one step. Returns (front end, the messages
        still under its leases), once for each front end. Messages with a later deadline stay under their
        lease.
        """
        found: dict[int, list[Range]] = {}
        rest: list[tuple[int, list[Range]]] = []
        steps = 0
        while steps < STEP_RANGES and (deadline := self.wake) <= now:
            listed, at = self._looks[deadline], 0
            while at < len(listed) and steps < STEP_RANGES:
                lease = listed[at]
                at += 1
                if lease.look != deadline:
                    continue
                lease.look = NO_DEADLINE
                if self._is_over(lease, now):
                    steps += len(lease.ranges)
                    found.setdefault(lease.front_end, []).extend(lease.ranges)
                    del self._leases[lease.token]
                else:
                    part, looked_at = self._look(lease, now)
                    steps += looked_at
                    rest.append((lease.front_end, part))
            del listed[:at]
            self._looks_listed -= at
        return self._lapsed(found, rest)

    def _is_over(self, lease: Lease, now: int) -> bool:
        """Whether the whole lease is over: none of its messages has been settled, given back or renewed."""
        return not self._renewed and lease.deadline <= now and lease.left == count_of(lease.ranges)

    def _lapsed(
        self, whole: dict[int, list[Range]], rest: list[tuple[int, list[Range]]]
    ) -> list[tuple[int, list[Range]]]:
        """The messages of whole leases, which are over, and of parts of others have lapsed: (front end, its
        messages), once for each front end.
        """
        for front_end, due in whole.items():
            whole[front_end] = due = merged(due)
            for one in due:
                self._tokens.remove(*one)
        for front_end, due in rest:
            if due:
                self.end(due)
                whole[front_end] = merged([*whole.get(front_end, ()), *due])
        for due in whole.values():
            self.lapsing.update(due)
        return list(whole.items())

    def _look(self, lease: Lease, now: int) -> tuple[list[Range], int]:
        """The messages under the lease whose deadline has come, and the number of ranges looked at, one at
        least. Sets the time of the next look.
        """
        due, rest, later = list[Range](), list[Range](), NO_DEADLINE
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
        self._await(later, lease)
        return merged(due), looked_at
