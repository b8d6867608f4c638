"""Streams that views feed (D15; queue argument x-view): which view may feed which stream. Pure.

A view may stand over a stream that another view feeds, or over a queue over such a stream. A circle of those
would go on for ever: each change of a row would be a message that changes a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any, Final

from cluster.catalog.topics import Topics
from node.message.streams import X_VIEW
from node.refusal import PreconditionFailedError

LONGEST_CHAIN: Final = 16
"""The most views in a row that feed each other's streams."""

QueueUnder = Callable[[str, str], str | None]
"""The name of the queue under a view, by virtual host and view; None for no such view."""


def check_declared(
    topics: Topics, queue_under: QueueUnder, vhost: str, stream: str, arguments: Mapping[str, Any]
) -> None:
    """Raises PreconditionFailedError for a new stream with these arguments whose view is not there, has the
    stream below it, or ends a chain that is too long.
    """
    view = arguments.get(X_VIEW)
    if not isinstance(view, str):
        return
    wrong = f"invalid arg '{X_VIEW}' for queue '{stream}' in vhost '{vhost}'"
    queue = queue_under(vhost, view)
    if queue is None:
        raise PreconditionFailedError(f"{wrong}: there is no view '{view}'; define the view first")
    _check(topics, queue_under, vhost, queue, {stream}, wrong)


def check_view(topics: Topics, queue_under: QueueUnder, vhost: str, view: str, queue: str) -> None:
    """Raises PreconditionFailedError for a view over a queue that would have a stream below it which the view
    feeds.
    """
    fed = topics.of_view(vhost, view)
    if fed:
        wrong = f"view '{view}' in vhost '{vhost}' cannot be over queue '{queue}'"
        _check(topics, queue_under, vhost, queue, fed, wrong)


def _check(
    topics: Topics, queue_under: QueueUnder, vhost: str, queue: str, streams: Set[str], wrong: str
) -> None:
    """Walk down from the queue under a view that feeds, or is to feed, the streams."""
    level = {queue}
    for _ in range(LONGEST_CHAIN):
        below = {one for name in level for one in (name, *topics.streams_under(vhost, name, streams))}
        if not below.isdisjoint(streams):
            stream = min(below & streams)
            raise PreconditionFailedError(f"{wrong}: the view would change by what it tells '{stream}'")
        found = (topics.find(vhost, name) for name in below)
        views = (one.arguments.get(X_VIEW) for one in found if one is not None)
        unders = (queue_under(vhost, view) for view in views if isinstance(view, str))
        level = {under for under in unders if under is not None}
        if not level:
            return
    raise PreconditionFailedError(f"{wrong}: views feed each other in a chain of more than {LONGEST_CHAIN}")
