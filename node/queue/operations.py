"""The operations that log entries are made of, as values. `node.queue.operation_format` has their octets."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from node.message.reason import Reason
from node.queue.transfers import Transfer
from node.ranges.range_set import Range, RangeSet

OWNER: Final = 0
"""The front end number of an owner's own operations."""

ANY_MESSAGES: Final = (1 << 64) - 1
"""Above every message: `through` of a queue that is sealed whatever it has."""

TRANSACTION: Final = -1
"""Who has, among a queue's leases, what transactions have settled whose outcome is not known. In no log."""

REMOVAL: Final = 0
"""The number of transactions that settle one message which was got without acknowledgement."""


class Semantics(IntEnum):
    """What becomes of a message that was given to a consumer (seed 002, queue semantics)."""

    AT_LEAST_ONCE = 0
    AT_MOST_ONCE = 1


class Aspect(IntEnum):
    """What an annotation tells of messages. Values stand in journals: never renumber."""

    EXPIRY = 1
    """When they expire: milliseconds since the epoch; 0: as soon as nobody takes them at once."""
    PRIORITY = 2
    DUE = 3
    """When they may be delivered: milliseconds since the epoch."""
    GROUP = 4
    """A digest of the name of the group that they belong to."""
    DEATH = 5
    """When and why they were discarded (`node.message.deaths`). No consumer gets them, here."""
    SIZE = 6
    """Octets of the body; only of messages in queues with a limit on them."""


class OpKind(IntEnum):
    """First octet of an operation. Values stand in journals: never renumber."""

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
    REMEMBER_IDS = 30
    FORGET_IDS = 31
    PREPARE = 40
    DECIDE = 41
    PREPARED = 42
    DECIDED = 43
    CONCLUDE = 44
    END = 45
    ABANDON = 46


@dataclass(init=False, slots=True)
class Publish:
    """A run of `count` messages for `queues`; `position` is where `read_run` finds it in the entry,
    `end` where the operation ends.

    `special`: the messages' properties may ask for a decision of the owner (see `node.message.run.Run`);
    `dead_letters`: they are dead letters.
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


class Settle(NamedTuple):
    """The messages are done with."""

    queue: int
    ranges: list[Range]


class Return(NamedTuple):
    """The messages go back to their places; `failed` counts a delivery."""

    queue: int
    ranges: list[Range]
    failed: bool


class Discard(NamedTuple):
    """The messages were rejected without requeue: the place for dead-lettering."""

    queue: int
    ranges: list[Range]


class Purge(NamedTuple):
    """The owner removes these messages, which were ready, on somebody's demand."""

    queue: int
    ranges: list[Range]


class Mark(NamedTuple):
    """No sequence above this one has been leased."""

    queue: int
    sequence: int


class Attach(NamedTuple):
    """The front end has consumers, or leases, on the queue; `consuming`: there is a consumer."""

    queue: int
    front_end: int
    consuming: bool = False


class Detach(NamedTuple):
    """The front end has neither consumers nor leases on the queue any more."""

    queue: int
    front_end: int


class CreateQueue(NamedTuple):
    """An empty queue; nothing happens when it exists."""

    queue: int
    semantics: Semantics


class DropQueue(NamedTuple):
    """The queue goes, and all that it needed."""

    queue: int


class SealQueue(NamedTuple):
    """The queue takes nothing more, as its deletion is decided, if no message of it is above `through`."""

    queue: int
    through: int


class Forget(NamedTuple):
    """The front end is dead for good: it sends nothing any more, and holds nothing."""

    front_end: int


class Annotate(NamedTuple):
    """The messages of each span, a closed range, have a value in some aspect; only what is alive counts.

    The three columns are of one length; spans are sorted and disjoint.
    """

    queue: int
    aspect: Aspect
    firsts: array[int]
    lasts: array[int]
    values: array[int]


class Remove(NamedTuple):
    """The owner gives these messages up."""

    queue: int
    reason: Reason
    ranges: list[Range]


