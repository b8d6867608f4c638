"""The operations that log entries are made of, as values. `node.queue.entry_format` has their octets."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple

from node.delivery.settlements import NO_TOKEN
from node.message.reason import Reason
from node.queue.epoch_operations import UpdateEpoch
from node.queue.history_notes import HistoryNote
from node.queue.remarks import Remark
from node.queue.subscriptions import Advance, MakeReader, RetentionPassed
from node.queue.take_operations import UpdateTake
from node.queue.targets import UpdateTarget
from node.queue.told_rows import TellRows
from node.queue.transaction_operations import LoggedTransactional, Transactional
from node.queue.transfers import Transfer
from node.ranges.range_set import Range, RangeSet

OWNER: Final = 0
"""The front end number of an owner's own operations."""

ANY_MESSAGES: Final = (1 << 64) - 1
"""Above every message: `through` of a SEAL_QUEUE that seals the queue whatever messages it has."""

TRANSACTION: Final = -1
"""The front end number, among a queue's leases, for messages that a transaction has settled whose outcome is
not known. No log has it.
"""

LINKS: Final = -2
"""The front end number, among a queue's leases, for messages that the queue keeps for a link which is not
attached (`node.queue.link_leases`). No log has it.
"""

TAKES: Final = -3
"""As LINKS, for messages that the queue holds for readers (`node.queue.takes`)."""

BARRIERS: Final = -4
"""As LINKS, for the barriers of a part of a queue with several owners, until they are sent: no purge, limit
or expiration takes such a barrier out of one part alone.
"""


class Semantics(IntEnum):
    """When a queue removes a delivered message: with the settlement, or before the delivery (seed 002)."""

    AT_LEAST_ONCE = 0
    AT_MOST_ONCE = 1


class Aspect(IntEnum):
    """The kinds of values in annotations. Journals have the numbers: never renumber."""

    EXPIRY = 1
    """The time at which the message expires, in milliseconds since the epoch; 0: when no consumer takes it at
    once.
    """
    PRIORITY = 2
    DUE = 3
    """The time before which the message is not delivered, in milliseconds since the epoch."""
    GROUP = 4
    """The message's group, a digest of its key."""
    DEATH = 5
    """Reason and time of the discard (`node.message.deaths`). The queue delivers the message no more."""
    SIZE = 6
    """The octets of the body; only in queues with a limit on octets."""
    CANCELS = 7
    """How many times clients have given the message back themselves; only in queues that count that."""
    BARRIER = 8
    """The message is a barrier, which waits or is released (`node.queue.features.barrier`)."""
    ARRIVAL = 9
    """The time at which the owner took the message, in milliseconds since the epoch; only in streams."""
    KEY = 10
    """The message's key, a digest, or that a newer message has replaced it
    (`node.queue.features.last_value`).
    """


class Cause(StrEnum):
    """The reason why messages have left a queue for good."""

    SETTLED = "settled"
    """A consumer has settled them, or the owner removed them before it delivered them."""

    REJECTED = "rejected"
    """A consumer rejected them without requeue, or no replica can read their entry any more."""

    EXPIRED = "expired"
    MAXLEN = "maxlen"
    DELIVERY_LIMIT = "delivery limit"
    PURGED = "purged"
    REPLACED = "replaced"
    """A newer message has the same key (queue argument x-key)."""

    DEAD_LETTERED = "dead-lettered"
    """The messages were dead letters, or lent. They have been moved, or no exchange takes them."""


class OpKind(IntEnum):
    """The first octet of an operation. Journals have the numbers: never renumber."""

    PUBLISH = 1
    SETTLE = 2
    RETURN = 3
    RETURN_FAILED = 4
    DISCARD = 5
    PURGE = 6
    MARK = 7
    ATTACH = 8
    DETACH = 9
    CREATE_QUEUE = 10
    DROP_QUEUE = 11
    FORGET = 12
    ANNOTATE = 13
    REMOVE = 14
    ATTACH_CONSUMER = 15
    REFUSE = 16
    TRANSFER = 17
    TRANSFERRED = 18
    SEAL_QUEUE = 19
    UNDER_LEASE = 20
    """In front of a SETTLE, RETURN, RETURN_FAILED or DISCARD of a front end: the token of the lease. No log
    has it: the owner leaves out messages that the lease does not cover.
    """
    MODIFIED = 21
    """In front of a return or a DISCARD of a front end, or of its lease: the message annotations that the
    client gives the messages. Logs have it in a PREPARED alone.
    """
    REMARK = 22
    TARGET = 23
    RETURN_CANCELLED = 24
    REFER = 25
    ADVANCE = 26
    NOTE = 27
    LENT = 28
    EPOCH = 29
    REMEMBER_IDS = 30
    FORGET_IDS = 31
    TAKE = 32
    READER = 33
    ROWS = 34
    PREPARE = 40
    DECIDE = 41
    PREPARED = 42
    DECIDED = 43
    CONCLUDE = 44
    END = 45
    ABANDON = 46


