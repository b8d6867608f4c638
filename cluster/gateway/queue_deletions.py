"""Deletions of queues by clients of a node. The queue's owner decides about conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cluster.catalog.membership.formats import Formats
from cluster.catalog.replica import CatalogClient
from cluster.config.formats import SEALED_QUEUES
from cluster.gateway.local_queues import LocalQueues
from cluster.gateway.queue_declarations import QueueChurn
from cluster.gateway.shared_queues import EACH_ALONE, SharedQueues
from cluster.peers.link_messages import Delivery
from node.refusal import NotFoundError, PreconditionFailedError, Refusal
from node.session.ports import QueueCounts, QueueRef

Ask = Callable[[QueueRef, str, list[Any], Callable[[Any, Delivery | None, Refusal | None], None]], None]
"""Sends a request to the owner of a queue: queue, name, further arguments, and the callback."""

Deleted = Callable[[int, Refusal | None], None]
"""Takes the number of messages that were ready, or a refusal."""

NO_COUNTS: Final = QueueCounts(0, 0, 0)


class QueueDeletions:
    """The deletions of one node's connections."""

    def __init__(
        self,
        catalog: CatalogClient,
        formats: Formats,
        local: LocalQueues,
        churn: QueueChurn,
        ask: Ask,
        shared: SharedQueues,
    ) -> None:
        self._catalog, self._formats = catalog, formats
        self._local, self._churn, self._ask, self._shared = local, churn, ask, shared

    def delete(self, queue: QueueRef, if_unused: bool, if_empty: bool, answer: Deleted) -> None:
        """Delete a queue, `if_unused` only without consumers, `if_empty` only without messages that are ready
        or scheduled.

        The queue's owner seals the queue in its log, so that no message and no consumer comes between the
        check and the deletion. Answers once no client sees the queue any more.
        """

        try:
            self._check(queue, conditional=if_unused or if_empty)
        except PreconditionFailedError as refusal:
            answer(0, refusal)
            return

        def counted(counts: QueueCounts, refusal: Refusal | None) -> None:
            refusal = refusal or _unmet(queue, counts, if_unused, if_empty)
            if refusal is None:
                self._delete(queue, counts.ready, answer)
            else:
                answer(0, refusal)

        def closed(value: Any, _: Delivery | None, refusal: Refusal | None) -> None:
            if isinstance(refusal, NotFoundError):
                # The log may have another client's deletion, which the catalog does not have yet.
                self._delete(queue, 0, answer)
            elif refusal is None and value[0]:
                self._delete(queue, value[1], answer)
            else:
                counted(NO_COUNTS if refusal else QueueCounts(*value[1:]), refusal)

        if (if_unused or if_empty) and self._formats.everywhere >= SEALED_QUEUES:
            self._ask(queue, "close", [if_unused, if_empty], closed)
        else:
            self._shared.count(queue, counted)

    def _check(self, queue: QueueRef, *, conditional: bool) -> None:
        """Raises PreconditionFailedError for a queue that is not deleted alone, and for conditions that would
        need a look at several owners at a time.
        """
        defined = self._catalog.state.queues_by_id.get(queue.id)
        if defined is not None:
            self._catalog.state.check_goes_alone(defined)
        if conditional:
            self._shared.refuse(queue, "a deletion with if-unused or if-empty", EACH_ALONE)

    def _delete(self, queue: QueueRef, messages: int, answer: Deleted) -> None:
        self._churn.deleted += 1
        if self._local.owns(queue):
            self._local.delete(queue, lambda: answer(messages, None))
        else:
            self._catalog.submit(
                "delete_queue", {"id": queue.id}, lambda _, refusal: answer(messages, refusal)
            )


def _unmet(queue: QueueRef, counts: QueueCounts, if_unused: bool, if_empty: bool) -> Refusal | None:
    """The refusal for a condition that does not hold; None if all hold."""
    if if_unused and counts.consumers:
        return PreconditionFailedError(f"{queue} in use")
    if if_empty and (counts.ready or counts.scheduled):
        return PreconditionFailedError(f"{queue} not empty")
    return None
