"""Since when the cluster runs: temporary exchanges last until it was down as a whole (0-9-1 §3.1.3).

Every node's replica has them on disk, as all of the catalog, where they are of no use. The catalog knows the
*witnesses*: incarnations of nodes that were there while another witness was. While one of them runs the
cluster does, and nodes that start become witnesses. When none does, its leader has a new uptime begin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cluster.broker.broker import Broker
    from cluster.catalog.definitions import NodeDefinition
    from cluster.catalog.virtual_host import VirtualHost

ABSENCE_S: Final = 1.0
"""How long a member may be out of reach before it is taken to be down."""


class Witnesses:
    """Part of the catalog's replicated state. Pure and deterministic."""

    def __init__(
        self, vhosts: Callable[[], Iterable[VirtualHost]], nodes: Callable[[], Iterable[NodeDefinition]]
    ) -> None:
        self.front_ends: set[int] = set()
        self._vhosts = vhosts
        self._nodes = nodes
        self.commands = {"continue_uptime": self._continue, "begin_uptime": self._begin}

    def node_started(self, front_end: int, previous: int) -> None:
        """Where nothing is temporary, there is nothing to find out."""
        self.front_ends.discard(previous)
        if not any(vhost.temporary() for vhost in self._vhosts()):
            self.front_ends.add(front_end)

    def newcomers(self) -> list[int]:
        """The newest incarnations of nodes that are no witnesses yet."""
        known = (node.front_end for node in self._nodes())
        return [front_end for front_end in known if front_end and front_end not in self.front_ends]

    def _continue(self, front_ends: list[int]) -> None:
        self.front_ends.update(self._current(front_ends))

    def _begin(self, front_ends: list[int]) -> None:
        """The cluster was down: what was to last until then is gone."""
        self.front_ends.clear()
        self.front_ends.update(self._current(front_ends))
        for vhost in self._vhosts():
            for name in vhost.temporary():
                vhost.delete_exchange(name)

    def _current(self, front_ends: list[int]) -> set[int]:
        return {node.front_end for node in self._nodes()}.intersection(front_ends)

    def to_plain(self) -> list[int]:
        return sorted(self.front_ends)

    def restore(self, plain: Iterable[int]) -> None:
        self.front_ends.clear()
        self.front_ends.update(plain)


class Uptime:
    """The work of the catalog's leader on nodes that start."""

    def __init__(self, broker: Broker) -> None:
        self.incarnations: dict[str, int] = {}
        """Which processes connected peers are; 0 for one that does not say."""
        self._broker = broker
        self._absent: dict[str, float] = {}
        self._asked = False

    def tick(self, now: float) -> None:
        """Have newcomers become witnesses."""
        broker = self._broker
        witnesses = broker.catalog.state.witnesses
        newcomers = witnesses.newcomers()
        if not newcomers:
            self._absent.clear()
        elif broker.catalog.leads and not self._asked:
            if any(front_end in witnesses.front_ends for front_end in self._running()):
                self._submit("continue_uptime", newcomers, now)
            elif self._all_told(now):
                self._submit("begin_uptime", newcomers, now)

    def _running(self) -> list[int]:
        return [self._broker.front_end, *self.incarnations.values()]

    def _all_told(self, now: float) -> bool:
        """Whether no member may still turn out to be a witness."""
        reached = {self._broker.node, *self.incarnations}
        members = self._broker.catalog.state.nodes.values()
        missing = [member.name for member in members if member.front_end and member.name not in reached]
        return all(now - self._absent.setdefault(member, now) >= ABSENCE_S for member in missing)

    def _submit(self, command: str, front_ends: list[int], now: float) -> None:
        self._asked = True
        self._broker.catalog.submit(command, {"front_ends": front_ends}, self._answered, now)

    def _answered(self, value: Any, refusal: Any) -> None:
        self._asked = False
