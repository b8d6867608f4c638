"""How long messages waited on this node for their confirm and for their first delivery."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from replication.journal import Durations


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
            self.confirms.add(self.clock() - since, messages)
