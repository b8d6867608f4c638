"""Queues in the memory of a node that cannot be reached: transient ones, and exclusive ones.

What they held is lost with the process. Their names must not be: a client that has gone to another
node declares its queues there again. The catalog's leader has them removed when the node stays away;
until then declarations of such a name wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cluster.catalog.definitions import PartitionKind, QueueDefinition
from cluster.catalog.membership.bootstrap import Bootstrap
from cluster.catalog.membership.peer_status import PeerStatus
from cluster.catalog.replica import Catalog
from cluster.gateway.link import PartitionLink

FORGET_S: Final = 1.0
"""How long a node may be out of reach before what was in its memory is given up. One that comes back
tells the consumers of these queues that they are cancelled."""


class LostMemory:
    """What this node does about the queues in others' memory."""

    def __init__(
        self,
        node: str,
        catalog: Catalog,
        bootstrap: Bootstrap,
        peers: PeerStatus,
        link: Callable[[int], PartitionLink],
    ) -> None:
        """`link` gives this front end's link to a partition."""
        self._node = node
        self._catalog = catalog
        self._bootstrap = bootstrap
        self._peers = peers
        self._link = link
        self._absent: dict[str, float] = {}
        self._forgotten: set[str] = set()
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []

    def holds(self, queue: QueueDefinition) -> bool:
        """Whether the queue was in the memory of a node that is out of reach."""
        partition = self._catalog.state.partitions[queue.partition]
        return partition.kind is PartitionKind.TRANSIENT and self._link(partition.id).unreachable

    def wait(self, queue: int, holder: int, callback: Callable[[], None]) -> None:
        """Call back, for this connection, when the queue is removed or its node is there again."""
        self._waiting.append((queue, holder, callback))

    def release_holder(self, holder: int) -> None:
        """The connection is closed: it waits for nothing."""
        self._waiting = [waiting for waiting in self._waiting if waiting[1] != holder]

    def tick(self, now: float) -> None:
        """Have lost queues removed in time, and let those go on who wait for it."""
        for member in self._bootstrap.members:
            if member == self._node or member in self._peers.connected:
                self._absent.pop(member, None)
                self._forgotten.discard(member)
            elif now - self._absent.setdefault(member, now) >= FORGET_S and self._catalog.leads:
                self._forget(member, now)
        if self._waiting:
            self._resume()

    def _forget(self, member: str, now: float) -> None:
        if member in self._forgotten:
            return
        self._forgotten.add(member)
        state = self._catalog.state
        lost = [
            queue.id
            for queue in state.queues.values()
            if state.partitions[queue.partition].kind is PartitionKind.TRANSIENT
            and state.partitions[queue.partition].replicas == (member,)
        ]
        if lost:
            # By their numbers: the node may be back, with new queues, before this is carried out.
            self._catalog.submit("delete_queues", {"ids": lost}, _ignore, now)

    def _resume(self) -> None:
        queues = self._catalog.state.queues_by_id
        waiting, self._waiting = self._waiting, []
        for queue, holder, callback in waiting:
            if queue in queues and self.holds(queues[queue]):
                self._waiting.append((queue, holder, callback))
            else:
                callback()


def _ignore(value: object, refusal: object) -> None:
    """The start of the node removes what a lost command did not."""
