"""The outages of nodes: how long each was out of reach, and so when others may take a running node
for lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cluster.broker.lost_nodes import FRONT_END_GRACE_S

TOLERATED_S = 0.9 * FRONT_END_GRACE_S
"""A shorter interruption excuses nothing. The rest is a tolerance for clocks and timers."""

CONNECTING_S = 0.05
"""The longest time in which nodes connect again."""


@dataclass(slots=True)
class Outage:
    """A node was frozen or cut off from another one."""

    node: str
    start: float
    frozen: bool
    end: float = float("inf")


class Outages:
    """All outages of one simulation."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._all: list[Outage] = []

    def begin(self, nodes: Iterable[str], *, frozen: bool = False) -> Callable[[], None]:
        """Begin an outage of the nodes, which lasts until the result is called."""
        begun = [Outage(node, self._clock(), frozen) for node in nodes]
        self._all += begun

        def end() -> None:
            for outage in begun:
                outage.end = self._clock()

        return end

    def during(self, node: str, since: float) -> bool:
        """Whether the node was out of reach for long, at some time since then or directly before.

        Outages that overlap, or leave no time to connect in between, count as one. A node that wakes up first
        handles messages that were sent to it before it was given up.
        """
        others = {outage.node for outage in self._all if outage.frozen} - {node}
        return any(self._seen_by(other, node, since) for other in (None, *sorted(others)))

    def _seen_by(self, other: str | None, node: str, since: float) -> bool:
        """As `during`, as another node sees it: while that one is frozen, it does not hear that the node is
        back. Its standing still alone is no outage of the node.
        """
        now = self._clock()
        start = end = float("-inf")
        own = False
        for outage in self._all:
            if outage.node != node and not (outage.frozen and outage.node == other):
                continue
            if outage.start > end + CONNECTING_S:
                start, own = outage.start, False
            own = own or outage.node == node
            end = max(end, min(outage.end, now))
            if own and end + CONNECTING_S >= since and end - start >= TOLERATED_S:
                return True
        return False
