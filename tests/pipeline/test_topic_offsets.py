"""The offsets of streaming queries over topics (F8)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipeline.log.client import LogRange, Plan
from pipeline.log.nodes import LogApiError
from pipeline.log.offsets import TopicOffsets, offset_of
from pipeline.log.options import checked_options
from pipeline.options import OptionError

pytestmark = pytest.mark.requirement("F8.3")

GIVEN = {"url": "http://a:15672", "user": "u", "topic": "t"}


class Topics:
    """Streams with the numbers from `oldest` to in front of `end`, by identity; one number a message."""

    def __init__(self, **ends: int) -> None:
        self.ends = ends
        self.oldest = dict.fromkeys(ends, 1)
        self.identities = {name: place for place, name in enumerate(ends, 1)}
        self.requests = 0

    def streams(self, vhost: str) -> list[str]:
        return list(self.ends)

    def plan(self, vhost: str, topic: str, *, first: str, end: str, rows: Any = None, **_: object) -> Plan:
        self.requests += 1
        begin, stop = self._number(topic, first), self._number(topic, end)
        if begin < self.oldest[topic]:
            raise LogApiError(410, {"reason": "gone"})
        last = min(stop, self.ends[topic], begin + (rows or 1000))
        at = [self.position(topic, number) for number in (begin, stop, max(begin, last), self.ends[topic])]
        ranges = [LogRange(at[0], at[2], last - begin, 100)] if last > begin else []
        return Plan(7, at[0], at[1], at[2], at[3], ranges, [])

    def position(self, topic: str, number: int) -> str:
        return f"{self.identities[topic]:08x}{number:016x}"

    def _number(self, topic: str, place: str) -> int:
        if place in ("earliest", "latest"):
            return self.oldest[topic] if place == "earliest" else self.ends[topic]
        if int(place[:8], 16) != self.identities[topic]:
            raise LogApiError(400, {"reason": "a bookmark of another queue"})
        return int(place[8:], 16)


def offsets(topics: Topics, **options: str) -> TopicOffsets:
    return TopicOffsets(checked_options({**GIVEN, **options}), topics)


def numbers(offset: dict[str, Any]) -> dict[str, int]:
    return {name: int(position[8:], 16) for name, position in offset["topics"].items()}


def batch(found: TopicOffsets, start: Any, end: Any) -> dict[str, tuple[int, int]]:
    return {one.topic: (int(one.first[8:], 16), int(one.end[8:], 16)) for one in found.ranges(start, end)}


def test_offsets_are_positions_by_sorted_names() -> None:
    found = offsets(Topics(b=5, a=9), topic="^.$", startingAt="latest").initial()
    assert numbers(found) == {"a": 9, "b": 5} and list(found["topics"]) == ["a", "b"]
    assert found["version"] == 1
    assert numbers(offsets(Topics(t=5)).initial()) == {"t": 1}


def test_a_trigger_without_messages_is_one_request_and_the_same_text() -> None:
    topics = Topics(t=5)
    found = offsets(topics)
    end = found.latest(found.initial(), None)
    assert numbers(end) == {"t": 5}
    topics.requests = 0
    assert json.dumps(found.latest(end, None)) == json.dumps(end)
    assert topics.requests == 1
    assert list(found.ranges(end, end)) == []
    topics.ends["t"] = 8
    assert batch(found, end, found.latest(end, None)) == {"t": (5, 8)}


def test_a_limit_is_shared_by_the_topics() -> None:
    topics = Topics(a=3, b=100, c=100)
    found = offsets(topics, topic="^.$")
    end = found.latest(found.initial(), 20)
    assert numbers(end) == {"a": 3, "b": 10, "c": 10}
    assert numbers(found.latest(found.initial(), 1)) == {"a": 2, "b": 1, "c": 1}


def test_a_new_topic_joins_with_its_oldest_message() -> None:
    topics = Topics(a=3)
    found = offsets(topics, topic="^.$")
    start = found.latest(found.initial(), None)
    topics.ends["b"], topics.oldest["b"], topics.identities["b"] = 9, 4, 7
    joined = found.latest(start, None)
    assert numbers(joined) == {"a": 3, "b": 4} and batch(found, start, joined) == {}
    end = found.latest(joined, None)
    assert batch(found, joined, end) == {"b": (4, 9)}


def test_a_query_that_stops_reads_what_there_was_when_it_began() -> None:
    topics = Topics(a=5, b=1)
    found = offsets(topics, topic="^.$")
    start = found.initial()
    found.stop_at_the_present_end()
    topics.ends["a"] = topics.ends["b"] = 100
    topics.ends["c"], topics.oldest["c"], topics.identities["c"] = 9, 4, 7
    end = found.latest(start, 3)
    assert numbers(end) == {"a": 3, "b": 1}
    assert numbers(found.latest(end, None)) == {"a": 5, "b": 1}
    assert found.latest(found.latest(end, None), None) == found.latest(end, None)


def test_positions_that_are_gone_fail_or_are_left_out() -> None:
    topics = Topics(t=9)
    start, end = offset_of({"t": topics.position("t", 2)}), offset_of({"t": topics.position("t", 9)})
    topics.oldest["t"] = 6
    for refused in (
        lambda: offsets(topics).latest(start, None),
        lambda: list(offsets(topics).ranges(start, end)),
    ):
        with pytest.raises(LogApiError, match="gone"):
            refused()
    going_on = offsets(topics, onGone="continue")
    assert going_on.latest(start, None) == end and batch(going_on, start, end) == {"t": (6, 9)}
    with pytest.raises(OptionError, match="onGone is fail or continue, not ignore"):
        offsets(topics, onGone="ignore")


def test_a_topic_that_was_made_anew_takes_no_old_offset() -> None:
    topics = Topics(t=9)
    found = offsets(topics)
    start = found.latest(found.initial(), None)
    topics.identities["t"] = 5
    with pytest.raises(LogApiError, match="another queue"):
        found.latest(start, None)
    found.stop_at_the_present_end()
    with pytest.raises(LogApiError, match="another queue"):
        found.latest(start, None)


def test_offsets_of_a_newer_release_are_refused() -> None:
    with pytest.raises(OptionError, match="offsets of version 2; this release reads 1"):
        offsets(Topics(t=9)).latest({"version": 2, "topics": {}}, None)
