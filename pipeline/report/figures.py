"""The figures of a queue, and how they are joined and shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.report.durations import Durations
from pipeline.report.series import Course

HOT_KEYS: Final = 20
"""The routing keys that a report shows."""

_KEYS_IN_MEMORY: Final = 20_000

Taker = tuple[int, int]
"""A front end, and the number of its consumer; 0 where journals tell no consumer."""


@dataclass(slots=True)
class QueueFigures:
    """The figures of one queue. `ended`: messages that left, by the word for it. `returned`: deliveries that
    ended without a settlement. `dead`: dead letters by reason. `leased`: messages by consumer, where
    the queue has a history. `settled`: messages by front end. `readers`: lags of subscriptions of a stream.
    `in_queue`: from the publish to the end; `settlement`: of settled messages alone. Journals do not
    tell when a message was leased: they have leases with the entry that comes next. `depth` and `held`:
    messages and octets over time, as far as entries tell times, up to the time `until`, in milliseconds.
    """

    published: int = 0
    octets: int = 0
    waiting: int = 0
    returned: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)
    keys: Counter[str] = field(default_factory=Counter)
    leased: Counter[Taker] = field(default_factory=Counter)
    settled: Counter[Taker] = field(default_factory=Counter)
    readers: dict[str, int] = field(default_factory=dict)
    in_queue: Durations = field(default_factory=Durations)
    settlement: Durations = field(default_factory=Durations)
    depth: Course = field(default_factory=Course)
    held: Course = field(default_factory=Course)
    until: int = 0

    def key(self, name: str, messages: int) -> None:
        """Count a routing key. Of more keys than fit, those that are rarest so far are forgotten."""
        self.keys[name] += messages
        if len(self.keys) > _KEYS_IN_MEMORY:
            self.keys = Counter(dict(self.keys.most_common(_KEYS_IN_MEMORY // 2)))

    def plus(self, other: QueueFigures) -> None:
        """Add the figures of the same queue in another partition."""
        self.published += other.published
        self.octets += other.octets
        self.waiting += other.waiting
        self.returned += other.returned
        self.readers.update(other.readers)
        self.in_queue.plus(other.in_queue)
        self.settlement.plus(other.settlement)
        self.ended.update(other.ended)
        self.dead.update(other.dead)
        self.keys.update(other.keys)
        self.leased.update(other.leased)
        self.settled.update(other.settled)
        self.depth.plus(other.depth)
        self.held.plus(other.held)
        self.until = max(self.until, other.until)

    @property
    def fairness(self) -> float | None:
        """How alike consumers have got messages; None without two of them."""
        takers = self.leased or self.settled
        return fairness_of(takers.values()) if len(takers) > 1 else None

    def as_json(self) -> dict[str, Any]:
        hot = [{"routing_key": key, "messages": count} for key, count in self.keys.most_common(HOT_KEYS)]
        return {
            "published": self.published,
            "octets": self.octets,
            "waiting": self.waiting,
            "ended": dict(self.ended),
            "redeliveries": self.returned,
            "dead_letters": dict(self.dead),
            "time_in_queue": self.in_queue.as_json(),
            "settlement_latency": self.settlement.as_json(),
            "lag": dict(self.readers),
            "consumers": len(self.leased or self.settled),
            "fairness": self.fairness,
            "hot_keys": hot,
        }


def fairness_of(counts: Iterable[int]) -> float:
    """Jain's index: 1 where all have the same, 1/n where one of n has all."""
    found = list(counts)
    squares = sum(one * one for one in found)
    return round(sum(found) ** 2 / (len(found) * squares), 4) if squares else 1.0
