"""What an owner collects between two entries, and the front ends that have greeted it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cluster.peers.ports import ConsumerTerms, Delivery, FrontEndPort, Ranges
from node.queue.entry import encode_batch, encode_entry
from node.queue.operation_format import Buffer, encode_annotate, encode_return
from node.queue.operations import OWNER, Aspect
from node.queue.partition import Refusals
from node.queue.queue import QueueState
from node.ranges.range_map import Span
from node.ranges.range_set import RangeSet

SEQUENCES_PER_TERM_BITS: Final = 36
"""Each term numbers from its own base: a number that a soft message of an earlier owner had is
never given to another message, whose settlement a late acknowledgement could then be taken for."""

RETRY_INTERVAL_S: Final = 1.0
"""How often an owner looks for front ends that the catalog knows no more, and goes on with what waits for
other partitions."""

HOLD_S: Final = 3.0
"""How long a new owner waits for front ends to say which leases they hold."""

PROPOSE_AT_BYTES: Final = 256 * 1024
"""An entry this large is proposed even while the disk is busy with the one before."""

SPAN_SIZE: Final = 24
"""Octets of a span in an entry."""

NO_EPOCH: Final = 0
"""Front ends count their epochs from 1."""


@dataclass(slots=True)
class TakenBatches:
    """What an owner has decided about the operation batches of a front end, since it became owner.

    It outlives greetings and outages of the front end. A batch in an entry that is proposed and not committed
    comes again when its front end does; decided a second time, its messages would be expected for ever, its
    transaction refused that is about to commit, its dead letters moved twice.

    `epoch` is the highest that the front end has greeted with; `accepted` the highest batch that was taken,
    whether it is committed or not. `refused` has what of batches without a place in the log was refused.
    """

    epoch: int = 0
    accepted: int = 0
    refused: Refusals = field(default_factory=Refusals)


@dataclass(slots=True)
class FrontEndState:
    """A front end that has greeted this owner, and can be reached.

    `next_number` is the operation batch that must come next in this epoch (0: any, it is the
    first); `tried` the highest that may have reached an owner before this epoch; `told` the highest of which
    the front end knows that it is committed. `held` has the leases that it has told of and that are not taken
    over yet, by queue. `consumers` are the queues of its consumers by their numbers; `returning` those that
    it has greeted with and that are not back yet.
    """

    front_end: int
    epoch: int
    port: FrontEndPort
    returning: dict[int, ConsumerTerms]
    taken: TakenBatches
    next_number: int = 0
    tried: int = 0
    told: int = 0
    consumers: dict[int, int] = field(default_factory=dict)
    held: dict[int, RangeSet] = field(default_factory=dict)


@dataclass(slots=True)
class Proposal:
    """The entry that is being put together."""

    batches: list[Sequence[Buffer]] = field(default_factory=list)
    operations: list[bytes] = field(default_factory=list)
    decisions: list[bytes] = field(default_factory=list)
    annotations: dict[tuple[int, Aspect], list[Span]] = field(default_factory=dict)
    committed: list[Callable[[], None]] = field(default_factory=list)
    size: int = 0

    def add_batch(self, front_end: int, number: int, first: int, operations: Sequence[Buffer]) -> None:
        """A front end's operations, the messages in them numbered from `first` on."""
        parts = encode_batch(front_end, number, first, operations)
        self.batches.append(parts)
        self.size += sum(map(len, parts))

    def add_operation(self, operation: bytes) -> None:
        """An operation of the owner's own."""
        self.operations.append(operation)
        self.size += len(operation)

    def annotate(self, queue: int, aspect: Aspect, spans: Sequence[Span]) -> None:
        """What is decided about messages of this entry, which come in ascending order."""
        held = self.annotations.setdefault((queue, aspect), [])
        for first, last, value in spans:
            if held and held[-1][1] + 1 == first and held[-1][2] == value:
                held[-1] = (held[-1][0], last, value)
            else:
                held.append((first, last, value))
                self.size += SPAN_SIZE

    def add_decision(self, operation: bytes) -> None:
        """An operation of the owner's own about messages that the same entry may bring."""
        self.decisions.append(operation)
        self.size += len(operation)

    def add_return(self, queue: int, state: QueueState, ranges: Ranges, *, failed: bool) -> None:
        """Let later owners know that messages may have reached a consumer."""
        alive = [part for one in ranges for part in state.alive.intersection(*one)]
        if alive:
            self.add_operation(encode_return(queue, alive, failed))

    def __bool__(self) -> bool:
        return self.size > 0

    def encode(self) -> bytes:
        """The entry. The owner's own operations stand first: what they create, the others may use.

        Its decisions stand last, behind the messages that they are about.
        """
        batches = self.batches
        if self.operations:
            batches = [encode_batch(OWNER, 0, 0, self.operations), *batches]
        if self.annotations or self.decisions:
            annotations = (encode_annotate(*key, spans) for key, spans in self.annotations.items())
            batches = [*batches, encode_batch(OWNER, 0, 0, [*annotations, *self.decisions])]
        return encode_entry(batches)


class FrontEnds:
    """`taken` is of all front ends that have greeted and may greet again; `joining` counts, by queue, the
    consumers that wait until the log knows of their front ends. `expected` are front ends that may have had
    consumers of former owners and have not greeted yet.
    """

    def __init__(self) -> None:
        self.greeting: dict[int, FrontEndState] = {}
        self.taken: dict[int, TakenBatches] = {}
        self.joining: Counter[int] = Counter()
        self.expected: set[int] = set()
        self._postponed: list[Callable[[], None]] = []

    def clear(self) -> None:
        """The owner leads no more: whoever leads next is greeted anew."""
        self.greeting, self.taken = {}, {}
        self.expected.clear()
        self._postponed.clear()
        self.joining.clear()

    def known(self) -> set[int]:
        """The front ends that have greeted, also those that are out of reach by now."""
        return set(self.taken)

    def current(self, front_end: int) -> FrontEndState | None:
        """What is known of a front end that has greeted."""
        return self.greeting.get(front_end)

    def state(self, front_end: int, epoch: int) -> FrontEndState | None:
        """The same, if this is the front end's present epoch."""
        state = self.greeting.get(front_end)
        return state if state is not None and state.epoch == epoch else None

    def epoch(self, front_end: int) -> int | None:
        """The present epoch of a front end that has greeted."""
        state = self.greeting.get(front_end)
        return None if state is None else state.epoch

    def greeted(self, front_end: int, epoch: int) -> bool:
        """Whether this is the front end's present epoch."""
        return self.state(front_end, epoch) is not None

    def answer(self, front_end: int, request: int, value: Any, delivery: Delivery | None = None) -> None:
        """Answer a front end's request, if it is still there."""
        state = self.greeting.get(front_end)
        if state is not None:
            state.port.result(state.epoch, request, value, delivery)

    # -- greetings that are awaited -------------------------------------------------------------

    def expect_no_more(self, front_ends: Iterable[int]) -> None:
        """These have greeted, or are given up."""
        self.expected.difference_update(front_ends)
        if not self.expected:
            postponed, self._postponed = self._postponed, []
            for each in postponed:
                each()

    def after_greetings(self, callback: Callable[[], None]) -> None:
        """Call back once the consumers that former owners had are here again, those that there are.

        A new consumer is not let in before: one that comes back may be exclusive.
        """
        if self.expected:
            self._postponed.append(callback)
        else:
            callback()
