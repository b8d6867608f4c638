"""The uptime of the cluster: temporary exchanges last until the cluster was down as a whole (0-9-1 §3.1.3).

Every node's replica has these exchanges on disk, as everything in the catalog, so a restart alone does not
remove them. The catalog knows the *witnesses*: incarnations of nodes that ran while another witness ran.
While a witness runs, the uptime goes on, and nodes that start become witnesses. When none runs, the catalog's
leader begins a new uptime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cluster.catalog.definitions import NodeDefinition
from cluster.catalog.virtual_host import VirtualHost


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
        """A node has a new process, which is a witness at once where no exchange is temporary."""
        self.front_ends.discard(previous)
        if not any(vhost.temporary() for vhost in self._vhosts()):
            self.front_ends.add(front_end)

    def newcomers(self) -> list[int]:
        """The newest incarnations of nodes, without those that are witnesses."""
        known = (node.front_end for node in self._nodes())
        return [front_end for front_end in known if front_end and front_end not in self.front_ends]

    def _continue(self, front_ends: list[int]) -> None:
        self.front_ends.update(self._current(front_ends))

    def _begin(self, front_ends: list[int]) -> None:
        """Begin a new uptime: the cluster was down, so delete the temporary exchanges."""
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
