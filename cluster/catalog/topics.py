"""Queues over topics (requirement D1): which queues get the messages that a stream takes. Pure.

A queue with the argument `x-underlying-topic` is a view over a stream of that name: it lives in the stream's
partition, which stores a message once for both. A publish to the queue goes to its stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

from cluster.catalog.definitions import QueueDefinition
from node.message.bookmarks import BookmarkError, is_bookmark, number_of_bookmark
from node.message.streams import X_RECOVERY_POINT, X_UNDERLYING_TOPIC
from node.refusal import PreconditionFailedError

_Name = tuple[str, str]
"""A virtual host and the name of a queue in it."""


class Topics:
    """The queues over topics."""

    def __init__(self, find: Callable[[_Name], QueueDefinition | None]) -> None:
        """`find` gives the queue of a name, if there is one now."""
        self._find = find
        self._over: dict[_Name, set[str]] = {}
        """The names of the queues over each topic."""
        self.below: dict[_Name, str] = {}
        """The topic of each queue that has one; mostly none."""

    def add(self, queue: QueueDefinition) -> None:
        """A queue is declared."""
        topic = queue.arguments.get(X_UNDERLYING_TOPIC)
        if isinstance(topic, str):
            self.below[queue.vhost, queue.name] = topic
            self._over.setdefault((queue.vhost, topic), set()).add(queue.name)

    def remove(self, queue: QueueDefinition) -> None:
        """A queue is deleted."""
        topic = self.below.pop((queue.vhost, queue.name), None)
        if topic is not None:
            over = self._over[queue.vhost, topic]
            over.discard(queue.name)
            if not over:
                del self._over[queue.vhost, topic]

    def restore(self, queues: Iterable[QueueDefinition]) -> None:
        """These are all queues."""
        self._over.clear()
        self.below.clear()
        for queue in queues:
            self.add(queue)

    def spread(self, vhost: str, names: Set[str]) -> Set[str]:
        """The queues that get a message which is routed to the queues `names`: each stream brings the queues
        over it, and each queue over a stream its stream. A queue whose stream is gone gets nothing.
        """
        topics = {self.below.get((vhost, name), name) for name in names}
        found = {name for name in topics if (vhost, name) not in self.below}
        for topic in topics:
            if self.find(vhost, topic) is not None:
                found |= self._over.get((vhost, topic), set())
        return found

    def over(self, vhost: str, topic: str) -> Set[str]:
        """The names of the queues over a stream."""
        return self._over.get((vhost, topic), set())

    def find(self, vhost: str, topic: str) -> QueueDefinition | None:
        """The stream of this name; None for none."""
        queue = self._find((vhost, topic))
        return queue if queue is not None and queue.stream else None

    def under(self, vhost: str, queue: str) -> QueueDefinition | None:
        """The stream under a queue; None without one."""
        topic = self.below.get((vhost, queue))
        return None if topic is None else self.find(vhost, topic)

    def asked(self, vhost: str, queue: str, arguments: Mapping[str, Any]) -> QueueDefinition | None:
        """The stream under a new queue with these arguments; None for a queue that asks for none.

        Raises PreconditionFailedError where there is no such stream, or the recovery point is the bookmark of
        a message of another queue.
        """
        topic = arguments.get(X_UNDERLYING_TOPIC)
        if topic is None:
            return None
        found = self.find(vhost, topic)
        if found is None:
            raise PreconditionFailedError(
                f"invalid arg '{X_UNDERLYING_TOPIC}' for queue '{queue}' in vhost '{vhost}': there is no "
                f"stream '{topic}'"
            )
        point = arguments.get(X_RECOVERY_POINT)
        try:
            if isinstance(point, str) and is_bookmark(point):
                number_of_bookmark(found.id, point)
        except BookmarkError as error:
            raise PreconditionFailedError(
                f"invalid arg '{X_RECOVERY_POINT}' for queue '{queue}' in vhost '{vhost}': {error}"
            ) from None
        return found
