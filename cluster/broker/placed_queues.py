"""The queues that the catalog places on partitions, and those of this node's memory, as owners see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cluster.broker.partitions import Partitions
from cluster.broker.placed_parts import PlacedParts
from cluster.catalog.effective import queue_type, settings_of
from cluster.catalog.owner_parts import whole_name
from cluster.catalog.placement import QUORUM
from cluster.config.formats import SEALED_QUEUES
from cluster.gateway.context import GatewayContext
from cluster.gateway.local_queues import LocalQueues
from cluster.gateway.queue_declarations import reachable
from cluster.gateway.views import FrontEndViews
from cluster.owner.context import FedQueue, PastNews, RecoveryPoints, Unused
from node.message.streams import FROM_NEXT, X_VIEW
from node.queue.features.registry import rules_of
from node.queue.settings import QueueSettings
from node.refusal import NotFoundError, locked
from node.session.ports import QueueRef
from node.session.view_port import TakeRows, ViewVersion


class PlacedQueues:
    """Implements `cluster.owner.context.OwnedQueues`."""

    def __init__(
        self,
        gateway: GatewayContext,
        local: LocalQueues,
        partitions: Partitions,
        past_changed: Callable[[PastNews], None],
    ) -> None:
        """`past_changed`: see `RecoveryPoints`."""
        self._catalog, self._formats = gateway.replica, gateway.formats
        self._local, self._partitions = local, partitions
        self.parts, self._links = PlacedParts(self._catalog), gateway.links
        self._views = FrontEndViews(self._catalog.state, gateway.links, self._queue, self._formats)
        self.recovery_points = RecoveryPoints(self._formats.know_changed_points, past_changed)

    def settings(self, queue: int) -> QueueSettings | None:
        """The settings of a queue; None where this node does not know the queue."""
        state = self._catalog.state
        found = state.queues_by_id.get(queue)
        return self._local.settings.get(queue) if found is None else settings_of(state, found)

    def placed_on(self, partition: int) -> dict[int, QueueSettings]:
        """The settings of a partition's queues."""
        state = self._catalog.state
        placed = (queue for queue in state.queues.values() if queue.partition == partition)
        wanted = {queue.id: settings_of(state, queue) for queue in placed}
        if partition in self._partitions.transient:
            wanted.update(self._local.settings)
        return wanted

    def over(self, stream: int) -> list[int]:
        """The queues over a stream that share its partition; none for another queue."""
        state = self._catalog.state
        found = state.queues_by_id.get(stream)
        if found is None:
            return []
        over = (state.queues[found.vhost, name] for name in state.topics.over(found.vhost, found.name))
        return [queue.id for queue in over if queue.partition == found.partition]

    def fed(self, stream: int) -> list[FedQueue]:
        """The queues of other partitions which the owner of the stream feeds."""
        state = self._catalog.state
        found = state.queues_by_id.get(stream)
        if found is None:
            return []
        queues = [state.queues[found.vhost, name] for name in state.topics.fed(found.vhost, found.name)]
        default = FROM_NEXT if X_VIEW in found.arguments else None
        return [
            FedQueue(queue.id, queue.partition, point, stream > queue.id)
            for queue in sorted(queues, key=lambda one: one.id)
            if (point := rules_of(settings_of(state, queue)).described.recovery_point or default) is not None
        ]

    def topics_of(self, queue: int) -> list[int]:
        """The streams under a queue that share its partition."""
        state = self._catalog.state
        found = state.queues_by_id.get(queue)
        if found is None or not state.topics.patterned(found.vhost, found.name):
            topic = self.topic_of(queue)
            return [] if topic is None else [topic]
        streams = (state.queues[found.vhost, name] for name in state.topics.taken_by(found.vhost, found.name))
        return [one.id for one in streams if one.partition == found.partition]

    def topic_of(self, queue: int) -> int | None:
        """The stream under a queue; None without one."""
        state = self._catalog.state
        found = state.queues_by_id.get(queue)
        topic = None if found is None else state.topics.under(found.vhost, found.name)
        return None if topic is None else topic.id

    def read_view(self, stream: int, view: str, known: ViewVersion, wait_ms: int, answer: TakeRows) -> None:
        """Read the rows of the view that feeds a stream. Raises NotFoundError, ResourceLockedError for a view
        over an exclusive queue, and HomeNodeDownError.
        """
        found = self._catalog.state.queues_by_id.get(stream)
        if found is None:
            raise NotFoundError(f"no stream {stream}")
        self._views.read(found.vhost, view, 0, known, wait_ms, answer, keyed=True)

    def _queue(self, vhost: str, name: str, _holder: int) -> QueueRef:
        """The queue under a view."""
        found = self._catalog.state.queue(vhost, name)
        if found.exclusive:
            raise locked(vhost, name)
        return reachable(self._links, QueueRef(found.name, found.partition, found.id, vhost))

    def declared(self, queue: int) -> bool:
        """Whether this node's catalog has got the declaration of a queue."""
        return queue <= self._catalog.state.last_queue

    def tells_failures(self, queue: int) -> bool:
        """Whether messages for consumers of the queue have the header `x-delivery-count`."""
        # As on RabbitMQ: only quorum queues have the header.
        state = self._catalog.state
        return queue in state.queues_by_id and queue_type(state, state.queues_by_id[queue]) == QUORUM

    def knows_blake3(self) -> bool:
        """Whether logs may have digests of BLAKE3 (`node.queue.chronicle`)."""
        return self._formats.know_blake3()

    def unused(self, queue: int, why: Unused) -> None:
        """Have the queue deleted, if its properties ask for that in the case `why`."""
        definition = self._catalog.state.queues_by_id.get(queue)
        if definition is None and why is Unused.LEFT:
            self._local.left(queue)
        elif definition is None:
            self._local.unused(queue, expired=why is Unused.EXPIRED)
        elif why is Unused.SEALED:
            part = whole_name(definition) is not None
            self._catalog.submit("remove_part" if part else "delete_queue", {"id": queue}, _ignore)
        elif why is Unused.EXPIRED or (why is Unused.ABANDONED and definition.auto_delete):
            if self._formats.everywhere >= SEALED_QUEUES:
                self._partitions.owners[definition.partition].seal_unused(queue)
            else:
                self._catalog.submit("delete_queue", {"id": queue}, _ignore)


def _ignore(value: Any, refusal: Any) -> None:
    """No answer is awaited: an owner that finds the queue still there submits the command again."""
