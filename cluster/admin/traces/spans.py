"""The four spans of a batch of traced messages, children of their publisher's span."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from cluster.admin.traces.context import Counts
from cluster.peers.link_messages import Ranges

PUBLISH: Final = "publish"
"""On the publisher's node, from the arrival of a run to its commit, which its confirm waits for."""

REPLICATE: Final = "replicate"
"""On the owner, from the proposal of an entry to its commit."""

DELIVER: Final = "deliver"
"""On the consumer's node, from the arrival of deliveries until they are with the consumer's connection."""

SETTLE: Final = "settle"
"""On the consumer's node, from an acknowledgement to its commit."""

Attributes = Mapping[str, str | int]


class Spans(Protocol):
    """Takes finished spans."""

    def clock(self) -> int:
        """Nanoseconds since the epoch."""

    def records(self, trace: int) -> bool:
        """Whether spans of this trace are recorded."""

    def add(self, name: str, counts: Counts, since: int, attributes: Attributes) -> None:
        """A span for each trace of a batch, from `since` to now."""


@dataclass(frozen=True, slots=True)
class UntilCommit:
    """Waits for an operation batch, as an `Awaiting` does: its spans end with the commit."""

    spans: Spans
    name: str
    counts: Counts
    since: int
    attributes: Attributes

    def refused(self, offset: int, messages: Ranges) -> None:
        """Refused messages are committed as well: the publisher's batch is answered."""

    def given_up(self, offset: int) -> bool:
        # The spans end with the commit, however late it comes.
        return False

    def committed(self) -> None:
        self.spans.add(self.name, self.counts, self.since, self.attributes)
