"""An owner's part in the epochs of sinks whose ledgers are in its partition (docs/decisions/0077). Pure.

Front ends prepare branches and have them staged here; one entry commits an epoch: it decides the branches
that the commit names, drops all others of the epoch, and advances the ledger. Each request is answered by the
state once the request's entry is applied, so that a request that comes again, at this owner or at a later
one, has the same answer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from cluster.owner.context import OverdueEpoch, OwnerContext
from cluster.owner.outcomes import Outcomes
from cluster.owner.state import OwnerState
from cluster.peers.epoch_requests import (
    ABANDONED,
    COMMIT,
    COMMITTED,
    DROPPED,
    EPOCH_REQUEST,
    MISSING,
    OVERTAKEN,
    SHOW,
    STAGE,
    STAGED,
    TAKEN,
)
from cluster.peers.link_messages import NOT_FOUND, NOTHING_TO_GET
from node.queue.epoch_operations import BranchName, EpochStep, UpdateEpoch, encode_epoch
from node.queue.epochs import Branch, Ledger, overdue
from node.queue.operations import OpKind
from node.queue.transaction_format import encode_decided
from node.queue.transaction_operations import Decided, TransactionKey


class EpochQuestion(NamedTuple):
    """A request of a front end."""

    front_end: int
    request: int
    queue: int
    deed: str
    epoch: int
    rest: list[Any]


class OwnedEpochs:
    """See the module's docstring."""

    def __init__(self, owner: OwnerState, context: OwnerContext, outcomes: Outcomes) -> None:
        self._owner, self._context, self._outcomes = owner, context, outcomes
        # The ledgers with a step that is not applied yet: what follows waits for it.
        self._stepping: set[int] = set()

    def clear(self) -> None:
        """Forget everything: this node does not own the partition any more."""
        self._stepping.clear()

    # -- requests -------------------------------------------------------------------------------

    def asked(self, front_end: int, request: int, name: str, arguments: list[Any]) -> bool:
        """Carry out a request about an epoch. Returns False for every other request."""
        if name != EPOCH_REQUEST:
            return False
        queue, deed, epoch, *rest = arguments[len(NOTHING_TO_GET) :]
        self._take(EpochQuestion(front_end, request, queue, deed, epoch, rest))
        return True

    def _take(self, asked: EpochQuestion) -> None:
        if asked.queue in self._stepping or asked.queue not in self._owner.machine.queues:
            # The entry that creates the queue may be on its way.
            self._owner.after_proposed(partial(self._take_applied, asked))
        else:
            self._take_applied(asked)

    def _take_applied(self, asked: EpochQuestion) -> None:
        if asked.queue in self._stepping:
            self._take(asked)
        elif asked.queue not in self._owner.machine.queues:
            # Branches may be decided that their participants do not know yet.
            self._outcomes.when_told(partial(self._read, asked, NOT_FOUND))
        elif asked.deed == SHOW:
            self._read(asked, self._shown(asked.queue))
        elif self._is_committed(asked):
            # The front end of a branch that is committed concludes it as dropped, after all participants.
            self._outcomes.when_told(partial(self._read, asked, [COMMITTED]))
        elif asked.deed == STAGE:
            self._stage(asked)
        elif asked.deed == COMMIT:
            self._commit(asked)
        else:
            self._drop(asked)

    def _ledger(self, queue: int) -> Ledger:
        return self._owner.machine.transactions.epochs.ledgers.get(queue) or Ledger()

    def _is_committed(self, asked: EpochQuestion) -> bool:
        return self._ledger(asked.queue).committed >= asked.epoch

    def _read(self, asked: EpochQuestion, value: list[Any]) -> None:
        """Answer without an entry: a deposed owner does not know what the ledger has."""
        self._owner.linearizable_reads.answer(asked.front_end, asked.request, value)

    def _answer(self, asked: EpochQuestion, value: list[Any]) -> None:
        self._owner.front_ends.answer(asked.front_end, asked.request, value)

    def _step(self, queue: int, operations: list[bytes], then: Callable[[], None]) -> None:
        """Log a step of a ledger, in one entry; `then` is called when the entry is applied."""
        self._stepping.add(queue)
        self._owner.operation(b"".join(operations))
        self._owner.proposal.committed.append(partial(self._stepped, queue, then))

    def _stepped(self, queue: int, then: Callable[[], None]) -> None:
        self._stepping.discard(queue)
        then()

    # -- steps ----------------------------------------------------------------------------------

    def _stage(self, asked: EpochQuestion) -> None:
        task, attempt, number, transaction, participants = asked.rest
        name, key = BranchName(task, attempt, number), TransactionKey(asked.front_end, transaction)
        staged = UpdateEpoch(
            asked.queue, EpochStep.STAGED, asked.epoch, name, key, self._owner.wall_ms(), tuple(participants)
        )
        operation = encode_epoch(OpKind.EPOCH, staged)
        self._step(asked.queue, [operation], partial(self._tell_staged, asked, name, key))

    def _tell_staged(self, asked: EpochQuestion, name: BranchName, key: TransactionKey) -> None:
        branch = self._ledger(asked.queue).staged.get(asked.epoch, {}).get(name)
        if branch is not None:
            self._answer(asked, [STAGED if branch.key == key else TAKEN])
        elif asked.queue not in self._owner.machine.queues:
            self._answer(asked, NOT_FOUND)
        else:
            self._answer(asked, [COMMITTED if self._is_committed(asked) else ABANDONED])

    def _commit(self, asked: EpochQuestion) -> None:
        ledger, named = self._ledger(asked.queue), list[Branch]()
        if asked.rest[1:] and asked.rest[1] != ledger.committed:
            self._read(asked, [OVERTAKEN, ledger.committed])
            return
        staged = ledger.staged.get(asked.epoch, {})
        for task, attempt, count in asked.rest[0]:
            for number in range(count):
                branch = staged.get(BranchName(task, attempt, number))
                if branch is None:
                    self._read(asked, [MISSING, task, attempt, number])
                    return
                named.append(branch)
        decided = [encode_decided(Decided(one.key, one.participants)) for one in named if one.participants]
        step = encode_epoch(OpKind.EPOCH, UpdateEpoch(asked.queue, EpochStep.COMMITTED, asked.epoch))
        self._step(asked.queue, [*decided, step], partial(self._committed, asked))

    def _committed(self, asked: EpochQuestion) -> None:
        """The epoch is committed. The front end is answered once all messages of the epoch are visible."""
        self._outcomes.tell_branches()
        told = [COMMITTED] if self._is_committed(asked) else NOT_FOUND
        self._outcomes.when_told(partial(self._answer, asked, told))

    def _drop(self, asked: EpochQuestion) -> None:
        if asked.epoch in self._ledger(asked.queue).staged:
            self._log_drop(asked.queue, asked.epoch, partial(self._answer, asked, [DROPPED]))
        else:
            self._read(asked, [DROPPED])

    def _log_drop(self, queue: int, epoch: int, then: Callable[[], None]) -> None:
        def dropped() -> None:
            self._outcomes.tell_branches()
            then()

        update = UpdateEpoch(queue, EpochStep.DROPPED, epoch)
        self._step(queue, [encode_epoch(OpKind.EPOCH, update)], dropped)

    def _shown(self, queue: int) -> list[Any]:
        """The last committed epoch, -1 for none, and rows of each epoch with branches: the epoch, its
        branches, and when the last one came, in milliseconds since the epoch of computers.
        """
        ledger = self._ledger(queue)
        rows = [
            [epoch, len(branches), max(one.time for one in branches.values())]
            for epoch, branches in sorted(ledger.staged.items())
        ]
        return [SHOW, ledger.committed, rows]

    # -- time-outs ------------------------------------------------------------------------------

    def end_overdue(self) -> None:
        """Drop the epochs that no client has decided in time. Called every `RETRY_INTERVAL_S`."""
        table = self._owner.machine.transactions.epochs
        if not table.ledgers:
            return
        told = self._context.overdue_epochs
        for queue, epoch, branches in list(overdue(table, self._owner.wall_ms() - told.timeout_ms)):
            if queue not in self._stepping:
                self._log_drop(queue, epoch, partial(told.note, OverdueEpoch(queue, epoch, branches)))
