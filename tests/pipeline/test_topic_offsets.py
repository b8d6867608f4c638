"""The offsets of streaming queries over topics (F8)."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from cluster.owner.log_plan import MOST_RANGES
from pipeline.log.client import FULL_PLAN, LogRange, Plan
from pipeline.log.nodes import LogApiError
from pipeline.log.offsets import Position, TopicOffsets, offset_of
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

    def advance(self, vhost: str, topic: str, reader: str, position: str) -> None:
        raise AssertionError("no reader is asked for")

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


def test_a_trigger_with_messages_is_one_plan() -> None:
    topics = Topics(t=5)
    found = offsets(topics, startingAt="latest")
    start = found.initial()
    topics.ends["t"], topics.requests = 8, 0
    end = found.latest(start, None)
    assert batch(found, start, end) == {"t": (5, 8)} and topics.requests == 1
    # A process that goes on from a checkpoint has planned no batch yet.
    assert batch(offsets(topics), start, end) == {"t": (5, 8)} and topics.requests == 2


def test_tasks_of_a_batch_have_their_octets() -> None:
    class Asked(Topics):
        def plan(self, vhost: str, topic: str, **asked: Any) -> Plan:
            self.task_octets = asked.get("range_octets")
            return super().plan(vhost, topic, **asked)

    topics = Asked(t=5)
    found = offsets(topics, taskBytes="1000")
    found.latest(found.initial(), None)
    assert topics.task_octets == 1000


def test_small_tasks_limit_no_batch() -> None:
    class Full(Topics):
        """A plan with the octets of tasks has 4,096 ranges of one message, and ends behind them."""

        def plan(self, vhost: str, topic: str, *, range_octets: Any = None, **asked: Any) -> Plan:
            whole = super().plan(vhost, topic, **asked | {"rows": asked.get("rows") or 1 << 20})
            first, end = (int(place[8:], 16) for place in (whole.first, whole.end))
            if range_octets is None or end - first <= FULL_PLAN:
                return whole
            at = [self.position(topic, first + number) for number in range(FULL_PLAN + 1)]
            ranges = [LogRange(one, next, 1, 100) for one, next in pairwise(at)]
            return whole._replace(end=at[-1], ranges=ranges)

    assert FULL_PLAN == MOST_RANGES
    topics = Full(t=10_001)
    found = offsets(topics, taskBytes="1")
    start = found.initial()
    end = found.latest(start, None)
    assert numbers(end) == {"t": 10_001}
    parts = list(found.ranges(start, end))
    assert len(parts) == 2 * FULL_PLAN + 1 and sum(one.rows for one in parts) == 10_000


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
    start, end = (
        offset_of({"t": Position(topics.position("t", 2))}),
        offset_of({"t": Position(topics.position("t", 9))}),
    )
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


# -- counts, losses and readers ---------------------------------------------------------------------


class Counted(Topics):
    """Streams whose every second number is another queue's, with counts, and readers."""

    def __init__(self, **ends: int) -> None:
        super().__init__(**ends)
        self.readers: dict[tuple[str, str], int] = {}
        self.octets: list[Any] = []

    def plan(self, vhost: str, topic: str, **parameters: Any) -> Plan:
        self.octets.append(parameters.pop("octets", None))
        known = parameters.pop("first_count", None)
        begin = self._number(topic, parameters["first"])
        try:
            plan = super().plan(vhost, topic, **parameters)
        except LogApiError:
            most = self.oldest[topic] - begin
            lost = None if known is None else self.oldest[topic] // 2 - known
            facts = {"reason": f"{lost} messages are gone", "lost": lost, "lost_at_most": most}
            raise LogApiError(410, facts) from None
        counts = (self._number(topic, one) // 2 for one in (plan.first, plan.end))
        return plan._replace(**dict(zip(("first_count", "end_count"), counts, strict=True)))

    def advance(self, vhost: str, topic: str, reader: str, position: str) -> None:
        self.requests += 1
        self.readers[topic, reader] = self._number(topic, position)


def test_offsets_have_the_counts_of_their_positions() -> None:
    found = offsets(Counted(t=9))
    start = found.initial()
    assert start == {"version": 1, "topics": {"t": f"{1:08x}{1:016x}"}, "counts": {"t": 0}}
    end = found.latest(start, 5)
    assert end["counts"] == {"t": 3}
    assert json.dumps(found.latest(found.latest(end, None), None)) == json.dumps(found.latest(end, None))
    # An offset of the release before has no counts, and keeps its text while nothing comes.
    former = {"version": 1, "topics": {"t": f"{1:08x}{9:016x}"}}
    assert json.dumps(found.latest(former, None)) == json.dumps(former)


def test_a_query_fails_with_the_number_of_lost_messages() -> None:
    topics = Counted(t=100)
    found = offsets(topics)
    end = found.latest(found.initial(), 9)
    topics.oldest["t"] = 50
    with pytest.raises(LogApiError, match="20 messages are gone"):
        found.latest(end, None)


def test_a_query_that_goes_on_counts_each_lost_message_once(caplog: pytest.LogCaptureFixture) -> None:
    topics = Counted(t=100)
    found = offsets(topics, onGone="continue")
    start = found.latest(found.initial(), 9)
    topics.oldest["t"] = 50
    end = found.latest(start, 9)
    assert (found.losses.messages, found.losses.exact) == (20, True)
    # Retention passes the whole batch, and the position where the next one begins.
    topics.oldest["t"] = 80
    assert batch(found, start, end) == {}
    assert found.losses.messages == 35
    found.latest(end, None)
    found.latest(end, None)
    assert (found.losses.messages, found.losses.exact) == (35, True)
    assert "retention has passed 20 messages behind" in caplog.text
    assert "retention has passed 15 messages behind" in caplog.text


def test_losses_without_counts_are_bounds() -> None:
    topics = Counted(t=100)
    found = offsets(topics, onGone="continue")
    topics.oldest["t"] = 50
    for _ in range(3):
        found.latest(offset_of({"t": Position(topics.position("t", 10))}), None)
    assert (found.losses.messages, found.losses.exact) == (40, False)


def test_the_reader_of_a_query_follows_what_is_written() -> None:
    topics = Counted(a=9, b=9)
    found = offsets(topics, topic="^.$", reader="job")
    start = found.initial()
    assert topics.readers == {("a", "job"): 1, ("b", "job"): 1}
    end = found.latest(start, 4)
    assert topics.readers == {("a", "job"): 1, ("b", "job"): 1}
    found.committed(end)
    assert topics.readers == {("a", "job"): 3, ("b", "job"): 3}
    topics.ends["c"], topics.oldest["c"], topics.identities["c"] = 9, 4, 7
    last = found.latest(end, None)
    assert topics.readers == {("a", "job"): 3, ("b", "job"): 3, ("c", "job"): 4}
    # Spark does not tell the commit of the last batch of `availableNow`: the next query begins there.
    again = offsets(topics, topic="^.$", reader="job")
    assert numbers(again.latest(last, None)) == {"a": 9, "b": 9, "c": 9}
    assert topics.readers == {("a", "job"): 9, ("b", "job"): 9, ("c", "job"): 4}
    topics.requests = 0
    again.latest(last, None)
    assert topics.requests == 3


def test_a_query_without_a_reader_advances_none() -> None:
    topics = Counted(t=9)
    found = offsets(topics)
    found.committed(found.latest(found.initial(), None))
    assert topics.readers == {}


def test_the_octets_of_a_batch_are_shared_by_the_topics() -> None:
    """A topic of these has 100 octets in each plan."""
    topics = Counted(a=9, b=9, c=9)
    found = offsets(topics, topic="^.$", maxBytes="150")
    start = found.initial()
    topics.octets.clear()
    end = found.latest(start, None)
    assert topics.octets[:2] == [50, 25] and numbers(end) == {"a": 9, "b": 9, "c": 1}
