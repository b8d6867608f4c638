"""Which nodes were out of reach, and for how long: when others may take a living node for lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cluster.broker import FRONT_END_GRACE_S

TOLERATED_S = 0.9 * FRONT_END_GRACE_S
"""An interruption shorter than this is nobody's excuse; the rest allows for clocks and timers."""


@dataclass(slots=True)
class Outage:
    """A node was frozen or cut off from another one."""

    node: str
    start: float
    end: float = float("inf")


class Outages:
    """All of them, in one simulation."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._all: list[Outage] = []

    def begin(self, nodes: Iterable[str]) -> Callable[[], None]:
        """The nodes are out of reach until the result is called."""
        begun = [Outage(node, self._clock()) for node in nodes]
        self._all += begun

        def end() -> None:
            for outage in begun:
                outage.end = self._clock()

        return end

    def during(self, node: str, since: float) -> bool:
        """Whether the node was out of reach for long, at some time since then."""
        now = self._clock()
        return any(
            outage.node == node and outage.end >= since and min(outage.end, now) - outage.start >= TOLERATED_S
            for outage in self._all
        )
