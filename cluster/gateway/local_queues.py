"""Server-named exclusive queues, and those behind direct reply-to: on no disk and in no catalog.

Their names tell other nodes where they are (`cluster.catalog.definitions.LocalName`). Only a binding to a
server-named queue is in the catalog, because publishers on other nodes route by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from cluster.catalog.definitions import FIRST_LOCAL_ID, LOCAL_QUEUE_PREFIX, REPLY_QUEUE_PREFIX, LocalName
from cluster.catalog.observer import Observer
from cluster.catalog.placement import RestartedError
from cluster.catalog.policies import ResourceKind
from cluster.catalog.redeclaration import locked, refuse_reserved
from cluster.catalog.replica import CatalogClient
from node.queue.features.arguments import read_queue_arguments
from node.queue.settings import PLAIN, QueueSettings
from node.refusal import NotFoundError
from node.routing.equivalence import check_property
from node.session.ports import QueueDeclaration, QueueRef

RANDOM_ID_BITS: Final = 62
"""Of a queue's id: whoever knows the name of one queue knows nothing of another's."""


def _nothing() -> None:
    """Nobody waits for that."""


@dataclass(slots=True)
class LocalQueue:
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

    `settings` says what each of them asks for, and `names` its virtual host and name, by the queue's number.
    """

    def __init__(
        self, front_end: int, catalog: CatalogClient, owners: Mapping[int, QueuesInMemory],
        random_bits: Callable[[int], int],
    ) -> None:  # fmt: skip
        """`owners`: by partition, those of this node."""
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
        """Whether a queue that is in no catalog has this name, as far as this node can tell.

        A name is what clients make up: it must not lead to what has another, or is in another virtual host.
        """
        partition = self._catalog.state.partitions.get(name.partition)
        if partition is None or not name.front_end or partition.front_end != name.front_end:
            return False
        if name != LocalName.of(*name[:3], vhost) or name.queue < FIRST_LOCAL_ID:
            return False
        return name.front_end != self.front_end or name.queue in self.settings

    def declare(self, vhost: str, declaration: QueueDeclaration, holder: int) -> QueueRef:
        """Raises PreconditionFailedError for arguments that make no sense."""
        read_queue_arguments(declaration.arguments, declaration.name, vhost)
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
        """A queue for the replies to one channel; it goes with its consumer. No client can name it but to
        publish to it.
        """
        ref = self._create(vhost, REPLY_QUEUE_PREFIX, None)
        queue = self._replies[ref.id] = LocalQueue(ref, vhost, holder, True, {})
        self._by_holder.setdefault(holder, {})[ref.id] = queue
        return ref

    def _effective(self, vhost: str, name: str, arguments: dict[str, Any]) -> QueueSettings:
        policies = self._catalog.state.policies
        return policies.settings(vhost, ResourceKind.CLASSIC_QUEUE, name, arguments)

    def replaced(self) -> None:
        """The catalog was restored from a snapshot: its policies may be others."""
        for vhost in self._catalog.state.vhosts:
            self.policies_changed(vhost)

    def policies_changed(self, vhost: str) -> None:
        """What is asked of the virtual host's queues may be something else from now on."""
        for queue in self._queues.values():
            if queue.vhost == vhost:
                settings = self._effective(vhost, queue.ref.name, queue.arguments)
                self.settings[queue.ref.id] = settings
                self._owners[queue.ref.partition].configure(queue.ref.id, settings)

    def _create(self, vhost: str, prefix: str, arguments: dict[str, Any] | None) -> QueueRef:
        """Without arguments policies count no more than they do."""
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
        """A client that was given the name declares it again.

        Raises AccessRefusedError where it was given none, ResourceLockedError, PreconditionFailedError.
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
        """A name for a server-named queue that is not exclusive and so is in the catalog."""
        return f"amq.gen-{self._random_bits(96):x}"

    def find(self, vhost: str, name: str, holder: int) -> QueueRef:
        """Raises NotFoundError, ResourceLockedError."""
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
        """The queue is the destination of a binding: the catalog must forget it when it goes."""
        queue = self._queues.get(name)
        if queue is not None:
            queue.bound = True

    def delete(self, ref: QueueRef, done: Callable[[], None] = _nothing) -> None:
        """Calls back when no client sees its bindings any more."""
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
            # The next start of this node removes what a lost command did not.
            self._catalog.submit("forget_local_queue", arguments, partial(_call, done))
        else:
            done()

    def release_holder(self, holder: int, released: Callable[[], None]) -> None:
        """A connection is closed: its queues go. Calls back when no client sees their bindings any more."""
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
        """Whether this is a queue of here that goes with its last consumer."""
        queue = self._by_id.get(id)
        return queue is not None and queue.auto_delete

    def delete_unused(self, id: int, done: Callable[[], None]) -> None:
        """Its last consumer is gone. Calls back as `delete` does."""
        self.delete(self._by_id[id].ref, done)

    def left(self, id: int) -> None:
        """The last consumer of a queue is gone. One of direct reply-to goes at once: only the client that
        asked takes the replies.
        """
        reply = self._replies.get(id)
        if reply is not None:
            self.delete(reply.ref)

    def unused(self, id: int, *, expired: bool) -> None:
        """A queue had no consumer for a while; `expired`: not for as long as it asked to live without."""
        queue = self._by_id.get(id)
        if queue is not None and (queue.auto_delete or expired):
            self.delete(queue.ref)


def _call(callback: Callable[[], None], value: object, refusal: object) -> None:
    callback()
