"""Takes a front end's operation batch into an owner's next entry.

Most batches go into the log octet for octet. The owner rewrites a batch only where an operation does not go
into the log as it came. For example, a transient message in a durable queue is *soft*, and touches neither
disk nor other nodes; and a queue may refuse messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final, NamedTuple, Protocol

from cluster.owner.admission import (
    Entering,
    QueueNotes,
    await_arrival,
    count_left_out,
    cut,
    decide,
    entering,
    left_out,
    may_leave_out,
    omissions,
    refusals,
)
from cluster.owner.annotating import change, changes
from cluster.owner.discarding import dead_letter_new, makes_dead_letters, take_discard
from cluster.owner.failures import count_cancels, discard_exhausted
from cluster.owner.merging import merges, remember, wholes
from cluster.owner.placing_barriers import admit
from cluster.owner.referring import bring_back, with_queues_over
from cluster.owner.resting import let_rest
from cluster.owner.state import OwnerState
from cluster.owner.targets import takes_step
from cluster.owner.transfers import FIRST_TRANSIT_ID
from node.delivery.settlements import NO_TOKEN
from node.message.reason import Reason
from node.message.run import Run
from node.queue.decision_format import encode_target
from node.queue.entry_format import (
    Buffer,
    encode_publish,
    encode_return,
    encode_settle,
    read_operations,
    read_run,
)
from node.queue.feature import Incoming
from node.queue.operations import OWNER, Discard, Operation, Publish, Refer, Return, Semantics, Settle
from node.queue.targets import TargetStep, UpdateTarget
from node.queue.transaction_operations import Transactional
from node.ranges.range_set import Range, RangeSet


class Transactions(Protocol):
    """Takes the operations of transactions."""

    def take(self, taking: Taking, front_end: int, operation: Operation, index: int) -> None:
        """An operation of a front end's batch, which is the batch's message number `index`."""


def take_batch(
    owner: OwnerState,
    transactions: Transactions,
    front_end: int,
    number: int,
    data: bytes,
    *,
    tried: bool = False,
) -> bool:
    """Act on settlements at once, and put the batch into the next entry.

    `tried`: the batch may have reached an owner before. The log knows batches by their numbers, but not their
    soft messages, so that an at-most-once queue does not take soft messages of a tried batch (D2). Returns
    True where nothing of the batch goes into the log: it is acknowledged as soon as earlier batches are.
    """
    first = owner.next_sequence
    operations = list(read_operations(data))
    rewriting = any(_is_rewritten(owner, operation) for operation in operations)
    taking = Taking(owner, data, tried=tried, kept=[] if rewriting else None)
    taking.copies, watched, messages = front_end >= FIRST_TRANSIT_ID, owner.watched, 0
    for operation in operations:
        if type(operation) is Publish:
            owner.awaiting_marks.update(operation.queues)
            if taking.kept is not None or operation.special or not watched.isdisjoint(operation.queues):
                taking.publish(operation, messages)
            else:
                owner.next_sequence += operation.count
            messages += operation.count
            owner.published += operation.count
        elif type(operation) in TAKERS:
            messages += taking.settle(front_end, operation, messages)
        elif type(operation) is UpdateTarget:
            taking.update_target(front_end, operation)
        elif type(operation) is Refer:
            taking.bring_back(operation, messages)
            messages += 1
        elif isinstance(operation, Transactional):
            transactions.take(taking, front_end, operation, messages)
            messages += 1
    return not taking.finish(front_end, number, first)


class Arriving(NamedTuple):
    """Deliveries on a link whose messages come next. `taken`: the link has its target."""

    step: UpdateTarget
    taken: bool


class Taking:
    """Takes the publishes of a batch that may be soft, or about which queues decide something.

    `kept` has the operations for the log instead of the batch; None while the batch goes there as it came.
    `logged`: an operation in `kept` needs its place in the log. `refused` has the messages that queues
    refuse, counted from the batch's first. `copies`: messages that are no dead letters are those of streams,
    which no queue refuses.
    """

    __slots__ = (
        "arriving",
        "copies",
        "data",
        "kept",
        "logged",
        "owner",
        "refused",
        "returned",
        "softened",
        "tried",
    )

    def __init__(self, owner: OwnerState, data: bytes, *, tried: bool, kept: list[Buffer] | None) -> None:
        self.owner = owner
        self.data = data
        self.tried, self.copies = tried, False
        self.kept = kept
        self.logged = False
        self.softened: list[SoftPublish] = []
        self.refused = RangeSet()
        self.returned: list[int] = []
        """The queues to which the batch returns messages."""
        self.arriving: Arriving | None = None
        """The deliveries on a link whose messages the next publish of the batch has."""

    def keep(self, *parts: Buffer) -> None:
        """Put an operation into the log, if the batch does not go there as it came."""
        if self.kept is not None:
            self.kept += parts
            self.logged = True

    def keep_all(self, operations: Iterable[bytes]) -> None:
        """Put operations into the log."""
        for operation in operations:
            self.keep(operation)

    def withhold(self, run: Run, queues: tuple[int, ...]) -> int:
        """Put messages into the log that no consumer may get yet. Returns the number of the first.

        Transient messages go into the log as well, so that the outcome is the same for all messages.
        """
        owner = self.owner
        first = owner.next_sequence
        owner.next_sequence += run.count
        owner.awaiting_marks.update(queues)
        self.keep(*encode_publish(run, queues))
        owner.annotate(decide(owner, Incoming(run), queues, first))
        return first

    def settle(self, front_end: int, operation: Operation, index: int) -> int:
        """Take a settlement. A return with annotations counts as the batch's message number `index`: where
        the queue refuses them, the messages go back without. Returns how many messages the settlement
        counts as.
        """
        count = 0
        if type(operation) is Return and operation.annotations:
            count, found = 1, changes(self.owner, front_end, operation)
            if found is None:
                self.refused.add(index, index)
            else:
                self.keep_all(change(self.owner, found))
        part = TAKERS[type(operation)](self.owner, front_end, operation)
        if part is not None:
            self.keep(part)
            if type(operation) is Return:
                self.returned.append(operation.queue)
        return count

    def publish(self, operation: Publish, index: int) -> None:
        """Take a publish whose first message is the batch's message number `index`."""
        queues = with_queues_over(self.owner, operation.queues)
        if self.kept is None and (queues is not operation.queues or may_leave_out(self.owner, queues)):
            self.kept = []
            if operation.position:
                self.keep(memoryview(self.data)[: operation.position])
        run = read_run(self.data, operation.position)
        arriving, self.arriving = self.arriving, None
        if arriving is None and self.kept is None:
            # No queue leaves a message out or refuses one.
            self._take(Incoming(run), queues, ())
        elif arriving is None:
            self.take(run, queues, index, dead_letters=operation.dead_letters)
        else:
            self._arrive(arriving, run, queues, index)

    def update_target(self, front_end: int, step: UpdateTarget) -> None:
        """Take a step of a target. One of a link that has lost its target leaves no trace."""
        taken = takes_step(self.owner, front_end, step)
        if step.step is TargetStep.RECEIVED:
            self.arriving = Arriving(step, taken)
        elif taken:
            self.keep(encode_target(step))

    def bring_back(self, operation: Refer, index: int) -> None:
        """Bring messages back that have left a queue. The operation is the batch's message number `index`,
        which the queue takes or refuses.
        """
        found = bring_back(self.owner, operation)
        if found is None:
            self.refused.add(index, index)
        else:
            self.keep_all(found)

    def _arrive(self, arriving: Arriving, run: Run, queues: tuple[int, ...], index: int) -> None:
        """Take the messages of deliveries on a link, and have the log keep the tags of those that are not
        refused. A link that has lost its target may have sent them again meanwhile, on the link that has it.
        """
        if not arriving.taken or len(arriving.step.tags) != run.count:
            self.refused.add(index, index + run.count - 1)
            return
        self.take(run, queues, index)
        numbered = enumerate(arriving.step.tags, index)
        tags = tuple(tag for number, tag in numbered if number not in self.refused)
        if tags:
            self.keep(encode_target(arriving.step._replace(tags=tags)))

    def take(self, run: Run, queues: tuple[int, ...], index: int, *, dead_letters: bool = False) -> None:
        """Take a run whose first message is the batch's message number `index`.

        `dead_letters`: the run has dead letters, which are no duplicates of the messages that they were, and
        no deltas.
        """
        if dead_letters or not merges(self.owner, queues):
            self._filter(run, queues, index, dead_letters=dead_letters)
            return
        for alike in wholes(self.owner, run, queues):
            at = index
            for one in alike:
                if one.refused:
                    self.refused.add(at, at + one.run.count - 1)
                else:
                    self._filter(one.run, one.queues, at)
                at += one.run.count

    def _filter(self, run: Run, queues: tuple[int, ...], index: int, *, dead_letters: bool = False) -> None:
        """Take the messages, of a run as in `take`, that the filters of their queues take."""
        owner, incoming = self.owner, Incoming(run)
        without = left_out(owner, incoming, queues)
        count_left_out(owner, without)
        for each in entering(incoming, queues, without):
            self._enter(each, index, dead_letters=dead_letters)

    def _enter(self, those: Entering, index: int, *, dead_letters: bool) -> None:
        """Take messages that their queues' filters take, of a run as in `take`."""
        owner, incoming, queues = self.owner, those.incoming, those.queues
        run = incoming.run
        refusing = {} if self.copies and not dead_letters else refusals(owner, incoming, queues)
        for number, parts in refusing.items():
            owner.queues[number].delivery.tally.refused += sum(last - first + 1 for first, last in parts)
            self.refused.update((index + first, index + last) for first, last in those.placed(parts))
        for piece, taking in cut(run, queues, refusing):
            others = [number for number in queues if number not in taking]
            dead_lettering = tuple(number for number in others if _keeps_refused(owner, number))
            # Queues do not remember the ids of refused messages: publishers may send these again.
            looked_at = incoming if piece is run else Incoming(piece)
            known = {} if dead_letters else omissions(owner, looked_at, taking)
            if dead_lettering and known:
                self._take(looked_at, (), dead_lettering)
                dead_lettering = ()
            for fresh, wanting in cut(piece, taking, known):
                if wanting or dead_lettering:
                    taken = looked_at if fresh is piece else Incoming(fresh)
                    self._take(taken, wanting, dead_lettering)

    def _take(self, incoming: Incoming, queues: tuple[int, ...], dead_lettering: tuple[int, ...]) -> None:
        """Put messages into the log, or keep them as soft ones, for `queues`. In the queues `dead_lettering`,
        which have refused them, they are dead from the start.
        """
        owner, run = self.owner, incoming.run
        first = owner.next_sequence
        owner.next_sequence += run.count
        notes = decide(owner, incoming, queues, first)
        if notes:
            admit(owner, notes)
        await_arrival(owner, incoming, first, queues)
        remember(owner, queues, incoming, first)
        if owner.durable and not run.persistent:
            self._take_transient(run, queues, first, notes)
            for number in dead_lettering:
                owner.queues[number].delivery.tally.discarded(Reason.MAXLEN, run.count, dead_letters=True)
                owner.dead_letter_soft(number, [(first, run)], Reason.MAXLEN)
        else:
            if self.kept is not None:
                self.keep(*encode_publish(run, (*queues, *dead_lettering)))
            owner.annotate(notes)
            for number in dead_lettering:
                dead_letter_new(owner, number, first, first + run.count - 1, Reason.MAXLEN)

    def _take_transient(self, run: Run, queues: tuple[int, ...], first: int, notes: QueueNotes) -> None:
        """Keep transient messages, numbered from `first` on, as soft ones. The log has those of streams, and
        of queues with several owners; a publish to these, or to no queue, stands for the numbers there.
        """
        assert self.kept is not None
        owner = self.owner
        streams = tuple(number for number in queues if owner.described(number).logs_all)
        if streams:
            self.keep(*encode_publish(run, streams))
            owner.annotate({number: notes.pop(number) for number in streams if number in notes})
        else:
            self.kept += _placeholder(run.count)
        others = tuple(number for number in queues if number not in streams)
        if others or not streams:
            self.softened.append(SoftPublish(first, others, _detached(run), notes, self.tried))

    def finish(self, front_end: int, number: int, first: int) -> bool:
        """Put the batch, whose messages are numbered from `first` on, into the next entry. Returns whether
        anything of it goes there.
        """
        owner = self.owner
        if owner.next_sequence > first:
            owner.arrivals.came(owner.next_sequence - 1)
        # While another node may lead by now, soft messages wait for an entry of this one: the front end sends
        # the batch again to the next owner, which would deliver them a second time.
        logged = self.kept is None or self.logged or bool(self.softened and owner.handing_over())
        if logged:
            taken = owner.front_ends.taken.get(front_end)
            if taken is not None and taken.last_refused > taken.told_log:
                owner.log_refusals(front_end, taken)
            owner.proposal.add_batch(
                front_end, number, first, [self.data] if self.kept is None else self.kept
            )
        for publish in self.softened:
            # Soft messages wait until earlier ones are applied: a queue keeps the order of publication.
            owner.after_proposed(publish.enqueuer(owner))
        for queue in self.returned:
            owner.await_return(queue)
        if self.refused:
            owner.refuse(front_end, number, list(self.refused.ranges()), logged=logged)
        return logged


