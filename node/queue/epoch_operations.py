"""The steps of epochs, by which the log of a sink's ledger keeps which prepared branches one commit makes
visible (docs/decisions/0077).

    epoch  kind u8, version u8, step u8, queue u64, epoch u64; STAGED also: task u32, number u32, attempt u64,
           front end u64, transaction u64, time u64, participant count u32, participants u64 each

All numbers are little-endian. The queue is that of the ledger.
"""

from __future__ import annotations

from array import array
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from node.queue.transaction_operations import TransactionKey
from node.ranges.columns import Buffer
from node.ranges.range_set import decode_array, encode_array

EPOCH_VERSION: Final = 1

LAST_EPOCH: Final = (1 << 63) - 2
"""The highest number of an epoch."""

_HEAD = Struct("<BBBQQ")
_BRANCH = Struct("<IIQQQQI")


class EpochStep(IntEnum):
    """The kinds of steps. Journals have the numbers: never renumber."""

    STAGED = 1
    """A branch is prepared in all its partitions."""
    COMMITTED = 2
    """The epoch is committed: the branches of it whose transactions the same entry has decided. All others of
    the epoch, and of those before it, are dropped.
    """
    DROPPED = 3
    """The branches of the epoch are dropped."""


class BranchName(NamedTuple):
    """A branch within an epoch: the task, its branch `number` from 0 on, and the attempt, a number that no
    other attempt at the task has.
    """

    task: int
    attempt: int
    number: int


class UpdateEpoch(NamedTuple):
    """A step of an epoch of the ledger `queue`. A STAGED has the branch's name and transaction, the time of
    the owner in milliseconds since the epoch of computers, and the partitions that have prepared the
    transaction.
    """

    queue: int
    step: EpochStep
    epoch: int
    name: BranchName = BranchName(0, 0, 0)
    key: TransactionKey = TransactionKey(0, 0)
    time: int = 0
    participants: tuple[int, ...] = ()


def encode_epoch(kind: int, update: UpdateEpoch) -> bytes:
    """The operation, of the kind `OpKind.EPOCH`. Raises struct.error for numbers that are too large."""
    head = _HEAD.pack(kind, EPOCH_VERSION, update.step, update.queue, update.epoch)
    if update.step is not EpochStep.STAGED:
        return head
    name, participants = update.name, update.participants
    branch = _BRANCH.pack(name.task, name.number, name.attempt, *update.key, update.time, len(participants))
    return head + branch + encode_array(array("Q", participants))


def read_epoch(data: Buffer, offset: int) -> tuple[UpdateEpoch, int]:
    """The operation at `offset`, and the offset behind. Raises ValueError or struct.error when malformed."""
    _, version, step, queue, epoch = _HEAD.unpack_from(data, offset)
    if version != EPOCH_VERSION:
        raise ValueError(f"operation of version {version}")
    offset += _HEAD.size
    if step != EpochStep.STAGED:
        return UpdateEpoch(queue, EpochStep(step), epoch), offset
    task, number, attempt, front_end, transaction, time, count = _BRANCH.unpack_from(data, offset)
    participants, end = decode_array("Q", data, offset + _BRANCH.size, count)
    name, key = BranchName(task, attempt, number), TransactionKey(front_end, transaction)
    return UpdateEpoch(queue, EpochStep.STAGED, epoch, name, key, time, tuple(participants)), end
