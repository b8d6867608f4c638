"""Makes a catalog change visible on every node before the client that made it is answered.

0-9-1 §4.4 and A16: what one client has seen declared, every client sees, on whichever node. A node may use
its own replica of the catalog while it holds a *catalog lease*: a share of the lease that the catalog's
leader has, which ends no later than that one. A change is visible once each node either has applied it or
has no lease any more. docs/decisions/0015-leases.md has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from replication.raft import RaftConfig

PINGS_A_LEASE: Final = 4
"""How many times a node asks for another lease while one lasts."""

ASK_AGAIN_S: Final = 0.05
"""A node without a lease asks so often: it is refused if it lags behind, or its leader has no lease yet."""


@dataclass(slots=True)
class Barrier:
    """A change at log index `index` whose proposer waits for every node to see it."""

    index: int
    done: Callable[[], None]


class LeaseGrantor:
    """The knowledge of the catalog's leader `node` in its term: which nodes may hold a lease, and how far
    each has applied.

    `visible` is the highest log index that some proposer may have been told of. A node without a
    lease may be behind it; it gets none before it has caught up. Former leaders may have granted leases to
    `others` until `since`; each ends `lease_s` later.
    """

    def __init__(self, node: str, others: Iterable[str], visible: int, since: float, lease_s: float) -> None:
        self.visible = visible
        self._lease_s = lease_s
        self._granted = dict.fromkeys(others, since)
        self._applied = dict.fromkeys([node, *self._granted], 0)
        # The leader may have a lease at any time, and shows nothing that it has not applied itself.
        self._granted[node] = math.inf
        self._expelled: set[str] = set()
        self._barriers: list[Barrier] = []

    def ping(self, node: str, applied: int, now: float) -> bool:
        """A node asks for a lease and tells up to where its catalog has applied; whether it may have one."""
        # Not the highest that it ever told: a process that starts anew may be behind the one before.
        self._applied[node] = applied
        self.tick(now)
        if node in self._expelled or applied < self.visible:
            return False
        self._granted[node] = now
        return True

    def applied(self, node: str, index: int, now: float) -> None:
        """A node's catalog has reached `index`."""
        if index > self._applied.get(node, 0):
            self._applied[node] = index
            self.tick(now)

    def expel(self, node: str, now: float) -> bool:
        """Give the node no lease until it is admitted again; whether the last one that it had is over."""
        self._expelled.add(node)
        return self._granted.get(node, -math.inf) + self._lease_s <= now

    def admit(self, node: str) -> None:
        """The node does not leave after all."""
        self._expelled.discard(node)

    def barrier(self, index: int, done: Callable[[], None], now: float) -> None:
        """Call `done` once every node has applied `index` or lost its lease."""
        self._barriers.append(Barrier(index, done))
        self.tick(now)

    def tick(self, now: float) -> None:
        """Answer those who wait for nothing any more."""
        if not self._barriers:
            return
        leased = (node for node, granted in self._granted.items() if granted + self._lease_s > now)
        reached = min(self._applied[node] for node in leased)
        ready, waiting = list[Barrier](), list[Barrier]()
        for one in self._barriers:
            (ready if one.index <= reached else waiting).append(one)
        if ready:
            self._barriers = waiting
            self.visible = max(self.visible, *(one.index for one in ready))
            for one in ready:
                one.done()


class LeaseHolder:
    """A node's half: whether its replica of the catalog may be relied upon. Times are of its own clock."""

    def __init__(self, config: RaftConfig) -> None:
        self._held_s = config.held_s
        self._interval_s = config.held_s / PINGS_A_LEASE
        self._first = math.inf
        self._sent = -math.inf
        self._until = -math.inf

    def ping_due(self, now: float) -> bool:
        """Whether it is time to ask for another lease."""
        return now >= self._sent + (self._interval_s if self.valid(now) else ASK_AGAIN_S)

    def pinged(self, now: float) -> None:
        """A ping was sent."""
        self._first, self._sent = min(self._first, now), now

    def asked_at(self, time: float) -> bool:
        """Whether this process may have sent a ping then."""
        return self._first <= time <= self._sent

    def granted(self, since: float) -> None:
        """The leader grants a lease that counts from `since`."""
        self._until = max(self._until, since + self._held_s)

    def valid(self, now: float) -> bool:
        """Whether a lease holds."""
        return now < self._until


def counts_from(sent: float, age: float, drift: float) -> float:
    """From which moment, on the clock of a node that asked at `sent`, its share of a leader's lease counts.

    The leader's own lease counts from `age` seconds, on its clock, before it read the ping. On the slowest
    clock and the fastest one the result is no later than that.
    """
    return sent - age * (1.0 + drift) / (1.0 - drift)