def publish_own(
    owner: OwnerState, runs: Sequence[tuple[Run, tuple[int, ...]]], operations: Sequence[bytes]
) -> list[Range]:
    """Publish dead letters, with operations behind them; drop refused ones. Returns each run's numbers."""
    taking, begun = Taking(owner, b"", tried=False, kept=[]), [owner.next_sequence]
    for run, queues in runs:
        owner.awaiting_marks.update(queues)
        taking.take(run, queues, 0, dead_letters=True)
        begun.append(owner.next_sequence)
    taking.keep(*operations)
    taking.refused.clear()
    taking.finish(OWNER, 0, begun[0])
    return [(first, after - 1) for first, after in pairwise(begun)]


@dataclass(frozen=True, slots=True)
class SoftPublish:
    """Transient messages for durable queues, numbered from `first` on."""

    first: int
    queues: tuple[int, ...]
    run: Run
    notes: QueueNotes
    tried: bool

    def enqueuer(self, owner: OwnerState) -> Callable[[], None]:
        """The callback that puts the messages into their queues."""

        def enqueue() -> None:
            for number in self.queues:
                queue = owner.queues.get(number)
                owner.arrived(number, self.first, self.first + self.run.count - 1)
                if queue is None:
                    continue
                if not (self.tried and queue.delivery.state.semantics is Semantics.AT_MOST_ONCE):
                    queue.lifecycle.add_soft(self.first, self.run, self.notes.get(number, {}))
                    owner.mark(number)

        return enqueue


