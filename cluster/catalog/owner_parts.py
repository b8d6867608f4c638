"""Queues with several owners (requirement D20): their parts, and which part is the nearest one. Pure.

The queue that clients declare is the first part. The catalog declares the others with it and deletes them
with it; with x-owners each-node it also declares and deletes others as nodes come and go
(`cluster.catalog.node_parts`). They are hidden: clients know the name of the queue alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from cluster.catalog.definitions import PartState, QueueDefinition
from cluster.catalog.placement import ring
from node.queue.placement_arguments import EACH_NODE, X_OWNERS, X_PART_OF
from node.refusal import PreconditionFailedError
from node.routing.exchange import RESERVED_PREFIX
from node.wire.naming import NamingError, check_text

_Name = tuple[str, str]
"""A virtual host and the name of a queue in it."""

OwnerOf = Callable[[int], str | None]
"""The node that owns a partition, as far as the asking node has heard."""


def hidden_part_name(queue: str, number: int) -> str:
    """The name of a part behind the first. No client declares a queue with the prefix. Raises
    PreconditionFailedError for a name that is too long.
    """
    name = f"{RESERVED_PREFIX}part-{number}.{queue}"
    try:
        check_text(name)
    except NamingError as error:
        raise PreconditionFailedError(f"no part of the queue is declared under this name: {error}") from None
    return name


def whole_name(queue: QueueDefinition) -> str | None:
    """The name of the queue of which this one is a part behind the first; None for other queues."""
    found = queue.arguments.get(X_PART_OF)
    return found if isinstance(found, str) and queue.name.startswith(RESERVED_PREFIX) else None


def known_as(queue: QueueDefinition) -> _Name:
    """The name by which clients know a queue: a hidden part by that of its queue."""
    return queue.vhost, whole_name(queue) or queue.name


def check_whole(queue: QueueDefinition) -> None:
    """Raises PreconditionFailedError for a hidden part, which is not deleted alone."""
    whole = whole_name(queue)
    if whole is not None:
        raise PreconditionFailedError(
            f"queue '{queue.name}' in vhost '{queue.vhost}' is a part of queue '{whole}', and goes with it"
        )


def with_hidden_parts(
    places: Sequence[int], fields: Mapping[str, Any], nodes: Sequence[str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """A queue with these fields, and its parts behind the first: the partition of each, and its fields.
    `nodes` are the nodes of the parts where each node has one, otherwise empty.
    """
    of_nodes = [{"node": node} for node in nodes] or [dict[str, str]()] * len(places)
    for number, (place, of_node) in enumerate(zip(places, of_nodes, strict=True), 1):
        part = fields if number == 1 else hidden_part_fields(fields, number)
        yield place, {**part, **of_node}


def hidden_part_fields(fields: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The fields of a part behind the first, by those of the queue."""
    arguments = {**fields["arguments"], X_PART_OF: fields["name"]}
    return {**fields, "name": hidden_part_name(fields["name"], number), "arguments": arguments}


def told_parts(queues: Sequence[QueueDefinition]) -> dict[str, Any]:
    """The parts behind the first, in the value of the command that declares a queue: partition and id."""
    return {"parts": [[one.partition, one.id] for one in queues[1:]]} if len(queues) > 1 else {}


class OwnerParts:
    """The parts of all queues with several owners."""

    def __init__(self, find: Callable[[_Name], QueueDefinition | None]) -> None:
        """`find` gives the queue of a name, if there is one now."""
        self._find = find
        self.by_name: dict[_Name, list[str]] = {}
        """The names of the parts of each queue, the first one first; mostly there is no such queue."""
        self.of_nodes: set[_Name] = set()
        """The queues with a part for each node."""
        self._hidden: set[_Name] = set()

    def add(self, queue: QueueDefinition) -> None:
        """A queue is declared: the first part before the others."""
        whole = whole_name(queue)
        if whole is not None:
            self.by_name.setdefault((queue.vhost, whole), [whole]).append(queue.name)
            self._hidden.add((queue.vhost, queue.name))
        elif X_OWNERS in queue.arguments:
            self.by_name.setdefault((queue.vhost, queue.name), [queue.name])
            if queue.arguments[X_OWNERS] == EACH_NODE:
                self.of_nodes.add((queue.vhost, queue.name))

    def remove(self, queue: QueueDefinition) -> list[QueueDefinition]:
        """A queue is deleted. Returns the parts that go with it."""
        whole, key = whole_name(queue), (queue.vhost, queue.name)
        if whole is not None:
            self._hidden.discard(key)
            if (queue.vhost, whole) in self.by_name:
                self.by_name[queue.vhost, whole].remove(queue.name)
            return []
        self.of_nodes.discard(key)
        names = self.by_name.pop(key, [])
        found = (self._find((queue.vhost, name)) for name in names[1:])
        return [part for part in found if part is not None]

    def restore(self, queues: Iterable[QueueDefinition]) -> None:
        """These are all queues."""
        self.by_name.clear()
        self._hidden.clear()
        self.of_nodes.clear()
        for queue in queues:
            self.add(queue)

    def hidden(self, vhost: str, name: str) -> bool:
        """Whether a queue is a part behind the first."""
        return (vhost, name) in self._hidden

    def of(self, queue: QueueDefinition) -> list[QueueDefinition]:
        """All parts of the queue of which this one is a part, the first one first; empty for a queue with one
        owner.
        """
        names = self.by_name.get((queue.vhost, whole_name(queue) or queue.name), ())
        found = (self._find((queue.vhost, name)) for name in names)
        return [part for part in found if part is not None]

    def nearest(self, vhost: str, name: str, node: str, owner_of: OwnerOf) -> QueueDefinition | None:
        """The part that a node's clients publish to and consume from: one that the node owns, or the one with
        the next owner in the ring of nodes. None for a queue with one owner.
        """
        if (vhost, name) not in self.by_name:
            return None
        named = map(self._find, self._names(vhost, name))
        found = [part for part in named if part is not None and part.part is PartState.OPEN]
        owners = [(owner, part) for part in found if (owner := owner_of(part.partition)) is not None]
        if not owners:
            return found[0]
        first = ring(node, [owner for owner, _ in owners])[0]
        return next(part for owner, part in owners if owner == first)

    def lasting(self, queue: QueueDefinition) -> list[QueueDefinition]:
        """The parts as in `of`, without those that are closing."""
        return [part for part in self.of(queue) if part.part is not PartState.CLOSING]

    def closing(self) -> Iterator[QueueDefinition]:
        """The parts that give their messages to the others."""
        return (part for part in self._of_nodes() if part.part is PartState.CLOSING)

    def opening(self) -> Iterator[QueueDefinition]:
        """The parts to which no front end publishes yet."""
        return (part for part in self._of_nodes() if part.part is PartState.OPENING)

    def _of_nodes(self) -> Iterator[QueueDefinition]:
        names = (part for queue in self.of_nodes for part in self._names(*queue))
        return (part for part in map(self._find, names) if part is not None)

    def _names(self, vhost: str, name: str) -> list[_Name]:
        return [(vhost, part) for part in self.by_name[vhost, name]]

    def routed(self, vhost: str, names: Set[str], node: str, owner_of: OwnerOf) -> Set[str]:
        """The queues that get a message which a node routes to `names`: the nearest part of each queue. No
        client routes to a hidden part by its own name.
        """
        found = set()
        for name in names:
            part = self.nearest(vhost, name, node, owner_of)
            if part is not None:
                found.add(part.name)
            elif not self.hidden(vhost, name):
                found.add(name)
        return found
