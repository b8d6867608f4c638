"""The interface of the node to the owners on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, Protocol

from cluster.owner.transfers import TransferLink
from cluster.peers.latencies import Latencies
from cluster.peers.link_messages import FrontEndPort
from node.message.run import Run
from node.message.streams import StreamOffset
from node.queue.settings import QueueSettings
from node.queue.transfers import Transfer
from node.ranges.cold import ColdSpace
from node.session.view_port import TakeRows, ViewVersion


class Unused(Enum):
    """Why a queue may have to be deleted."""

    LEFT = 1
    """Its last consumer is gone."""

    ABANDONED = 2
    """Its last consumer is gone, and no other one has come for `auto_delete_after_s`."""

    EXPIRED = 3
    """No client has used it for the time of its argument x-expires."""

    SEALED = 4
    """The log has sealed it for deletion; the catalog may still have it."""


@dataclass(frozen=True, slots=True, order=True)
class DeadLetterQueue:
    """A queue to which a dead letter is routed."""

    name: str
    partition: int
    queue: int


class OverdueEpoch(NamedTuple):
    """An epoch that was dropped because no client had decided it in time, by the queue of its ledger."""

    queue: int
    epoch: int
    branches: int


class OverdueEpochs:
    """The epochs that this node's owners have dropped because no client decided them in time; `count` of
    them.

    `timeout_ms`: milliseconds from the last branch of an epoch on.
    """

    def __init__(self, timeout_ms: int, told: Callable[[OverdueEpoch], None]) -> None:
        self.timeout_ms, self.count, self._told = timeout_ms, 0, told

    def note(self, epoch: OverdueEpoch) -> None:
        """An epoch is dropped."""
        self.count += 1
        self._told(epoch)


class OverdueTake(NamedTuple):
    """The takes of a queue's reader, so many with so many messages, that have ended because the owner has
    heard nothing of the reader in time.
    """

    queue: int
    reader: bytes
    takes: int
    messages: int


class OverdueTakes:
    """The readers whose takes this node's owners have ended because they have heard nothing of them in time;
    `count` takes.

    `timeout_s`: seconds from the last request of a reader on.
    """

    def __init__(self, timeout_s: float, told: Callable[[OverdueTake], None]) -> None:
        self.timeout_s, self.count, self._told = timeout_s, 0, told

    def note(self, overdue: OverdueTake) -> None:
        """The takes of a reader have ended."""
        self.count += overdue.takes
        self._told(overdue)


class OvertakenReader(NamedTuple):
    """A reader of a stream, by the number of the stream's queue, that retention has passed, and how many
    messages it has lost by then, or at most so many.
    """

    queue: int
    name: bytes
    lost: int


class OvertakenReaders:
    """The readers that retention has passed at this node's owners; `count` of them, each once for each time
    at which it was passed.

    `known`: whether logs may have readers (`node.queue.subscriptions`).
    """

    def __init__(self, known: Callable[[], bool], told: Callable[[OvertakenReader], None]) -> None:
        self.known, self.count, self._told = known, 0, told

    def note(self, reader: OvertakenReader) -> None:
        """Retention has passed a reader."""
        self.count += 1
        self._told(reader)


class Past(Enum):
    """The outcome of another recovery point of a queue over a stream that is there."""

    REFILLED = 1
    """The messages of the stream from the point on that the queue has never had are in the queue."""

    HAD = 2
    """The queue has had all messages from the point on."""

    UNKNOWN = 3
    """The log does not have from where on the queue has had all messages: it was declared while a member ran
    a release that does not log this.
    """


class ChangedPast(NamedTuple):
    """A queue has another recovery point. `first`: it has had all messages of its stream from this number on;
    0 where that is not known. `oldest`: the number of its oldest message that is not settled; 0 for none. It
    has so many `messages`, which with REFILLED may still be coming in.
    """

    queue: int
    outcome: Past
    first: int
    oldest: int
    messages: int


class PassedFeed(NamedTuple):
    """Retention of a stream has passed messages that its owner has not sent to a queue of another partition.
    `oldest` is the number of the message with which the owner goes on; 0 for the next one.
    """

    stream: int
    queue: int
    oldest: int


class Feeding(Enum):
    """Whether a stream has the rows of its view."""

    FED = 1
    """The stream has the rows again."""

    NO_VIEW = 2
    """There is no such view, or no queue under it."""

    TOO_MANY_ROWS = 3
    """The view has more rows than a stream tells."""


class FedByView(NamedTuple):
    """A stream has stopped telling the rows of its view, or goes on."""

    stream: int
    view: str
    feeding: Feeding


PastNews = ChangedPast | PassedFeed | FedByView
"""News of an owner about the past of a queue, or about a stream that a view feeds."""


class RecoveryPoints:
    """Takes the changes of recovery points of queues that this node owns, and the messages that the past of
    queues lacks.

    `known`: whether logs may have the recovery points of queues (`cluster.owner.recovery_points`).
    """

    def __init__(self, known: Callable[[], bool], told: Callable[[PastNews], None]) -> None:
        self.known, self._told = known, told

    def note(self, change: PastNews) -> None:
        """The log has the change of a recovery point, or that messages were not sent to a queue."""
        self._told(change)


class FedQueue(NamedTuple):
    """A queue of another partition, over a pattern of streams, to which the owner of a stream sends the
    messages of the stream from the recovery point on. `younger`: the stream was declared behind the queue.
    """

    queue: int
    partition: int
    point: StreamOffset
    younger: bool


class DeadLetterRoutes(Protocol):
    """Routes dead letters, and has the links to other partitions."""

    def targets(
        self, vhost: str, exchange: str, keys: Sequence[str], headers: Callable[[], Mapping[str, Any]]
    ) -> list[DeadLetterQueue]:
        """The queues to which an exchange routes a dead letter, by name; none where there is no such
        exchange.

        `headers` is called only where routes depend on headers.
        """

    def queue_name(self, queue: int) -> tuple[str, str] | None:
        """A queue's virtual host and name; None where this node does not know the queue."""

    def gone(self, partition: int) -> bool:
        """Whether the partition is gone for good. False while this node's catalog may be behind."""

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
        """Drop the links of a source that this node owns no more; with `partition` only the link to it."""