def _keeps_refused(owner: OwnerState, number: int) -> bool:
    """Whether the messages that the queue refuses become dead letters."""
    described = owner.described(number)
    return described.refused_too and described.dead_letters is not None


def _placeholder(count: int) -> tuple[Buffer, ...]:
    """A publish to no queue, without content: it stands for the sequence numbers of soft messages."""
    return encode_publish(Run("", "", 0, False, count, 0, 0, None, 0, b""), ())


def _is_rewritten(owner: OwnerState, operation: Operation) -> bool:
    """Whether the operation may concern soft messages, or goes into the log as another operation."""
    if type(operation) is Publish:
        return owner.durable and not operation.persistent
    if isinstance(operation, Settle | Return | Discard):
        if not isinstance(operation, Settle) and operation.annotations:
            return True
        if operation.token != NO_TOKEN:
            return True
        queue = owner.queues.get(operation.queue)
        if queue is not None and queue.delivery.looks_at_settlements:
            return True
        soft = owner.durable and queue is not None and bool(queue.delivery.soft.numbers)
        if type(operation) is Return:
            return soft or (operation.failed and queue is not None and bool(queue.lifecycle.hooks.exhausted))
        return soft or (type(operation) is Discard and makes_dead_letters(owner, operation.queue))
    return isinstance(operation, UpdateTarget | Refer | Transactional)