@dataclass(init=False, slots=True)
class Publish:
    """A run of `count` messages for `queues`. `position` is the operation's offset in the entry, for
    `read_run`; `end` is the offset behind it.

    `special`: the messages' properties may ask something of the queues (`node.message.run.Run`).
    `dead_letters`: the messages are dead letters.
    """

    queues: tuple[int, ...]
    count: int
    position: int
    persistent: bool
    special: bool
    dead_letters: bool
    end: int

    def __init__(
        self,
        queues: tuple[int, ...],
        count: int,
        position: int,
        persistent: bool,
        special: bool,
        dead_letters: bool,
        end: int,
    ) -> None:
        self.queues = queues
        self.count = count
        self.position = position
        self.persistent = persistent
        self.special = special
        self.dead_letters = dead_letters
        self.end = end


class Lent(NamedTuple):
    """Another owner of the queue has lent the messages: they count as returned, with so many failed
    deliveries.

    In an operation batch of another owner the ranges count from the first message of the next publish, which
    has the messages. One without ranges says only that the next publish is a loan.
    """

    queue: int
    failures: int
    ranges: list[Range]


class Settle(NamedTuple):
    """A front end, or the owner, settles the messages: the queue removes them.

    `token` is that of the lease under which the front end has got them; NO_TOKEN in a log, and where leases
    have none. The same is true of `Return` and `Discard`.
    """

    queue: int
    ranges: list[Range]
    token: int = NO_TOKEN


class Return(NamedTuple):
    """The messages go back to the queue. `failed`: their deliveries count as failed. `cancelled`: they do
    because a client has said so, and not because the client or its lease was lost.

    `annotations`: the message annotations that the client gives the messages (`node.queue.remarks.Subject`).
    """

    queue: int
    ranges: list[Range]
    failed: bool
    token: int = NO_TOKEN
    annotations: bytes = b""
    cancelled: bool = False


class Discard(NamedTuple):
    """A client has rejected the messages without requeue, and in a log the queue has no dead-letter exchange.

    `annotations`: the error that the client tells, as message annotations for the dead letters; in a log
    within a transaction that is prepared, alone.
    """

    queue: int
    ranges: list[Range]
    token: int = NO_TOKEN
    annotations: bytes = b""


class Purge(NamedTuple):
    """The owner removes the messages because a client has purged the queue."""

    queue: int
    ranges: list[Range]


class Mark(NamedTuple):
    """No message above this sequence number has been leased."""

    queue: int
    sequence: int


class Attach(NamedTuple):
    """The front end has consumers or leases on the queue. `consuming`: it has a consumer."""

    queue: int
    front_end: int
    consuming: bool = False


class Detach(NamedTuple):
    """The front end has neither consumers nor leases on the queue any more."""

    queue: int
    front_end: int


class CreateQueue(NamedTuple):
    """Create an empty queue, unless it exists."""

    queue: int
    semantics: Semantics


class Refer(NamedTuple):
    """The messages from `first` to `last` that the queue `source` has are in `queue`, too, without a copy. An
    owner fills a new queue with the past of its stream so. A front end brings back messages that have left
    the queue; the owner leaves out those that the queue does not take.
    """

    queue: int
    source: int
    first: int
    last: int


class DropQueue(NamedTuple):
    """Delete the queue with all its messages."""

    queue: int


class SealQueue(NamedTuple):
    """The queue takes no more messages, because its deletion is decided. Without an effect where the queue
    has a message above `through`.
    """

    queue: int
    through: int


class Forget(NamedTuple):
    """The front end is dead for good: the partition forgets all that it has of it."""

    front_end: int


class Annotate(NamedTuple):
    """Give the live messages of each span, a closed range, a value of one aspect.

    The three columns have one length; the spans are sorted and disjoint.
    """

    queue: int
    aspect: Aspect
    firsts: array[int]
    lasts: array[int]
    values: array[int]


class Remove(NamedTuple):
    """The owner removes discarded messages: the queue has no dead-letter exchange, or the partition has taken
    the dead letters over.
    """

    queue: int
    reason: Reason
    ranges: list[Range]


_CAUSES: Final = {
    Reason.REJECTED: Cause.REJECTED,
    Reason.EXPIRED: Cause.EXPIRED,
    Reason.MAXLEN: Cause.MAXLEN,
    Reason.DELIVERY_LIMIT: Cause.DELIVERY_LIMIT,
    Reason.REPLACED: Cause.REPLACED,
}

