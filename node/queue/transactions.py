"""Transactions that touch several partitions: a part of a partition's replicated state (two-phase commit).

A front end has all partitions but one *prepare*, then has that one, the *coordinator*, decide. The decision
is an entry in the coordinator's log, together with the coordinator's own share. States in a participant:

    state      entry                state      what becomes of the share
    -          Prepared             prepared   published, but invisible; settled by nobody else
    prepared   Conclude(committed)  -          visible; settled
    prepared   Conclude(aborted)    -          removed; back in its queue
    -          Conclude             -          nothing: told twice

States in the coordinator, of which a participant without a front end asks:

    state      entry     state      its answer
    -          Decided   decided    committed
    -          Abandon   abandoned  aborted: presumed of what is not decided, and true from now on
    decided    Abandon   decided    committed
    abandoned  Decided   -          never: the owner refuses to decide
    decided    End       -          nobody asks: all participants have concluded
    abandoned  End       -          nobody asks: the front end decides no more
    abandoned  Forget    -          nobody asks: the front end is dead
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Final, get_args

from node.queue.operations import (
    Abandon,
    Applied,
    Conclude,
    Decided,
    EndTransaction,
    LoggedTransactional,
    Prepared,
    TransactionKey,
)
from node.queue.queue import QueueState
from node.queue.transaction_format import (
    encode_abandon,
    encode_decided,
    encode_prepared,
    read_abandon,
    read_decided,
    read_prepared,
)

_COUNTS = Struct("<III")

LOGGED: Final = get_args(LoggedTransactional)
"""The types of the operations that stand in logs."""


class TransactionTable:
    """What is prepared, decided and abandoned here."""

    __slots__ = ("abandoned", "decided", "prepared")

    def __init__(self) -> None:
        self.prepared: dict[TransactionKey, Prepared] = {}
        self.decided: dict[TransactionKey, Decided] = {}
        self.abandoned: set[TransactionKey] = set()

    def apply(
        self, operation: LoggedTransactional, queues: Mapping[int, QueueState], applied: Applied
    ) -> None:
        key = operation.key
        applied.transactions.append(operation)
        match operation:
            case Prepared():
                self.prepared[key] = operation
                self._withhold(operation, queues)
                applied.withhold(operation.published)
            case Decided():
                self.decided[key] = operation
            case Conclude(committed=committed):
                self._conclude(key, committed, queues, applied)
            case EndTransaction():
                self.decided.pop(key, None)
                self.abandoned.discard(key)
            case Abandon():
                if key not in self.decided:
                    self.abandoned.add(key)

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

    def forget(self, front_end: int) -> None:
        """The front end is dead for good: it has nothing decided any more."""
        self.abandoned = {key for key in self.abandoned if key.front_end != front_end}

    def awaited(self) -> set[int]:
        """Front ends whose death lets something be forgotten."""
        return {key.front_end for key in self.abandoned}

    # -- snapshots ------------------------------------------------------------------------------

    def encode(self) -> bytes:
        """Canonical bytes: equal states, and only they, give equal bytes."""
        parts = [_COUNTS.pack(len(self.prepared), len(self.decided), len(self.abandoned))]
        parts += (encode_prepared(self.prepared[key]) for key in sorted(self.prepared))
        parts += (encode_decided(self.decided[key]) for key in sorted(self.decided))
        parts += map(encode_abandon, sorted(self.abandoned))
        return b"".join(parts)

    @classmethod
    def decode(
        cls, data: bytes, offset: int, queues: Mapping[int, QueueState]
    ) -> tuple[TransactionTable, int]:
        """What is encoded at `offset`, and the offset behind it; withholds from the queues what they do not
        show yet. Raises ValueError or struct.error.
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
        return made, offset
