"""The ledgers of sinks: a part of a partition's replicated state (docs/decisions/0077).

A branch is a transaction that its partitions have prepared, and that waits for the commit of its epoch. The
ledger has which branches an epoch has, and which epoch was committed last. States of a branch in the ledger's
partition:

    state    entry                      state
    -        STAGED                     staged; without an effect where the epoch is committed, the branch's
                                        name is taken, or its transaction is abandoned
    staged   Decided, COMMITTED         -, and the transaction is decided
    staged   COMMITTED of its epoch or  dropped: its partitions are to be told
             a later one, DROPPED, or
             the end of the queue
    dropped  End                        -
"""

from __future__ import annotations

from array import array
from collections.abc import Container, Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from node.queue.epoch_operations import BranchName, EpochStep, UpdateEpoch
from node.queue.transaction_operations import TransactionKey
from node.ranges.range_set import decode_array, encode_array

WITH_EPOCHS: Final = 7
"""The version of snapshots of partitions with ledgers. A partition without any writes an earlier one."""

_COUNTS = Struct("<II")
_LEDGER = Struct("<QQI")
_STAGED = Struct("<QIIQQQQI")
_DROPPED = Struct("<QQI")


class Branch(NamedTuple):
    """A staged branch. `time`: when the ledger got it, in milliseconds since the epoch of computers."""

    key: TransactionKey
    time: int
    participants: tuple[int, ...]


class Ledger:
    """The epochs of one sink. `committed` is the last one that is committed; -1 before the first."""

    __slots__ = ("committed", "staged")

    def __init__(self) -> None:
        self.committed = -1
        self.staged: dict[int, dict[BranchName, Branch]] = {}

    def epochs_upto(self, epoch: int) -> list[int]:
        """The epochs with branches, up to one."""
        return [one for one in self.staged if one <= epoch]


class EpochTable:
    """The ledgers of one partition by the number of their queue, and the dropped branches whose partitions
    are to be told.
    """

    __slots__ = ("_staged_keys", "dropped", "ledgers")

    def __init__(self) -> None:
        self.ledgers: dict[int, Ledger] = {}
        self.dropped: dict[TransactionKey, tuple[int, ...]] = {}
        self._staged_keys: set[TransactionKey] = set()

    def __bool__(self) -> bool:
        return bool(self.ledgers or self.dropped)

    def is_staged(self, key: TransactionKey) -> bool:
        """Whether the transaction is a branch that no entry has decided."""
        return key in self._staged_keys

    def apply(
        self,
        update: UpdateEpoch,
        decided: Container[TransactionKey],
        abandoned: Container[TransactionKey],
    ) -> None:
        """Apply a step of a ledger whose queue is there. `decided` and `abandoned` are transactions."""
        ledger = self.ledgers.setdefault(update.queue, Ledger())
        match update.step:
            case EpochStep.STAGED:
                self._stage(ledger, update, abandoned)
            case EpochStep.COMMITTED:
                ledger.committed = max(ledger.committed, update.epoch)
                for epoch in ledger.epochs_upto(update.epoch):
                    self._drop(ledger.staged.pop(epoch), decided)
            case EpochStep.DROPPED:
                self._drop(ledger.staged.pop(update.epoch, {}), decided)

    def _stage(self, ledger: Ledger, update: UpdateEpoch, abandoned: Container[TransactionKey]) -> None:
        if update.epoch <= ledger.committed or update.key in abandoned or update.key in self._staged_keys:
            return
        branches = ledger.staged.setdefault(update.epoch, {})
        if update.name not in branches:
            branches[update.name] = Branch(update.key, update.time, update.participants)
            self._staged_keys.add(update.key)

    def _drop(self, branches: dict[BranchName, Branch], decided: Container[TransactionKey]) -> None:
        """These branches are staged no more; those that are not decided are dropped."""
        for branch in branches.values():
            self._staged_keys.discard(branch.key)
            if branch.key not in decided and branch.participants:
                self.dropped[branch.key] = branch.participants

    def forget(self, queue: int, decided: Container[TransactionKey]) -> None:
        """The queue of a ledger is deleted."""
        ledger = self.ledgers.pop(queue, None)
        if ledger is not None:
            for branches in ledger.staged.values():
                self._drop(branches, decided)

    def ended(self, key: TransactionKey) -> None:
        """All partitions of a dropped branch have been told."""
        self.dropped.pop(key, None)

    # -- snapshots ------------------------------------------------------------------------------

    def encode(self) -> bytes:
        """Canonical bytes: equal states, and only they, give equal bytes."""
        parts = [_COUNTS.pack(len(self.ledgers), len(self.dropped))]
        for queue, ledger in sorted(self.ledgers.items()):
            rows = [(epoch, *row) for epoch, found in ledger.staged.items() for row in found.items()]
            parts.append(_LEDGER.pack(queue, ledger.committed + 1, len(rows)))
            for epoch, name, branch in sorted(rows):
                fixed = epoch, name.task, name.number, name.attempt, *branch.key, branch.time
                parts.append(_STAGED.pack(*fixed, len(branch.participants)))
                parts.append(encode_array(array("Q", branch.participants)))
        for key, participants in sorted(self.dropped.items()):
            parts += (_DROPPED.pack(*key, len(participants)), encode_array(array("Q", participants)))
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int) -> tuple[EpochTable, int]:
        """The table encoded at `offset`, and the offset behind. Raises ValueError or struct.error."""
        made = cls()
        ledgers, dropped = _COUNTS.unpack_from(data, offset)
        offset += _COUNTS.size
        for _ in range(ledgers):
            queue, behind, rows = _LEDGER.unpack_from(data, offset)
            offset += _LEDGER.size
            ledger = made.ledgers[queue] = Ledger()
            ledger.committed = behind - 1
            for _ in range(rows):
                offset = made._read_branch(ledger, data, offset)
        for _ in range(dropped):
            front_end, number, count = _DROPPED.unpack_from(data, offset)
            participants, offset = decode_array("Q", data, offset + _DROPPED.size, count)
            made.dropped[TransactionKey(front_end, number)] = tuple(participants)
        return made, offset

    def _read_branch(self, ledger: Ledger, data: bytes, offset: int) -> int:
        epoch, task, number, attempt, front_end, transaction, time, count = _STAGED.unpack_from(data, offset)
        participants, end = decode_array("Q", data, offset + _STAGED.size, count)
        key = TransactionKey(front_end, transaction)
        ledger.staged.setdefault(epoch, {})[BranchName(task, attempt, number)] = Branch(
            key, time, tuple(participants)
        )
        self._staged_keys.add(key)
        return end


def newest_of(branches: Iterable[Branch]) -> int:
    """The time of the branch that came last."""
    return max((one.time for one in branches), default=0)


def overdue(table: EpochTable, before: int) -> Iterator[tuple[int, int, int]]:
    """(queue, epoch, branches) of epochs whose last branch came before a time."""
    for queue, ledger in table.ledgers.items():
        for epoch, branches in ledger.staged.items():
            if newest_of(branches.values()) < before:
                yield queue, epoch, len(branches)
