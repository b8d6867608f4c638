"""How many messages, and octets of them, a queue takes (queue arguments x-max-length, x-max-length-bytes)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from node.queue.argument_types import one_of, read_natural
from node.queue.features.argument import Argument, PolicyUse
from node.queue.features.dead_letters import buries
from node.queue.settings import QueueSettings
from node.ranges.range_map import RangeMap, Span
from node.ranges.range_set import Range, RangeSet


class Overflow(StrEnum):
    """What becomes of a message for which a queue has no room."""

    DROP_HEAD = "drop-head"
    REJECT_PUBLISH = "reject-publish"
    REJECT_PUBLISH_DLX = "reject-publish-dlx"


_OVERFLOWS: Final = {policy.value: policy for policy in Overflow}

MAX_LENGTH: Final = Argument("x-max-length", read_natural, "max_length", policy=PolicyUse.LIMIT)
MAX_LENGTH_BYTES: Final = Argument(
    "x-max-length-bytes", read_natural, "max_length_bytes", policy=PolicyUse.LIMIT
)
OVERFLOW: Final[Argument[Overflow]] = Argument(
    "x-overflow", one_of(_OVERFLOWS, "invalid_overflow"), "overflow", policy=PolicyUse.OPERATOR,
    default=Overflow.DROP_HEAD,
)  # fmt: skip


def refuses(settings: QueueSettings) -> bool:
    """Whether the queue refuses what it has no room for, rather than to drop what it has."""
    limited = MAX_LENGTH.of(settings) is not None or weighs(settings)
    return limited and OVERFLOW.of(settings) is not Overflow.DROP_HEAD


def weighs(settings: QueueSettings) -> bool:
    """Whether the queue has a limit on the octets of its messages."""
    return MAX_LENGTH_BYTES.of(settings) is not None


def dead_letters(settings: QueueSettings) -> bool:
    """Whether what the queue refuses is a dead letter."""
    return OVERFLOW.of(settings) is Overflow.REJECT_PUBLISH_DLX and buries(settings)


def refused(settings: QueueSettings, messages: int, octets: int, sizes: Iterable[Span]) -> list[Range]:
    """Which of new messages a queue refuses that has so many waiting already; fewer than none where
    consumers wait for more.

    `sizes` are spans of equal body size, in the order in which the messages come. As RabbitMQ counts: a
    message is refused if there were too much with it, and a smaller one behind it may be taken.
    """
    length, limit = MAX_LENGTH.of(settings), MAX_LENGTH_BYTES.of(settings)
    found = []
    for first, last, size in sizes:
        if length == 0 or (limit is not None and size > limit):
            found.append((first, last))
            continue
        passing = min(last - first + 1, max(0, -messages))
        room = last - first + 1 - passing
        if length is not None:
            room = min(room, length - max(0, messages))
        if limit is not None and size:
            room = min(room, (limit - octets) // size)
        room = max(room, 0)
        messages += passing + room
        octets += room * size
        if first + passing + room <= last:
            found.append((first + passing + room, last))
    return found


def surplus(settings: QueueSettings, messages: int, octets: int) -> tuple[int, int]:
    """Messages and octets that a queue which drops its oldest has too many."""
    if OVERFLOW.of(settings) is not Overflow.DROP_HEAD:
        return 0, 0
    length, size = MAX_LENGTH.of(settings), MAX_LENGTH_BYTES.of(settings)
    return (
        0 if length is None else max(0, messages - length),
        0 if size is None else max(0, octets - size),
    )


def enough(sizes: Sequence[Span], messages: int, octets: int) -> Range | None:
    """As many messages from the start of a range as it takes to get rid of both surpluses.

    `sizes` cover the range. All of it where it is not enough; None where there is nothing to get rid of.
    """
    taken = None
    for first, last, size in sizes:
        if messages <= 0 and octets <= 0:
            break
        count = last - first + 1
        by_octets = -(-octets // size) if size and octets > 0 else (count if octets > 0 else 0)
        count = min(count, max(messages, by_octets))
        taken = (sizes[0][0], first + count - 1)
        messages -= count
        octets -= count * size
    return taken


class Weights:
    """Messages and the octets of their bodies; `len()` counts messages, `octets` adds up.

    `unknown` are messages that are to be among them, once their size has been looked up.
    """

    __slots__ = ("_sizes", "octets", "unknown")

    def __init__(self, unknown: RangeSet | None = None) -> None:
        """Takes over `unknown`."""
        self._sizes = RangeMap()
        self.octets = 0
        self.unknown = RangeSet() if unknown is None else unknown

    @classmethod
    def of(cls, messages: RangeSet, sizes: Iterable[Span]) -> Weights:
        """The weights of these messages, which it takes over, as far as their sizes are known."""
        made = cls(messages)
        for first, last, size in sizes:
            for part in messages.intersection(first, last):
                made.add(*part, size)
        return made

    def __len__(self) -> int:
        return len(self._sizes)

    def add(self, first: int, last: int, size: int) -> None:
        """Messages, of so many octets each, that are not there yet."""
        self._sizes.set(first, last, size)
        self.octets += (last - first + 1) * size
        self.unknown.remove(first, last)

    def remove(self, first: int, last: int) -> None:
        """Those of the range that are there, or were to be, are so no more."""
        self.octets -= self.weigh(first, last)
        self._sizes.remove(first, last)
        self.unknown.remove(first, last)

    def remove_all(self, ranges: Iterable[Range]) -> None:
        """As `remove` for each of the ranges."""
        for part in ranges:
            self.remove(*part)

    def weigh(self, first: int, last: int) -> int:
        """The octets of those of the range that are there."""
        return sum((end - start + 1) * size for start, end, size in self._sizes.spans(first, last))

    def cover(self, first: int, last: int) -> list[Span]:
        """The whole range as spans of equal size, 0 for what is not there."""
        return self._sizes.cover(first, last)
