"""Which other nodes this one's transport reaches, and which it reached until just now."""

from __future__ import annotations

from collections.abc import Iterable


class PeerStatus:
    """The connections of one node, as its transport tells of them. Times are in seconds of the node's clock.

    `connected` has the peers in the order in which they came. `down_since` has those that are missing and not
    given up yet. `incarnations` says which processes connected peers are; 0 for a peer that does not say.
    """

    def __init__(self, missing: Iterable[str], now: float) -> None:
        self.connected: dict[str, None] = {}
        self.down_since: dict[str, float] = dict.fromkeys(missing, now)
        self.incarnations: dict[str, int] = {}

    def up(self, peer: str) -> None:
        """There is a connection to the peer."""
        self.connected[peer] = None
        self.down_since.pop(peer, None)

    def down(self, peer: str, now: float) -> None:
        """The connection to the peer broke."""
        self.connected.pop(peer, None)
        self.incarnations.pop(peer, None)
        self.down_since.setdefault(peer, now)

    def alive(self, peer: str) -> bool:
        """Whether there is a connection to the peer, or was until just now."""
        return peer in self.connected or peer in self.down_since
