"""Server-named exclusive queues, and the queues behind direct reply-to: on no disk, and not in the catalog.

Their names tell other nodes where they are (`cluster.catalog.definitions.LocalName`). The catalog only has
the bindings of server-named queues, because publishers on other nodes route by them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from cluster.catalog.definitions import FIRST_LOCAL_ID, LOCAL_QUEUE_PREFIX, REPLY_QUEUE_PREFIX, LocalName
from cluster.catalog.observer import Observer
from cluster.catalog.placement import RestartedError, check_type
from cluster.catalog.policies import ResourceKind
from cluster.catalog.redeclaration import refuse_reserved
from cluster.catalog.replica import CatalogClient
from node.queue.features.arguments import read_queue_arguments
from node.queue.settings import PLAIN, QueueSettings
from node.refusal import NotFoundError, locked
from node.routing.equivalence import check_property
from node.session.ports import QueueDeclaration, QueueRef

RANDOM_ID_BITS: Final = 62
"""Random bits of a queue's id: a client that knows one queue's name cannot guess another's."""


def _nothing() -> None:
    """The caller does not wait for the bindings' removal."""


@dataclass(slots=True)
class LocalQueue:
    """A queue in this node's memory that is not in the catalog. `holder` is the connection that it belongs
    to.
    """

    ref: QueueRef
    vhost: str
    holder: int
    auto_delete: bool
    arguments: dict[str, Any]
    bound: bool = False


class QueuesInMemory(Protocol):
    """The owner of the queues in this node's memory (`cluster.owner.partition.PartitionOwner`)."""

    def create_queue(self, queue: int, settings: QueueSettings) -> None: ...
    def configure(self, queue: int, settings: QueueSettings) -> None: ...
    def drop_queue(self, queue: int) -> None: ...


