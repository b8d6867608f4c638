"""The node as its links to partitions see it."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.peers.held_leases import TELLS_NOTHING, TellsLeases
from cluster.peers.latencies import Latencies


@dataclass(frozen=True, slots=True)
class LinkContext:
    """The name of the node, the number of its front end, and where its links count latencies."""

    node: str
    front_end: int
    latencies: Latencies
    tells: TellsLeases = TELLS_NOTHING
