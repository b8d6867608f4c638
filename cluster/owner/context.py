"""What a partition's owner needs of the node that it runs on."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

from node.queue.settings import QueueSettings

if TYPE_CHECKING:
    from cluster.broker.known_front_ends import KnownFrontEnds
    from cluster.gateway.latencies import Latencies
    from cluster.gateway.transit import Transit
    from cluster.owner.partition import PartitionOwner


class Disused(Enum):
    """Why a queue may have to go."""

    LEFT = 1
    """Its last consumer is gone."""

    ABANDONED = 2
    """The same, and a while has passed without another one."""

    EXPIRED = 3
    """Nobody has used it for as long as it asked to live without (x-expires)."""

    SEALED = 4
    """A client deletes it, which the log has, and maybe not the catalog yet."""


class OwnerContext(Protocol):
    """What an owner needs of its node."""

    transit: Transit
    """Where dead letters go, and the links to there."""

    front_ends: KnownFrontEnds
    """Who speaks with owners."""

    latencies: Latencies

    auto_delete_after_s: float
    """How long an auto-delete queue waits for another consumer when its last one is gone."""

    def propose(self, partition: int, data: bytes) -> int | None:
        """Append an entry to the partition's log; its index, or None while that is impossible."""

    def disk_idle(self) -> bool:
        """Whether an entry proposed now would be written at once."""

    def may_serve(self, partition: int) -> bool:
        """Whether a majority still takes this node for the leader (leader lease)."""

    def confirm_leading(self, partition: int, number: int) -> bool:
        """Ask a majority whether this node still leads the partition; True: no other node ever does.

        What the majority says comes to the owner's `linearizable_reads` under the number; nothing comes when
        this node leads no more.
        """

    def former_leases_over(self, partition: int) -> bool:
        """Whether no former leader of the partition has a lease any more."""

    def owner_active(self, partition: int, term: int) -> None:
        """This node has become the partition's owner and takes greetings."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, for times that the next owner must understand.

        It may jump; timers run by `now`, which does not.
        """

    def queues_of(self, partition: int) -> dict[int, QueueSettings]:
        """The queues that the catalog places on the partition."""

    def catalog_fresh(self) -> bool:
        """Whether the catalog here shows everything that any client has been told of."""

    def tells_failures(self, queue: int) -> bool:
        """Whether consumers of a queue are told how many deliveries of a message have failed."""

    def queue_disused(self, queue: int, why: Disused) -> None:
        """A queue may have to go: have the catalog delete it if that is so."""

    def owner_dirty(self, owner: PartitionOwner) -> None:
        """Have `propose` and `serve` called in this turn."""
