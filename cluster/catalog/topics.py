"""Queues over topics (requirement D1): which queues get the messages that a stream takes. Pure.

A queue with the argument `x-underlying-topic` is a view over a stream of that name, or over all streams whose
names a pattern takes, those that are declared later included. A queue with `x-history` is a view over a
stream of its own (`cluster.catalog.histories`). A view lives in the partition of the stream to which a
publish to the queue goes: that partition stores a message once for both. Messages of streams in other
partitions reach the queue as a fan-out does, with one copy in its partition. With a recovery point they reach
the queue from the owners of their streams instead (`cluster.owner.feeding`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any, Final

from cluster.catalog.definitions import QueueDefinition
from cluster.catalog.histories import queue_of
from node.message.bookmarks import BookmarkError, is_bookmark, number_of_bookmark
from node.message.streams import (
    X_DEFAULT_PUBLISH_TARGET,
    X_HISTORY,
    X_RECOVERY_POINT,
    X_UNDERLYING_TOPIC,
    X_VIEW,
    history_name,
)
from node.message.topic_patterns import TopicPattern, TopicPatternError
from node.refusal import PreconditionFailedError

_Name = tuple[str, str]
"""A virtual host and the name of a queue in it."""


def has_past(arguments: Mapping[str, Any]) -> bool:
    """Whether a queue over a pattern of streams with these arguments asks for the past of the streams."""
    return bool(arguments.get(X_RECOVERY_POINT, _NO_PAST) != _NO_PAST)


_NO_PAST: Final = "now"


class Topics:
    """The queues over topics."""

    def __init__(self, find: Callable[[_Name], QueueDefinition | None]) -> None:
        """`find` gives the queue of a name, if there is one now."""
        self._find = find
        self._over: dict[_Name, set[str]] = {}
        """The names of the queues over each topic."""
        self.below: dict[_Name, str] = {}
        """The topic to which the publishes to each queue over topics go; mostly there is no such queue."""
        self._fed: dict[_Name, set[str]] = {}
        """The names of the queues over each topic to which no route leads: its owner feeds them."""
        self._partitions: dict[_Name, int] = {}
        """The partition of each queue over a pattern."""
        self._with_past: set[_Name] = set()
        """The queues over a pattern with a recovery point."""
        self._of_views: dict[_Name, set[str]] = {}
        """The streams that each view feeds: no route leads to these."""
        self._streams: dict[str, dict[str, int]] = {}
        """The streams of each virtual host by their names, with their partitions."""
        self._patterns: dict[str, dict[str, TopicPattern]] = {}
        """The patterns of queues by their names, for each virtual host."""

    def add(self, queue: QueueDefinition) -> None:
        """A queue is declared."""
        vhost, name = queue.vhost, queue.name
        if queue.stream:
            self._streams.setdefault(vhost, {})[name] = queue.partition
            view = queue.arguments.get(X_VIEW)
            if isinstance(view, str):
                self._of_views.setdefault((vhost, view), set()).add(name)
            for over, pattern in self._patterns.get(vhost, {}).items():
                if pattern.matches(name):
                    self._put(vhost, name, over)
        arguments = queue.arguments
        topic = history_name(name) if X_HISTORY in arguments else arguments.get(X_UNDERLYING_TOPIC)
        if not isinstance(topic, str):
            return
        target = arguments.get(X_DEFAULT_PUBLISH_TARGET)
        if not isinstance(target, str):
            self.below[vhost, name] = topic
            self._put(vhost, topic, name)
            return
        self.below[vhost, name] = target
        pattern = self._patterns.setdefault(vhost, {})[name] = TopicPattern(topic)
        self._partitions[vhost, name] = queue.partition
        if has_past(arguments):
            self._with_past.add((vhost, name))
        for stream in self._streams_of(vhost, pattern):
            self._put(vhost, stream, name)

    def remove(self, queue: QueueDefinition) -> None:
        """A queue is deleted."""
        vhost, name = queue.vhost, queue.name
        patterns = self._patterns.get(vhost, {})
        if queue.stream:
            self._streams[vhost].pop(name, None)
            for over in (self.over(vhost, name) | self.fed(vhost, name)) & patterns.keys():
                self._take(vhost, name, over)
            view = queue.arguments.get(X_VIEW)
            of_view = self._of_views.get((vhost, view), set()) if isinstance(view, str) else set()
            of_view.discard(name)
            if isinstance(view, str) and not of_view:
                self._of_views.pop((vhost, view), None)
        topic = self.below.pop((vhost, name), None)
        if topic is None:
            return
        pattern = patterns.pop(name, None)
        for one in [topic] if pattern is None else list(self._streams_of(vhost, pattern)):
            self._take(vhost, one, name)
        self._partitions.pop((vhost, name), None)
        self._with_past.discard((vhost, name))

    def _put(self, vhost: str, topic: str, over: str) -> None:
        own, stream = self._partitions.get((vhost, over)), self.find(vhost, topic)
        by_owner = (vhost, over) in self._with_past or (stream is not None and X_VIEW in stream.arguments)
        fed = by_owner and own is not None and own != self._streams[vhost][topic]
        (self._fed if fed else self._over).setdefault((vhost, topic), set()).add(over)

    def _take(self, vhost: str, topic: str, over: str) -> None:
        for kept in (self._over, self._fed):
            queues = kept.get((vhost, topic), set())
            queues.discard(over)
            if not queues:
                kept.pop((vhost, topic), None)

    def _streams_of(self, vhost: str, pattern: TopicPattern) -> Iterator[str]:
        return filter(pattern.matches, self._streams.get(vhost, ()))

    def restore(self, queues: Iterable[QueueDefinition]) -> None:
        """These are all queues."""
        for known in (self._over, self._fed, self._partitions, self.below, self._streams, self._patterns):
            known.clear()
        self._with_past.clear()
        self._of_views.clear()
        for queue in queues:
            self.add(queue)

    def spread(self, vhost: str, names: Set[str]) -> Set[str]:
        """The queues that get a message which is routed to the queues `names`: each stream brings the queues
        over it, and each queue over streams the stream for its publishes. A queue whose stream is gone gets
        nothing.
        """
        found = {name for name in names if (vhost, name) not in self.below}
        for topic in {self.below.get((vhost, name), name) for name in names}:
            if self.find(vhost, topic) is not None:
                found.add(topic)
                found |= self.over(vhost, topic)
        return found

    def over(self, vhost: str, topic: str) -> Set[str]:
        """The names of the queues over a stream to which its routes lead, too."""
        return self._over.get((vhost, topic), set())

    def fed(self, vhost: str, topic: str) -> Set[str]:
        """The names of the queues over a stream that get its messages from the owner of the stream."""
        return self._fed.get((vhost, topic), set())

    @property
    def feeding(self) -> bool:
        """Whether owners may have to send the messages of streams to queues over patterns."""
        return bool(self._with_past or self._of_views)

    def of_view(self, vhost: str, view: str) -> Set[str]:
        """The names of the streams that a view feeds."""
        return self._of_views.get((vhost, view), set())

    def streams_under(self, vhost: str, queue: str, others: Iterable[str] = ()) -> set[str]:
        """The names of the streams under a queue, and of those among `others`, which may not be there, that
        its pattern takes.
        """
        pattern = self._patterns.get(vhost, {}).get(queue)
        if pattern is not None:
            return {*self._streams_of(vhost, pattern), *filter(pattern.matches, others)}
        topic = self.below.get((vhost, queue))
        return set() if topic is None else {topic}

    def taken_by(self, vhost: str, queue: str) -> list[str]:
        """The names of the streams under a queue over a pattern."""
        pattern = self._patterns.get(vhost, {}).get(queue)
        return [] if pattern is None else sorted(self._streams_of(vhost, pattern))

    def find(self, vhost: str, topic: str) -> QueueDefinition | None:
        """The stream of this name; None for none."""
        queue = self._find((vhost, topic))
        return queue if queue is not None and queue.stream else None

    def patterned(self, vhost: str, queue: str) -> bool:
        """Whether a queue is over a pattern of streams."""
        return queue in self._patterns.get(vhost, ())

    def under(self, vhost: str, queue: str) -> QueueDefinition | None:
        """The one stream under a queue; None without one, and for a pattern."""
        topic = self.below.get((vhost, queue))
        return None if topic is None or self.patterned(vhost, queue) else self.find(vhost, topic)

    def asked(self, vhost: str, queue: str, arguments: Mapping[str, Any]) -> QueueDefinition | None:
        """The stream with which a new queue with these arguments is placed; None for a queue that asks for
        none.

        Raises PreconditionFailedError where there is no such stream, its pattern does not take the stream for
        its publishes, or the recovery point is the bookmark of a message of another queue.
        """
        if X_HISTORY in arguments:
            return self._history(vhost, queue)
        topic = arguments.get(X_UNDERLYING_TOPIC)
        if topic is None:
            return None
        target = arguments.get(X_DEFAULT_PUBLISH_TARGET)
        argument, name = (X_UNDERLYING_TOPIC, topic) if target is None else (X_DEFAULT_PUBLISH_TARGET, target)
        wrong = f"invalid arg '{argument}' for queue '{queue}' in vhost '{vhost}'"
        found = self.find(vhost, name)
        if found is None:
            raise PreconditionFailedError(f"{wrong}: there is no stream '{name}'")
        point = arguments.get(X_RECOVERY_POINT)
        try:
            if target is not None and not TopicPattern(topic).matches(target):
                raise PreconditionFailedError(f"{wrong}: '{topic}' does not take the stream '{target}'")
            if isinstance(point, str) and is_bookmark(point):
                number_of_bookmark(found.id, point)
        except TopicPatternError as error:
            raise PreconditionFailedError(f"{wrong}: {error}") from None
        except BookmarkError as error:
            raise PreconditionFailedError(
                f"invalid arg '{X_RECOVERY_POINT}' for queue '{queue}' in vhost '{vhost}': {error}"
            ) from None
        return found

    def _history(self, vhost: str, queue: str) -> QueueDefinition | None:
        """The stream that keeps the history of a queue, where definitions that are imported have brought it
        before the queue.
        """
        name = history_name(queue)
        found = self._find((vhost, name))
        if found is not None and queue_of(found) != queue:
            raise PreconditionFailedError(
                f"invalid arg '{X_HISTORY}' for queue '{queue}' in vhost '{vhost}': there is a queue '{name}'"
            )
        return found
