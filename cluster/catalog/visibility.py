"""Makes a catalog change visible on every node before the client that made it is answered.

0-9-1 §4.4 and A16: what one client has seen declared, every client sees, on whichever node. A node
may use its own replica of the catalog while it holds a *catalog lease*: the catalog's leader
answered a ping of the node's less than `LEASE_S` ago. A change is visible once each node either has
applied it or has no lease any more. Both clocks only measure spans: the node counts its lease from
when it sent the ping, the leader from when it answered, so that the leader's view always ends later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

LEASE_S = 1.0
PING_INTERVAL_S = 0.25
DRIFT_S = 0.05
"""Clock rates may differ by this much over one lease."""


@dataclass(slots=True)
class Barrier:
    """A change at log index `index` whose proposer waits for every node to see it."""

    index: int
    done: Callable[[], None]


class LeaseGrantor:
    """The catalog leader's half: who holds a lease, and how far each node has applied.

    `visible` is the highest log index that some proposer may have been told of. A node without a
    lease may be behind it; it gets none before it has caught up.
    """

    def __init__(self, nodes: Iterable[str], visible: int, now: float) -> None:
        self._visible = visible
        # A former leader may have granted leases until this very moment.
        self._granted = dict.fromkeys(nodes, now)
        self._applied = dict.fromkeys(self._granted, 0)
        self._barriers: list[Barrier] = []

    def ping(self, node: str, applied: int, now: float) -> bool:
        """A node asks for a lease and says which log index its catalog has reached; whether it gets it."""
        self.applied(node, applied, now)
        granted = self._applied.get(node, 0) >= self._visible
        if granted:
            self._granted[node] = now
        return granted

    def applied(self, node: str, index: int, now: float) -> None:
        """A node's catalog has reached `index`."""
        if index > self._applied.get(node, 0):
            self._applied[node] = index
            self.tick(now)

    def barrier(self, index: int, done: Callable[[], None], now: float) -> None:
        """Call `done` once every node has applied `index` or lost its lease."""
        self._barriers.append(Barrier(index, done))
        self.tick(now)

    def tick(self, now: float) -> None:
        if not self._barriers:
            return
        lapsed = now - LEASE_S - DRIFT_S
        leased = [node for node, granted in self._granted.items() if granted > lapsed]
        reached = min((self._applied[node] for node in leased), default=None)
        ready, waiting = list[Barrier](), list[Barrier]()
        for one in self._barriers:
            (ready if reached is None or one.index <= reached else waiting).append(one)
        if ready:
            self._barriers = waiting
            self._visible = max(self._visible, *(one.index for one in ready))
            for one in ready:
                one.done()


class LeaseHolder:
    """A node's half: whether its replica of the catalog may be relied upon."""

    def __init__(self) -> None:
        self._sent = 0.0
        self._until = float("-inf")

    def ping_due(self, now: float) -> bool:
        return now >= self._sent + PING_INTERVAL_S

    def pinged(self, now: float) -> None:
        self._sent = now

    def granted(self, sent: float) -> None:
        """The leader answered the ping that was sent at `sent`."""
        self._until = max(self._until, sent + LEASE_S)

    def valid(self, now: float) -> bool:
        return now < self._until
