"""Which messages of front ends' operation batches were refused: a part of the replicated state."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import takewhile
from struct import Struct
from typing import Final

from node.ranges.range_set import Range, decode_array, encode_array

KEPT_BATCHES: Final = 16_384
"""How far behind its newest refusal a front end may ask for others. It asks for batches whose commit it has
not heard of, which are fewer than fit into its window."""

_COUNT = Struct("<I")
_HEAD = Struct("<QI")


class Refusals:
    """Refused messages by front end and batch number, counted from 0 within the batch."""

    __slots__ = ("_by_front_end",)

    def __init__(self) -> None:
        self._by_front_end: dict[int, dict[int, list[Range]]] = {}

    def add(self, front_end: int, number: int, messages: list[Range]) -> None:
        """Numbers of a front end ascend."""
        batches = self._by_front_end.setdefault(front_end, {})
        batches[number] = messages
        while (oldest := next(iter(batches))) <= number - KEPT_BATCHES:
            del batches[oldest]

    def forget(self, front_end: int) -> None:
        """The front end is dead for good."""
        self._by_front_end.pop(front_end, None)

    def between(self, front_end: int, above: int, upto: int) -> list[tuple[int, list[Range]]]:
        """What was refused in the front end's batches with numbers above `above` and up to `upto`."""
        batches = self._by_front_end.get(front_end, {})
        # Newest first: an owner asks with every commit, for the latest of the thousands that are kept.
        asked = takewhile(lambda number: number > above, reversed(batches))
        return [(number, batches[number]) for number in asked if number <= upto][::-1]

    def encode(self) -> bytes:
        """Canonical bytes: equal states, and only they, give equal bytes."""
        parts = [_COUNT.pack(len(self._by_front_end))]
        for front_end, batches in sorted(self._by_front_end.items()):
            rows = [(number, *part) for number, messages in batches.items() for part in messages]
            parts.append(_HEAD.pack(front_end, len(rows)))
            parts += (encode_array(array("Q", column)) for column in _columns(rows))
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int) -> tuple[Refusals, int]:
        """What is encoded at `offset`, and the offset behind it. Raises ValueError or struct.error."""
        made = cls()
        (front_ends,) = _COUNT.unpack_from(data, offset)
        offset += _COUNT.size
        for _ in range(front_ends):
            front_end, rows = _HEAD.unpack_from(data, offset)
            offset += _HEAD.size
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
