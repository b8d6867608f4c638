"""The views of a node that metrics, the status and the management API read. Only cuts change a thing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from cluster.catalog.state import CatalogState
from cluster.config.models import NodeConfig
from cluster.gateway.broker_port import FrontEnd
from cluster.gateway.local_queues import LocalQueues
from cluster.owner.cuts import Position
from cluster.owner.readers import ReaderRow
from cluster.peers.latencies import Latencies
from node.queue.delivery_state import Tally
from node.queue.dispatch import QueueOwner
from node.queue.partition import PartitionMachine
from node.session.listener import Listener
from replication.host import Host
from replication.journal import Journal
from replication.repair import Repair
from replication.transport import PeerTransport


class OwnedPartition(Protocol):
    """A replica of a partition. Its queues are served here while it is `active`."""

    @property
    def partition(self) -> int: ...

    @property
    def term(self) -> int: ...

    @property
    def active(self) -> bool: ...

    @property
    def machine(self) -> PartitionMachine:
        """The replicated state."""

    @property
    def queues(self) -> Mapping[int, QueueOwner]:
        """By the queue's id."""

    def begin_cut(self, number: int, reached: Callable[[Position], None]) -> None:
        """Hold still for a cut (`cluster.owner.cuts`)."""

    def end_cut(self, number: int, confirmed: Callable[[], None]) -> None:
        """Go on behind a cut (`cluster.owner.cuts`)."""

    def when_leading(self, leads: Callable[[], None]) -> None:
        """Call `leads` once a majority has confirmed that this node owns the partition, if it does."""

    @property
    def counts(self) -> bool:
        """Whether owners count the messages that retention removes from streams."""

    def reader_rows(self) -> Iterator[tuple[int, ReaderRow]]:
        """The subscriptions of the streams, by the stream's id."""

    @property
    def past(self) -> Tally:
        """The tallies of queues that are gone, added up."""


class LostMessages(Protocol):
    """Messages that no replica could read any more."""

    @property
    def messages(self) -> int: ...


class EventCount(Protocol):
    """Epochs of sinks that no client decided in time, takes of readers of which owners heard nothing in time,
    or readers that retention has passed.
    """

    @property
    def count(self) -> int: ...


@dataclass(frozen=True, slots=True)
class PartitionsView:
    """This node's replica of the catalog, its groups, and the queues that it owns."""

    state: CatalogState
    host: Host
    owners: Mapping[int, OwnedPartition]
    """By the partition's number."""
    local: LocalQueues
    overdue: EventCount
    """The epochs of sinks that this node's owners have dropped."""
    overdue_takes: EventCount
    """The takes of readers that this node's owners have ended."""
    overtaken: EventCount
    """The readers of streams that retention has passed at this node's owners."""

    def queue_name(self, queue: int) -> tuple[str, str] | None:
        """Virtual host and name of a queue; None where they are not known here.

        A part of a queue with several owners has a name of its own: a node that owns two parts has two rows.
        """
        return self.state.queue_name(queue) or self.local.names.get(queue)


@dataclass(slots=True)
class ArchiveFigures:
    """The archive of the journal. stored: segments that it has taken. lost: those that it has not taken, and
    the journal could not keep. removed: those that have left it. octets: of all its segments, as far as
    known. waiting_octets: of segments that wait in the journal. failing: the last try to store one failed.
    """

    stored: int = 0
    lost: int = 0
    removed: int = 0
    octets: int = 0
    waiting_octets: int = 0
    failing: bool = False


@dataclass(frozen=True, slots=True)
class StorageView:
    """The journal, and the damage found in it."""

    journal: Journal
    repair: Repair
    lost: LostMessages
    set_aside: Callable[[], bool]
    """Whether a damaged journal that a start has set aside is in the data directory."""
    archive: ArchiveFigures


@dataclass(frozen=True, slots=True)
class HealthView:
    """Whether the node takes clients, and which resources it is short of."""

    readiness: Callable[[], list[str]]
    """The reasons why load balancers should send no clients to this node now."""
    listening: Callable[[], bool]
    short_of: Callable[[], frozenset[str]]
    """Of `MEMORY` and `DISK`."""
    memory_limit: int
    """Octets of memory above which the node is short of memory."""
    disk_free_limit: int
    """Octets free on disk below which the node is short of disk."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """One for each node. `clock` gives seconds of the node's clock."""

    config: NodeConfig
    clock: Callable[[], float]
    partitions: PartitionsView
    storage: StorageView
    health: HealthView
    listener: Listener
    front_end: FrontEnd
    latencies: Latencies
    transport: PeerTransport
    formats: Callable[[], int]
    """The number of the formats that every member of the cluster reads."""
