"""The replicated state of one queue: what every replica of its partition agrees on."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from node.engine.operations import Semantics
from node.engine.ranges import Range, RangeSet

_HEAD = Struct("<BQII")


class QueueState:
    """Which messages are alive, which came back, and what may have been leased.

    `alive` holds the sequence numbers that the queue still needs; `returned` those of them that
    were given back at least once, so that their next delivery is marked redelivered; `failures`
    maps a count of failed deliveries to the messages that have that count. No message above
    `mark` was ever leased. `attached` are the front ends with consumers or leases on the queue.
    """

    __slots__ = ("alive", "attached", "failures", "mark", "returned", "semantics")

    def __init__(self, semantics: Semantics) -> None:
        self.semantics = semantics
        self.alive = RangeSet()
        self.returned = RangeSet()
        self.failures: dict[int, RangeSet] = {}
        self.mark = 0
        self.attached: set[int] = set()

    def append(self, first: int, last: int) -> None:
        """New messages, each above all earlier ones."""
        self.alive.add(first, last)

    def remove(self, first: int, last: int) -> int:
        """The messages are done with; return how many of them were alive."""
        if self.returned:
            self.returned.remove(first, last)
            self._remove_failures(first, last)
        return self.alive.remove(first, last)

    def give_back(self, ranges: Sequence[Range], failed: bool) -> list[Range]:
        """The messages go back to their places; return those of them that are alive.

        Nothing comes back to an at-most-once queue, whose messages are removed before they are
        delivered (seed 002): there is nothing alive to return.
        """
        alive = [part for first, last in ranges for part in self.alive.intersection(first, last)]
        for first, last in alive:
            self.returned.add(first, last)
            if failed:
                self._count_failure(first, last)
        return alive

    def failure_count(self, sequence: int) -> int:
        """How often delivery of the message failed."""
        return next((count for count, held in self.failures.items() if sequence in held), 0)

    def _count_failure(self, first: int, last: int) -> None:
        uncounted = RangeSet(((first, last),))
        moves: list[tuple[int, list[Range]]] = []
        for count, held in self.failures.items():
            parts = held.intersection(first, last)
            if parts:
                uncounted.remove_all(parts)
                moves.append((count, parts))
        for count, parts in moves:
            self.failures[count].remove_all(parts)
        moves.append((0, list(uncounted.ranges())))
        for count, parts in moves:
            if parts:
                self.failures.setdefault(count + 1, RangeSet()).update(parts)
        self._drop_empty_counts()

    def _remove_failures(self, first: int, last: int) -> None:
        if sum(held.remove(first, last) for held in self.failures.values()):
            self._drop_empty_counts()

    def _drop_empty_counts(self) -> None:
        for count in [count for count, held in self.failures.items() if not held]:
            del self.failures[count]

    def encode(self) -> bytes:
        """Canonical bytes: equal states, and only they, give equal bytes."""
        parts = [_HEAD.pack(self.semantics, self.mark, len(self.attached), len(self.failures))]
        parts.extend(front_end.to_bytes(8, "little") for front_end in sorted(self.attached))
        parts.append(self.alive.encode())
        parts.append(self.returned.encode())
        for count, held in sorted(self.failures.items()):
            parts += (count.to_bytes(8, "little"), held.encode())
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int) -> tuple[QueueState, int]:
        """The state encoded at `offset`, and the offset behind it.

        Raises ValueError or struct.error when malformed.
        """
        semantics, mark, attached, counts = _HEAD.unpack_from(data, offset)
        offset += _HEAD.size
        state = cls(Semantics(semantics))
        state.mark = mark
        for _ in range(attached):
            state.attached.add(int.from_bytes(data[offset : offset + 8], "little"))
            offset += 8
        state.alive, offset = RangeSet.decode(data, offset)
        state.returned, offset = RangeSet.decode(data, offset)
        for _ in range(counts):
            count = int.from_bytes(data[offset : offset + 8], "little")
            state.failures[count], offset = RangeSet.decode(data, offset + 8)
        return state, offset
