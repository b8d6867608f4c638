"""The message ids that a queue has seen lately (x-deduplication-window): a part of the replicated state."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from hashlib import blake2b
from struct import Struct
from typing import Final

from node.ranges.range_set import decode_array, encode_array

DIGEST_OCTETS: Final = 16
_COUNT: Final = Struct("<I")


def digest_of(message_id: bytes) -> bytes:
    """The digest that stands for an id: 128 bits of BLAKE2b, so that two ids do not share one."""
    return blake2b(message_id, digest_size=DIGEST_OCTETS).digest()


class SeenIds:
    """Digests of ids with their times, in ascending order of times; 24 octets each."""

    __slots__ = ("_digests", "_times")

    def __init__(self) -> None:
        self._times = array("Q")
        self._digests = bytearray()

    def __len__(self) -> int:
        return len(self._times)

    @property
    def first(self) -> int:
        """The time of the oldest id. Raises IndexError without ids."""
        return self._times[0]

    def remember(self, time: int, digests: bytes) -> None:
        """Add ids that came at `time`: whole digests, joined."""
        self._digests += digests
        self._times.extend([time] * (len(digests) // DIGEST_OCTETS))

    def forget(self, before: int) -> None:
        """Remove the ids that came before a time."""
        count = bisect_left(self._times, before)
        del self._times[:count], self._digests[: count * DIGEST_OCTETS]

    def all(self) -> tuple[array[int], list[bytes]]:
        """Times and digests, oldest first."""
        step = DIGEST_OCTETS
        digests = bytes(self._digests)
        return self._times[:], [digests[at : at + step] for at in range(0, len(digests), step)]

    def encode(self) -> bytes:
        """Number of ids (u32), times (u64 each, little-endian), digests."""
        return b"".join((_COUNT.pack(len(self._times)), encode_array(self._times), self._digests))

    @classmethod
    def decode(cls, data: bytes, offset: int) -> tuple[SeenIds, int]:
        """The ids encoded at `offset`, and the offset behind. Raises ValueError when malformed."""
        if len(data) < offset + _COUNT.size:
            raise ValueError("seen ids cut short")
        (count,) = _COUNT.unpack_from(data, offset)
        made = cls()
        made._times, offset = decode_array("Q", data, offset + _COUNT.size, count)
        end = offset + count * DIGEST_OCTETS
        if end > len(data):
            raise ValueError("seen ids cut short")
        made._digests += data[offset:end]
        return made, end
