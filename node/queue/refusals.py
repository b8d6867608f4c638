"""The refused messages of front ends' operation batches: a part of a partition's replicated state."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import takewhile
from struct import Struct
from typing import Final

from node.ranges.range_set import Range, decode_array, encode_array

KEPT_BATCHES: Final = 16_384
"""The refusals of so many batches before a front end's newest refusal are kept. A front end asks for batches
without an answer, and its window has fewer.
"""

_COUNT = Struct("<I")
_REFUSED_HEAD = Struct("<QI")


class Refusals:
    """The refused messages by front end and batch number, as ranges counted from 0 within the batch."""

    __slots__ = ("_by_front_end",)

    def __init__(self) -> None:
        self._by_front_end: dict[int, dict[int, list[Range]]] = {}

    def add(self, front_end: int, number: int, messages: list[Range]) -> None:
        """Keep a batch's refused messages. The numbers of a front end ascend."""
        batches = self._by_front_end.setdefault(front_end, {})
        batches[number] = messages
        while (oldest := next(iter(batches))) <= number - KEPT_BATCHES:
            del batches[oldest]

    def drop(self, front_end: int, upto: int) -> None:
        """Forget the refused messages of the front end's batches with numbers up to `upto`."""
        batches = self._by_front_end.get(front_end, {})
        while batches and (oldest := next(iter(batches))) <= upto:
            del batches[oldest]

    def forget(self, front_end: int) -> None:
        """The front end is dead for good."""
        self._by_front_end.pop(front_end, None)

    def between(self, front_end: int, above: int, upto: int) -> list[tuple[int, list[Range]]]:
        """The refused messages of the front end's batches with numbers above `above` and up to `upto`."""
        batches = self._by_front_end.get(front_end, {})
        # Newest first: an owner asks with every commit, for the newest of thousands.
        asked = takewhile(lambda number: number > above, reversed(batches))
        return [(number, batches[number]) for number in asked if number <= upto][::-1]

    def encode(self) -> bytes:
        """Canonical bytes: equal states, and only they, give equal bytes."""
        parts = [_COUNT.pack(len(self._by_front_end))]
        for front_end, batches in sorted(self._by_front_end.items()):
            rows = [(number, *part) for number, messages in batches.items() for part in messages]
            parts.append(_REFUSED_HEAD.pack(front_end, len(rows)))
            parts += (encode_array(array("Q", column)) for column in _columns(rows))
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int) -> tuple[Refusals, int]:
        """The refusals encoded at `offset`, and the offset behind. Raises ValueError or struct.error."""
        made = cls()
        (front_ends,) = _COUNT.unpack_from(data, offset)
        offset += _COUNT.size
        for _ in range(front_ends):
            front_end, rows = _REFUSED_HEAD.unpack_from(data, offset)
            offset += _REFUSED_HEAD.size
            columns = []
            for _ in range(3):
                column, offset = decode_array("Q", data, offset, rows)
                columns.append(column)
            batches = made._by_front_end[front_end] = {}
            for number, first, last in zip(*columns, strict=True):
                batches.setdefault(number, []).append((first, last))
        return made, offset


def _columns(rows: Sequence[tuple[int, ...]]) -> Sequence[Sequence[int]]:
    return list(zip(*rows, strict=True)) or [(), (), ()]
