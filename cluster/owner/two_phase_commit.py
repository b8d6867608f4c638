"""An owner's part in transactions over several partitions: as a participant and as the coordinator.

`node.queue.transactions` has the states. A front end drives its transactions with its operation batches. When
the front end is lost, the partitions find the outcome out (`cluster.owner.outcomes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, cast

from cluster.owner.admission import (
    Entering,
    await_arrival,
    count_left_out,
    entering,
    left_out,
    may_leave_out,
    omissions,
    refusals,
)
from cluster.owner.annotating import change, changes
from cluster.owner.context import OwnerContext
from cluster.owner.dead_letters import DeadLetters
from cluster.owner.epochs import OwnedEpochs
from cluster.owner.intake import TAKERS, Taking, take_return
from cluster.owner.merging import has_deltas, merges
from cluster.owner.moving import Reservations, entrust_waiting, may_enter
from cluster.owner.outcomes import Outcomes
from cluster.owner.placing_barriers import has_barriers
from cluster.owner.referring import with_queues_over
from cluster.owner.removals import take_removal
from cluster.owner.state import OwnerState
from cluster.owner.targets import takes_step
from node.delivery.link_terms import link_terms
from node.message.run import Run
from node.queue.decision_format import encode_target
from node.queue.entry_format import (
    encode_discard,
    encode_return,
    encode_settle,
    read_operations,
    read_run,
)
from node.queue.feature import Incoming
from node.queue.operations import (
    TRANSACTION,
    Discard,
    Operation,
    Publish,
    Return,
    Semantics,
    Settle,
)
from node.queue.targets import UpdateTarget
from node.queue.transaction_format import (
    encode_conclude,
    encode_decided,
    encode_end,
    encode_prepared,
)
from node.queue.transaction_operations import (
    REMOVAL,
    Conclude,
    Decide,
    Decided,
    EndTransaction,
    LoggedTransactional,
    Prepare,
    Prepared,
    TransactionKey,
)
from node.ranges.range_set import Range, merged

Reserved = tuple[tuple[int, ...], int, int]
"""(queues, first, last): messages for which the queues have room."""

SettlementOperation = Settle | Discard | Return


class TwoPhaseCommit:
    """The transactions in which one partition takes part, while this node owns the partition."""

    def __init__(self, owner: OwnerState, context: OwnerContext, dead_letters: DeadLetters) -> None:
        self._owner = owner
        self._context = context
        self._dead_letters = dead_letters
        self.reservations = Reservations(owner)
        # Prepared and not concluded, by entries that are applied or proposed.
        self._open: dict[TransactionKey, Prepared] = {}
        self.outcomes = Outcomes(owner, context, dead_letters, self._learn)
        self.epochs = OwnedEpochs(owner, context, self.outcomes)
        # Attaches of targets that wait for the outcomes of prepared transactions.
        self._waiting: list[tuple[UpdateTarget, Callable[[], None]]] = []

    def clear(self) -> None:
        """Forget everything: this node does not own the partition any more."""
        self._open, self._waiting = {}, []
        self.reservations.clear()
        self.outcomes.clear()
        self.epochs.clear()

    def applied(self, step: LoggedTransactional) -> None:
        """The step of a transaction is applied."""
        self.outcomes.applied(step)

    def take_over(self) -> None:
        """A new owner keeps the messages and leases of prepared transactions until their outcome is known."""
        self._open = dict(self._owner.machine.transactions.prepared)
        for prepared in self._open.values():
            for queue, first, last in prepared.published:
                if queue in self._owner.queues and self._owner.rules_of(queue).expect:
                    for start, run in self._owner.contents(first, last):
                        self._await(run, (queue,), start)
            for operation in _later(prepared.settled):
                if type(operation) is not UpdateTarget:
                    self._entrust(TRANSACTION, cast(SettlementOperation, operation))

    def _entrust(self, front_end: int, settlement: SettlementOperation) -> None:
        """Move the front end's leases that a transaction settles to the holder `TRANSACTION`, so that the
        loss of the front end does not return them. The transaction also gets messages without a lease, as far
        as this owner knows. Messages that are leased to other front ends by now stay with them.
        """
        queue = self._owner.queues.get(settlement.queue)
        if queue is None or queue.delivery.state.semantics is Semantics.AT_MOST_ONCE:
            return
        lease, former = queue.delivery.lease_of(TRANSACTION), queue.delivery.leases.get(front_end)
        for first, last in queue.delivery.settleable(front_end, settlement.ranges, settlement.token):
            if former is not None and former is not lease:
                moved = former.intersection(first, last)
                lease.update(moved)
                former.remove(first, last)
                if queue.delivery.timed is not None:
                    queue.delivery.timed.end(moved)
            entrust_waiting(queue.delivery, front_end, first, last)

    def _take_out(self, key: TransactionKey, settlement: SettlementOperation) -> None:
        """Have a transaction take the messages that it settles."""
        if type(settlement) is Settle and key.moves:
            self.reservations.take(key.front_end, settlement)
        self._entrust(key.front_end, settlement)

    # -- operations of front ends ---------------------------------------------------------------

    def take(self, taking: Taking, front_end: int, operation: Operation, index: int) -> None:
        """Take an operation of a front end's batch, which counts as the batch's message number `index`."""
        match operation:
            case Prepare(number=number):
                self._prepare(taking, TransactionKey(front_end, number), operation, index)
            case Decide(number=number):
                self._decide(taking, TransactionKey(front_end, number), operation, index)
            case Conclude(key=key, committed=committed):
                taking.keep_all(self._conclude(key, committed))
            case EndTransaction(key=key):
                taking.keep_all([encode_end(key)])

    def _share(self, taking: Taking, asked: Prepare | Decide) -> list[Operation]:
        """The operations of a share. Its publishes go to the queues over their streams, too."""
        share = list(read_operations(taking.data, asked.start, asked.end))
        for one in share:
            if type(one) is Publish:
                one.queues = with_queues_over(self._owner, one.queues)
        return share

    def _prepare(self, taking: Taking, key: TransactionKey, asked: Prepare, index: int) -> None:
        share = self._share(taking, asked)
        # Without a place in the log, the barrier of a transaction would stand before messages of before.
        if self._has_barriers(taking, share) or not (
            self._may_begin(taking, key, share) and self._reserve(taking, key.front_end, share)
        ):
            self._refuse(taking, key, share, index)
            return
        rows: list[tuple[int, int, int]] = []
        settled: list[bytes] = []
        for one in share:
            if type(one) is Publish:
                first = taking.withhold(read_run(taking.data, one.position), one.queues)
                rows += [(queue, first, first + one.count - 1) for queue in one.queues]
            elif type(one) is UpdateTarget:
                settled.append(encode_target(one))
            else:
                settlement = cast(SettlementOperation, one)
                self._take_out(key, settlement)
                settled.append(_encoded(settlement))
        prepared = Prepared(key, asked.coordinator, tuple(rows), b"".join(settled))
        self._open[key] = prepared
        taking.keep_all([encode_prepared(prepared)])

    def _has_barriers(self, taking: Taking, share: Sequence[Operation]) -> bool:
        """Whether a share publishes a barrier to a queue with several owners."""
        published = (one for one in share if type(one) is Publish)
        return any(has_barriers(self._owner, taking.data, one) for one in published)

    def _decide(self, taking: Taking, key: TransactionKey, asked: Decide, index: int) -> None:
        share = self._share(taking, asked)
        if asked.number == REMOVAL:
            if not take_removal(taking, key.front_end, share):
                taking.refused.add(index, index)
            return
        if (
            self.outcomes.abandons(key)
            or not self._may_begin(taking, key, share)
            or not self._reserve(taking, key.front_end, share, keep=False)
        ):
            self._refuse(taking, key, share, index)
            return
        first = self._owner.next_sequence
        for one in share:
            if type(one) is Publish:
                self._owner.published += one.count
                run = read_run(taking.data, one.position)
                taking.take(run, one.queues, index, dead_letters=key.moves)
            elif type(one) is UpdateTarget:
                taking.keep_all([encode_target(one)])
            else:
                if key.moves:
                    self._take_out(key, cast(SettlementOperation, one))
                taking.settle(TRANSACTION if key.moves else key.front_end, one, index)
        if key.moves:
            leaving, last = [one for one in share if type(one) is Settle], self._owner.next_sequence - 1
            alone = not asked.participants
            taking.keep_all(self._owner.histories.of_move(key, leaving, (first, last), alone=alone))
        if asked.participants:
            taking.keep_all([encode_decided(Decided(key, asked.participants))])
            self.outcomes.deciding.add(key)

    def _may_begin(self, taking: Taking, key: TransactionKey, share: Sequence[Operation]) -> bool:
        """Whether all that a transaction moves may leave its queue, and enter the other one; for other
        transactions, whether they have no deltas. The last value of a key may be another one at the outcome.
        """
        if not key.moves:
            return not any(
                has_deltas(self._owner, read_run(taking.data, one.position), one.queues)
                for one in share
                if type(one) is Publish and merges(self._owner, one.queues)
            )
        return all(
            may_enter(self._owner, one, read_run(taking.data, one.position))
            if type(one) is Publish
            else type(one) is Settle and self.reservations.may_leave(key.front_end, one)
            for one in share
        )

    def _reserve(
        self, taking: Taking, front_end: int, share: Sequence[Operation], *, keep: bool = True
    ) -> bool:
        """Whether queues have room for all publishes and annotations of the share, and the links of its
        deliveries have their targets; with `keep` the room for publishes is reserved.
        """
        owner, reserved = self._owner, list[Reserved]()
        first, room = owner.next_sequence, True
        for one in share:
            if room and type(one) is Publish:
                if may_leave_out(owner, one.queues):
                    run = read_run(taking.data, one.position)
                    room = self._reserve_run(run, one.queues, first, reserved)
                first += one.count
            elif room and type(one) is Return and one.annotations:
                room = changes(owner, front_end, one) is not None
            elif room and type(one) is UpdateTarget:
                # A link that has lost its target may have sent the messages again, on the link that has it.
                room = takes_step(owner, front_end, one)
        for queues, start, end in () if room and keep else reserved:
            for queue in queues:
                owner.arrived(queue, start, end)
        return room

    def _reserve_run(self, run: Run, queues: tuple[int, ...], first: int, reserved: list[Reserved]) -> bool:
        """Whether queues have room for the messages of a run, numbered from `first` on, that their filters
        take; adds the room that is reserved.
        """
        owner, incoming, room = self._owner, Incoming(run), True
        for those in entering(incoming, queues, left_out(owner, incoming, queues)):
            room = room and not refusals(owner, those.incoming, those.queues)
            reserved += self._await_those(those, run, first)
        return room

    def _await(self, run: Run, queues: tuple[int, ...], first: int) -> None:
        """Keep room for the messages of a prepared run, numbered from `first` on, that enter."""
        incoming = Incoming(run)
        for those in entering(incoming, queues, left_out(self._owner, incoming, queues)):
            self._await_those(those, run, first)

    def _await_those(self, those: Entering, run: Run, first: int) -> list[Reserved]:
        """Keep room for messages of a run, numbered from `first` on."""
        for low, high in those.places:
            part = Incoming(run.slice(low, high - low + 1))
            await_arrival(self._owner, part, first + low, those.queues)
        return [(those.queues, first + low, first + high) for low, high in those.places]

    def _refuse(self, taking: Taking, key: TransactionKey, share: Sequence[Operation], index: int) -> None:
        """Refuse the share: publish nothing, and return the messages that it would have settled. Those of a
        move have not left their queue.
        """
        for one in share:
            if type(one) not in (Publish, UpdateTarget) and not key.moves:
                settlement = cast(SettlementOperation, one)
                taking.settle(
                    key.front_end, Return(settlement.queue, settlement.ranges, True, settlement.token), index
                )
        taking.refused.add(index, index)

    # -- outcomes -------------------------------------------------------------------------------

    def _conclude(self, key: TransactionKey, committed: bool) -> list[bytes]:
        """The operations for the log that conclude a transaction; none if it is concluded already."""
        prepared = self._open.pop(key, None)
        if prepared is None:
            return []
        found = self._without_unwanted(prepared, moved=key.moves) if committed else []
        found.append(encode_conclude(key, committed))
        for queue, first, last in prepared.published:
            if committed:
                self._owner.published += last - first + 1
            else:
                self._owner.arrived(queue, first, last)
        for operation in _later(prepared.settled):
            if type(operation) is UpdateTarget:
                found += [encode_target(operation)] if committed else []
                continue
            settlement = cast(SettlementOperation, operation)
            if committed and type(settlement) is not Return:
                part = TAKERS[type(settlement)](self._owner, TRANSACTION, settlement)
                found += [] if part is None else [part]
            else:
                if committed and type(settlement) is Return and settlement.annotations:
                    told = changes(self._owner, TRANSACTION, settlement)
                    found += [] if told is None else change(self._owner, told)
                found += self._give_back(settlement, failed=not key.moves)
        if self._waiting:
            self._owner.proposal.committed.append(self._look_again)
        return found

    def when_concluded(self, step: UpdateTarget, then: Callable[[], None]) -> None:
        """Call back once no transaction with deliveries for the target of a step is prepared any more."""
        if any(_has_deliveries(prepared, step) for prepared in self._open.values()):
            self._waiting.append((step, then))
        else:
            then()

    def _look_again(self) -> None:
        """A transaction is concluded."""
        waiting, self._waiting = self._waiting, []
        for step, then in waiting:
            self.when_concluded(step, then)

    def _without_unwanted(self, prepared: Prepared, *, moved: bool) -> list[bytes]:
        """The operations that remove from a committed transaction what queues leave out: duplicates, and
        messages that filters do not take. No message that is `moved` is a duplicate. Queues remember the ids
        of its messages only now: publishers may send the messages of an aborted transaction again.
        """
        owner, found = self._owner, []
        for number, first, last in prepared.published:
            rules = owner.rules_of(number)
            if number not in owner.queues or not (rules.leave or (rules.omit and not moved)):
                continue
            for start, run in owner.contents(first, last):
                parts = [(start + low, start + high) for low, high in self._unwanted(number, run, moved)]
                for part in parts:
                    owner.arrived(number, *part)
                found += [encode_settle(number, parts)] if parts else []
        return found

    def _unwanted(self, number: int, run: Run, moved: bool) -> list[Range]:
        """The messages of a run, counted from 0, that the queue leaves out."""
        owner, incoming = self._owner, Incoming(run)
        without = left_out(owner, incoming, (number,))
        count_left_out(owner, without)
        found = [part for one in without.values() for part in one.ranges]
        for those in () if moved else entering(incoming, (number,), without):
            found += those.placed(omissions(owner, those.incoming, (number,)).get(number, []))
        return merged(sorted(found))

    def _give_back(self, settlement: SettlementOperation, *, failed: bool) -> list[bytes]:
        """The operations that return messages of a transaction to their queue, as after a `failed` delivery
        or without one.
        """
        number, ranges = settlement.queue, settlement.ranges
        self._owner.proposal.committed.append(partial(self._given_back, number, ranges, failed))
        part = take_return(self._owner, TRANSACTION, Return(number, ranges, failed))
        return [] if part is None else [part]

    def _given_back(self, number: int, ranges: list[tuple[int, int]], redelivered: bool) -> None:
        queue = self._owner.queues.get(number)
        if queue is not None:
            for part in ranges:
                queue.lifecycle.release(TRANSACTION, *part, redelivered=redelivered)
            self._owner.mark(number)

    def _learn(self, key: TransactionKey, committed: bool) -> None:
        """Conclude a transaction by the outcome that its coordinator tells."""
        for operation in self._conclude(key, committed):
            # Behind the front end's batches: the same entry may prepare the transaction.
            self._owner.proposal.add_decision(operation)
        self._owner.wake()

    # -- outcomes of other partitions -----------------------------------------------------------

    def retry(self) -> None:
        """Go on with the transactions of lost front ends. Called every `RETRY_INTERVAL_S`."""
        self.reservations.release_old()
        self.outcomes.retry(self._open)
        self.epochs.end_overdue()

    def asked(
        self, front_end: int, request: int, name: str, arguments: list[Any], answer: Callable[[Any], None]
    ) -> bool:
        """Carry out a request about transactions. Returns False for every other request."""
        return self.epochs.asked(front_end, request, name, arguments) or self.outcomes.asked(
            name, arguments, answer
        )


def _later(data: bytes) -> Iterator[Operation]:
    """The operations of a prepared transaction that its commit carries out."""
    return iter(read_operations(data))


def _has_deliveries(prepared: Prepared, step: UpdateTarget) -> bool:
    """Whether a transaction has deliveries for the target of a step."""
    identity = link_terms(step.link).identity
    found = (one for one in _later(prepared.settled) if type(one) is UpdateTarget and one.queue == step.queue)
    return any(link_terms(one.link).identity == identity for one in found)


def _encoded(settlement: SettlementOperation) -> bytes:
    match settlement:
        case Settle(queue, ranges):
            return encode_settle(queue, ranges)
        case Discard(queue, ranges):
            return encode_discard(queue, ranges, annotations=settlement.annotations)
        case Return(queue, ranges, failed):
            told, cancelled = settlement.annotations, settlement.cancelled
            return encode_return(queue, ranges, failed, annotations=told, cancelled=cancelled)
