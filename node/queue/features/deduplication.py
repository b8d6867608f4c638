"""Which message ids a queue has seen lately (queue argument x-deduplication-window, X2).

Replicas agree on the ids, as digests, and on when each came: the next owner knows a duplicate, too. The
owner alone keeps them in a set as well, to tell duplicates by.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from hashlib import blake2b
from struct import Struct
from typing import Final

from node.queue.argument_types import read_positive_time
from node.queue.features.argument import Argument, PolicyUse
from node.ranges.range_set import decode_array, encode_array

DEDUPLICATION_WINDOW: Final = Argument(
    "x-deduplication-window", read_positive_time, "deduplication_window_ms", policy=PolicyUse.USER
)

DIGEST_OCTETS: Final = 16
_COUNT: Final = Struct("<I")


def digest_of(message_id: bytes) -> bytes:
    """What is kept of an id: nobody finds two ids that share it."""
    return blake2b(message_id, digest_size=DIGEST_OCTETS).digest()


class SeenIds:
    """Ids in the order in which they came, 24 octets each. Times never go back."""

    __slots__ = ("_digests", "_times")

    def __init__(self) -> None:
        self._times = array("Q")
        self._digests = bytearray()

    def __len__(self) -> int:
        return len(self._times)

    @property
    def first(self) -> int:
        """When the oldest of the ids came; there is one."""
        return self._times[0]

    def remember(self, time: int, digests: bytes) -> None:
        """Ids that came at a time: whole digests, one behind the other."""
        self._digests += digests
        self._times.extend([time] * (len(digests) // DIGEST_OCTETS))

    def forget(self, before: int) -> None:
        """Forget what came before a time."""
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


class Window:
    """The owner's side: tells what has been seen within the last `length` milliseconds.

    Exact: also of ids whose entry is not committed yet. `forgotten` is the time before which replicas
    have been told to forget.
    """

    __slots__ = ("_digests", "_head", "_known", "_times", "forgotten", "length")

    def __init__(self, length: int, seen: SeenIds | None) -> None:
        self.length = length
        self.forgotten = 0
        self._times, self._digests = (array("Q"), []) if seen is None else _latest(*seen.all())
        self._known = set(self._digests)
        # What is before is out of the window, and is dropped from the two lists now and then.
        self._head = 0

    def __len__(self) -> int:
        return len(self._known)

    def now(self, wall: int) -> int:
        """The time to remember ids by: not before that of ids that a clock ahead of this one has noted."""
        return max(wall, self._times[-1] if self._times else 0)

    def fresh(self, digests: Iterable[bytes], now: int) -> list[bool]:
        """For each id whether it is new; those that are will be known from now on."""
        self.slide(now)
        known, found = self._known, []
        for digest in digests:
            fresh = digest not in known
            if fresh:
                known.add(digest)
                self._digests.append(digest)
                self._times.append(now)
            found.append(fresh)
        return found

    def seen(self, digests: Iterable[bytes], now: int) -> list[bool]:
        """For each id whether it is known; none is remembered."""
        self.slide(now)
        return [digest in self._known for digest in digests]

    def slide(self, now: int) -> int:
        """Forget what is out of the window; returns the time before which replicas may forget, too."""
        before = now - self.length + 1
        head = bisect_left(self._times, before, self._head)
        self._known.difference_update(self._digests[self._head : head])
        if head > len(self._times) // 2:
            del self._times[:head], self._digests[:head]
            head = 0
        self._head = head
        return before


def _latest(times: array[int], digests: list[bytes]) -> tuple[array[int], list[bytes]]:
    """Each id when it came last: one that came anew may not have been forgotten since it came before."""
    latest = dict(zip(digests, times, strict=True))
    if len(latest) == len(digests):
        return times, digests
    ordered = sorted(latest.items(), key=lambda one: one[1])
    return array("Q", (time for _, time in ordered)), [digest for digest, _ in ordered]
