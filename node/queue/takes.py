"""The takes of a queue: a part of the queue's replicated state (docs/decisions/0078).

A take is a batch of messages that the queue holds for a named reader under a number. The numbers of a reader
ascend by one, from 1 on. States of a number:

    state      entry                          state
    -          TAKEN                          held; only behind the number before
    held       Settle, COMMITTED of it or of  committed
               a later one
    held       Return, ENDED                  ended: the number gives no messages any more
    any        Return, RELEASED               -, with all numbers of the reader

No number of a reader that was released comes again (`QueueTakes.released_upto`).

The messages of a take are in the queue (`QueueState.alive`) until they are settled.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from node.queue.take_operations import TakeStep, UpdateTake
from node.ranges.range_set import Range, RangeSet

WITH_TAKES: Final = 8
"""The version of snapshots of partitions with takes. A partition without any writes an earlier one."""

MOST_READERS: Final = 1024
"""The most readers of a queue."""

EVERY_RELEASED_READER: Final = b""
"""The name, which no client may use, under which the takes of a queue have one number as committed: the last
one that a reader which was released has used, or may still ask for.
"""

_COUNT = Struct("<I")
_READER = Struct("<BQQI")
_TAKE = Struct("<QQ")


class HeldTake(NamedTuple):
    """Messages that are held for a reader. `time`: when, in milliseconds since the epoch."""

    time: int
    messages: RangeSet


class TakingReader:
    """The takes of one reader. `committed` is the last number that is committed, `ended` the last one that
    has ended by its time; 0 for none. `held` has the takes that are neither, by number.
    """

    __slots__ = ("committed", "ended", "held")

    def __init__(self) -> None:
        self.committed = self.ended = 0
        self.held: dict[int, HeldTake] = {}

    @property
    def last(self) -> int:
        """The last number of the reader; 0 before the first."""
        return max(self.committed, self.ended, max(self.held, default=0))

    @property
    def newest(self) -> int:
        """When the newest of the held takes was taken; 0 without one."""
        return max((one.time for one in self.held.values()), default=0)

    def held_upto(self, number: int) -> list[int]:
        """The held takes up to a number."""
        return [one for one in sorted(self.held) if one <= number]

    def messages(self, upto: int) -> list[Range]:
        """The messages of the held takes up to a number."""
        found = RangeSet()
        for number in self.held_upto(upto):
            found.update(self.held[number].messages.ranges())
        return list(found.ranges())


class QueueTakes:
    """The readers of one queue, by name."""

    __slots__ = ("readers",)

    def __init__(self) -> None:
        self.readers: dict[bytes, TakingReader] = {}

    def __len__(self) -> int:
        return len(self.readers)

    @property
    def released_upto(self) -> int:
        """The number behind which a new reader begins: a request of a reader that was released has no higher
        one. So the request, which may come late, takes and settles nothing. 0 before the first release.
        """
        known = self.readers.get(EVERY_RELEASED_READER)
        return 0 if known is None else known.committed

    def named(self) -> list[tuple[bytes, TakingReader]]:
        """The readers with their names, in the order of these."""
        return sorted((name, one) for name, one in self.readers.items() if name != EVERY_RELEASED_READER)

    def messages(self) -> RangeSet:
        """All messages that are held for readers."""
        found = RangeSet()
        for reader in self.readers.values():
            for one in reader.held.values():
                found.update(one.messages.ranges())
        return found

    def apply(self, update: UpdateTake) -> None:
        """Carry out a step, which the queue's owner has decided."""
        if update.step is TakeStep.RELEASED:
            self.readers.pop(update.reader, None)
            return
        reader = self.readers.setdefault(update.reader, TakingReader())
        if update.step is TakeStep.TAKEN:
            known = reader.held.setdefault(update.number, HeldTake(update.time, RangeSet()))
            known.messages.update(update.ranges)
            return
        for number in reader.held_upto(update.number):
            del reader.held[number]
        if update.step is TakeStep.COMMITTED:
            reader.committed = max(reader.committed, update.number)
        else:
            reader.ended = max(reader.ended, update.number)

    # -- snapshots ------------------------------------------------------------------------------

    def encode(self) -> bytes:
        """Canonical bytes: equal states, and only they, give equal bytes."""
        parts = [_COUNT.pack(len(self.readers))]
        for name, reader in sorted(self.readers.items()):
            parts += (_READER.pack(len(name), reader.committed, reader.ended, len(reader.held)), name)
            for number, take in sorted(reader.held.items()):
                parts += (_TAKE.pack(number, take.time), take.messages.encode())
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int) -> tuple[QueueTakes, int]:
        """The takes encoded at `offset`, and the offset behind. Raises ValueError or struct.error."""
        made = cls()
        (readers,) = _COUNT.unpack_from(data, offset)
        offset += _COUNT.size
        for _ in range(readers):
            size, committed, ended, takes = _READER.unpack_from(data, offset)
            offset += _READER.size
            reader = made.readers[data[offset : offset + size]] = TakingReader()
            reader.committed, reader.ended = committed, ended
            offset += size
            for _ in range(takes):
                number, time = _TAKE.unpack_from(data, offset)
                messages, offset = RangeSet.decode(data, offset + _TAKE.size)
                reader.held[number] = HeldTake(time, messages)
        return made, offset
