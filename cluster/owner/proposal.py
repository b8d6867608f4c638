"""The next entry of an owner, and the front ends that have greeted it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from cluster.peers.consumer_terms import ConsumerTerms
from cluster.peers.link_messages import Delivery, FrontEndPort, Ranges
from node.queue.decision_format import encode_annotate
from node.queue.entry_format import Buffer, encode_batch, encode_entry, encode_return
from node.queue.operations import OWNER, Aspect
from node.queue.partition import Refusals
from node.queue.queue import QueueState
from node.ranges.range_map import Span
from node.ranges.range_set import RangeSet

SEQUENCES_PER_TERM_BITS: Final = 36
"""Each term numbers messages from its own base. So no message gets the number of a soft message of an earlier
owner, and a late acknowledgement of that one settles no other message."""

RETRY_INTERVAL_S: Final = 1.0
"""Seconds after which an owner looks again for front ends that the catalog does not know any more, and
retries the transfers and transactions that wait for other partitions."""

HOLD_S: Final = 3.0
"""Seconds that a new owner waits for front ends to tell which leases they hold."""

PROPOSE_AT_BYTES: Final = 256 * 1024
"""Octets of an entry that is proposed even while the disk is busy with the one before."""

SPAN_SIZE: Final = 24
"""Octets of a span in an entry."""

NO_EPOCH: Final = 0
"""Front ends count their epochs from 1."""


@dataclass(slots=True)
class TakenBatches:
    """The operation batches of a front end that the owner has taken since it became the owner.

    The owner keeps this while the front end is lost or greets again. A front end sends a batch again while
    the batch is proposed and not committed. If the owner took it twice, it would wait for ever for the
    messages, refuse a transaction that is about to commit, and move dead letters twice.

    `epoch` is the highest with which the front end has greeted. `accepted` is the highest batch that was
    taken, committed or not. `refused` has the refused messages of batches that did not go into the log,
    of which `last_refused` is the latest. Those up to `told_log` are in an entry that is to be committed.
    """

    epoch: int = 0
    accepted: int = 0
    last_refused: int = 0
    told_log: int = 0
    refused: Refusals = field(default_factory=Refusals)


@dataclass(slots=True)
class FrontEndState:
    """A front end on `node` that has greeted this owner, and can be reached.

    `next_number` is the operation batch that must come next in this epoch (0: any, as it is the first).
    `tried` is the highest batch that may have reached an owner before this epoch, and `told` the highest that
    the front end knows to be committed. `held` has the leases that the front end has told and the
    owner has not taken over yet, by queue. `consumers` has the queues of attached consumers by their numbers.
    `returning` has the consumers of the greeting that are not attached again yet. `browsing` has the requests
    of browsing consumers that wait for a message, by their numbers. `delayed_credit` counts, by consumer, the
    credit that waits for the return of messages.
    """

    front_end: int
    node: str
    epoch: int
    port: FrontEndPort
    returning: dict[int, ConsumerTerms]
    taken: TakenBatches
    next_number: int = 0
    tried: int = 0
    told: int = 0
    consumers: dict[int, int] = field(default_factory=dict)
    held: dict[int, RangeSet] = field(default_factory=dict)
    browsing: dict[int, int] = field(default_factory=dict)
    delayed_credit: Counter[int] = field(default_factory=Counter)


class Cut(NamedTuple):
    """The cut in which an owner holds still, until the time `until`."""

    number: int
    until: float


@dataclass(slots=True)
class Proposal:
    """The next entry. `committed` has the callbacks for when it is applied; `size` is about its octets."""

    batches: list[Sequence[Buffer]] = field(default_factory=list)
    operations: list[bytes] = field(default_factory=list)
    decisions: list[bytes] = field(default_factory=list)
    annotations: dict[tuple[int, Aspect], list[Span]] = field(default_factory=dict)
    committed: list[Callable[[], None]] = field(default_factory=list)
    size: int = 0

    def add_batch(self, front_end: int, number: int, first: int, operations: Sequence[Buffer]) -> None:
        """Add a front end's operation batch, whose messages are numbered from `first` on."""
        parts = encode_batch(front_end, number, first, operations)
        self.batches.append(parts)
        self.size += sum(map(len, parts))

    def add_operation(self, operation: bytes) -> None:
        """Add an operation of the owner's own, in front of all batches."""
        self.operations.append(operation)
        self.size += len(operation)

    def annotate(self, queue: int, aspect: Aspect, spans: Sequence[Span]) -> None:
        """Add annotations of messages in this entry. Successive calls come in ascending order of messages."""
        held = self.annotations.setdefault((queue, aspect), [])
        for first, last, value in spans:
            if held and held[-1][1] + 1 == first and held[-1][2] == value:
                held[-1] = (held[-1][0], last, value)
            else:
                held.append((first, last, value))
                self.size += SPAN_SIZE

    def add_decision(self, operation: bytes) -> None:
        """Add an operation of the owner's own behind all batches, as it may concern their messages."""
        self.decisions.append(operation)
        self.size += len(operation)

    def add_return(self, queue: int, state: QueueState, ranges: Ranges, *, failed: bool) -> None:
        """Add the return of messages that may have reached a consumer, so that later owners know of that."""
        alive = [part for one in ranges for part in state.alive.intersection(*one)]
        if alive:
            self.add_operation(encode_return(queue, alive, failed))

    def __bool__(self) -> bool:
        return self.size > 0

    def encode(self) -> bytes:
        """The entry's octets. The owner's own operations come first, as batches may use the queues that they
        create. Annotations and decisions come last, behind the messages that they concern.
        """
        batches = self.batches
        if self.operations:
            batches = [encode_batch(OWNER, 0, 0, self.operations), *batches]
        if self.annotations or self.decisions:
            annotations = (encode_annotate(*key, spans) for key, spans in self.annotations.items())
            batches = [*batches, encode_batch(OWNER, 0, 0, [*annotations, *self.decisions])]
        return encode_entry(batches)