class LocalQueues(Observer):
    """The server-named exclusive queues of this node's connections, and those of direct reply-to.

    `settings` has their settings, and `names` their virtual hosts and names, by the queues' ids.
    """

    def __init__(
        self,
        front_end: int,
        catalog: CatalogClient,
        owners: Mapping[int, QueuesInMemory],
        random_bits: Callable[[int], int],
    ) -> None:
        """`owners` are those of this node, by partition."""
        self.front_end = front_end
        self.settings: dict[int, QueueSettings] = {}
        self.names: dict[int, tuple[str, str]] = {}
        self._catalog = catalog
        self._owners = owners
        self._random_bits = random_bits
        self._queues: dict[str, LocalQueue] = {}
        self._by_id: dict[int, LocalQueue] = {}
        self._replies: dict[int, LocalQueue] = {}
        self._by_holder: dict[int, dict[int, LocalQueue]] = {}

    def may_be_there(self, name: LocalName, vhost: str) -> bool:
        """Whether a queue of some node's memory has this name, as far as this node can tell.

        Clients can make up names: a name must not lead to a queue in another virtual host, or to a queue of
        another kind.
        """
        partition = self._catalog.state.partitions.get(name.partition)
        if partition is None or not name.front_end or partition.front_end != name.front_end:
            return False
        if name != LocalName.of(*name[:3], vhost) or name.queue < FIRST_LOCAL_ID:
            return False
        return name.front_end != self.front_end or name.queue in self.settings

    def declare(self, vhost: str, declaration: QueueDeclaration, holder: int) -> QueueRef:
        """Make a server-named exclusive queue of the connection `holder`.

        Raises PreconditionFailedError for arguments that make no sense, and at the virtual host's limit of
        queues; RestartedError while this node has no partition in memory.
        """
        read_queue_arguments(declaration.arguments, declaration.name, vhost)
        check_type(declaration)
        state = self._catalog.state
        if "max-queues" in state.access.vhost(vhost).limits:
            here = sum(queue.vhost == vhost for queue in self._queues.values())
            state.check_queue_limit(vhost, declaration.name, here)
        ref = self._create(vhost, LOCAL_QUEUE_PREFIX, declaration.arguments)
        queue = LocalQueue(ref, vhost, holder, declaration.auto_delete, declaration.arguments)
        self._queues[ref.name] = self._by_id[ref.id] = queue
        self._by_holder.setdefault(holder, {})[ref.id] = queue
        return ref

    def declare_reply(self, vhost: str, holder: int) -> QueueRef:
        """Make a queue for the replies to one channel; it is deleted with its consumer. Clients can use its
        name for publishing only. Raises RestartedError.
        """
        ref = self._create(vhost, REPLY_QUEUE_PREFIX, None)
        queue = self._replies[ref.id] = LocalQueue(ref, vhost, holder, True, {})
        self._by_holder.setdefault(holder, {})[ref.id] = queue
        return ref

    def _effective(self, vhost: str, name: str, arguments: dict[str, Any]) -> QueueSettings:
        policies = self._catalog.state.policies
        return policies.settings(vhost, ResourceKind.CLASSIC_QUEUE, name, arguments)

    def replaced(self) -> None:
        """The catalog was restored from a snapshot: its policies may have changed."""
        for vhost in self._catalog.state.vhosts:
            self.policies_changed(vhost)

    def policies_changed(self, vhost: str) -> None:
        """The policies of the virtual host changed: give the owner the settings of its queues."""
        for queue in self._queues.values():
            if queue.vhost == vhost:
                settings = self._effective(vhost, queue.ref.name, queue.arguments)
                self.settings[queue.ref.id] = settings
                self._owners[queue.ref.partition].configure(queue.ref.id, settings)

    def _create(self, vhost: str, prefix: str, arguments: dict[str, Any] | None) -> QueueRef:
        """Make a queue. With None for `arguments` it has no settings, not even those of policies."""
        partition = self._catalog.state.table.transient(self.front_end)
        if partition is None:
            raise RestartedError("this node is not part of the cluster yet")
        id = FIRST_LOCAL_ID | self._random_bits(RANDOM_ID_BITS)
        name = LocalName.of(self.front_end, partition.id, id, vhost).text(prefix)
        settings = PLAIN if arguments is None else self._effective(vhost, name, arguments)
        self.settings[id] = settings
        self.names[id] = (vhost, name)
        self._owners[partition.id].create_queue(id, settings)
        return QueueRef(name, partition.id, id, vhost)

    def redeclare(self, vhost: str, declaration: QueueDeclaration, holder: int) -> QueueRef:
        """A client declares a queue with the form of a server-given name again.

        Raises AccessRefusedError where there is no such queue, ResourceLockedError where the queue belongs to
        another connection, and PreconditionFailedError where the declarations differ.
        """
        queue = self._queues.get(declaration.name)
        if queue is None or queue.vhost != vhost:
            refuse_reserved(declaration.name)
        ref = self.find(vhost, declaration.name, holder)
        if not declaration.exclusive:
            raise locked(vhost, ref.name)
        check_property(str(ref), "auto_delete", declaration.auto_delete, self._by_id[ref.id].auto_delete)
        return ref

    def new_name(self) -> str:
        """A name for a server-named queue that is not exclusive, and so is in the catalog."""
        return f"amq.gen-{self._random_bits(96):x}"

    def find(self, vhost: str, name: str, holder: int) -> QueueRef:
        """The queue of a name. Raises NotFoundError, and ResourceLockedError for other connections."""
        queue = self._queues.get(name)
        if queue is None or queue.vhost != vhost:
            raise NotFoundError(f"no queue '{name}' in vhost '{vhost}'")
        if queue.holder != holder:
            raise locked(vhost, name)
        return queue.ref

    def named(self, name: str) -> LocalQueue | None:
        return self._queues.get(name)

    def by_id(self, id: int) -> LocalQueue | None:
        return self._by_id.get(id)

    def owns(self, queue: QueueRef) -> bool:
        return queue.id in self._by_id

    def bound(self, name: str) -> None:
        """The queue is bound: its deletion must remove its bindings from the catalog."""
        queue = self._queues.get(name)
        if queue is not None:
            queue.bound = True

    def delete(self, ref: QueueRef, done: Callable[[], None] = _nothing) -> None:
        """Delete a queue. Calls back when no client sees its bindings any more."""
        queue = self._by_id.pop(ref.id, None) or self._replies.pop(ref.id, None)
        if queue is None:
            done()
            return
        self._queues.pop(ref.name, None)
        of_holder = self._by_holder[queue.holder]
        del of_holder[ref.id]
        if not of_holder:
            del self._by_holder[queue.holder]
        del self.settings[ref.id], self.names[ref.id]
        self._owners[ref.partition].drop_queue(ref.id)
        if queue.bound:
            arguments = {"vhost": queue.vhost, "name": ref.name}
            # If the command is lost with this process, the next start of the node removes the bindings.
            self._catalog.submit("forget_local_queue", arguments, partial(_call, done))
        else:
            done()

    def release_holder(self, holder: int, released: Callable[[], None]) -> None:
        """A connection is closed: delete its queues. Calls back when no client sees their bindings."""
        gone = list(self._by_holder.get(holder, {}).values())
        left = len(gone) + 1

        def one_less() -> None:
            nonlocal left
            left -= 1
            if not left:
                released()

        for queue in gone:
            self.delete(queue.ref, one_less)
        one_less()

    def goes_unused(self, id: int) -> bool:
        """Whether this is an auto-delete queue of this node."""
        queue = self._by_id.get(id)
        return queue is not None and queue.auto_delete

    def delete_unused(self, id: int, done: Callable[[], None]) -> None:
        """Delete an auto-delete queue after its last consumer. Calls back as `delete` does."""
        self.delete(self._by_id[id].ref, done)

    def left(self, id: int) -> None:
        """The last consumer of a queue is gone. A queue of direct reply-to is deleted at once: only the
        client that asked takes the replies.
        """
        reply = self._replies.get(id)
        if reply is not None:
            self.delete(reply.ref)

    def unused(self, id: int, *, expired: bool) -> None:
        """A queue had no consumer for a while: delete it if it is auto-delete, or has expired (x-expires)."""
        queue = self._by_id.get(id)
        if queue is not None and (queue.auto_delete or expired):
            self.delete(queue.ref)


def _call(callback: Callable[[], None], value: object, refusal: object) -> None:
    callback()
