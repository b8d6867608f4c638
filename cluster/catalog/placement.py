"""Where a new queue lives. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from node.engine.errors import PreconditionFailedError
from node.frontend.ports import QueueDeclaration

DEFAULT_GROUP_SIZE: Final = 3
QUORUM: Final = "quorum"
CLASSIC: Final = "classic"


@dataclass(frozen=True, slots=True)
class Placement:
    """`replicas` in order of preference as owner; a transient queue is in the memory of the first."""

    replicas: tuple[str, ...]
    transient: bool


def place(declaration: QueueDeclaration, node: str, members: Sequence[str], default_type: str) -> Placement:
    """Place a queue declared on `node`: its owner is where it was declared.

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
        return Placement((node,), False)
    size = _group_size(arguments, len(members))
    return Placement(ring(node, members)[:size], False)


def ring(node: str, members: Sequence[str]) -> tuple[str, ...]:
    """All members, `node` first, the others in the order that spreads second places evenly."""
    ordered = sorted(members)
    at = ordered.index(node)
    return tuple(ordered[at:] + ordered[:at])


def _group_size(arguments: dict[str, object], members: int) -> int:
    size = arguments.get("x-quorum-initial-group-size", DEFAULT_GROUP_SIZE)
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise PreconditionFailedError(
            f"invalid arg 'x-quorum-initial-group-size' for queue: {size!r} is no positive number"
        )
    return min(size, members)
