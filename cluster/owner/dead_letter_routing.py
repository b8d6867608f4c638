"""Makes dead letters of one queue's messages, and routes them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from cluster.owner.context import DeadLetterQueue, DeadLetterRoutes
from node.message.bookmarks import bookmark_of
from node.message.deaths import REASON_NAMES, Death
from node.message.reason import Reason
from node.message.run import Run, joined
from node.message.template import Template
from node.queue.feature import DeadLetterTarget
from node.wire.formats import format_of

MOST_FILLED: Final = 16
"""A message that has died more often keeps its body: each template may have made the body longer."""

NO_TARGET: Final = DeadLetterTarget("", None)
"""The target for dead messages of a queue whose dead-letter exchange has been taken away since: the default
exchange, by the messages' own keys."""


@dataclass(frozen=True, slots=True)
class DeadRun:
    """Successive dead letters with the same target queues, made of the queue's messages from `first` on."""

    first: int
    run: Run
    targets: tuple[DeadLetterQueue, ...]
    reason: Reason

    @property
    def last(self) -> int:
        return self.first + self.run.count - 1

    def continues(self, other: DeadRun) -> bool:
        """Whether this run follows the other one, with the same targets, routing key and flags."""
        before, run = other.run, self.run
        return (other.last + 1, other.targets, before.routing_key, before.persistent, before.special) == (
            self.first,
            self.targets,
            run.routing_key,
            run.persistent,
            run.special,
        )


class DeadLetterRouter:
    """Makes and routes the dead letters of one queue, which is called `queue` and has this id."""

    def __init__(
        self, transit: DeadLetterRoutes, vhost: str, queue: str, id: int, target: DeadLetterTarget
    ) -> None:
        self._transit = transit
        self._vhost = vhost
        self._queue = queue
        self._id = id
        self._template = target.template
        self._exchange = target.exchange
        self._key = target.routing_key

    def dead_runs(self, first: int, run: Run, reason: Reason, time_ms: int) -> Iterator[DeadRun]:
        """The messages of a run, numbered from `first` on, as dead letters, in order.

        They died at `time_ms`, in milliseconds since the epoch.
        """
        pending: list[DeadRun] = []
        for each in self._stretches(first, run, reason, time_ms):
            if pending and not each.continues(pending[-1]):
                yield _one(pending)
                pending = []
            pending.append(each)
        if pending:
            yield _one(pending)

    def _stretches(self, first: int, run: Run, reason: Reason, time_ms: int) -> Iterator[DeadRun]:
        """Dead letters for each stretch of messages with the same routing key and properties."""
        messages, anew = format_of(run), self._key is not None
        for published, same in messages.by_key(run):
            death = Death(self._queue, reason, time_ms // 1000, run.exchange, published)
            key = published if self._key is None else self._key
            for index, count, properties in messages.properties_in(same):
                part = messages.dead_letters(same.slice(index, count), properties, death, routed_anew=anew)
                part = replace(part, exchange=self._exchange, routing_key=key)
                if self._template is not None:
                    part = self._filled(self._template, part, first + index, death, time_ms)
                yield DeadRun(first + index, part, self._targets(key, part, reason), reason)
            first += same.count

    def _filled(self, template: Template, dead: Run, first: int, death: Death, time_ms: int) -> Run:
        """The dead letters, numbered from `first` on, with the same properties and with bodies that are made
        of the template. A message that has died too often keeps its body, and so does one that would be too
        large.
        """
        messages = format_of(dead)
        _, _, properties = next(messages.properties_in(dead))
        if messages.times_dead(properties) > MOST_FILLED:
            return dead
        values = {
            "reason": REASON_NAMES[death.reason],
            "queue": death.queue,
            "exchange": death.exchange,
            "routing-key": death.routing_key,
            "time": str(time_ms),
        }
        filled = list[Run]()
        for index in range(dead.count):
            one = dead.slice(index, 1)
            values["bookmark"] = bookmark_of(self._id, first + index)
            body = template.filled(messages.contents(one)[1], values)
            filled.append(one if body is None else messages.with_body(one, body))
        return joined(filled)

    def _targets(self, key: str, dead: Run, reason: Reason) -> tuple[DeadLetterQueue, ...]:
        """The queues that take dead letters with the same properties."""
        messages = format_of(dead)
        _, _, properties = next(messages.properties_in(dead))
        keys = [key, *(messages.copied_keys(properties) if self._key is None else ())]
        headers = partial(messages.headers, properties)
        found = self._transit.targets(self._vhost, self._exchange, keys, headers)
        if found and reason is not Reason.REJECTED:
            found = [one for one in found if not messages.cycles(properties, one.name)]
        return tuple(found)


def _one(parts: list[DeadRun]) -> DeadRun:
    return replace(parts[0], run=joined([part.run for part in parts]))
