"""Queues over streams (D1, D13, X4; arguments x-underlying-topic, x-default-publish-target, x-recovery-point
and x-history).

The catalog places such a queue in the partition of its stream (`cluster.catalog.topics`), and routes bring
both the same messages. A queue over a pattern of streams is placed with the one to which its publishes go. A
queue with a history has a stream of its own.
With a recovery point the owner fills a queue with messages that the stream has already
(`cluster.owner.recovery_points`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from node.message.bookmarks import is_bookmark, number_in
from node.message.streams import (
    FROM_NEXT,
    X_DEFAULT_PUBLISH_TARGET,
    X_RECOVERY_POINT,
    OffsetKind,
    StreamOffset,
    age_ms,
    moment_ms,
)
from node.message.topic_patterns import TopicPattern, TopicPatternError, is_pattern
from node.queue.argument import Argument, PolicyUse, beside_none_of
from node.queue.argument_types import UnacceptableError, read_positive, read_text
from node.queue.feature import Declaration, Description, Rule
from node.queue.settings import QueueSettings
from node.queue.stream_settings import read_age

_NAMED: Final = {"epoch": StreamOffset(OffsetKind.FIRST), "now": FROM_NEXT}


def read_point(value: object) -> StreamOffset:
    """A recovery point: `epoch`, `now`, an age, a time as in ISO 8601, or the bookmark of a message.

    Raises UnacceptableError.
    """
    text = read_text(value)
    age = age_ms(text)
    if age is not None:
        return StreamOffset(OffsetKind.AGE, age)
    if is_bookmark(text):
        return StreamOffset(OffsetKind.NUMBER, number_in(text))
    time_ms = moment_ms(text)
    if time_ms is not None:
        return StreamOffset(OffsetKind.TIME, time_ms)
    try:
        return _NAMED[text]
    except KeyError:
        raise UnacceptableError("invalid_recovery_point") from None


def read_topic(value: object) -> str:
    """The name of a stream, or a pattern of names. Raises UnacceptableError."""
    text = read_text(value)
    if is_pattern(text):
        try:
            TopicPattern(text)
        except TopicPatternError as error:
            raise UnacceptableError(f"{{invalid_pattern,{error}}}") from None
    return text


def _misfit(topic: str, arguments: Mapping[str, object]) -> str:
    """The reason for which no queue is over this topic beside the other arguments; empty for none."""
    if not is_pattern(topic):
        has_target = X_DEFAULT_PUBLISH_TARGET in arguments
        return f"a queue over one stream has no {X_DEFAULT_PUBLISH_TARGET}" if has_target else ""
    if X_DEFAULT_PUBLISH_TARGET not in arguments:
        return f"a pattern of streams needs an {X_DEFAULT_PUBLISH_TARGET}"
    point = arguments.get(X_RECOVERY_POINT)
    if isinstance(point, str) and is_bookmark(point):
        return (
            f"{X_RECOVERY_POINT} is the bookmark of one stream, and the pattern takes several; state a time"
        )
    return ""


_OF_EACH_MESSAGE: Final = frozenset(
    ("entry_filter", "max_priority", "priority_expression", "group_by", "barrier_expression", "key")
)
"""The settings of `node.message.streams.BESIDE_RECOVERY_POINT`."""

UNDERLYING_TOPIC: Final = Argument("x-underlying-topic", read_topic, "underlying_topic", misfit=_misfit)


def read_history(value: object) -> str | int:
    """An age such as `7D`, or a number of octets above 0. Raises UnacceptableError."""
    if isinstance(value, str):
        read_age(value)
        return value
    return read_positive(value)


HISTORY: Final = Argument(
    "x-history",
    read_history,
    "history",
    misfit=beside_none_of("x-history", ("x-underlying-topic",)),
)
DEFAULT_PUBLISH_TARGET: Final = Argument(
    "x-default-publish-target",
    read_text,
    "default_publish_target",
    needs=("x-underlying-topic", "default_publish_target_but_no_underlying_topic_defined"),
)
RECOVERY_POINT: Final = Argument(
    "x-recovery-point",
    read_point,
    "recovery_point",
    policy=PolicyUse.USER,
    default=FROM_NEXT,
    needs=("x-underlying-topic", "recovery_point_but_no_underlying_topic_defined"),
    misfit=beside_none_of("x-recovery-point", ("x-deduplication-window",)),
)


class PastOfStream(Rule):
    """Tells the owner from where on a new queue is filled."""

    def __init__(self, point: StreamOffset, *, decides: bool) -> None:
        super().__init__()
        self._point, self._decides = point, decides

    def describe(self, description: Description) -> None:
        description.recovery_point, description.decides_past = self._point, self._decides


class WithHistory(Rule):
    """Tells the owner that the log has notes about the queue's messages (`node.queue.history_notes`)."""

    def describe(self, description: Description) -> None:
        description.history = True


_WITH_HISTORY: Final = WithHistory()


def _rule(settings: QueueSettings) -> Rule | None:
    if HISTORY.of(settings) is not None:
        return _WITH_HISTORY
    point = RECOVERY_POINT.of(settings)
    if point is None or point == FROM_NEXT:
        return None
    return PastOfStream(point, decides=not _OF_EACH_MESSAGE.isdisjoint(settings.asked))


FEATURE: Final[Declaration] = Declaration(
    UNDERLYING_TOPIC, HISTORY, DEFAULT_PUBLISH_TARGET, RECOVERY_POINT, rule=_rule
)
