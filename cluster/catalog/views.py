"""Views over queues: their definitions, which clients write, and the terms that owners get of them.

A view belongs to one queue or stream of its virtual host, and goes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from cluster.catalog.definitions import QueueDefinition
from cluster.catalog.fed_streams import check_declared, check_view
from cluster.catalog.topics import Topics
from node.queue.placement_arguments import EACH_NODE, X_OWNERS
from node.queue.view_terms import ViewTerms, view_terms
from node.refusal import NotFoundError, PreconditionFailedError

MOST_OVER_QUEUE: Final = 16
"""The most views over one queue."""


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """A view over the queue `queue`. The texts are expressions, and those of `fields` also aggregates. An
    empty `filter` takes all messages.
    """

    name: str
    queue: str
    filter: str
    group_by: tuple[str, ...]
    fields: Mapping[str, str]

    def terms(self) -> ViewTerms:
        """The terms that the queue's owner gets. Raises ViewError where a text is wrong."""
        return view_terms(self.name, self.filter, self.group_by, self.fields)


class Views:
    """The views of all virtual hosts, a part of the catalog's state."""

    def __init__(
        self,
        queue: Callable[[str, str], QueueDefinition],
        changed: Callable[[QueueDefinition], None],
        topics: Topics,
    ) -> None:
        """`queue` finds a queue, or raises NotFoundError. `changed` is called with each queue whose views
        have changed. `topics` knows the streams that views feed.
        """
        self.commands: dict[str, Callable[..., Any]] = {
            "put_view": self._put,
            "delete_view": self._delete,
        }
        self._queue, self._topics = queue, topics
        self._changed = changed
        self._views: dict[tuple[str, str], ViewDefinition] = {}
        self._over: dict[tuple[str, str], dict[str, ViewDefinition]] = {}
        """The views by the queue under them, and by name."""

    # -- commands -------------------------------------------------------------------------------

    def _put(self, vhost: str, view: dict[str, Any], parts: bool = False) -> bool:
        """Add or replace a view. Returns whether it is new. `parts`: a queue with several owners takes it, as
        all members have such views. Logs of earlier releases have commands that were refused.

        Raises NotFoundError for the queue, and PreconditionFailedError where the queue takes no views, or has
        too many, or the view would change by what it tells a stream.
        """
        made = _from_plain(view)
        queue = self._queue(vhost, made.queue)
        if X_OWNERS in queue.arguments and not parts:
            raise PreconditionFailedError(
                f"queue '{made.queue}' in vhost '{vhost}' has several owners, and takes no views"
            )
        if queue.arguments.get(X_OWNERS) == EACH_NODE:
            raise PreconditionFailedError(
                f"queue '{made.queue}' in vhost '{vhost}' has a part for each node, and takes no views: "
                "parts come and go, and the rows have a version for each part"
            )
        check_view(self._topics, self._queue_under, vhost, made.name, made.queue)
        former = self._views.get((vhost, made.name))
        over = self._over.get((vhost, made.queue), {})
        if made.name not in over and len(over) >= MOST_OVER_QUEUE:
            raise PreconditionFailedError(
                f"queue '{made.queue}' in vhost '{vhost}' has {MOST_OVER_QUEUE} views, the most that it may"
            )
        if former is not None and former.queue != made.queue:
            self._delete(vhost, made.name)
        self._add(vhost, made)
        self._changed(queue)
        return former is None

    def _add(self, vhost: str, view: ViewDefinition) -> None:
        self._views[vhost, view.name] = view
        self._over.setdefault((vhost, view.queue), {})[view.name] = view

    def _delete(self, vhost: str, name: str) -> None:
        """Raises NotFoundError."""
        view = self._views.pop((vhost, name), None)
        if view is None:
            raise NotFoundError(f"no view '{name}' in vhost '{vhost}'")
        over = self._over[vhost, view.queue]
        del over[name]
        if not over:
            del self._over[vhost, view.queue]
        self._changed(self._queue(vhost, view.queue))

    def forget_queue(self, vhost: str, queue: str) -> None:
        """Forget the views over a queue that is deleted."""
        for name in self._over.pop((vhost, queue), {}):
            del self._views[vhost, name]

    def rename_queue(self, vhost: str, queue: str, new: str) -> None:
        """The queue under the views has a new name."""
        for view in self._over.pop((vhost, queue), {}).values():
            self._add(vhost, replace(view, queue=new))

    # -- look-ups -------------------------------------------------------------------------------

    def check_feeds(self, vhost: str, stream: str, arguments: Mapping[str, Any]) -> None:
        """Raises PreconditionFailedError for a new stream that no view can feed as the arguments ask."""
        check_declared(self._topics, self._queue_under, vhost, stream, arguments)

    def _queue_under(self, vhost: str, name: str) -> str | None:
        found = self._views.get((vhost, name))
        return None if found is None else found.queue

    def get(self, vhost: str, name: str) -> ViewDefinition | None:
        return self._views.get((vhost, name))

    def in_vhost(self, vhost: str) -> Iterable[ViewDefinition]:
        """The views of a virtual host."""
        return [view for (of, _), view in self._views.items() if of == vhost]

    def terms_over(self, vhost: str, queue: str) -> tuple[ViewTerms, ...]:
        """The terms of the views over a queue."""
        over = self._over.get((vhost, queue))
        return () if over is None else tuple([view.terms() for view in over.values()])

    # -- snapshots ------------------------------------------------------------------------------

    def to_plain(self) -> list[Any]:
        return [[vhost, {**asdict(view)}] for (vhost, _), view in self._views.items()]

    def restore(self, plain: list[Any] | None) -> None:
        """Inverse of `to_plain`. `plain` is None in a snapshot of a release without views."""
        self._views.clear()
        self._over.clear()
        for vhost, view in plain or ():
            self._add(vhost, _from_plain(view))


def _from_plain(plain: Mapping[str, Any]) -> ViewDefinition:
    return ViewDefinition(**{**plain, "group_by": tuple(plain["group_by"])})
