"""The offsets of streaming queries over topics: a position in each topic.

An offset is `{"version": 1, "topics": {NAME: POSITION}}`, with the names sorted: Spark compares offsets as
text. A position begins with the identity of its topic: a topic that was made anew takes no positions of the
one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from pipeline.log.client import Plan, Planner
from pipeline.log.nodes import LogApiError
from pipeline.log.options import (
    GONE_CONTINUES,
    TopicOptions,
    TopicRange,
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


def offset_of(topics: Mapping[str, str]) -> dict[str, Any]:
    """The offset with these positions."""
    return {"version": OFFSET_VERSION, "topics": dict(sorted(topics.items()))}


def positions_in(offset: Mapping[str, Any]) -> dict[str, str]:
    """The positions of an offset by topic. Raises OptionError for an offset of a newer release."""
    if offset.get("version") != OFFSET_VERSION:
        raise OptionError(
            f"the checkpoint has offsets of version {offset.get('version')}; this release reads "
            f"{OFFSET_VERSION}: go on with the release that wrote the checkpoint"
        )
    return dict(offset["topics"])


class TopicOffsets:
    """The offsets of one query. Methods raise OptionError, and as LogClient."""

    def __init__(self, options: TopicOptions, client: Planner) -> None:
        self._options, self._client = options, client
        self._target: dict[str, str] | None = None

    def initial(self) -> dict[str, Any]:
        """Where a new query begins."""
        return offset_of({topic: self._begin(topic, self._options.starting) for topic in self._topics()})

    def latest(self, start: Mapping[str, Any], rows: int | None) -> dict[str, Any]:
        """Where a batch ends that begins at `start`, with so many messages at most. A topic that is new comes
        in with the position of its oldest message, from which the next batch goes on. Without a message
        the offset is `start`.
        """
        found, left = positions_in(start), rows
        for place, topic in enumerate(known := sorted(found)):
            share = None if left is None else -(-left // (len(known) - place))
            if share == 0:
                break
            plan = self._planned(topic, found[topic], share)
            if plan is not None and plan.ranges:
                found[topic] = plan.end
                left = None if left is None else left - sum(one.rows for one in plan.ranges)
        for topic in self._topics() if self._target is None else self._target:
            if topic not in found:
                found[topic] = self._begin(topic, _EARLIEST)
        return offset_of(found)

    def stop_at_the_present_end(self) -> None:
        """No later offset is beyond what the topics have now."""
        self._target = {topic: self._begin(topic, _LATEST) for topic in self._topics()}

    def ranges(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Iterator[TopicRange]:
        """The ranges of a batch. Raises NotThereYetError, too."""
        begins = positions_in(start)
        for topic, position in positions_in(end).items():
            if begins.get(topic, position) != position:
                yield from self._ranges(topic, begins[topic], position)

    # -- plans ----------------------------------------------------------------------------------

    def _topics(self) -> list[str]:
        return topics_of(self._options, lambda: self._client.streams(self._options.vhost))

    def _begin(self, topic: str, place: str) -> str:
        return self._client.plan(self._options.vhost, topic, first=place, end=place).first

    def _planned(self, topic: str, first: str, rows: int | None) -> Plan | None:
        """A plan of what follows a position; None where the query is to end there."""
        vhost = self._options.vhost
        end = _LATEST if self._target is None else self._target.get(topic, first)
        if end[:_IDENTITY] == first[:_IDENTITY] and end <= first:
            return None
        return self._from(
            first, lambda place: self._client.plan(vhost, topic, first=place, end=end, rows=rows)
        )

    def _ranges(self, topic: str, first: str, end: str) -> list[TopicRange]:
        return self._from(
            first, lambda place: list(ranges_between(self._options, self._client, topic, place, end))
        )

    def _from(self, first: str, planned: Callable[[str], _Planned]) -> _Planned:
        """A plan from a position on, or from the oldest message where the query goes on so."""
        try:
            return planned(first)
        except LogApiError as error:
            if error.status != _GONE or self._options.on_gone != GONE_CONTINUES:
                raise
            return planned(_EARLIEST)
