"""Queues over a stream (queue arguments x-underlying-topic, x-recovery-point; D1, D13).

The catalog places such a queue in the partition of its stream (`cluster.catalog.topics`), and routes bring
both the same messages. With a recovery point the owner fills a new queue with messages that the stream has
already (`cluster.owner.referring`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from node.message.streams import FROM_NEXT, OffsetKind, StreamOffset, age_ms
from node.queue.argument import Argument, beside_none_of
from node.queue.argument_types import UnacceptableError, read_text
from node.queue.feature import Declaration, Description, Rule
from node.queue.settings import QueueSettings

_BOOKMARK_DIGITS: Final = 24
_NUMBER_DIGITS: Final = 16
_NAMED: Final = {"epoch": StreamOffset(OffsetKind.FIRST), "now": FROM_NEXT}


def read_point(value: object) -> StreamOffset:
    """A recovery point: `epoch`, `now`, an age, a time as in ISO 8601, or the bookmark of a message.

    Raises UnacceptableError.
    """
    text = read_text(value)
    age = age_ms(text)
    if age is not None:
        return StreamOffset(OffsetKind.AGE, age)
    try:
        if len(text) == _BOOKMARK_DIGITS and text.isalnum():
            return StreamOffset(OffsetKind.NUMBER, int(text[-_NUMBER_DIGITS:], 16))
        named = _NAMED.get(text)
        if named is not None:
            return named
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UnacceptableError("invalid_recovery_point") from None
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return StreamOffset(OffsetKind.TIME, max(0, int(aware.timestamp() * 1000)))


UNDERLYING_TOPIC: Final = Argument("x-underlying-topic", read_text, "underlying_topic")
RECOVERY_POINT: Final = Argument(
    "x-recovery-point",
    read_point,
    "recovery_point",
    default=FROM_NEXT,
    needs=("x-underlying-topic", "recovery_point_but_no_underlying_topic_defined"),
    # These decide about each message when it comes.
    misfit=beside_none_of(
        "x-recovery-point",
        (
            "x-filter", "x-max-priority", "x-priority-expression", "x-group-by", "x-barrier-expression",
            "x-deduplication-window",
        ),
    ),
)  # fmt: skip


class Recovery(Rule):
    """Tells the owner from where on a new queue is filled."""

    def __init__(self, point: StreamOffset) -> None:
        super().__init__()
        self._point = point

    def describe(self, description: Description) -> None:
        description.recovery_point = self._point


def _rule(settings: QueueSettings) -> Rule | None:
    point = RECOVERY_POINT.of(settings)
    return None if point is None or point == FROM_NEXT else Recovery(point)


FEATURE: Final[Declaration] = Declaration(UNDERLYING_TOPIC, RECOVERY_POINT, rule=_rule)
