"""The streams that keep the messages of queues with the argument `x-history` (requirement X4). Pure.

Such a queue is a queue over a stream of its own (`cluster.catalog.topics`), which the catalog declares and
deletes with the queue.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from cluster.catalog.definitions import QueueDefinition
from node.message.streams import STREAM_TYPE, X_HISTORY, X_HISTORY_OF, X_QUEUE_TYPE, history_name
from node.queue.operations import Semantics
from node.queue.stream_settings import MAX_AGE_ARGUMENT
from node.refusal import PreconditionFailedError
from node.wire.naming import NamingError, check_text


def history_of(vhost: str, queue: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The name and the properties of the stream that keeps the messages of a queue. Raises
    PreconditionFailedError for a name that is too long.
    """
    name, kept = history_name(queue), arguments[X_HISTORY]
    try:
        check_text(name)
    except NamingError as error:
        raise PreconditionFailedError(f"no stream keeps a history under this name: {error}") from None
    limit = MAX_AGE_ARGUMENT if isinstance(kept, str) else "x-max-length-bytes"
    return {
        "vhost": vhost,
        "name": name,
        "durable": True,
        "exclusive": False,
        "auto_delete": False,
        "arguments": {X_QUEUE_TYPE: STREAM_TYPE, limit: kept, X_HISTORY_OF: queue},
        "semantics": Semantics.AT_LEAST_ONCE,
        "front_end": 0,
        "holder": 0,
    }


def queue_of(stream: QueueDefinition) -> str | None:
    """The name of the queue whose history this is; None for other queues."""
    queue = stream.arguments.get(X_HISTORY_OF)
    kept = isinstance(queue, str) and stream.stream and stream.name == history_name(queue)
    return queue if kept else None


def check_not_history(queue: QueueDefinition, present: Container[tuple[str, str]]) -> None:
    """Raises PreconditionFailedError for the stream that keeps the history of a queue which is there.
    `present` has the queues that are there, by virtual host and name.
    """
    kept = queue_of(queue)
    if kept is not None and (queue.vhost, kept) in present:
        raise PreconditionFailedError(
            f"queue '{queue.name}' in vhost '{queue.vhost}' keeps the history of queue '{kept}', and "
            "goes with that queue"
        )
