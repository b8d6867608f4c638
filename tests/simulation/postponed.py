"""Notes which queues have postponed a drop: an owner whose catalog is not fresh drops nothing over a limit,
because the limit may be one of a policy that is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

from tests.inside import state_of
from tests.simulation.node import SimulatedNode


class Postponed:
    """Looks at each owner after each turn of its node."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._latest: dict[str, float] = {}

    def check(self, node: SimulatedNode) -> None:
        """Note the queues whose owner on the node waits for a fresh catalog now."""
        for owner in node.broker.owners.values() if node.up else ():
            waiting = state_of(owner).stale
            if waiting:
                for (_, name), queue in node.broker.catalog.state.queues.items():
                    if queue.id in waiting:
                        self._latest[name] = self._clock()

    def since(self, queues: Iterable[str], began: float) -> bool:
        """Whether one of the queues has postponed a drop since then."""
        return any(self._latest.get(queue, -inf) >= began for queue in queues)
