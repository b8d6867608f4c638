"""The recovery points of queues over streams that policies state, or updates have changed (D13). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cluster.catalog.definitions import QueueDefinition
from node.message.bookmarks import is_bookmark, queue_in
from node.message.streams import X_DEFAULT_PUBLISH_TARGET, X_RECOVERY_POINT
from node.queue.settings import QueueSettings

POINT_KEY: Final = X_RECOVERY_POINT.removeprefix("x-")
"""The key of policies for the recovery point."""

_QUEUE_MASK: Final = 0xFFFFFFFF

_POINT, _WINDOW = "recovery_point", "deduplication_window_ms"
"""Fields of settings."""


def states_point(settings: QueueSettings) -> bool:
    """Whether the queue's arguments or its policies state a recovery point."""
    return _POINT in settings.asked


def with_fitting_point(
    found: QueueSettings, stream: QueueDefinition | None, own: Mapping[str, Any], policy: Mapping[str, Any]
) -> QueueSettings:
    """A queue's settings without a recovery point that the queue cannot have: a policy's, where the queue is
    not over one stream, or has a deduplication window; and a bookmark of another queue than its stream. A
    queue over a pattern of streams has the point of its declaration. `own` are the queue's arguments,
    `policy` is the definition of its policies.
    """
    if X_RECOVERY_POINT in own and X_DEFAULT_PUBLISH_TARGET in own:
        return found
    text = own.get(X_RECOVERY_POINT, policy.get(POINT_KEY))
    fits = stream is not None and (X_RECOVERY_POINT in own or _WINDOW not in found.asked)
    if fits and stream is not None and isinstance(text, str) and is_bookmark(text):
        fits = queue_in(text) == stream.id & _QUEUE_MASK
    if fits:
        return found
    left = {name: value for name, value in found.asked.items() if name != _POINT}
    return QueueSettings(found.semantics, **left)
