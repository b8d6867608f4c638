"""Makes a catalog change visible on every node before the client that made it is answered.

0-9-1 §4.4 and A16: a declaration that one client has seen, every client sees on every node. A node may use
its own replica of the catalog while it holds a *catalog lease*, a share of the catalog leader's lease that
ends no later than the leader's. A change is visible once each node either has applied it or has no lease any
more. docs/decisions/0015-leases.md has the proof.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from replication.raft import RaftConfig

PINGS_A_LEASE: Final = 4
"""How many times a node asks for another lease while it holds one."""

ASK_AGAIN_S: Final = 0.05
"""How long a node without a lease waits before it asks again. The leader grants none to a node that lags
behind, or while it has no lease itself."""


@dataclass(slots=True)
class Barrier:
    """A change at log index `index`. The node that submitted the change waits until every node sees it."""

    index: int
    done: Callable[[], None]


class LeaseGrantor:
    """The leases that the catalog's leader `node` grants in its term, and how far each node has applied.

    `visible` is the highest log index whose change a client may have been told of. A node without a lease
    may be behind that index; the leader grants it no lease before it has caught up. Former leaders may have
    granted leases to `others` until `since`; each of these ends `lease_s` later.
    """

    def __init__(self, node: str, others: Iterable[str], visible: int, since: float, lease_s: float) -> None:
        self.visible = visible
        self._lease_s = lease_s
        self._granted = dict.fromkeys(others, since)
        self._applied = dict.fromkeys([node, *self._granted], 0)
        # The leader may have a lease at any time: nothing is visible that the leader has not applied.
        self._granted[node] = math.inf
        self._expelled: set[str] = set()
        self._barriers: list[Barrier] = []

    def ping(self, node: str, applied: int, now: float) -> bool:
        """A node asks for a lease, and tells its applied index. Returns whether the lease is granted."""
        # The latest index, not the highest: a process that starts anew may be behind the one before.
        self._applied[node] = applied
        self.tick(now)
        if node in self._expelled or applied < self.visible:
            return False
        self._granted[node] = now
        return True

    def applied(self, node: str, index: int, now: float) -> None:
        """A node's catalog has applied the log up to `index`."""
        if index > self._applied.get(node, 0):
            self._applied[node] = index
            self.tick(now)

    def expel(self, node: str, now: float) -> bool:
        """Grant the node no lease until `admit`. Returns whether its last lease is over."""
        self._expelled.add(node)
        return self._granted.get(node, -math.inf) + self._lease_s <= now

    def admit(self, node: str) -> None:
        """Let the node have leases again: it does not leave after all."""
        self._expelled.discard(node)

    def barrier(self, index: int, done: Callable[[], None], now: float) -> None:
        """Call `done` once every node has applied `index` or lost its lease."""
        self._barriers.append(Barrier(index, done))
        self.tick(now)

    def tick(self, now: float) -> None:
        """Call back those who wait for an index that every node sees by now."""
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
    """The lease of one node on its own replica of the catalog. Times are seconds of the node's own clock."""

    def __init__(self, config: RaftConfig) -> None:
        self._held_s = config.held_s
        self._interval_s = config.held_s / PINGS_A_LEASE
        self._first = math.inf
        self._sent = -math.inf
        self._until = -math.inf

    def ping_due(self, now: float) -> bool:
        """Whether to ask the leader for another lease now."""
        return now >= self._sent + (self._interval_s if self.valid(now) else ASK_AGAIN_S)

    def pinged(self, now: float) -> None:
        """This node has sent a ping."""
        self._first, self._sent = min(self._first, now), now

    def asked_at(self, time: float) -> bool:
        """Whether this process may have sent a ping at that time."""
        return self._first <= time <= self._sent

    def granted(self, since: float) -> None:
        """The leader grants a lease that counts from `since`."""
        self._until = max(self._until, since + self._held_s)

    def valid(self, now: float) -> bool:
        """Whether this node holds a lease."""
        return now < self._until


class AwaitedVisibility:
    """The callbacks of one node that wait until every node sees the log up to an index.

    One question to the leader is for everything that waits by then: it asks for the highest index. Indexes
    only grow, as `wait` is called with what the node has applied by then.
    """

    def __init__(self) -> None:
        self.visible = 0
        """Up to this log index every node that may have a lease has applied the log."""
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._asked: dict[int, int] = {}
        """The indexes of questions without an answer, by the questions' numbers."""
        self._asked_index = 0
        self._asked_at = -math.inf

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, index: int, done: Callable[[], None]) -> None:
        """Call `done` once every node sees the log up to `index`; at once if every node does."""
        if index <= self.visible:
            done()
        else:
            self._waiting.append((index, done))

    def unasked(self) -> bool:
        """Whether something waits for which the leader has not been asked."""
        return bool(self._waiting) and self._waiting[-1][0] > self._asked_index

    def unanswered(self, before: float) -> bool:
        """Whether something waits, and the leader was asked last `before` that time."""
        return bool(self._waiting) and self._asked_at <= before

    def asked(self, question: int, now: float) -> int:
        """The leader is asked now. Returns the index to ask for."""
        index = self._asked_index = self._asked[question] = self._waiting[-1][0]
        self._asked_at = now
        return index

    def answered(self, question: int) -> None:
        """The leader's answer: every node sees the index of the question."""
        index = self._asked.pop(question, 0)
        if index <= self.visible:
            return
        self.visible = index
        self._asked = {asked: other for asked, other in self._asked.items() if other > index}
        while self._waiting and self._waiting[0][0] <= self.visible:
            self._waiting.popleft()[1]()


def counts_from(sent: float, age: float, drift: float) -> float:
    """The time from which a node's share of the leader's lease counts, on the clock of the node.

    The node sent its ping at `sent`. The leader's own lease began `age` seconds, on the leader's clock,
    before the leader read the ping. Where clocks run wrong by at most the share `drift`, the result is no
    later than that beginning.
    """
    return sent - age * (1.0 + drift) / (1.0 - drift)
