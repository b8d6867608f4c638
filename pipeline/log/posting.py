"""Makes the blocks that a sink posts (docs/log-api.md, "Epochs")."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from sys import byteorder
from typing import Final, NamedTuple
from zlib import crc32

from pipeline.log.blocks import CRC, HEAD, MAGIC, MESSAGES, VERSION
from pipeline.log.blocks import RUN as RUN_HEAD
from pipeline.message.encoding import UnfitError, channel_of
from pipeline.message.runs import AMQP_0_9_1, AMQP_1_0

LARGEST_BLOCK: Final = 24 * 1024 * 1024
"""The octets that a block may have: one message of this size at most."""

MOST_RUNS: Final = 4096
"""The runs that a block may have."""

_NAME_OCTETS: Final = 255
FIRST_OF_CONTENT, FIRST_OF_SECTION = b"\x02", b"\x00"
"""Messages begin with a content header frame, or with the descriptor of a section."""

_FORMATS: Final = {FIRST_OF_CONTENT: AMQP_0_9_1, FIRST_OF_SECTION: AMQP_1_0}


class Place(NamedTuple):
    """Where a message goes, and how it is stored."""

    exchange: bytes
    routing_key: bytes
    format: int
    channel: int


FIRST_OCTETS: Final = 7
"""The octets of the head of a frame: they tell how a message is stored."""

_REMEMBERED: Final = 1024


def place_of(exchange: str, routing_key: str, raw: bytes) -> Place:
    """The place of a message. Raises UnfitError."""
    return _place_of(exchange, routing_key, raw[:FIRST_OCTETS])


@lru_cache(_REMEMBERED)
def _place_of(exchange: str, routing_key: str, raw: bytes) -> Place:
    format = _FORMATS.get(raw[:1])
    if format is None:
        raise UnfitError("raw is no message of AMQP 0-9-1 or 1.0")
    names = exchange.encode("utf-8"), routing_key.encode("utf-8")
    for name in names:
        if len(name) > _NAME_OCTETS:
            raise UnfitError(f"a name of {len(name)} octets; {_NAME_OCTETS} are allowed")
    return Place(*names, format, channel_of(raw) if format == AMQP_0_9_1 else 0)


class BlockBuilder:
    """Collects messages for one block. `rows` are in it."""

    def __init__(self, octets: int) -> None:
        """A block gets no further message from so many `octets` on."""
        self._most = octets
        self._clear()

    def _clear(self) -> None:
        self.rows = self._runs = 0
        self._octets = HEAD.size + CRC.size
        self._parts: list[bytes | memoryview] = []
        self._place: Place | None = None
        self._raws: list[bytes | memoryview] = []
        self._lengths = array("I")

    def takes(self, place: Place, raw: bytes) -> bool:
        """Whether there is room for a message. An empty block has room for every one that a block can have.
        Raises UnfitError for others.
        """
        fresh = place != self._place
        octets = self._octets + 4 + len(raw) + (_head_octets(place) if fresh else 0)
        if not self.rows and octets > LARGEST_BLOCK:
            raise UnfitError(f"a message of {len(raw)} octets; a block has {LARGEST_BLOCK}")
        full = octets > self._most or (fresh and self._runs == MOST_RUNS)
        return not self.rows or not full

    def room_for(self, place: Place, ends: Sequence[int], index: int) -> int:
        """For how many messages from `index` on there is room: each begins at its number in `ends`, and ends
        at the next one. Raises UnfitError as `takes`.
        """
        fresh = place != self._place
        if self.rows and fresh and self._runs == MOST_RUNS:
            return 0
        octets = self._octets + (_head_octets(place) if fresh else 0) - ends[index]

        def filled(end: int) -> int:
            return octets + ends[end] + 4 * (end - index)

        found = bisect_right(range(index + 1, len(ends)), self._most, key=filled)
        if found or self.rows:
            return found
        if filled(index + 1) > LARGEST_BLOCK:
            length = ends[index + 1] - ends[index]
            raise UnfitError(f"a message of {length} octets; a block has {LARGEST_BLOCK}")
        return 1

    def add(self, place: Place, raw: bytes) -> None:
        """Add a message for which there is room."""
        self._begin_run(place)
        self._raws.append(raw)
        self._lengths.append(len(raw))
        self._octets += 4 + len(raw)
        self.rows += 1

    def add_alike(self, place: Place, raws: memoryview, lengths: array[int]) -> None:
        """Add messages of these lengths, end to end in `raws`, for which there is room."""
        self._begin_run(place)
        self._raws.append(raws)
        self._lengths.extend(lengths)
        self._octets += 4 * len(lengths) + len(raws)
        self.rows += len(lengths)

    def _begin_run(self, place: Place) -> None:
        if place != self._place:
            self._end_run()
            self._place, self._runs = place, self._runs + 1
            self._octets += _head_octets(place)

    def _end_run(self) -> None:
        place, raws, lengths = self._place, self._raws, self._lengths
        if place is None:
            return
        count, size = len(lengths), sum(lengths)
        if byteorder != "little":
            lengths.byteswap()
        fixed = 0, place.format, 0, 0, size, len(place.exchange), len(place.routing_key)
        head = RUN_HEAD.pack(self.rows - count, 0, count, *fixed)
        self._parts += (head, place.exchange, place.routing_key, lengths.tobytes(), *raws)
        self._raws, self._lengths = [], array("I")

    def take(self) -> bytes:
        """The block; begins anew."""
        self._end_run()
        payload = b"".join(self._parts)
        head = HEAD.pack(MAGIC, VERSION, MESSAGES, 0, len(payload), self.rows, 0, 0, self.rows)
        self._clear()
        return b"".join((head, CRC.pack(crc32(payload, crc32(head))), payload))


def _head_octets(place: Place) -> int:
    return RUN_HEAD.size + len(place.exchange) + len(place.routing_key)