class Refuse(NamedTuple):
    """Queues did not take these messages of a front end's operation batch, counted from 0.

    Kept so that whoever owns the partition when the front end asks again gives the same answer.
    """

    front_end: int
    number: int
    messages: list[Range]


class BeginTransfer(NamedTuple):
    """Dead letters set out for another partition."""

    partition: int
    transfer: Transfer


class Transferred(NamedTuple):
    """Dead letters up to a number have arrived in another partition."""

    partition: int
    number: int


class RememberIds(NamedTuple):
    """Messages with ids came in at a time, in milliseconds; `digests` are `deduplication.digest_of` each."""

    queue: int
    time: int
    digests: bytes


class ForgetIds(NamedTuple):
    """Ids that came before a time are out of the window."""

    queue: int
    before: int


class TransactionKey(NamedTuple):
    """A transaction: the front end that commits it, and its number there."""

    front_end: int
    number: int


class Prepare(NamedTuple):
    """A front end asks a partition to get ready for its share of a transaction: the publishes and settlements
    between two offsets of the batch. In no log: it becomes `Prepared`.
    """

    number: int
    coordinator: int
    start: int
    end: int


class Decide(NamedTuple):
    """A front end has the coordinator of a transaction, whose other `participants` are prepared, commit it
    with its own share, between two offsets of the batch. In no log: what the share consists of is, and
    `Decided`. The one numbered `REMOVAL` settles a message that the front end has got, and is refused if
    another has it by now.
    """

    number: int
    participants: tuple[int, ...]
    start: int
    end: int


class Prepared(NamedTuple):
    """A partition is ready for either outcome of a transaction.

    `published` are (queue, first, last) of messages that stand before it in the log; nobody sees them yet.
    `settled` are the octets of the settlements to come: until then nobody else gets what they name.
    """

    key: TransactionKey
    coordinator: int
    published: tuple[tuple[int, int, int], ...]
    settled: bytes


class Decided(NamedTuple):
    """A transaction is committed; `participants` are the other partitions that must be told."""

    key: TransactionKey
    participants: tuple[int, ...]


class Conclude(NamedTuple):
    """A prepared transaction's outcome."""

    key: TransactionKey
    committed: bool


class EndTransaction(NamedTuple):
    """Nobody will ask the coordinator about the transaction any more."""

    key: TransactionKey


class Abandon(NamedTuple):
    """The transaction is not to be committed any more, should its front end ask for that."""

    key: TransactionKey


LoggedTransactional = Prepared | Decided | Conclude | EndTransaction | Abandon
"""What becomes of transactions, as logs tell it."""

Transactional = Prepare | Decide | LoggedTransactional

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
    | Transactional
)


@dataclass(init=False, slots=True)
class Applied:
    """What the entry at a log index did.

    `appended` are (queue, first, last), `returned` (front end, queue, first, last), exactly the messages
    that were alive. `acknowledged` maps each front end with batches in the entry to the highest number
    applied. `transactions` are the steps of transactions over several partitions, in log order.
    """

    index: int
    appended: list[tuple[int, int, int]]
    returned: list[tuple[int, int, int, int]]
    created: list[int]
    dropped: list[int]
    acknowledged: dict[int, int]
    transactions: list[LoggedTransactional]

    def __init__(self, index: int, acknowledged: dict[int, int] | None = None) -> None:
        self.index = index
        self.appended = []
        self.returned = []
        self.created = []
        self.dropped = []
        self.acknowledged = acknowledged or {}
        self.transactions = []

    def withhold(self, rows: Iterable[tuple[int, int, int]]) -> None:
        """Of what the entry has appended so far, messages that are not to be seen yet."""
        hidden: dict[int, RangeSet] = {}
        for queue, first, last in rows:
            hidden.setdefault(queue, RangeSet()).add(first, last)
        appended, self.appended = self.appended, []
        for queue, first, last in appended:
            shown = RangeSet([(first, last)])
            shown.remove_all(hidden[queue].intersection(first, last) if queue in hidden else ())
            self.appended += [(queue, *part) for part in shown.ranges()]
