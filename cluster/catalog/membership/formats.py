"""Which formats a node may write, so that every node that reads them understands them (docs/decisions/0020).

`FORMATS` counts the releases in which something new came between nodes or into a replicated log. A node says
its number twice: to each peer, first thing on a connection, and to the catalog with `start_node`. A release
from before that says nothing, and has number 0.

- To one peer: `of(peer)` is the number that the node at the other end of this very connection has said. It
  gates a new kind of message between two nodes.
- Into a log, a snapshot or the catalog: `everywhere` is the least number of all members, also of those that
  are down. It gates a new command of the catalog, a new operation, a new field in an entry. It falls again
  when a node goes back to the last release: what is gated is decided anew each time something is written,
  and a node with a number reads all formats of lower numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cluster.broker.broker import Broker

FORMATS: Final = 1
"""What this release reads. 1: nodes say which formats they read, seal queues, and tell in requests for votes
whether every majority has the candidate."""

SEALED_QUEUES: Final = 1
"""From here on the log of a partition may seal a queue that is to be deleted if it is empty, or unused."""

MAJORITIES_IN_VOTES: Final = 1
"""From here on a node reads requests for votes that tell whether every majority has the candidate."""


class Formats:
    """The formats that the other nodes read."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.own = broker.config.formats
        self._peers: dict[str, int] = {}
        self._upgrades = 0
        self._asked = False
        broker.host.of_last_release = lambda peer: self.of(peer) < MAJORITIES_IN_VOTES

    def of(self, peer: str) -> int:
        """What may be sent to a peer; 0 before it has said something on this connection."""
        return min(self.own, self._peers.get(peer, 0))

    @property
    def everywhere(self) -> int:
        """What all members read, as far as this node's replica of the catalog knows."""
        return min(self.own, self._broker.catalog.state.members.formats_of_all)

    def heard(self, peer: str, formats: int) -> None:
        """A peer announced itself, with its number."""
        self._peers[peer] = formats

    def peer_down(self, peer: str) -> None:
        """The next connection may be to another release."""
        self._peers.pop(peer, None)

    def tick(self, now: float) -> None:
        """Say this node's number again where a replica of the catalog may not have it.

        One of release 0 drops the numbers of all nodes from its snapshots. When its node has come up with a
        newer release, every node says its own again, which is behind the upgrade in the log.
        """
        members, node = self._broker.catalog.state.members, self._broker.node
        known = members.nodes.get(node)
        if known is None or known.front_end != self._broker.front_end:
            self._upgrades = members.upgrades
        elif not self._asked and (
            members.upgrades != self._upgrades or members.formats.get(node, 0) != self.own
        ):
            self._asked, self._upgrades = True, members.upgrades
            arguments = {"name": node, "front_end": known.front_end, "formats": self.own}
            self._broker.catalog.submit("start_node", arguments, self._answered, now)

    def _answered(self, _value: Any, _refusal: Any) -> None:
        self._asked = False
