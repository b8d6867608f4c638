"""Places new queues on nodes. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from node.message.streams import STREAM_TYPE, X_HISTORY, X_QUEUE_TYPE, X_UNDERLYING_TOPIC
from node.queue.placement_arguments import LOCAL, X_DOMAIN, X_INITIAL_OWNER, X_OWNERS, X_REPLICATION
from node.refusal import PreconditionFailedError, Refusal
from node.session.ports import QueueDeclaration

DEFAULT_GROUP_SIZE: Final = 3
QUEUES_A_PARTITION: Final = 8
"""Queues with the same replicas that share a partition before the catalog adds another such partition. Queues
of one partition cost less; queues of several partitions can have different owners."""

QUORUM: Final = "quorum"
CLASSIC: Final = "classic"
STREAM: Final = STREAM_TYPE
GROUP_SIZE: Final = "x-quorum-initial-group-size"
CLIENT_LOCAL: Final = "client-local"


class RestartedError(Refusal):
    """The node that submitted the command has restarted since, or fell behind."""

    code = 541
    ends_connection = True


class PartPlacement(NamedTuple):
    """The place of a hidden part: see `Placement`."""

    replicas: tuple[str, ...]
    elsewhere: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """`replicas` in order of preference as owner; a transient queue is in the memory of the first.

    `size` is the number of replicas that the queue should have, once there are enough nodes. `domain` is
    that of the queue; empty for none. `elsewhere`: the partitions that another node owns than the first owner
    for which the queue asks. `parts` are the places of the parts behind the first of a queue with several
    owners. `nodes` are those of all parts where each node is to have one.
    """

    replicas: tuple[str, ...]
    transient: bool
    size: int = 1
    domain: str = ""
    elsewhere: tuple[int, ...] = ()
    parts: tuple[PartPlacement, ...] = ()
    nodes: tuple[str, ...] = ()


def place(declaration: QueueDeclaration, node: str, members: Sequence[str], default_type: str) -> Placement:
    """Place a queue that is declared on `node`, which becomes its owner.

    A node that is not among `members`, the nodes that take queues, leaves a queue on disk to the next member.
    A queue in memory always stays on `node`.

    Raises PreconditionFailedError for arguments that contradict each other or make no sense.
    """
    arguments = declaration.arguments
    type_ = check_type(declaration)
    if not declaration.durable or declaration.exclusive:
        return Placement((node,), True)
    # A local queue has the type, too.
    if (type_ or default_type) == CLASSIC:
        return Placement(ring(node, members)[:1], False)
    size = _group_size(arguments, "x-initial-cluster-size" if type_ == STREAM else GROUP_SIZE)
    return Placement(ring(node, members)[:size], False, size)


def check_type(declaration: QueueDeclaration) -> str | None:
    """The type that a declaration names; None for none.

    Raises PreconditionFailedError for an unknown type, and for a property that no queue of the type has.
    """
    placed = next((one for one in (X_DOMAIN, X_INITIAL_OWNER) if one in declaration.arguments), None)
    if placed is not None and (not declaration.durable or declaration.exclusive):
        raise PreconditionFailedError(
            f"invalid arg '{placed}' for queue: a queue that is not durable, or is exclusive, stays on the "
            "node where it is declared"
        )
    type_ = declaration.arguments.get(X_QUEUE_TYPE)
    if declaration.arguments.get(X_REPLICATION) == LOCAL:
        _check_local(declaration, type_)
        return CLASSIC
    if type_ not in (None, QUORUM, CLASSIC, STREAM):
        raise PreconditionFailedError(f"invalid arg '{X_QUEUE_TYPE}' for queue: unsupported type '{type_}'")
    over = next(
        (one for one in (X_UNDERLYING_TOPIC, X_HISTORY, X_OWNERS) if one in declaration.arguments), None
    )
    if over is not None and type_ not in (None, QUORUM):
        raise PreconditionFailedError(f"invalid arg '{over}' for queue of type {type_}")
    replicated = over is not None or type_ not in (None, CLASSIC)
    unfit = _unfit_property(declaration, stays=type_ == STREAM or over == X_OWNERS) if replicated else ""
    if unfit:
        raise PreconditionFailedError(f"invalid property '{unfit}' for queue of type {type_ or QUORUM}")
    return QUORUM if over in (X_HISTORY, X_OWNERS) else type_


def _check_local(declaration: QueueDeclaration, type_: object) -> None:
    """Raises PreconditionFailedError where a local queue is to be of another type, exclusive, or without a
    name.
    """
    wrong = f"invalid arg '{X_REPLICATION}' for queue '{declaration.name}': a local queue"
    if type_ not in (None, CLASSIC):
        raise PreconditionFailedError(f"{wrong} is on one node, and no queue of type {type_}")
    if declaration.exclusive:
        raise PreconditionFailedError(f"{wrong} is for all clients of its node, and not exclusive")
    if not declaration.name:
        raise PreconditionFailedError(f"{wrong} has a name that the client gives")


def _unfit_property(declaration: QueueDeclaration, *, stays: bool) -> str:
    """The property, in RabbitMQ's words, that no such replicated queue has; empty for none. `stays`: no such
    queue is deleted by itself.
    """
    if not declaration.durable:
        return "non-durable"
    if declaration.exclusive:
        return "exclusive-owner"
    return "auto-delete" if declaration.auto_delete and stays else ""


def local_or_balanced(
    asked: Mapping[str, object],
    node: str,
    members: Sequence[str],
    count_owned: Callable[[], Mapping[str, int]],
) -> str:
    """The node that should own a queue declared on `node`; `count_owned` counts the queues of each member.

    `asked` has the queue's arguments together with those of its policies. `x-queue-leader-locator`, or its
    older name, is `client-local` by default. Every other value that RabbitMQ knows means the member with the
    fewest queues; of several such members the next one from `node` on.
    """
    locator = asked.get("x-queue-leader-locator", asked.get("x-queue-master-locator", CLIENT_LOCAL))
    if locator == CLIENT_LOCAL or not members:
        return node
    owned = count_owned()
    return min(ring(node, members), key=lambda one: owned.get(one, 0))


def ring(node: str, members: Sequence[str]) -> tuple[str, ...]:
    """All members, beginning with `node`, or with the next member: so second replicas are spread evenly."""
    ordered = sorted(members)
    at = bisect_left(ordered, node)
    return tuple(ordered[at:] + ordered[:at])


def _group_size(arguments: dict[str, object], name: str) -> int:
    size = arguments.get(name, DEFAULT_GROUP_SIZE)
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise PreconditionFailedError(f"invalid arg '{name}' for queue: {size!r} is no positive number")
    return size
