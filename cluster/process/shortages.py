"""The nodes that are short of memory or disk (F6). Pure.

A message that is published on one node may be stored on any other, so all nodes hold publishers back while
any node is short. Nodes tell each other their shortages, at once when these change, and again every second,
as messages may be lost. A node that cannot be reached does not count as short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from cluster.peers.resource_messages import ResourceShortage
from cluster.system.resources import DISK, MEMORY
from replication.repair import Send

SHORTAGES_INTERVAL_S: Final = 1.0


class Shortages:
    """The resources that each node is short of; `changed(reason)` is called when `reason` changes."""

    def __init__(
        self,
        node: str,
        send: Send,
        reachable: Callable[[], Iterable[str]],
        changed: Callable[[str | None], None],
    ) -> None:
        self.by_node: dict[str, frozenset[str]] = {}
        self.reason: str | None = None
        """The reason why publishers are held back; None while they are not."""
        self._node = node
        self._send = send
        self._reachable = reachable
        self._changed = changed
        self._tell_at = 0.0

    @property
    def own(self) -> frozenset[str]:
        return self.by_node.get(self._node, frozenset())

    def plain(self) -> dict[str, list[str]]:
        """The resources that each node is short of."""
        return {node: sorted(resources) for node, resources in sorted(self.by_node.items())}

    def noticed(self, resources: frozenset[str], now: float) -> None:
        """Take the resources of which this node is short now. Call it every second or more often."""
        reachable = set(self._reachable())
        for peer in self.by_node.keys() - reachable - {self._node}:
            self._note(peer, frozenset())
        if resources != self.own or now >= self._tell_at:
            self._tell_at = now + SHORTAGES_INTERVAL_S
            self._note(self._node, resources)
            for peer in sorted(reachable):
                self._send(peer, ResourceShortage(resources).encode())

    def receive(self, peer: str, parts: Sequence[bytes], _now: float) -> None:
        """Take the resources that another node is short of. Raises MessageError."""
        self._note(peer, ResourceShortage.decode(parts).resources)

    def _note(self, node: str, resources: frozenset[str]) -> None:
        self.by_node[node] = resources
        if not resources:
            del self.by_node[node]
        short = frozenset().union(*self.by_node.values())
        reason = f"low on {' & '.join(one for one in (MEMORY, DISK) if one in short)}" if short else None
        if reason != self.reason:
            self.reason = reason
            self._changed(reason)
