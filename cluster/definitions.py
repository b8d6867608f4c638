"""What the catalog holds: immutable definitions of nodes, partitions and queues.

They are plain values with a msgpack form, so that a catalog snapshot is a list of them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from node.engine.arguments import read_arguments
from node.engine.operations import Semantics
from node.engine.settings import QueueSettings


class PartitionKind(StrEnum):
    """How a partition keeps its log."""

    REPLICATED = "replicated"
    """A Raft group in the journals of its replicas (of one node for a classic queue)."""
    TRANSIENT = "transient"
    """In the memory of one incarnation of one node; touches no disk and no other node."""


@dataclass(frozen=True, slots=True)
class NodeDefinition:
    """A member and the front end id of its newest incarnation (0 before its first start)."""

    name: str
    front_end: int = 0


@dataclass(frozen=True, slots=True)
class PartitionDefinition:
    """A partition's replicas, in order of preference as owner."""

    id: int
    kind: PartitionKind
    replicas: tuple[str, ...]
    front_end: int = 0
    """The incarnation that holds a transient partition; 0 for a replicated one."""

    @property
    def preferred(self) -> str:
        return self.replicas[0]


@dataclass(frozen=True, slots=True)
class QueueDefinition:
    """A queue. `holder` is the connection that an exclusive queue belongs to, else 0."""

    id: int
    vhost: str
    name: str
    partition: int
    durable: bool
    exclusive: bool
    auto_delete: bool
    arguments: dict[str, Any]
    semantics: Semantics
    front_end: int
    """The incarnation of the node where it was declared; an exclusive queue dies with it."""
    holder: int

    @property
    def settings(self) -> QueueSettings:
        """What the arguments ask for."""
        return replace(read_arguments(self.arguments), semantics=self.semantics)


Definition = NodeDefinition | PartitionDefinition | QueueDefinition


def to_plain(definition: Definition) -> dict[str, Any]:
    return asdict(definition)


def partition_from_plain(plain: dict[str, Any]) -> PartitionDefinition:
    return PartitionDefinition(
        plain["id"], PartitionKind(plain["kind"]), tuple(plain["replicas"]), plain["front_end"]
    )


def queue_from_plain(plain: dict[str, Any]) -> QueueDefinition:
    return QueueDefinition(**{**plain, "semantics": Semantics(plain["semantics"])})


LOCAL_QUEUE_PREFIX = "amq.gen-"


def local_queue_name(front_end: int, partition: int, queue: int, nonce: int) -> str:
    """A server-named exclusive queue's name: it alone says where the queue is.

    Such a queue is in no catalog (it touches neither disk nor other nodes), so any node must be
    able to tell from the name which node's memory holds it. `nonce` keeps it from being guessed.
    """
    return f"{LOCAL_QUEUE_PREFIX}{front_end:x}.{partition:x}.{queue:x}.{nonce:x}"


def parse_local_queue_name(name: str) -> tuple[int, int, int] | None:
    """The front end, partition and queue that a server-given name tells; None for any other name."""
    if not name.startswith(LOCAL_QUEUE_PREFIX):
        return None
    try:
        front_end, partition, queue, _nonce = name[len(LOCAL_QUEUE_PREFIX) :].split(".")
        return int(front_end, 16), int(partition, 16), int(queue, 16)
    except ValueError:
        return None
