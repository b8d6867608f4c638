"""Where a new queue lives. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from node.refusal import PreconditionFailedError, Refusal
from node.session.ports import QueueDeclaration

DEFAULT_GROUP_SIZE: Final = 3
QUEUES_A_PARTITION: Final = 8
"""Queues with the same replicas that share a partition before there is another one like it: those of one
partition cost less, those of several can be owned by different nodes."""

QUORUM: Final = "quorum"
CLASSIC: Final = "classic"
CLIENT_LOCAL: Final = "client-local"


class RestartedError(Refusal):
    """The node that asked has restarted since."""

    code = 541
    ends_connection = True


@dataclass(frozen=True, slots=True)
class Placement:
    """`replicas` in order of preference as owner; a transient queue is in the memory of the first.

    `size`: how many replicas it should have, also where there are not enough nodes yet.
    """

    replicas: tuple[str, ...]
    transient: bool
    size: int = 1


def place(declaration: QueueDeclaration, node: str, members: Sequence[str], default_type: str) -> Placement:
    """Place a queue declared on `node`: its owner is where it was declared.

    Where that is none of the `members` that take queues, it is the next of them, unless the queue is
    in memory.

    Raises PreconditionFailedError for arguments that contradict each other or make no sense.
    """
    arguments = declaration.arguments
    type_ = arguments.get("x-queue-type")
    if type_ not in (None, QUORUM, CLASSIC):
        raise PreconditionFailedError(f"invalid arg 'x-queue-type' for queue: unsupported type '{type_}'")
    if type_ == QUORUM and not declaration.durable:
        raise PreconditionFailedError("invalid property 'non-durable' for queue of type quorum")
    if type_ == QUORUM and declaration.exclusive:
        raise PreconditionFailedError("invalid property 'exclusive-owner' for queue of type quorum")
    if not declaration.durable or declaration.exclusive:
        return Placement((node,), True)
    if (type_ or default_type) == CLASSIC:
        return Placement(ring(node, members)[:1], False)
    size = _group_size(arguments)
    return Placement(ring(node, members)[:size], False, size)


def local_or_balanced(
    asked: Mapping[str, object],
    node: str,
    members: Sequence[str],
    count_owned: Callable[[], Mapping[str, int]],
) -> str:
    """The node that a queue declared on `node` is to be owned by; `count_owned` counts those of each member.

    `asked` are the queue's arguments, and what policies define besides. `x-queue-leader-locator`, or its
    older name, is `client-local` where nothing is said; everything else that RabbitMQ knows means the
    member with the fewest queues, of several the next one from `node` on.
    """
    locator = asked.get("x-queue-leader-locator", asked.get("x-queue-master-locator", CLIENT_LOCAL))
    if locator == CLIENT_LOCAL or not members:
        return node
    owned = count_owned()
    return min(ring(node, members), key=lambda one: owned.get(one, 0))


def ring(node: str, members: Sequence[str]) -> tuple[str, ...]:
    """All members from `node`, or from the next member, on: the order that spreads second places evenly."""
    ordered = sorted(members)
    at = bisect_left(ordered, node)
    return tuple(ordered[at:] + ordered[:at])


def _group_size(arguments: dict[str, object]) -> int:
    size = arguments.get("x-quorum-initial-group-size", DEFAULT_GROUP_SIZE)
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise PreconditionFailedError(
            f"invalid arg 'x-quorum-initial-group-size' for queue: {size!r} is no positive number"
        )
    return size
