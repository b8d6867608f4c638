"""Local queues (requirement D20): under one name each node has a queue of its own, its *part*. Pure.

A part is a queue of the catalog on one node, called `NAME@NODE`. To the clients of that node it is NAME. The
parts have nothing in common but the name: each is declared, bound and deleted at its own node.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Set
from typing import Any

from cluster.catalog.definitions import QueueDefinition
from node.queue.placement_arguments import LOCAL, X_REPLICATION
from node.routing.equivalence import check_equivalent_arguments

_Name = tuple[str, str]
"""A virtual host and the name of a queue in it."""


def part_name(queue: str, node: str) -> str:
    """The name of a node's part of a local queue. No node's name has the separator."""
    return f"{queue}@{node}"


def name_of_part(part: str) -> tuple[str, str]:
    """The name of the local queue, and the node, in a part's name; both are wrong for other names."""
    queue, _, node = part.rpartition("@")
    return queue, node


def asks_for_part(arguments: Mapping[str, object]) -> bool:
    """Whether a queue with these arguments is a node's part of a local queue."""
    return arguments.get(X_REPLICATION) == LOCAL


def is_part(queue: QueueDefinition) -> bool:
    """Whether a queue is a part. An earlier release took the argument for one without an effect."""
    return asks_for_part(queue.arguments) and "" not in name_of_part(queue.name)


class LocalParts:
    """The parts of all local queues."""

    def __init__(self) -> None:
        self.by_name: dict[_Name, dict[str, str]] = {}
        """The names of the parts by node, for each local queue; mostly there is none."""
        self._names: dict[str, set[str]] = {}
        """The names of the parts in each virtual host."""

    def add(self, queue: QueueDefinition) -> None:
        """A queue is declared."""
        if is_part(queue):
            name, node = name_of_part(queue.name)
            self.by_name.setdefault((queue.vhost, name), {})[node] = queue.name
            self._names.setdefault(queue.vhost, set()).add(queue.name)

    def remove(self, queue: QueueDefinition) -> None:
        """A queue is deleted."""
        if is_part(queue):
            name, node = name_of_part(queue.name)
            parts = self.by_name[queue.vhost, name]
            del parts[node]
            if not parts:
                del self.by_name[queue.vhost, name]
            self._names[queue.vhost].discard(queue.name)

    def restore(self, queues: Iterable[QueueDefinition]) -> None:
        """These are all queues."""
        self.by_name.clear()
        self._names.clear()
        for queue in queues:
            self.add(queue)

    def at(self, vhost: str, name: str, node: str) -> str:
        """The queue that has this name for clients of a node: the node's part, where it has one."""
        parts = self.by_name.get((vhost, name))
        return name if parts is None else parts.get(node, name)

    def routed(self, vhost: str, names: Set[str], node: str) -> Set[str]:
        """The queues that get a message which a node routes to `names`. Parts of other nodes get none."""
        own = {self.at(vhost, name, node) for name in names}
        parts = self._names.get(vhost, set())
        return {name for name in own if name not in parts or name_of_part(name)[1] == node}

    def check_declared(
        self, vhost: str, name: str, arguments: Mapping[str, Any], present: Container[_Name]
    ) -> None:
        """Raises PreconditionFailedError for a new local queue under the name of another queue that is
        `present`, and for another queue under the name of a local one.
        """
        if asks_for_part(arguments):
            name, _ = name_of_part(name)
            differs, shown = (vhost, name) in present, dict[str, Any]()
        else:
            differs, shown = (vhost, name) in self.by_name, {X_REPLICATION: LOCAL}
        if differs:
            subject = f"queue '{name}' in vhost '{vhost}'"
            check_equivalent_arguments(subject, arguments, shown, [X_REPLICATION])
