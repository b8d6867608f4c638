"""The place in a stream at which a reader begins (RabbitMQ's argument `x-stream-offset`)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple


class OffsetKind(IntEnum):
    """What the value of an offset is. Nodes tell each other the numbers."""

    FIRST = 0
    """The reader begins with the oldest message that the stream has."""
    LAST = 1
    """With the newest one, or with the next where there is none."""
    NEXT = 2
    """With the next message that the stream takes."""
    NUMBER = 3
    """With the message of this number, or the first behind it."""
    TIME = 4
    """With the first message that the owner took at this time or later, in milliseconds since the epoch."""
    AGE = 5
    """With the first message that the owner took so many milliseconds ago or later."""


class StreamOffset(NamedTuple):
    """`value` counts for the last three kinds."""

    kind: OffsetKind
    value: int = 0


NEXT: Final = StreamOffset(OffsetKind.NEXT)
"""The offset of a reader that names none."""
