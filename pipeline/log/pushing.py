"""Conditions on columns that nodes evaluate for a source, or for which it leaves ranges out. A condition may
take more messages here than it does in the end: the query evaluates it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from pipeline.log.options import BOOKMARK, TopicRange, behind_bookmark

CLOCKS_MS: Final = 300_000
"""Owners' clocks differ by less, in milliseconds: messages with times so near to a condition's are read."""

_KEYS: Final = {"routing_key": "x_routing_key", "exchange": "x_exchange"}
"""The columns that expressions have a name for, with that name."""

_HIGHEST: Final = "g"
"""A position behind all others."""

_LAST_MOMENT: Final = datetime(9999, 1, 1, tzinfo=UTC)


class Condition(NamedTuple):
    """`operator` is =, <, <=, >, >= or `in`, whose value has several."""

    column: str
    operator: str
    value: Any


@dataclass(frozen=True, slots=True)
class Narrowing:
    """topics: the names of streams that are wanted; None for all. low, high: between these positions.
    since_ms, until_ms: between these times, in milliseconds since the epoch, the margin for clocks included.
    expressions: of which each takes all messages that are wanted.
    """

    topics: frozenset[str] | None = None
    low: str = ""
    high: str = _HIGHEST
    since_ms: int | None = None
    until_ms: int | None = None
    expressions: tuple[str, ...] = ()

    def filter(self, stated: str) -> str:
        """The expression for nodes, with the one that a user has stated."""
        parts = [one for one in (stated, *self.expressions) if one]
        return parts[0] if len(parts) == 1 else " AND ".join(f"({one})" for one in parts)

    def wants(self, topic: str) -> bool:
        return self.topics is None or topic in self.topics

    def clipped(
        self, ranges: Iterable[TopicRange], position: Callable[[str, str], str]
    ) -> Iterator[TopicRange]:
        """The parts of ranges that may have wanted messages. `position` finds the position of a time in a
        topic.
        """
        bounds: dict[str, tuple[str, str]] = {}
        for one in ranges:
            if one.topic not in bounds:
                bounds[one.topic] = self._bounds(one.topic, position)
            low, high = bounds[one.topic]
            first, end = max(one.first, low), min(one.end, high)
            if first < end and self.wants(one.topic):
                yield one._replace(first=first, end=end)

    def _bounds(self, topic: str, position: Callable[[str, str], str]) -> tuple[str, str]:
        low, high = self.low, self.high
        if self.since_ms is not None:
            low = max(low, position(topic, _moment(self.since_ms)))
        if self.until_ms is not None:
            high = min(high, position(topic, _moment(self.until_ms)))
        return low, high


EVERYTHING: Final = Narrowing()


def narrowing_of(conditions: Iterable[Condition]) -> Narrowing:
    """The part that all conditions together leave to read. Unknown conditions leave everything."""
    found = EVERYTHING
    for one in conditions:
        found = _NARROWED.get(one.column, _as_it_was)(found, one)
    return found


def _as_it_was(found: Narrowing, condition: Condition) -> Narrowing:
    return found


def _by_topic(found: Narrowing, condition: Condition) -> Narrowing:
    names = _texts(condition)
    if names is None:
        return found
    wanted = frozenset(names)
    return replace(found, topics=wanted if found.topics is None else found.topics & wanted)


def _by_bookmark(found: Narrowing, condition: Condition) -> Narrowing:
    operator, value = condition.operator, condition.value
    if not isinstance(value, str) or not BOOKMARK.fullmatch(value):
        return found
    if operator in ("=", ">", ">="):
        found = replace(found, low=max(found.low, value if operator != ">" else behind_bookmark(value)))
    if operator in ("=", "<", "<="):
        found = replace(found, high=min(found.high, value if operator == "<" else behind_bookmark(value)))
    return found


def _by_time(found: Narrowing, condition: Condition) -> Narrowing:
    operator, value = condition.operator, condition.value
    if not isinstance(value, int):
        return found
    if operator in ("=", ">", ">="):
        found = replace(found, since_ms=max(found.since_ms or 0, value - CLOCKS_MS))
    if operator in ("=", "<", "<="):
        until = value + CLOCKS_MS
        found = replace(found, until_ms=until if found.until_ms is None else min(found.until_ms, until))
    return found


def _by_key(found: Narrowing, condition: Condition) -> Narrowing:
    texts = _texts(condition)
    # A column shows octets that are no text with backslashes.
    if not texts or any("\\" in one or not one.isprintable() for one in texts):
        return found
    quoted = ", ".join("'" + one.replace("'", "''") + "'" for one in texts)
    return replace(found, expressions=(*found.expressions, f"{_KEYS[condition.column]} IN ({quoted})"))


_NARROWED: Final[dict[str, Callable[[Narrowing, Condition], Narrowing]]] = {
    "queue": _by_topic,
    "bookmark": _by_bookmark,
    "time": _by_time,
    **dict.fromkeys(_KEYS, _by_key),
}


def _texts(condition: Condition) -> Sequence[str] | None:
    """The texts of which a column has one; None for another condition."""
    values = {"=": [condition.value], "in": condition.value}.get(condition.operator)
    if values is None or not all(isinstance(one, str) for one in values):
        return None
    return list(values)


def _moment(milliseconds: int) -> str:
    """A time as the log API takes it."""
    latest = int(_LAST_MOMENT.timestamp() * 1000)
    moment = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=max(0, min(milliseconds, latest)))
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
