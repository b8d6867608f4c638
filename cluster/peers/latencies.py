"""How long messages waited on this node for their confirm and for their first delivery."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field

from replication.journal import BOUNDS_S, Durations


@dataclass(slots=True)
class Latencies:
    """Seconds by message, each added to once a batch. `clock` is monotonic, in seconds."""

    clock: Callable[[], float]
    confirms: Durations = field(default_factory=Durations)
    """From the first publish of an operation batch to the batch's commit, for what asked for a confirm."""
    deliveries: Durations = field(default_factory=Durations)
    """From a message's arrival at its owner to its first delivery."""

    def confirmed(self, messages: int, since: float) -> None:
        """So many messages, the first of which came at `since`, are committed; 0: none is to be confirmed."""
        if messages:
            seconds, confirms = self.clock() - since, self.confirms
            # `Durations.add`, without the call: this is on every message's way.
            confirms.counts[bisect_left(BOUNDS_S, seconds)] += messages
            confirms.total += seconds * messages
