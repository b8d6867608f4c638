"""Checks declarations of queues (0-9-1, queue.declare). Refusals have RabbitMQ's words. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cluster.catalog.definitions import PartitionDefinition, PartitionKind, QueueDefinition
from cluster.catalog.placement import CLASSIC, GROUP_SIZE, QUORUM
from node.message.streams import X_QUEUE_TYPE
from node.names import NODES_PREFIX
from node.queue.features.arguments import BY_NAME
from node.queue.placement_arguments import X_DOMAIN, X_INITIAL_OWNER, X_REPLICATION
from node.refusal import AccessRefusedError, locked
from node.routing.equivalence import check_equivalent_arguments, check_property
from node.routing.exchange import RESERVED_PREFIX

TYPE_ARGUMENT: Final = X_QUEUE_TYPE

COMPARED_ARGUMENTS: Final = frozenset(
    {
        GROUP_SIZE,
        X_DOMAIN,
        X_INITIAL_OWNER,
        X_REPLICATION,
        *(name for name, argument in BY_NAME.items() if argument.field and name != TYPE_ARGUMENT),
    }
)
"""The arguments with an effect on a queue, besides its type. RabbitMQ compares no others, and neither does
quorate: clients declare the same queue with and without arguments of plugins, tools and former versions."""


def check_redeclared(
    existing: QueueDefinition, fields: Mapping[str, Any], partition: PartitionDefinition
) -> None:
    """A declaration of an existing queue must describe the same queue (0-9-1, queue.declare).

    `partition` is the queue's. Raises ResourceLockedError where the queue is exclusive to another connection,
    or the declarations differ in that; PreconditionFailedError for any other difference.
    """
    queue = f"queue '{existing.name}' in vhost '{existing.vhost}'"
    mine = (existing.front_end, existing.holder) == (fields["front_end"], fields["holder"])
    if existing.exclusive != fields["exclusive"] or (existing.exclusive and not mine):
        raise locked(existing.vhost, existing.name)
    for name in ("durable", "auto_delete"):
        check_property(queue, name, fields[name], getattr(existing, name))
    wanted, present = fields["arguments"], existing.arguments
    names = set(COMPARED_ARGUMENTS)
    if not _same_type(wanted.get(TYPE_ARGUMENT), present.get(TYPE_ARGUMENT), partition):
        names.add(TYPE_ARGUMENT)
    check_equivalent_arguments(queue, wanted, present, sorted(names))


def check_stated(
    existing: QueueDefinition,
    properties: Mapping[str, bool],
    arguments: Mapping[str, Any],
    partition: PartitionDefinition,
) -> None:
    """A queue must have the properties and the arguments that a client states, of which None stands for the
    lack of one. `partition` is the queue's. Raises PreconditionFailedError.
    """
    queue = f"queue '{existing.name}' in vhost '{existing.vhost}'"
    for name, value in properties.items():
        check_property(queue, name, value, getattr(existing, name))
    stated = {name: value for name, value in arguments.items() if value is not None}
    names = set(arguments)
    if _same_type(stated.get(TYPE_ARGUMENT), existing.arguments.get(TYPE_ARGUMENT), partition):
        names.discard(TYPE_ARGUMENT)
    check_equivalent_arguments(queue, stated, existing.arguments, sorted(names))


def _same_type(wanted: object, present: object, partition: PartitionDefinition) -> bool:
    """Whether a declaration may ask for the type `wanted` of a queue declared with the type `present`.

    A queue declared without a type has that of its partition, which a later declaration may name.
    """
    if present is None and wanted is not None:
        one_node = partition.kind is PartitionKind.TRANSIENT or partition.size == 1
        return wanted == CLASSIC if one_node else wanted == QUORUM
    return wanted is None or wanted == present


def refuse_reserved(name: str) -> None:
    """Raises AccessRefusedError for the name of a new queue with a prefix of the broker's own: that of names
    which the broker gives (§3.1.10), and that of the broker's nodes (seed 000, §6.3).
    """
    for prefix in (RESERVED_PREFIX, NODES_PREFIX):
        if name.startswith(prefix):
            raise AccessRefusedError(f"queue name '{name}' contains reserved prefix '{prefix}*'")
