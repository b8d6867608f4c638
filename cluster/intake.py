"""Takes a front end's operation batch into an owner's next entry.

Most batches go into the log byte for byte. Only those with soft messages are written anew: a
transient message in a durable queue touches neither disk nor other nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cluster.backoff import let_rest
from cluster.decisions import Annotations, decide
from node.engine.operation_format import (
    Buffer,
    encode_discard,
    encode_publish,
    encode_return,
    encode_settle,
    read_operations,
    read_run,
)
from node.engine.operations import Discard, Operation, Publish, Return, Semantics, Settle
from node.runs import Run

if TYPE_CHECKING:
    from cluster.owner import PartitionOwner


def take_batch(
    owner: PartitionOwner, front_end: int, number: int, data: bytes, *, tried: bool = False
) -> bool:
    """Act on what an owner decides at once, and put the rest into the next entry.

    `tried`: the batch may have reached an owner before. What went into the log is known by the batch's
    number; of soft messages nothing is known, so that an at-most-once queue takes none again (D2).
    Returns True when nothing of the batch went into the log, so that it is acknowledged as soon as
    what came before it is.
    """
    first = owner.next_sequence
    operations = list(read_operations(data))
    soft = owner.durable and any(_is_soft(owner, operation, data) for operation in operations)
    kept: list[Buffer] = []
    logged = False
    softened: list[SoftPublish] = []
    returned: list[int] = []
    for operation in operations:
        if type(operation) is Publish:
            owner.awaiting_marks.update(operation.queues)
            if soft or operation.special or not owner.watched.isdisjoint(operation.queues):
                logged |= _look_at(owner, operation, data, softened, kept if soft else None)
            owner.next_sequence += operation.count
            owner.published += operation.count
        elif type(operation) in _TAKERS:
            part = _TAKERS[type(operation)](owner, front_end, operation)
            if type(operation) is Return and part is not None:
                returned.append(operation.queue)
            if soft and part is not None:
                kept.append(part)
                logged = True
    if logged or not soft:
        owner.proposal.add_batch(front_end, number, first, kept if soft else [data])
    for publish in softened:
        publish.tried = tried
        # Not before what was taken earlier is committed: order within a queue.
        owner.after_proposed(publish.enqueuer(owner))
    for queue in returned:
        owner.reception.await_return(queue)
    return soft and not logged


def _look_at(
    owner: PartitionOwner,
    operation: Publish,
    data: bytes,
    softened: list[SoftPublish],
    kept: list[Buffer] | None,
) -> bool:
    """A publish that may be soft, where `kept` takes what goes into the log, or about which something is
    to be decided; whether it goes into the log.
    """
    run = read_run(data, operation.position)
    notes = decide(owner, run, operation.queues, owner.next_sequence, owner.wall_ms())
    if kept is not None and not run.persistent:
        kept += _placeholder(run.count)
        softened.append(SoftPublish(owner.next_sequence, operation.queues, _detached(run), notes))
        return False
    if kept is not None:
        kept += encode_publish(run, operation.queues)
    owner.annotate(notes)
    return True


@dataclass(slots=True)
class SoftPublish:
    """Transient messages for durable queues, numbered from `first` on."""

    first: int
    queues: tuple[int, ...]
    run: Run
    notes: Annotations
    tried: bool = False

    def enqueuer(self, owner: PartitionOwner) -> Callable[[], None]:
        def enqueue() -> None:
            for number in self.queues:
                queue = owner.queues.get(number)
                if queue is not None and not (self.tried and queue.state.semantics is Semantics.AT_MOST_ONCE):
                    queue.add_soft(self.first, self.run, self.notes.get(number, {}))
                    owner.mark(number)

        return enqueue


def _placeholder(count: int) -> tuple[Buffer, ...]:
    """A publish for no queue, without content: it only uses up sequence numbers."""
    return encode_publish(Run("", "", 0, False, count, 0, 0, None, 0, b""), ())


def _is_soft(owner: PartitionOwner, operation: Operation, data: bytes) -> bool:
    if type(operation) is Publish:
        return not read_run(data, operation.position).persistent
    if isinstance(operation, Settle | Return | Discard):
        queue = owner.queues.get(operation.queue)
        return queue is not None and bool(queue.soft)
    return False


def _detached(run: Run) -> Run:
    """The run with bytes of its own, which do not keep the whole batch in memory."""
    return Run(
        run.exchange, run.routing_key, run.channel, run.persistent, run.count, run.skip, run.stride,
        run.lengths, run.largest_frame, bytes(run.raw), run.special,
    )  # fmt: skip


def _take_settle(owner: PartitionOwner, front_end: int, operation: Settle | Discard) -> bytes | None:
    queue = owner.queues.get(operation.queue)
    durable = list(operation.ranges)
    if queue is not None:
        settled = [queue.settle(front_end, *one) for one in operation.ranges]
        durable = [part for one in settled for part in one.durable]
        if queue.groups is not None:
            # Others may have the group now.
            owner.mark(operation.queue)
        if type(operation) is Settle:
            queue.tally.acknowledged += sum(one.count for one in settled)
    encode = encode_settle if type(operation) is Settle else encode_discard
    return encode(operation.queue, durable) if durable else None


def _take_return(owner: PartitionOwner, front_end: int, operation: Return) -> bytes | None:
    """Durable messages are ready again once the return is applied; soft ones at once."""
    if operation.failed:
        let_rest(owner, operation.queue, front_end, operation.ranges)
    queue = owner.queues.get(operation.queue)
    durable = list(operation.ranges)
    if queue is not None:
        durable = []
        for first, last in operation.ranges:
            durable += queue.state.alive.intersection(first, last)
            for part in queue.soft.numbers.intersection(first, last):
                queue.release(front_end, *part)
                owner.mark(operation.queue)
    return encode_return(operation.queue, durable, operation.failed) if durable else None


_TAKERS: dict[type, Callable[[PartitionOwner, int, Any], bytes | None]] = {
    Settle: _take_settle,
    Discard: _take_settle,
    Return: _take_return,
}
