"""A map from sequence numbers to octets, kept as sorted, disjoint spans of equal octets.

Messages of one range may share octets, which stand in memory and in a snapshot once.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from node.ranges.range_map import ABOVE_ALL, RangeMap
from node.ranges.range_set import Range

OctetSpan = tuple[int, int, bytes]
"""(first number, last number, octets) of a closed range."""

SPAN_OCTETS: Final = 24
"""Octets of memory for a span."""

SHARED_OCTETS: Final = 256
"""Octets of memory for octets of their own, beside themselves."""

_COUNT = Struct("<I")


class OctetMap:
    """Octets of numbers from 0 to 2**64-1. Two maps with the same octets have the same spans."""

    __slots__ = ("_held", "_ids", "_newest", "_octets", "_users", "places")

    def __init__(self) -> None:
        # The id of each number's octets. Equal octets have one id while a number has them.
        self.places = RangeMap()
        self._ids: dict[bytes, int] = {}
        self._octets: dict[int, bytes] = {}
        self._users: dict[int, int] = {}
        self._newest = self._held = 0

    def __bool__(self) -> bool:
        return bool(self.places)

    @property
    def held(self) -> int:
        """About the octets of memory that the map takes up."""
        return self._held + SPAN_OCTETS * self.places.span_count

    def set(self, first: int, last: int, octets: bytes) -> None:
        """Give every number of the closed range these octets, in place of any former ones."""
        id = self._ids.get(octets)
        if id is None:
            self._newest += 1
            id = self._ids[octets] = self._newest
            self._octets[id] = octets
            self._users[id] = 0
            self._held += len(octets) + SHARED_OCTETS
        self._users[id] += last - first + 1
        self.remove(first, last)
        self.places.set(first, last, id)

    def remove(self, first: int, last: int) -> int:
        """Remove the octets of the closed range; return how many numbers had some."""
        for start, end, id in self.places.spans(first, last):
            self._users[id] -= end - start + 1
            if not self._users[id]:
                octets = self._octets.pop(id)
                del self._users[id], self._ids[octets]
                self._held -= len(octets) + SHARED_OCTETS
        return self.places.remove(first, last)

    def remove_all(self, ranges: list[Range]) -> int:
        """Remove the octets of all `ranges`; return how many numbers had some."""
        return sum(self.remove(first, last) for first, last in ranges)

    def get(self, number: int) -> bytes:
        """The number's octets; empty where it has none."""
        return self._octets.get(self.places.get(number), b"")

    def cover(self, first: int, last: int) -> list[OctetSpan]:
        """The whole closed range as spans, with no octets for numbers without any."""
        return [(start, end, self._octets.get(id, b"")) for start, end, id in self.places.cover(first, last)]

    def all(self) -> Iterator[OctetSpan]:
        """All spans in ascending order. The map must not change meanwhile."""
        for start, end, id in self.places.all():
            yield start, end, self._octets[id]

    def encode(self) -> bytes:
        """Canonical octets: the number of different octets (u32), each with its length (u32) in the order of
        first use, and a range map of their places in that order, from 1 on.
        """
        order: dict[int, int] = {}
        places = RangeMap(
            (start, end, order.setdefault(id, len(order) + 1)) for start, end, id in self.places.all()
        )
        parts = [_COUNT.pack(len(order))]
        for id in order:
            octets = self._octets[id]
            parts += (_COUNT.pack(len(octets)), octets)
        return b"".join((*parts, places.encode()))

    @classmethod
    def decode(cls, data: bytes | memoryview, offset: int = 0) -> tuple[OctetMap, int]:
        """The map encoded at `offset`, and the offset behind it. Raises ValueError or struct.error when
        malformed.
        """
        made, known = cls(), list[bytes]()
        (count,) = _COUNT.unpack_from(data, offset)
        offset += _COUNT.size
        for _ in range(count):
            (size,) = _COUNT.unpack_from(data, offset)
            offset += _COUNT.size
            known.append(bytes(data[offset : offset + size]))
            offset += size
        places, offset = RangeMap.decode(data, offset)
        if places.where(count + 1, ABOVE_ALL) or places.where(0, 1):
            raise ValueError("an octet map has a place without octets")
        for start, end, place in places.all():
            made.set(start, end, known[place - 1])
        return made, offset
