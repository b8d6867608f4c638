"""Streams, queues that keep their messages for all readers: their names, and the places at which readers
begin.
"""

from __future__ import annotations

import re
from calendar import monthrange, timegm
from enum import IntEnum
from typing import Final, NamedTuple

X_QUEUE_TYPE: Final = "x-queue-type"
"""The argument of a queue that states its type."""

STREAM_TYPE: Final = "stream"
"""The type of streams."""

X_STREAM_OFFSET: Final = "x-stream-offset"
"""The argument of a consumer that states where in a stream it begins, and the name under which each message
of a stream states its own place.
"""

X_SUBSCRIPTION: Final = "x-subscription"
"""The argument of a reader that names its subscription (`node.queue.subscriptions`)."""

X_VIEW: Final = "x-view"
"""The argument of a stream that has the changes of the rows of the view with this name."""

X_UNDERLYING_TOPIC: Final = "x-underlying-topic"
"""The argument of a queue that gets the messages of the stream with this name, or of all streams whose names
a pattern takes (`node.message.topic_patterns`).
"""

X_DEFAULT_PUBLISH_TARGET: Final = "x-default-publish-target"
"""The argument of a queue over a pattern of streams: the stream to which a publish to the queue goes."""

X_RECOVERY_POINT: Final = "x-recovery-point"
"""The argument of a queue over a stream that has the past of the stream from some place on."""

BESIDE_RECOVERY_POINT: Final = (
    "x-filter",
    "x-max-priority",
    "x-priority-expression",
    "x-group-by",
    "x-barrier-expression",
    "x-key",
)
"""The arguments of queues that decide about each message when it comes. Beside a recovery point the owner
looks at each message of the past."""

X_HISTORY: Final = "x-history"
"""The argument of a queue that keeps the messages which have left it: for a time, or so many octets."""

X_HISTORY_OF: Final = "x-history-of"
"""The argument of the stream that keeps the messages of a queue with `x-history`: the name of the queue."""


def history_name(queue: str) -> str:
    """The name of the stream that keeps the messages of a queue with `x-history`."""
    return f"{queue}.history"


_UNITS_S: Final = {"Y": 365 * 86_400, "M": 30 * 86_400, "D": 86_400, "h": 3_600, "m": 60, "s": 1}
_LONGEST_S: Final = 1000 * _UNITS_S["Y"]
_AGE: Final = re.compile(r"([0-9]{1,9})([YMDhms])", re.ASCII)


def age_ms(text: str) -> int | None:
    """An age in milliseconds, of a text like RabbitMQ's: `7D`, `12h`. A month has 30 days, a year 365. None
    for another text, and for more than a thousand years.
    """
    found = _AGE.fullmatch(text)
    age_s = 0 if found is None else int(found[1]) * _UNITS_S[found[2]]
    return None if found is None or age_s > _LONGEST_S else age_s * 1000


_MOMENT: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.\d{1,9})?)?)?(?P<zone>Z|[+-]\d\d:\d\d)?",
    re.ASCII,
)


def moment_ms(text: str) -> int | None:
    """Milliseconds since the epoch of a time as in ISO 8601, of UTC unless it says otherwise; None for
    another text, and for a time before the epoch.
    """
    found = _MOMENT.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    if not (year >= 1970 and 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]):
        return None
    if hour > 23 or minute > 59 or second > 59:
        return None
    zone = found["zone"] or "Z"
    away_s = 0 if zone == "Z" else int(zone[0] + "1") * (int(zone[1:3]) * 3600 + int(zone[4:6]) * 60)
    return max(0, timegm((year, month, day, hour, minute, second)) - away_s) * 1000


class OffsetKind(IntEnum):
    """The kinds of places in a stream. Nodes tell each other the numbers."""

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
    MOST_RECENT = 6
    """With the first message behind the place of the reader's subscription; with the oldest message for a new
    one.
    """


LARGEST_OFFSET: Final = (1 << 63) - 1
"""The largest number and the latest time that an offset may have."""


class StreamOffset(NamedTuple):
    """`value` counts for numbers, times and ages."""

    kind: OffsetKind
    value: int = 0


FROM_NEXT: Final = StreamOffset(OffsetKind.NEXT)
"""The offset of a reader that names none."""
