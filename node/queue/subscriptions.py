"""The places of named readers in a stream: a part of the replicated state of the stream (D17).

A subscription is the name under which a client reads a stream, and reads on later, at any node. Its place is
the number of the message up to which the client has settled everything. The place never goes back.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

MOST_SUBSCRIPTIONS: Final = 1024
"""The most subscriptions of a stream. A subscription that is behind the oldest message of the stream makes
room for another one: both begin with the oldest message.
"""

_COUNT = Struct("<I")
_PLACE = Struct("<QB")


class Advance(NamedTuple):
    """A subscription has read a stream up to a message. With the number 0 the stream forgets it."""

    queue: int
    subscription: bytes
    number: int


class Subscriptions:
    """The places of a stream's subscriptions by name."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._places)

    def place(self, name: bytes) -> int | None:
        """The place of a subscription; None for one that has read nothing."""
        return self._places.get(name)

    def advance(self, step: Advance) -> None:
        """Carry out a step."""
        if not step.number:
            self._places.pop(step.subscription, None)
        elif step.number > self._places.get(step.subscription, 0):
            self._places[step.subscription] = step.number

    def stale(self, oldest: int) -> list[bytes]:
        """The subscriptions that are behind the oldest message."""
        return [name for name, place in self._places.items() if place < oldest]

    def encode(self) -> bytes:
        parts = [_COUNT.pack(len(self._places))]
        for name, place in sorted(self._places.items()):
            parts += (_PLACE.pack(place, len(name)), name)
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int) -> tuple[Subscriptions, int]:
        """The inverse of `encode`, and the offset behind it. Raises struct.error when malformed."""
        found = cls()
        (count,) = _COUNT.unpack_from(data, offset)
        offset += _COUNT.size
        for _ in range(count):
            place, size = _PLACE.unpack_from(data, offset)
            offset += _PLACE.size
            found._places[data[offset : offset + size]] = place
            offset += size
        return found, offset