class ReachableFrontEnds(Protocol):
    """The front ends that speak with owners: the ways to them, and whether they still live."""

    def port(self, partition: int, front_end: int, node: str = "") -> FrontEndPort | None:
        """The way to a front end that greets from `node`; None where this node does not know it."""

    def alive(self, front_end: int) -> bool:
        """Whether the front end's process can be reached, or is not given up yet."""

    def dead(self, front_end: int) -> bool:
        """Whether the front end's process is gone for good, so that nothing from it can come any more."""


class QueueParts(Protocol):
    """The parts of queues with several owners, as this node's catalog has them."""

    def others(self, queue: int) -> Sequence[tuple[int, int]]:
        """The other parts of the queue of which this one is a part: the partition and the id of each."""

    def first(self, queue: int) -> int:
        """The id of the first part of the queue of which this one is a part."""

    def heirs(self, queue: int) -> Sequence[tuple[int, int]]:
        """Those of the others that take what a closing part gives away."""

    def closing(self, partition: int) -> Sequence[int]:
        """The parts on a partition that are to go; mostly none."""

    def closes(self, queue: int) -> bool:
        """Whether a part is to go."""

    def taking_nothing(self, queue: int) -> bool:
        """Whether no route leads to a queue any more: the queue is a part that is to go, or has gone."""

    def front_ends(self) -> Iterable[int]:
        """The front ends of all members."""

    def partitions(self) -> Iterable[int]:
        """The partitions that are kept on disks."""

    def when_seen(self, done: Callable[[], None]) -> None:
        """Call `done` once every node sees what this node's catalog has now."""


