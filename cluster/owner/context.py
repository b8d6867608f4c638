"""What a partition's owner needs of the node that it runs on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from cluster.owner.transfers import TransferLink
from cluster.peers.latencies import Latencies
from cluster.peers.ports import FrontEndPort
from node.message.run import Run
from node.queue.settings import QueueSettings
from node.queue.transfers import Transfer


class Unused(Enum):
    """Why a queue may have to go."""

    LEFT = 1
    """Its last consumer is gone."""

    ABANDONED = 2
    """The same, and a while has passed without another one."""

    EXPIRED = 3
    """Nobody has used it for as long as it asked to live without (x-expires)."""

    SEALED = 4
    """A client deletes it, which the log has, and maybe not the catalog yet."""


@dataclass(frozen=True, slots=True, order=True)
class DeadLetterQueue:
    """A queue that a dead letter goes to."""

    name: str
    partition: int
    queue: int


class DeadLetterRoutes(Protocol):
    """Where dead letters go, and the links to there."""

    def targets(
        self, vhost: str, exchange: str, keys: Sequence[str], headers: Callable[[], Mapping[str, Any]]
    ) -> list[DeadLetterQueue]:
        """The queues that an exchange routes a dead letter to, sorted; none where there is no such exchange.

        `headers` is only asked where routes depend on them.
        """

    def queue_name(self, queue: int) -> tuple[str, str] | None:
        """A queue's virtual host and name, None where the catalog here does not know it."""

    def gone(self, partition: int) -> bool:
        """Whether there is no such partition any more."""

    def publish_soft(self, partition: int, run: Run, queues: Sequence[int]) -> None:
        """Publish transient dead letters to queues of another partition, without a confirm."""

    def link(
        self,
        source: int,
        partition: int,
        term: int,
        contents: Callable[[Transfer], bytes | None],
        arrived: Callable[[int], None],
    ) -> TransferLink:
        """A new link from a partition that this node owns to another one."""

    def close(self, source: int, partition: int | None = None) -> None:
        """This node owns the source no more, or there is no such other partition any more."""


class ReachableFrontEnds(Protocol):
    """The front ends that speak with owners: where they are, and whether they still live."""

    def port(self, partition: int, front_end: int, node: str = "") -> FrontEndPort | None:
        """Where to reach a front end that greets from a node, None when that is unknown."""

    def alive(self, front_end: int) -> bool:
        """Whether the front end's process can be reached, or could be until just now."""

    def dead(self, front_end: int) -> bool:
        """Whether the front end's process is gone for good, and will never send anything again."""

    def room(self, front_end: int) -> int | None:
        """Octets that may be queued for a front end's node now; None for one in this process."""


class OwnerContext(Protocol):
    """What an owner needs of its node."""

    @property
    def transit(self) -> DeadLetterRoutes:
        """Where dead letters go, and the links to there."""

    @property
    def front_ends(self) -> ReachableFrontEnds:
        """Who speaks with owners."""

    @property
    def latencies(self) -> Latencies:
        """How long messages wait on this node."""

    @property
    def auto_delete_after_s(self) -> float:
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

    def queue_unused(self, queue: int, why: Unused) -> None:
        """A queue may have to go: have the catalog delete it if that is so."""

    def owner_dirty(self, partition: int) -> None:
        """Have `propose` and `serve` of the partition's owner called in this turn."""