class FrontEnds:
    """The front ends of one owner, by number.

    `greeting` has those that have greeted and can be reached, `taken` all that have greeted and may greet
    again. `joining` counts, by queue, the consumers that wait until the log has their front ends. `expected`
    has front ends that may have consumers of former owners and have not greeted yet.
    """

    def __init__(self) -> None:
        self.greeting: dict[int, FrontEndState] = {}
        self.taken: dict[int, TakenBatches] = {}
        self.joining: Counter[int] = Counter()
        self.expected: set[int] = set()
        self._postponed: list[Callable[[], None]] = []

    def clear(self) -> None:
        """Forget all front ends: they greet the next owner anew."""
        self.greeting, self.taken = {}, {}
        self.expected.clear()
        self._postponed.clear()
        self.joining.clear()

    def known(self) -> set[int]:
        """The front ends that have greeted, including those that cannot be reached any more."""
        return set(self.taken)

    def current(self, front_end: int) -> FrontEndState | None:
        """The state of a front end; None if it has not greeted, or is lost."""
        return self.greeting.get(front_end)

    def state(self, front_end: int, epoch: int) -> FrontEndState | None:
        """The state of a front end; None if `epoch` is not its present epoch."""
        state = self.greeting.get(front_end)
        return state if state is not None and state.epoch == epoch else None

    def epoch(self, front_end: int) -> int | None:
        """The present epoch of a front end; None if it has not greeted, or is lost."""
        state = self.greeting.get(front_end)
        return None if state is None else state.epoch

    def greeted(self, front_end: int, epoch: int) -> bool:
        """Whether `epoch` is the front end's present epoch."""
        return self.state(front_end, epoch) is not None

    def answer(self, front_end: int, request: int, value: Any, delivery: Delivery | None = None) -> None:
        """Answer a front end's request in its present epoch, unless the front end is lost."""
        state = self.greeting.get(front_end)
        if state is not None:
            state.port.result(state.epoch, request, value, delivery)

    def tell_lease_end(self, front_end: int, queue: int, messages: Ranges, until: int) -> None:
        """Tell a front end that leases have another end, unless the front end is lost."""
        state = self.greeting.get(front_end)
        if state is not None:
            state.port.lease_ends_changed(state.epoch, queue, messages, until)

    # -- expected greetings ---------------------------------------------------------------------

    def expect_no_more(self, front_ends: Iterable[int]) -> None:
        """These front ends have greeted and attached their consumers, or are given up."""
        self.expected.difference_update(front_ends)
        if not self.expected:
            postponed, self._postponed = self._postponed, []
            for each in postponed:
                each()

    def after_greetings(self, callback: Callable[[], None]) -> None:
        """Call back once the consumers of former owners are attached again, or given up.

        A new consumer has to wait for that, as a consumer that comes back may be exclusive.
        """
        if self.expected:
            self._postponed.append(callback)
        else:
            callback()
