"""Leases of one queue that have a token each and may have a deadline, for queues that ask for either.

Where no feature asks, the ranges that each front end has are all that is known (`DeliveryState.leases`).
These leases stand beside the ranges: one entry for each grant, whatever the number of its messages.

A deadline is wall clock, in milliseconds, as alarms and the other times of a queue are. It is compared with
the clock of the owner that set it, and with no other; the log has none. A step of that clock makes a lease
lapse early or late, which costs a redelivery or time, and no message.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from node.ranges.numbers import count_of
from node.ranges.range_map import RangeMap
from node.ranges.range_set import Range, RangeSet

NO_DEADLINE: Final = 1 << 63
"""The deadline of a lease that has none."""

NO_TOKEN: Final = 0
"""The token of no lease."""

STEP_RANGES: Final = 1024
"""Ranges that lapse in one step, about."""

REPLACED_DEADLINES: Final = 64
"""Deadlines of leases that are over, of which so many may be kept, besides one for each lease."""


class Lease(NamedTuple):
    """One grant: its holder, its token, its deadline, and the messages that were granted."""

    front_end: int
    consumer: int
    token: int
    deadline: int
    ranges: list[Range]


class Leases:
    """Which lease each message is under. Tokens grow, and none is used again while the owner leads.

    `lapsing` are messages whose lease has lapsed, and that have neither been settled nor given back since.
    """

    __slots__ = ("_deadlines", "_leases", "_left", "_token", "_tokens", "lapsing")

    def __init__(self) -> None:
        self._tokens = RangeMap()
        self._leases: dict[int, Lease] = {}
        # How many messages are left of each lease.
        self._left: dict[int, int] = {}
        # (deadline, token); also of leases that are over.
        self._deadlines: list[tuple[int, int]] = []
        self._token = NO_TOKEN
        self.lapsing = RangeSet()

    def __len__(self) -> int:
        """How many leases there are."""
        return len(self._leases)

    def begin(self, front_end: int, consumer: int, ranges: list[Range], deadline: int) -> int:
        """The messages are leased from now on; returns the token. Former leases of them are over."""
        self.end(ranges)
        self._token += 1
        token = self._token
        self._leases[token] = Lease(front_end, consumer, token, deadline, ranges)
        self._left[token] = count_of(ranges)
        for first, last in ranges:
            self._tokens.set(first, last, token)
        if deadline < NO_DEADLINE:
            heappush(self._deadlines, (deadline, token))
            if len(self._deadlines) > 2 * len(self._leases) + REPLACED_DEADLINES:
                self._deadlines = [(one.deadline, one.token) for one in self._leases.values()]
                heapify(self._deadlines)
        return token

    def end(self, ranges: list[Range]) -> None:
        """The messages are settled, or given back: they are under no lease any more."""
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
        """The lease that the message is under."""
        return self._leases.get(self._tokens.get(number))

    def settleable(self, front_end: int, ranges: list[Range], token: int = NO_TOKEN) -> list[Range]:
        """Those of the messages that are under no lease but the front end's, and but the one with the token
        where the front end names it. Messages under no lease are among them: their lease was lost.
        """
        found: list[Range] = []
        for one in ranges:
            for first, last, current in self._tokens.cover(*one):
                if current == NO_TOKEN:
                    mine = True
                elif token == NO_TOKEN:
                    mine = self._leases[current].front_end == front_end
                else:
                    mine = current == token
                if not mine:
                    continue
                if found and found[-1][1] + 1 == first:
                    found[-1] = (found[-1][0], last)
                else:
                    found.append((first, last))
        return found

    @property
    def wake(self) -> int:
        """When `lapse` should be called; NO_DEADLINE where no lease has one."""
        while self._deadlines and self._deadlines[0][1] not in self._leases:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else NO_DEADLINE

    def lapse(self, now: int) -> list[tuple[int, list[Range]]]:
        """End leases whose deadline has come, up to a bound for one step: for each its front end, and the
        messages that were left.
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
