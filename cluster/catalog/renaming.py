"""Queues that get another name (seed 000, §6.3.1). Pure.

A queue keeps its number, its partition, its messages and its consumers: these know the number. Its bindings
and views go with it, and policies apply by the new name. Clients and dead-letter routing keys that have the
old name find no queue, or another one.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import Protocol

from cluster.catalog.definitions import QueueDefinition
from cluster.catalog.local_parts import LocalParts, is_part
from cluster.catalog.owner_parts import check_whole
from cluster.catalog.topics import Topics
from cluster.catalog.views import Views
from cluster.catalog.virtual_host import VirtualHost
from node.message.streams import X_HISTORY
from node.queue.placement_arguments import X_OWNERS
from node.refusal import PreconditionFailedError

_Name = tuple[str, str]
"""A virtual host and the name of a queue in it."""


class NamedQueues(Protocol):
    """The catalog's state, as far as a new name changes it."""

    queues: dict[_Name, QueueDefinition]
    parts: LocalParts
    topics: Topics
    views: Views
    vhosts: dict[str, VirtualHost]

    def change_queue(self, queue: QueueDefinition) -> None: ...


def renamed(
    queue: QueueDefinition, name: str, present: Container[_Name], parts: LocalParts
) -> QueueDefinition:
    """The queue under its new name. `present` are the names of all queues.

    Raises PreconditionFailedError where a queue has the name, and for a queue that others know by its name:
    streams, those with a history or several owners, and parts of local queues.
    """
    vhost = queue.vhost
    check_whole(queue)
    subject = f"cannot rename queue '{queue.name}' in vhost '{vhost}'"
    if (vhost, name) in present:
        raise PreconditionFailedError(f"{subject}: there is a queue '{name}'")
    if queue.stream:
        raise PreconditionFailedError(f"{subject}: it is a stream, which queues over it know by its name")
    if X_HISTORY in queue.arguments:
        raise PreconditionFailedError(f"{subject}: the stream that keeps its history knows it by its name")
    if X_OWNERS in queue.arguments:
        raise PreconditionFailedError(f"{subject}: it has several owners")
    if is_part(queue):
        raise PreconditionFailedError(f"{subject}: it is a node's part of a local queue")
    parts.check_declared(vhost, name, queue.arguments, present)
    return replace(queue, name=name)


def give_name(catalog: NamedQueues, queue: QueueDefinition, name: str) -> None:
    """Give a queue its new name, which `renamed` has checked."""
    new, host = replace(queue, name=name), catalog.vhosts[queue.vhost]
    del catalog.queues[queue.vhost, queue.name]
    catalog.topics.remove(queue)
    host.rename_queue(queue.name, name)
    catalog.views.rename_queue(queue.vhost, queue.name, name)
    catalog.queues[new.vhost, name] = new
    catalog.topics.add(new)
    catalog.change_queue(new)