OF_DELIVERED: Final = frozenset((Cause.SETTLED, Cause.REJECTED, Cause.DELIVERY_LIMIT))
"""The causes by which messages leave that a consumer has got."""


def cause_of(operation: Settle | Discard | Purge | Remove) -> Cause:
    """The cause of the removal of messages that are no dead letters."""
    if isinstance(operation, Settle):
        return Cause.SETTLED
    if isinstance(operation, Remove):
        return _CAUSES[operation.reason]
    return Cause.PURGED if isinstance(operation, Purge) else Cause.REJECTED


class Refuse(NamedTuple):
    """Queues have refused these messages of a front end's operation batch, counted from 0.

    The partition keeps them, so that a new owner gives the same answer when the front end asks again.
    """

    front_end: int
    number: int
    messages: list[Range]


class BeginTransfer(NamedTuple):
    """Dead letters are about to be sent to another partition."""

    partition: int
    transfer: Transfer


class Transferred(NamedTuple):
    """The other partition has committed the transfers up to a number."""

    partition: int
    number: int


class RememberIds(NamedTuple):
    """Messages with these ids came in at `time`, in milliseconds since the epoch. `digests` are the joined
    digests of the ids (`seen_ids.digest_of`).
    """

    queue: int
    time: int
    digests: bytes


class ForgetIds(NamedTuple):
    """The ids that came before `before`, in milliseconds since the epoch, have left the window."""

    queue: int
    before: int


Operation = (
    Publish
    | Settle
    | Return
    | Discard
    | Purge
    | Mark
    | Attach
    | Detach
    | CreateQueue
    | Refer
    | DropQueue
    | SealQueue
    | Forget
    | Annotate
    | Remove
    | Refuse
    | BeginTransfer
    | Transferred
    | RememberIds
    | ForgetIds
    | Lent
    | Remark
    | UpdateTarget
    | Advance
    | MakeReader
    | RetentionPassed
    | TellRows
    | HistoryNote
    | UpdateEpoch
    | UpdateTake
    | Transactional
)


@dataclass(init=False, slots=True)
class Applied:
    """The feed: the effects of the entry at a log index on the queues, the same on every replica.

    A reader who takes the entries in log order, and the fields of each in this order, knows the messages of
    every queue:

    - `created`: queues that exist from now on, and are empty.
    - `appended`: (queue, first, last) of messages that came in. The messages of a transaction over several
      partitions come in with the entry that commits the transaction.
    - `returned`: (front end, queue, first, last, failed) of messages that a front end, or the owner, gave
      back, or that came in again and may have been delivered before. `failed`: the delivery of the messages
      has failed.
    - `dead`: (queue, first, last, death) of messages that are dead letters from now on. A dead letter stays
      in the queue until it has been moved. `node.message.deaths.decode_death` reads the death.
    - `removed`: (queue, cause, ranges) of messages that have left for good. Empty unless the machine was made
      with `observed`. The ranges are sorted and disjoint.
    - `sealed`: queues that take no messages and have no consumers any more, because their deletion is
      decided. Their messages may still leave.
    - `dropped`: queues that are gone, and their messages with them.

    A row names exactly messages that were in the queue. A message comes in once, dies at most once and leaves
    at most once, unless a client brings it back: then it comes in again. Leases, transient messages of a
    replicated queue, and the owner's decisions before they are committed are not in the log, and so not in
    the feed.

    `acknowledged` has the highest batch number applied for each front end with batches in the entry.
    `transactions` are steps of transactions, in log order.
    """

    index: int
    created: list[int]
    appended: list[tuple[int, int, int]]
    returned: list[tuple[int, int, int, int, bool]]
    dead: list[tuple[int, int, int, int]]
    removed: list[tuple[int, Cause, list[Range]]]
    sealed: list[int]
    dropped: list[int]
    acknowledged: dict[int, int]
    transactions: list[LoggedTransactional]

    def __init__(self, index: int, acknowledged: dict[int, int] | None = None) -> None:
        self.index = index
        self.created = []
        self.appended = []
        self.returned = []
        self.dead = []
        self.removed = []
        self.sealed = []
        self.dropped = []
        self.acknowledged = acknowledged or {}
        self.transactions = []

    def withhold(self, rows: Iterable[tuple[int, int, int]]) -> None:
        """Take messages that a transaction withholds out of `appended`."""
        hidden: dict[int, RangeSet] = {}
        for queue, first, last in rows:
            hidden.setdefault(queue, RangeSet()).add(first, last)
        appended, self.appended = self.appended, []
        for queue, first, last in appended:
            shown = RangeSet([(first, last)])
            shown.remove_all(hidden[queue].intersection(first, last) if queue in hidden else ())
            self.appended += [(queue, *part) for part in shown.ranges()]
