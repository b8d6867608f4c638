"""Queues in the memory of a node that cannot be reached: transient ones, and exclusive ones.

Their messages are lost with the process. Their names become free again: a client that has gone to another
node declares its queues there. The catalog's leader removes the queues from the catalog when the node stays
away; until then declarations of such a name wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cluster.catalog.definitions import PartitionKind, QueueDefinition
from cluster.gateway.context import GatewayContext

FORGET_S: Final = 1.0
"""How long a node may be out of reach before the catalog's leader removes the queues in its memory, in
seconds. A node that comes back then cancels the consumers of these queues."""


class LostMemory:
    """See the module's docstring; `tick` it every few milliseconds."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._absent: dict[str, float] = {}
        self._forgotten: set[str] = set()
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []

    def holds(self, queue: QueueDefinition) -> bool:
        """Whether the queue was in the memory of a node that is out of reach."""
        partition = self._context.catalog.state.partitions[queue.partition]
        return partition.kind is PartitionKind.TRANSIENT and self._context.links.to(partition.id).unreachable

    def wait(self, queue: int, holder: int, callback: Callable[[], None]) -> None:
        """Call back, for this connection, when the queue is removed or its node is back."""
        self._waiting.append((queue, holder, callback))

    def release_holder(self, holder: int) -> None:
        """The connection is closed: forget its callbacks."""
        self._waiting = [waiting for waiting in self._waiting if waiting[1] != holder]

    def tick(self, now: float) -> None:
        """Have lost queues removed in time, and call back those who wait for that."""
        context = self._context
        for member in context.bootstrap.members:
            if member == context.config.node or member in context.peers.connected:
                self._absent.pop(member, None)
                self._forgotten.discard(member)
            elif now - self._absent.setdefault(member, now) >= FORGET_S and context.replica.leads:
                self._forget(member)
        if self._waiting:
            self._resume()

    def _forget(self, member: str) -> None:
        if member in self._forgotten:
            return
        self._forgotten.add(member)
        state = self._context.catalog.state
        lost = [
            queue.id
            for queue in state.queues.values()
            if state.partitions[queue.partition].kind is PartitionKind.TRANSIENT
            and state.partitions[queue.partition].replicas == (member,)
        ]
        if lost:
            # By their ids: the node may be back, with new queues, before the command is applied.
            self._context.catalog.submit("delete_queues", {"ids": lost}, _ignore)

    def _resume(self) -> None:
        queues = self._context.catalog.state.queues_by_id
        waiting, self._waiting = self._waiting, []
        for queue, holder, callback in waiting:
            if queue in queues and self.holds(queues[queue]):
                self._waiting.append((queue, holder, callback))
            else:
                callback()


def _ignore(value: object, refusal: object) -> None:
    """If the command is lost, the next start of the absent node removes the queues."""