class OwnedQueues(Protocol):
    """The queues of partitions, as this node's catalog and its memory have them."""

    @property
    def parts(self) -> QueueParts:
        """The parts of queues with several owners."""

    @property
    def recovery_points(self) -> RecoveryPoints:
        """Takes the changes of recovery points."""

    def settings(self, queue: int) -> QueueSettings | None:
        """The settings of a queue; None where this node does not know the queue."""

    def placed_on(self, partition: int) -> dict[int, QueueSettings]:
        """The settings of the queues that the catalog places on the partition, by queue."""

    def over(self, stream: int) -> Iterable[int]:
        """The queues over a stream; none for another queue."""

    def topic_of(self, queue: int) -> int | None:
        """The stream under a queue; None without one."""

    def topics_of(self, queue: int) -> Sequence[int]:
        """The streams under a queue that share its partition."""

    def fed(self, stream: int) -> Sequence[FedQueue]:
        """The queues of other partitions which the owner of the stream feeds."""

    def read_view(self, stream: int, view: str, known: ViewVersion, wait_ms: int, answer: TakeRows) -> None:
        """Read the rows of the view that feeds a stream, with their keys: see
        `node.session.view_port.ViewPort`. Raises Refusal where there is no such view.
        """

    def declared(self, queue: int) -> bool:
        """Whether this node's catalog has got the declaration of a queue. Clients have deleted a declared
        queue that the catalog does not show: no other queue gets its number.
        """

    def tells_failures(self, queue: int) -> bool:
        """Whether messages for consumers of the queue have the header `x-delivery-count`."""

    def knows_blake3(self) -> bool:
        """Whether logs may have digests of BLAKE3 (`node.queue.chronicle`)."""

    def unused(self, queue: int, why: Unused) -> None:
        """Have the queue deleted, if its properties ask for that in the case `why`."""


class OwnerContext(Protocol):
    """The node as an owner sees it."""

    @property
    def queues(self) -> OwnedQueues:
        """The queues of partitions."""

    @property
    def transit(self) -> DeadLetterRoutes:
        """Routes dead letters, and has the links to other partitions."""

    @property
    def front_ends(self) -> ReachableFrontEnds:
        """The front ends that speak with owners."""

    @property
    def latencies(self) -> Latencies:
        """How long messages wait on this node."""

    @property
    def auto_delete_after_s(self) -> float:
        """Seconds that an auto-delete queue waits for another consumer when its last one is gone."""

    @property
    def overdue_epochs(self) -> OverdueEpochs:
        """Which epochs of sinks come to their end, and which have."""

    @property
    def overdue_takes(self) -> OverdueTakes:
        """Which takes of readers come to their end, and which have."""

    @property
    def overtaken_readers(self) -> OvertakenReaders:
        """Which readers of streams retention has passed."""

    @property
    def new_space(self) -> Callable[[], ColdSpace | None]:
        """Makes a place outside of memory for ranges and annotations of one queue; None: there is none."""

    def propose(self, partition: int, data: bytes) -> int | None:
        """Append an entry to the partition's log. Returns its index; None where this node does not lead, or
        hands over. The entry is not durable yet: `apply` is called once it is committed.
        """

    def disk_idle(self) -> bool:
        """Whether the journal would write an entry at once if it was proposed now."""

    def may_serve(self, partition: int) -> bool:
        """Whether this node has the leader lease of the partition. While it has, no later owner gives up a
        front end that has not greeted it (docs/decisions/0015-leases.md).
        """

    def handing_over(self, partition: int) -> bool:
        """Whether this node has asked another one to lead the partition, which may lead by now."""

    def confirm_leading(self, partition: int, number: int) -> bool:
        """Ask a majority whether this node still leads the partition. Returns True for a partition in memory,
        which no other node can lead.

        After False a confirmation comes to the owner's `linearizable_reads` under the number; none comes if
        this node does not lead any more.
        """

    def former_leases_over(self, partition: int) -> bool:
        """Whether no former leader of the partition has a lease any more."""

    def owner_active(self, partition: int, term: int) -> None:
        """This node has become the partition's owner and takes greetings."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, for times that the next owner must understand.

        It may jump; timers run by `now`, which does not.
        """

    def catalog_fresh(self) -> bool:
        """Whether this node's catalog shows every change of which any client has been told."""

    def keeps_remarks(self) -> bool:
        """Whether logs may have octets about messages (`node.queue.remarks`)."""

    def knows_links(self) -> bool:
        """Whether logs may have which messages a queue keeps for links (`node.queue.link_leases`)."""

    def logs_links(self) -> bool:
        """Whether logs may have which consumer a link has (`cluster.owner.attached_links`)."""

    def knows_targets(self) -> bool:
        """Whether logs may have the targets that a queue keeps for links (`node.queue.targets`)."""

    def knows_loans(self) -> bool:
        """Whether logs may have loans between the owners of one queue (`cluster.owner.loans`)."""

    def keeps_histories(self) -> bool:
        """Whether logs may have notes for histories (`node.queue.history_notes`)."""

    def owner_dirty(self, partition: int) -> None:
        """Have `propose` and `serve` of the partition's owner called in this turn."""
