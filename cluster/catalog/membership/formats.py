"""Which formats a node may write, so that every node that reads them understands them (docs/decisions/0020).

`cluster.config.formats.FORMAT_LEVEL` counts the releases in which something new came between nodes or into a
replicated log. A node says its number twice: to each peer, first thing on a connection, and to the catalog
with `start_node`. A release from before that says nothing, and has number 0.

- To one peer: `of(peer)` is the number that the node at the other end of this very connection has said. It
  gates a new kind of message between two nodes.
- Into a log, a snapshot or the catalog: `everywhere` is the least number of all members, also of those that
  are down. It gates a new command of the catalog, a new operation, a new field in an entry. It falls again
  when a node goes back to the last release: what is gated is decided anew each time something is written,
  and a node with a number reads all formats of lower numbers.
"""

from __future__ import annotations

from typing import Any

from cluster.catalog.replica import Catalog
from cluster.config.formats import MAJORITIES_IN_VOTES


class PeerFormats:
    """What the nodes read that this one is connected to. `own` is what this node lets others write."""

    def __init__(self, own: int) -> None:
        self.own = own
        self._peers: dict[str, int] = {}

    def of(self, peer: str) -> int:
        """The formats that may be sent to a peer; 0 before it has said something on this connection."""
        return min(self.own, self._peers.get(peer, 0))

    def of_last_release(self, peer: str) -> bool:
        """Whether a peer does not read what requests for votes tell in this release."""
        return self.of(peer) < MAJORITIES_IN_VOTES

    def heard(self, peer: str, formats: int) -> None:
        """A peer announced itself, with its number."""
        self._peers[peer] = formats

    def peer_down(self, peer: str) -> None:
        """The next connection may be to another release."""
        self._peers.pop(peer, None)


class Formats:
    """What all members of the cluster read, and that they know it of this node."""

    def __init__(self, node: str, front_end: int, peers: PeerFormats, catalog: Catalog) -> None:
        self._node = node
        self._front_end = front_end
        self._peers = peers
        self._catalog = catalog
        self._upgrades = 0
        self._asked = False

    @property
    def own(self) -> int:
        """What this node reads and lets others write."""
        return self._peers.own

    @property
    def everywhere(self) -> int:
        """What all members read, as far as this node's replica of the catalog knows."""
        return min(self._peers.own, self._catalog.state.members.formats_of_all)

    def tick(self, now: float) -> None:
        """Say this node's number again where a replica of the catalog may not have it.

        One of release 0 drops the numbers of all nodes from its snapshots. When its node has come up with a
        newer release, every node says its own again, which is behind the upgrade in the log.
        """
        members, node, own = self._catalog.state.members, self._node, self._peers.own
        known = members.nodes.get(node)
        if known is None or known.front_end != self._front_end:
            self._upgrades = members.upgrades
        elif not self._asked and (members.upgrades != self._upgrades or members.formats.get(node, 0) != own):
            self._asked, self._upgrades = True, members.upgrades
            arguments = {"name": node, "front_end": known.front_end, "formats": own}
            self._catalog.submit("start_node", arguments, self._answered, now)

    def _answered(self, _value: Any, _refusal: Any) -> None:
        self._asked = False
