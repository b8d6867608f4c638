"""The offsets of streaming queries over topics: a position in each topic.

An offset is `{"version": 1, "topics": {NAME: POSITION}, "counts": {NAME: COUNT}}`, with the names sorted:
Spark compares offsets as text. A position begins with the identity of its topic: a topic that was made anew
takes no positions of the one before. The count is that of the position, as plans tell it; offsets without
counts are read, too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from pipeline.log.client import FULL_PLAN, Plan, Planner
from pipeline.log.nodes import LogApiError
from pipeline.log.options import (
    GONE_CONTINUES,
    TopicOptions,
    TopicRange,
    planned_ranges,
    ranges_between,
    topics_of,
)
from pipeline.options import OptionError

OFFSET_VERSION: Final = 1
_Planned = TypeVar("_Planned")
_GONE: Final = 410
_IDENTITY: Final = 8
"""The digits of a position that stand for the topic."""

_EARLIEST: Final = "earliest"
_LATEST: Final = "latest"

_log = logging.getLogger(__name__)


class Position(NamedTuple):
    """A position in a topic, and its count; None where the count is not known."""

    at: str
    before: int | None = None


class Losses:
    """The messages that a query has not read because retention had passed them. `exact` says whether there
    were `messages` of them, and not fewer.
    """

    def __init__(self) -> None:
        self.messages, self.exact = 0, True
        # By topic: the count up to which losses have been noted; positions whose loss is not known exactly.
        self._upto: dict[str, int] = {}
        self._vague: set[tuple[str, str]] = set()

    def note(self, topic: str, position: Position, facts: Mapping[str, Any]) -> None:
        """A query goes on with the oldest message behind a position that is gone. A query asks for a position
        several times, and the next one may be gone, too: no message counts twice.
        """
        lost, before = facts.get("lost"), position.before
        if lost is not None and before is not None:
            known = before + lost
            more = known - max(before, self._upto.get(topic, 0))
            self._upto[topic] = known
            told = f"{more} messages"
        elif (topic, position.at) in self._vague:
            return
        else:
            self._vague.add((topic, position.at))
            more, self.exact = facts.get("lost_at_most") or 0, False
            told = f"at most {more} messages" if more else "messages"
        if more or not self.exact:
            self.messages += more
            _log.warning("topic %s: retention has passed %s behind %s", topic, told, position.at)


def offset_of(topics: Mapping[str, Position]) -> dict[str, Any]:
    """The offset with these positions."""
    found = dict(sorted(topics.items()))
    counts = {topic: one.before for topic, one in found.items() if one.before is not None}
    known = {"counts": counts} if counts else {}
    return {"version": OFFSET_VERSION, "topics": {topic: one.at for topic, one in found.items()}, **known}


def positions_in(offset: Mapping[str, Any]) -> dict[str, Position]:
    """The positions of an offset by topic. Raises OptionError for an offset of a newer release."""
    if offset.get("version") != OFFSET_VERSION:
        raise OptionError(
            f"the checkpoint has offsets of version {offset.get('version')}; this release reads "
            f"{OFFSET_VERSION}: go on with the release that wrote the checkpoint"
        )
    counts = offset.get("counts", {})
    return {topic: Position(at, counts.get(topic)) for topic, at in offset["topics"].items()}


class TopicOffsets:
    """The offsets of one query. `losses` are what it has passed over. Methods raise OptionError, and as
    LogClient.
    """

    def __init__(self, options: TopicOptions, client: Planner) -> None:
        self._options, self._client = options, client
        self._target: dict[str, str] | None = None
        self._told: dict[str, str] = {}
        # By topic: between which positions the latest batch is, and its ranges.
        self._latest: dict[str, tuple[str, str, list[TopicRange]]] = {}
        self.losses = Losses()

    def initial(self) -> dict[str, Any]:
        """Where a new query begins."""
        found = {topic: self._begin(topic, self._options.starting) for topic in self._topics()}
        self._advance(found)
        return offset_of(found)

    def latest(self, start: Mapping[str, Any], rows: int | None) -> dict[str, Any]:
        """Where a batch ends that begins at `start`, with so many messages at most, and the octets of
        `maxBytes`. A topic that is new comes in with the position of its oldest message, from which the next
        batch goes on. Without a message the offset is `start`.

        Everything in front of `start` has been read: the reader of the query advances.
        """
        found, left = positions_in(start), rows
        octets = self._options.max_octets
        self._advance(found)
        for place, topic in enumerate(known := sorted(found)):
            topics = len(known) - place
            share, octet_share = _share(left, topics), _share(octets, topics)
            if share == 0 or octet_share == 0:
                break
            plan = self._planned(topic, found[topic], share, octet_share)
            if plan is not None and plan.ranges:
                found[topic] = Position(plan.end, plan.end_count)
                left = None if left is None else left - sum(one.rows for one in plan.ranges)
                octets = None if octets is None else max(0, octets - sum(one.octets for one in plan.ranges))
        for topic in self._topics() if self._target is None else self._target:
            if topic not in found:
                found[topic] = self._begin(topic, _EARLIEST)
                self._advance({topic: found[topic]})
        return offset_of(found)

    def committed(self, end: Mapping[str, Any]) -> None:
        """Everything in front of an offset has been read: the reader of the query advances."""
        self._advance(positions_in(end))

    def stop_at_the_present_end(self) -> None:
        """No later offset is beyond what the topics have now."""
        self._target = {topic: self._begin(topic, _LATEST).at for topic in self._topics()}

    def ranges(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Iterator[TopicRange]:
        """The ranges of a batch: those of the plan that the batch ends with, where this process has made that
        plan. A query that goes on behind a loss plans anew. Raises NotThereYetError, too.
        """
        begins = positions_in(start)
        for topic, position in positions_in(end).items():
            begin = begins.get(topic)
            if begin is not None and begin.at != position.at:
                first, last, known = self._latest.get(topic, ("", "", []))
                planned = (first, last) == (begin.at, position.at)
                yield from known if planned else self._ranges(topic, begin, position.at)

    # -- plans ----------------------------------------------------------------------------------

    def _topics(self) -> list[str]:
        return topics_of(self._options, lambda: self._client.streams(self._options.vhost))

    def _begin(self, topic: str, place: str) -> Position:
        plan = self._client.plan(self._options.vhost, topic, first=place, end=place)
        return Position(plan.first, plan.first_count)

    def _advance(self, positions: Mapping[str, Position]) -> None:
        """Advance the reader of the query, where it has not been told so."""
        for topic, position in positions.items() if self._options.reader else ():
            if self._told.get(topic) != position.at:
                self._client.advance(self._options.vhost, topic, self._options.reader, position.at)
                self._told[topic] = position.at

    def _planned(self, topic: str, first: Position, rows: int | None, octets: int | None) -> Plan | None:
        """A plan of what follows a position; None where the query is to end there."""
        vhost = self._options.vhost
        end = _LATEST if self._target is None else self._target.get(topic, first.at)
        if end[:_IDENTITY] == first.at[:_IDENTITY] and end <= first.at:
            return None

        def planned(place: Position, task_octets: int | None) -> Plan:
            asked = {"rows": rows, "octets": octets, "range_octets": task_octets, "first_count": place.before}
            return self._client.plan(vhost, topic, first=place.at, end=end, **asked)

        def of_a_batch(place: Position) -> Plan:
            plan = planned(place, self._options.task_octets)
            if len(plan.ranges) == FULL_PLAN:
                # How small tasks are limits no batch.
                return planned(place, None)
            if self._options.on_gone != GONE_CONTINUES:
                self._latest[topic] = (first.at, plan.end, planned_ranges(topic, plan))
            return plan

        return self._from(topic, first, of_a_batch)

    def _ranges(self, topic: str, first: Position, end: str) -> list[TopicRange]:
        def planned(place: Position) -> list[TopicRange]:
            return list(ranges_between(self._options, self._client, topic, place.at, end, count=place.before))

        return self._from(topic, first, planned)

    def _from(self, topic: str, first: Position, planned: Callable[[Position], _Planned]) -> _Planned:
        """A plan from a position on, or from the oldest message where the query goes on so."""
        try:
            return planned(first)
        except LogApiError as error:
            if error.status != _GONE or self._options.on_gone != GONE_CONTINUES:
                raise
            self.losses.note(topic, first, error.facts)
            return planned(Position(_EARLIEST))


def _share(left: int | None, topics: int) -> int | None:
    """The part of a limit that each of so many topics may have."""
    return None if left is None else -(-left // topics)
