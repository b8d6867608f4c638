"""Queues with several owners (requirement D20): their parts, and which part is the nearest one. Pure.

The queue that clients declare is the first part. The catalog declares the others with it and deletes them
with it. They are hidden: clients know the name of the queue alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from cluster.catalog.definitions import QueueDefinition
from cluster.catalog.placement import ring
from node.queue.placement_arguments import X_OWNERS, X_PART_OF
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
    places: Sequence[int], fields: Mapping[str, Any]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """A queue with these fields, and its parts behind the first: the partition of each, and its fields."""
    yield places[0], dict(fields)
    for number, place in enumerate(places[1:], 2):
        arguments = {**fields["arguments"], X_PART_OF: fields["name"]}
        yield place, {**fields, "name": hidden_part_name(fields["name"], number), "arguments": arguments}


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
        self._hidden: set[_Name] = set()

    def add(self, queue: QueueDefinition) -> None:
        """A queue is declared: the first part before the others."""
        whole = whole_name(queue)
        if whole is not None:
            self.by_name.setdefault((queue.vhost, whole), [whole]).append(queue.name)
            self._hidden.add((queue.vhost, queue.name))
        elif X_OWNERS in queue.arguments:
            self.by_name.setdefault((queue.vhost, queue.name), [queue.name])

    def remove(self, queue: QueueDefinition) -> list[QueueDefinition]:
        """A queue is deleted. Returns the parts that go with it."""
        whole, key = whole_name(queue), (queue.vhost, queue.name)
        if whole is not None:
            self._hidden.discard(key)
            if (queue.vhost, whole) in self.by_name:
                self.by_name[queue.vhost, whole].remove(queue.name)
            return []
        names = self.by_name.pop(key, [])
        found = (self._find((queue.vhost, name)) for name in names[1:])
        return [part for part in found if part is not None]

    def restore(self, queues: Iterable[QueueDefinition]) -> None:
        """These are all queues."""
        self.by_name.clear()
        self._hidden.clear()
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
        found = [part for part in map(self._find, self._names(vhost, name)) if part is not None]
        owners = [(owner, part) for part in found if (owner := owner_of(part.partition)) is not None]
        if not owners:
            return found[0]
        first = ring(node, [owner for owner, _ in owners])[0]
        return next(part for owner, part in owners if owner == first)

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
