"""The connections of a node to the others, and those that broke lately."""

from __future__ import annotations

from collections.abc import Iterable


class PeerStatus:
    """The connections of one node, as its transport tells them. Times are in seconds of the node's clock.

    `connected` has the peers in the order in which they connected. `down_since` has the missing peers that
    are not given up yet. `incarnations` has the process ids that connected peers have told; 0 for a peer of
    an older release, which tells none.
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
        """Whether there is a connection to the peer, or one broke and the peer is not given up yet."""
        return peer in self.connected or peer in self.down_since