def _detached(run: Run) -> Run:
    """The run with octets of its own: it does not keep the whole batch in memory."""
    head = run.exchange, run.routing_key, run.channel, run.persistent, run.count, run.skip, run.stride
    return Run(*head, run.lengths, run.largest_frame, bytes(run.raw), run.special, run.format)


def take_settle(owner: OwnerState, front_end: int, operation: Settle) -> bytes | None:
    """A front end settles messages. Returns the operation for the log; None where all were soft."""
    queue = owner.queues.get(operation.queue)
    durable = operation.ranges
    if queue is not None:
        settled = queue.lifecycle.settle(front_end, operation.ranges, operation.token)
        durable = settled.durable
        if queue.lifecycle.passes_on:
            owner.mark(operation.queue)
        queue.delivery.tally.acknowledged += settled.count
    return encode_settle(operation.queue, durable) if durable else None


def take_return(owner: OwnerState, front_end: int, operation: Return) -> bytes | None:
    """A front end returns messages. Returns the operations for the log; None if there are none.

    Durable messages are ready again once the return is applied; soft ones at once.
    """
    queue = owner.queues.get(operation.queue)
    spent, ranges = b"", operation.ranges
    if queue is not None and owner.resuming(front_end, operation.queue):
        ranges = queue.delivery.unlinked(front_end, ranges)
    elif queue is not None:
        ranges = queue.delivery.returnable(front_end, ranges, operation.token)
    if queue is not None and queue.delivery.links.any():
        # The front end's consumers have the messages no more, also where a link has them by now.
        for part in operation.ranges:
            queue.delivery.lost.given_back(front_end, *part)
        queue.delivery.links.given_back(ranges)
    if operation.failed:
        cancelled = operation.cancelled
        spent, ranges = discard_exhausted(owner, operation.queue, front_end, ranges, cancelled=cancelled)
        if cancelled:
            count_cancels(owner, operation.queue, front_end, ranges)
        let_rest(owner, operation.queue, front_end, ranges)
    durable = list(ranges)
    if queue is not None:
        owner.after_proposed(partial(_let_go, owner, front_end, operation.queue, operation.ranges))
        durable = []
        for first, last in ranges:
            durable += queue.delivery.state.alive.intersection(first, last)
            for part in queue.delivery.soft.numbers.intersection(first, last):
                if operation.failed:
                    queue.delivery.soft.count_failure(*part)
                owner.returned(front_end, operation.queue, *part)
    returned = encode_return(operation.queue, durable, operation.failed) if durable else b""
    return spent + returned or None


def _let_go(owner: OwnerState, front_end: int, number: int, ranges: list[Range]) -> None:
    """A front end has returned messages. A consumer that had lost its lease may have settled some: no return
    of these is applied, and their leases end here.
    """
    queue = owner.queues.get(number)
    if queue is None:
        return
    queue.delivery.links.lapsed(ranges)
    for part in queue.delivery.gone(front_end, ranges):
        owner.returned(front_end, number, *part)


TAKERS: Final[dict[type, Callable[[OwnerState, int, Any], bytes | None]]] = {
    Settle: take_settle,
    Discard: take_discard,
    Return: take_return,
}
"""The functions that take settlements; each returns the operations for the log, None if there are none."""
