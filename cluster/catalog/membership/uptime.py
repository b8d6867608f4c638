"""Has nodes that start become witnesses of the cluster's uptime, or a new uptime begin.

The catalog's leader does that. See `cluster.catalog.witnesses`.
"""

from __future__ import annotations

from typing import Any, Final

from cluster.catalog.membership.peer_status import PeerStatus
from cluster.catalog.replica import Catalog

ABSENCE_S: Final = 1.0
"""How long a member must be out of reach before the leader takes it to be down."""


class Uptime:
    """The part of one node: it acts while the node leads the catalog."""

    def __init__(self, node: str, front_end: int, catalog: Catalog, peers: PeerStatus) -> None:
        self._node = node
        self._front_end = front_end
        self._catalog = catalog
        self._peers = peers
        self._absent: dict[str, float] = {}
        self._asked = False

    def tick(self, now: float) -> None:
        """Submit the newcomers as witnesses, or as those of a new uptime where no witness runs any more."""
        witnesses = self._catalog.state.witnesses
        newcomers = witnesses.newcomers()
        if not newcomers:
            self._absent.clear()
        elif self._catalog.leads and not self._asked:
            if any(front_end in witnesses.front_ends for front_end in self._running()):
                self._submit("continue_uptime", newcomers)
            elif self._all_told(now):
                self._submit("begin_uptime", newcomers)

    def _running(self) -> list[int]:
        return [self._front_end, *self._peers.incarnations.values()]

    def _all_told(self, now: float) -> bool:
        """Whether no member may still turn out to be a witness."""
        reached = {self._node, *self._peers.incarnations}
        members = self._catalog.state.nodes.values()
        missing = [member.name for member in members if member.front_end and member.name not in reached]
        return all(now - self._absent.setdefault(member, now) >= ABSENCE_S for member in missing)

    def _submit(self, command: str, front_ends: list[int]) -> None:
        self._asked = True
        self._catalog.submit(command, {"front_ends": front_ends}, self._answered)

    def _answered(self, value: Any, refusal: Any) -> None:
        self._asked = False
