"""The contacts between nodes, as the nodes tell each other. Pure.

Every node tells the others how long ago it heard each of them. Two nodes are *in contact* while both hear
each other. A node that this one has lost, but another node has contact with, is not dead: only the connection
to this node is broken.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

CONTACTS_INTERVAL_S: Final = 0.25
SILENT_S: Final = 1.5
"""Contact is lost after so long: several messages may be late, and an event loop busy in between."""

STEADY_S: Final = 0.5
"""For how long another node must have better contacts before it counts as better."""

NEVER_HEARD: Final = -math.inf


class Contacts:
    """The contacts that one node knows. All times are seconds of its own monotonic clock."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._heard: dict[str, dict[str, float]] = {node: {}}
        self._better_since: dict[str, float] = {}

    def told(self, peer: str, ages: Mapping[str, float], now: float) -> None:
        """A peer tells how many seconds ago it heard each other node."""
        self._heard[self._node][peer] = now
        self._heard[peer] = {node: now - age for node, age in ages.items()}

    def ages(self, now: float) -> dict[str, float]:
        """How many seconds ago this node heard each peer: the content of the message to the others."""
        return {peer: now - heard for peer, heard in self._heard[self._node].items()}

    def advantage(self, other: str, nodes: Iterable[str], now: float) -> int:
        """How many more of `nodes` the node `other` reaches than this node does.

        A node that both of them lost at the same time does not count. 0 if `other` itself is not in contact
        with this node.
        """
        if self._contact(self._node, other, now) <= now - SILENT_S:
            return 0
        difference = 0
        for node in set(nodes) - {self._node, other}:
            here, there = self._contact(self._node, node, now), self._contact(other, node, now)
            if max(here, there) > now - SILENT_S and abs(there - here) > SILENT_S:
                difference += 1 if there > here else -1
        return difference

    def better(self, nodes: Iterable[str], now: float) -> list[str]:
        """The nodes that have reached more of `nodes` than this node for `STEADY_S`, the best first.

        Call it often: an advantage counts from the first call that sees it.
        """
        nodes = tuple(nodes)
        advantages = {node: self.advantage(node, nodes, now) for node in nodes if node != self._node}
        ahead = [node for node in sorted(advantages) if advantages[node] > 0]
        self._better_since = {node: self._better_since.get(node, now) for node in ahead}
        steadily = [node for node in ahead if self._better_since[node] <= now - STEADY_S]
        return sorted(steadily, key=lambda node: -advantages[node])

    def _contact(self, one: str, other: str, now: float) -> float:
        """When both nodes last heard each other, as far as this node knows."""
        there = self._heard.get(one, {}).get(other, NEVER_HEARD)
        # A node that this one does not hear, or that has told nothing yet, has unknown contacts.
        told = one == self._node or self._heard[self._node].get(other, NEVER_HEARD) > now - SILENT_S
        back = self._heard.get(other, {}).get(one) if told else None
        return there if back is None else min(there, back)
