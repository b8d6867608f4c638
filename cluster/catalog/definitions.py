"""The content of the catalog: immutable definitions of nodes, partitions and queues.

They are plain values with a msgpack form, so that a catalog snapshot is a list of them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple
from zlib import crc32

from node.message.streams import STREAM_TYPE, X_QUEUE_TYPE
from node.names import REPLY_TO
from node.queue.features.arguments import read_arguments
from node.queue.operations import Semantics
from node.queue.settings import QueueSettings


class PartitionKind(StrEnum):
    """How a partition keeps its log."""

    REPLICATED = "replicated"
    """A Raft group in the journals of its replicas (of one node for a classic queue)."""
    TRANSIENT = "transient"
    """In the memory of one incarnation of one node; touches no disk and no other node."""


class MemberState(StrEnum):
    """How far a node belongs to the cluster."""

    JOINING = "joining"
    """The catalog knows the node, which is not a voter of the catalog yet and gets no queues."""
    MEMBER = "member"
    DRAINING = "draining"
    """A voter of the catalog that gives its queues to others, and gets none."""
    LEAVING = "leaving"
    """Drained for good: the catalog forgets the node once it has no replica any more."""


class PartState(StrEnum):
    """How far a part belongs to its queue, which has a part for each node. Queues that are no such part are
    OPEN.
    """

    OPENING = "opening"
    """The part is not in its owner's log yet: front ends publish nothing to it."""
    OPEN = "open"
    CLOSING = "closing"
    """The part gives its messages to the others: front ends publish nothing to it any more."""


@dataclass(frozen=True, slots=True)
class NodeDefinition:
    """A node by its name, which is its identity; addresses are host:port and may change.

    `front_end` is the id of its newest incarnation (0 before its first start). `heir` is the node that gets
    the replicas of a leaving node. `forced`: partitions that only the leaving node has are given up with it.
    """

    name: str
    front_end: int = 0
    state: MemberState = MemberState.MEMBER
    peers: str = ""
    amqp: str = ""
    http: str = ""
    public_key: str | None = None
    heir: str = ""
    forced: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """The planned change of a partition's replicas or owner, one of each at most; "" for no node."""

    add: str = ""
    remove: str = ""
    owner: str = ""

    @property
    def nodes(self) -> frozenset[str]:
        """All nodes that the move concerns."""
        return frozenset((self.add, self.remove, self.owner)) - {""}


@dataclass(frozen=True, slots=True)
class PartitionDefinition:
    """A partition's replicas, in order of preference as owner.

    `founders` are the replicas with which its Raft group began. `size` is the number of replicas that it
    should have where there are enough nodes. `move` is the change that is under way. `apart`: the partition
    keeps whole entries, for queues with a history alone. `domain`: the nodes of this domain alone may have
    replicas; empty for all nodes.
    """

    id: int
    kind: PartitionKind
    replicas: tuple[str, ...]
    front_end: int = 0
    """The incarnation that holds a transient partition; 0 for a replicated one."""
    founders: tuple[str, ...] = ()
    size: int = 0
    move: Move | None = None
    apart: bool = False
    domain: str = ""

    @property
    def preferred(self) -> str:
        return self.replicas[0]

    @property
    def hosts(self) -> frozenset[str]:
        """The nodes that have a replica, get one by the move, or still have one that the move removes."""
        moving = {self.move.add, self.move.remove} if self.move else set()
        return frozenset({*self.replicas, *moving} - {""})


@dataclass(frozen=True, slots=True)
class QueueDefinition:
    """A queue. `holder` is the connection to which an exclusive queue belongs; 0 for other queues. `node` is
    the node whose part of a queue this one is, where that queue has a part for each node; empty otherwise.
    """

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
    """The incarnation of the node that declared the queue; an exclusive queue dies with the incarnation."""
    holder: int
    node: str = ""
    part: PartState = PartState.OPEN

    @property
    def stream(self) -> bool:
        """Whether the queue keeps its messages for all readers."""
        return self.arguments.get(X_QUEUE_TYPE) == STREAM_TYPE

    @property
    def settings(self) -> QueueSettings:
        """The settings that the queue's arguments ask for, without policies."""
        return read_arguments(self.arguments).by(self.semantics)


Definition = NodeDefinition | PartitionDefinition | QueueDefinition


def to_plain(definition: Definition) -> dict[str, Any]:
    plain = asdict(definition)
    if isinstance(definition, PartitionDefinition):
        # Earlier releases know of no such partitions.
        for name in ("apart", "domain"):
            if not plain[name]:
                del plain[name]
    if isinstance(definition, QueueDefinition) and not definition.node:
        del plain["node"], plain["part"]
    return plain


def partition_from_plain(plain: dict[str, Any]) -> PartitionDefinition:
    """Inverse of `to_plain`. The catalog of a release without moves has no founders: the replicas are those
    with which the group began.
    """
    replicas = tuple(plain["replicas"])
    move = plain.get("move")
    return PartitionDefinition(
        plain["id"],
        PartitionKind(plain["kind"]),
        replicas,
        plain["front_end"],
        tuple(plain.get("founders", replicas)),
        plain.get("size", len(replicas)),
        None if move is None else Move(**move),
        plain.get("apart", False),
        plain.get("domain", ""),
    )


def node_from_plain(plain: dict[str, Any]) -> NodeDefinition:
    return NodeDefinition(**{**plain, "state": MemberState(plain.get("state", MemberState.MEMBER))})


def queue_from_plain(plain: dict[str, Any]) -> QueueDefinition:
    part = PartState(plain.get("part", PartState.OPEN))
    return QueueDefinition(**{**plain, "semantics": Semantics(plain["semantics"]), "part": part})


LOCAL_QUEUE_PREFIX: Final = "amq.gen-"

REPLY_QUEUE_PREFIX: Final = REPLY_TO + "."
"""Prefix of the queues behind direct reply-to. Their names are made like those of server-named queues, but no
client uses the queues by name."""

FIRST_LOCAL_ID: Final = 1 << 63
"""The lowest id that a node gives to a queue by itself; the catalog gives ids from 1 on."""


class LocalName(NamedTuple):
    """The place of a queue that is not in the catalog, as the queue's name tells it. `vhost` is the CRC-32 of
    the virtual host's name.
    """

    front_end: int
    partition: int
    queue: int
    vhost: int

    @classmethod
    def of(cls, front_end: int, partition: int, queue: int, vhost: str) -> LocalName:
        return cls(front_end, partition, queue, crc32(vhost.encode()))

    def text(self, prefix: str = LOCAL_QUEUE_PREFIX) -> str:
        """The queue's name.

        Such a queue is in the memory of one node, and no other node knows it: every node must be able to tell
        from the name which node that is. The queue's id is random, so that clients cannot guess the name.
        """
        return prefix + ".".join(f"{part:x}" for part in self)


@lru_cache(1024)
def parse_local_queue_name(name: str) -> LocalName | None:
    """The parts of a server-given name; None for any other name. Each publish of a reply asks."""
    prefix = LOCAL_QUEUE_PREFIX if name.startswith(LOCAL_QUEUE_PREFIX) else REPLY_QUEUE_PREFIX
    if not name.startswith(prefix):
        return None
    try:
        front_end, partition, queue, vhost = (int(part, 16) for part in name[len(prefix) :].split("."))
    except ValueError:
        return None
    return LocalName(front_end, partition, queue, vhost)
