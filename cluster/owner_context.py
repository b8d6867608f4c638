"""What a partition's owner needs of the node that it runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from cluster.ports import FrontEndPort
from node.engine.settings import QueueSettings

if TYPE_CHECKING:
    from cluster.owner import PartitionOwner


class OwnerContext(Protocol):
    """What an owner needs of its node."""

    def propose(self, partition: int, data: bytes) -> int | None:
        """Append an entry to the partition's log; its index, or None while that is impossible."""

    def disk_idle(self) -> bool:
        """Whether an entry proposed now would be written at once."""

    def may_serve(self, partition: int) -> bool:
        """Whether a majority still takes this node for the leader (leader lease)."""

    def front_end_port(self, partition: int, front_end: int) -> FrontEndPort | None:
        """Where to reach a front end, None when its node is unknown."""

    def front_end_alive(self, front_end: int) -> bool:
        """Whether the front end's process can be reached, or could be until just now."""

    def front_end_dead(self, front_end: int) -> bool:
        """Whether the front end's process is gone for good, and will never send anything again."""

    def room(self, front_end: int) -> int | None:
        """Octets that may be queued for a front end's node now; None for one in this process."""

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

    def queue_unused(self, queue: int) -> None:
        """The last consumer of a queue is gone."""

    def queue_expired(self, queue: int) -> None:
        """Nobody has used a queue for as long as it asked to live without (x-expires)."""

    def owner_dirty(self, owner: PartitionOwner) -> None:
        """Have `propose` and `serve` called in this turn."""
