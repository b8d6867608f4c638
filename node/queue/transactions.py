"""Transactions that touch several partitions: a part of a partition's replicated state (two-phase commit).

A front end asks all partitions of a transaction but one to *prepare*, and then asks that one, the
*coordinator*, to decide. The decision is an entry in the coordinator's log, together with the coordinator's
own share. States in a participant:

    state      entry                state      publishes of the share       settlements of the share
    -          Prepared             prepared   in the queue, but withheld   no other settlement may come
    prepared   Conclude(committed)  -          visible                      carried out
    prepared   Conclude(aborted)    -          removed                      not carried out, deliveries return
    -          Conclude             -          no effect: the outcome came twice

States in the coordinator, which a participant asks when it does not hear from the front end:

    state      entry     state      answer to a participant
    -          Decided   decided    committed
    -          Abandon   abandoned  aborted: what is not decided now will never be
    decided    Abandon   decided    committed
    abandoned  Decided   -          does not happen: the owner refuses to decide
    decided    End       -          no participant asks any more: all have concluded
    abandoned  End       -          no participant asks any more: the front end decides no more
    abandoned  Forget    -          no participant asks any more: the front end is dead

`node.queue.epochs` has the branches of epochs, which are prepared in all their partitions and decided later:
a participant that asks about a staged branch waits until it is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Final, get_args

from node.queue.epoch_operations import UpdateEpoch
from node.queue.epochs import WITH_EPOCHS, EpochTable
from node.queue.operations import Applied, Refer
from node.queue.queue import QueueState
from node.queue.transaction_format import (
    encode_abandon,
    encode_decided,
    encode_prepared,
    read_abandon,
    read_decided,
    read_prepared,
)
from node.queue.transaction_operations import (
    Abandon,
    Conclude,
    Decided,
    EndTransaction,
    LoggedTransactional,
    Prepared,
    TransactionKey,
)

_COUNTS = Struct("<III")

LOGGED: Final = get_args(LoggedTransactional)
"""The types of the transactional operations that logs have."""


class TransactionTable:
    """The transactions that are prepared, decided and abandoned in one partition."""

    __slots__ = ("abandoned", "decided", "epochs", "prepared")

    def __init__(self) -> None:
        self.prepared: dict[TransactionKey, Prepared] = {}
        self.decided: dict[TransactionKey, Decided] = {}
        self.abandoned: set[TransactionKey] = set()
        self.epochs = EpochTable()

    def apply(
        self, operation: LoggedTransactional, queues: Mapping[int, QueueState], applied: Applied
    ) -> None:
        """Apply an operation of the log to this table and to the queues; adds its effects to `applied`."""
        key = operation.key
        applied.transactions.append(operation)
        match operation:
            case Prepared():
                self.prepared[key] = operation
                self._withhold(operation, queues)
                applied.withhold(operation.published)
            case Decided():
                # The ledger of a branch may have been deleted meanwhile, and its branches dropped.
                if not key.branch or self.epochs.is_staged(key):
                    self.decided[key] = operation
            case Conclude(committed=committed):
                self._conclude(key, committed, queues, applied)
            case EndTransaction():
                self.decided.pop(key, None)
                self.abandoned.discard(key)
                self.epochs.ended(key)
            case Abandon():
                if key not in self.decided and not self.epochs.is_staged(key):
                    self.abandoned.add(key)

    def update_epoch(self, update: UpdateEpoch) -> None:
        """Apply a step of an epoch, whose ledger is there."""
        self.epochs.apply(update, self.decided, self.abandoned)

    def forget_ledger(self, queue: int) -> None:
        """The queue of a ledger, or another one, is deleted."""
        self.epochs.forget(queue, self.decided)

    def _withhold(self, prepared: Prepared, queues: Mapping[int, QueueState]) -> None:
        for queue, first, last in prepared.published:
            if queue in queues:
                queues[queue].withhold(first, last)

    def _conclude(
        self, key: TransactionKey, committed: bool, queues: Mapping[int, QueueState], applied: Applied
    ) -> None:
        prepared = self.prepared.pop(key, None)
        for queue, first, last in prepared.published if prepared is not None else ():
            state = queues.get(queue)
            if state is not None:
                parts = state.release(first, last)
                if committed:
                    applied.appended += [(queue, *part) for part in parts]
                else:
                    state.remove_all([(first, last)])

    def refer(self, operation: Refer, state: QueueState) -> list[tuple[int, int, int]]:
        """Messages of a queue come into another one, whose `state` this is. That one withholds those of
        prepared transactions, too. Returns these as (queue, first, last).
        """
        found: list[tuple[int, int, int]] = []
        for key, prepared in self.prepared.items():
            rows = [
                (operation.queue, max(first, operation.first), min(last, operation.last))
                for queue, first, last in prepared.published
                if queue == operation.source and first <= operation.last and last >= operation.first
            ]
            if rows:
                self.prepared[key] = prepared._replace(published=(*prepared.published, *rows))
                found += rows
        for _, first, last in found:
            state.withhold(first, last)
        return found

    def forget(self, front_end: int) -> None:
        """The front end is dead for good: it asks for no decision any more."""
        self.abandoned = {key for key in self.abandoned if key.front_end != front_end}

    def awaited(self) -> set[int]:
        """The front ends at whose death `forget` has something to remove."""
        return {key.front_end for key in self.abandoned}

    # -- snapshots ------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The version that a snapshot needs for this table; 0 for any."""
        return WITH_EPOCHS if self.epochs else 0

    def encode(self, version: int) -> bytes:
        """Canonical bytes: equal states, and only they, give equal bytes."""
        parts = [_COUNTS.pack(len(self.prepared), len(self.decided), len(self.abandoned))]
        parts += (encode_prepared(self.prepared[key]) for key in sorted(self.prepared))
        parts += (encode_decided(self.decided[key]) for key in sorted(self.decided))
        parts += map(encode_abandon, sorted(self.abandoned))
        if version >= WITH_EPOCHS:
            parts.append(self.epochs.encode())
        return b"".join(parts)

    @classmethod
    def decode(
        cls, data: bytes, offset: int, queues: Mapping[int, QueueState], version: int
    ) -> tuple[TransactionTable, int]:
        """The table encoded at `offset`, and the offset behind. Has the queues withhold the messages of
        prepared transactions. Raises ValueError or struct.error.
        """
        made = cls()
        prepared, decided, abandoned = _COUNTS.unpack_from(data, offset)
        offset += _COUNTS.size
        for _ in range(prepared):
            one, offset = read_prepared(data, offset)
            made.prepared[one.key] = one
            made._withhold(one, queues)
        for _ in range(decided):
            other, offset = read_decided(data, offset)
            made.decided[other.key] = other
        for _ in range(abandoned):
            abandon, offset = read_abandon(data, offset)
            made.abandoned.add(abandon.key)
        if version >= WITH_EPOCHS:
            made.epochs, offset = EpochTable.decode(data, offset)
        return made, offset
