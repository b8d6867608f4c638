"""The offsets of streaming queries over queues, and the takes of batch queries, without Spark (F8)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pipeline.log.client import LogRange
from pipeline.log.nodes import LogApiError
from pipeline.log.queue_offsets import QueueBatch, QueueOffsets, TakeGoneError
from pipeline.log.queue_options import asks_for_queue, checked_queue_options
from pipeline.log.takes import COMMITTED, EMPTY, HELD, HeldMessages, QueueReader, ReaderState
from pipeline.options import OptionError

pytestmark = pytest.mark.requirement("F8.3")

GIVEN = {"url": "http://a:15672", "user": "u", "queue": "q"}
IDENTITY = "0000002a"


def place(number: int) -> str:
    return f"{IDENTITY}{number:016x}"


class Queue:
    """A queue of one reader, as the log API tells of it."""

    def __init__(self, messages: int = 0) -> None:
        self.end, self.ready = 1, list[int]()
        self.held: dict[int, list[int]] = {}
        self.committed = self.ended = 0
        self.settled, self.calls = list[int](), list[str]()
        self.identity, self.name = IDENTITY, ""
        self.publish(messages)

    def publish(self, messages: int) -> None:
        self.ready += range(self.end, self.end + messages)
        self.end += messages

    @property
    def last(self) -> int:
        return max(self.committed, self.ended, *self.held, 0)

    def expire(self) -> None:
        """The takes of the reader end by their time."""
        self.ended = self.last
        self.ready = sorted([*self.ready, *(one for taken in self.held.values() for one in taken)])
        self.held.clear()

    def _check(self, reader: QueueReader, identity: object) -> None:
        if reader.queue != "q":
            raise LogApiError(404, {"error": "Object Not Found", "reason": "Not Found"})
        if identity not in (None, self.identity):
            raise LogApiError(410, {"error": "another_queue"})
        self.name = reader.reader

    def take(self, reader: QueueReader, number: int, **limits: Any) -> HeldMessages:
        self.calls.append(f"take {number}")
        self._check(reader, limits["identity"])
        if number <= self.ended:
            raise LogApiError(410, {"error": "gone"})
        if number <= self.committed:
            return HeldMessages(COMMITTED, 3, 0, [], [])
        if number not in self.held:
            if number != self.last + 1:
                raise LogApiError(400, {"error": "not_next", "last": self.last})
            end = number_of(limits.get("end") or place(self.end))
            rows = min(limits["rows"], limits.get("octets") or limits["rows"])
            taken = [one for one in self.ready if one < end][:rows]
            if not taken:
                return HeldMessages(EMPTY, 3, 0, [], [])
            self.held[number] = taken
            self.ready = [one for one in self.ready if one not in taken]
        ranges = [LogRange(place(one), place(one + 1), 1, 9) for one in self.held[number]]
        return HeldMessages(HELD, 3, len(ranges), ranges, ["a:15672"])

    def commit(self, reader: QueueReader, number: int, identity: str | None = None) -> None:
        self.calls.append(f"commit {number}")
        self._check(reader, identity)
        if number <= self.ended:
            raise LogApiError(410, {"error": "gone"})
        for one in [one for one in sorted(self.held) if one <= number]:
            self.settled += self.held.pop(one)
        self.committed = max(self.committed, number)

    def release(self, reader: QueueReader, number: int | None = None, identity: str | None = None) -> None:
        raise AssertionError("no query releases its reader")

    def reader(self, reader: QueueReader) -> ReaderState:
        self._check(reader, None)
        return ReaderState(self.identity, self.committed, sorted(self.held), self.last + 1, place(self.end))

    def queues(self, vhost: str) -> list[str]:
        return ["q"]


def number_of(position: str) -> int:
    return int(position[8:], 16)


class Job:
    """A query over the queue; a restart forgets everything but the offsets."""

    def __init__(self, source: Queue, **options: str) -> None:
        self.queue, self._options = source, checked_queue_options({**GIVEN, "reader": "job", **options})
        self.restart()

    def restart(self) -> None:
        self.offsets = QueueOffsets(self._options, self.queue)

    def latest(self, start: dict[str, Any], rows: int | None = 3) -> dict[str, Any]:
        """Through the text that Spark keeps."""
        found: dict[str, Any] = json.loads(json.dumps(self.offsets.latest(start, rows)))
        return found

    def read(self, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
        parts = self.offsets.ranges(start, end)
        assert all((one.queue, one.partition, one.reader) == ("q", 3, end["reader"]) for one in parts)
        assert all(one.number == end["take"] and one.rows == 1 for one in parts)
        return [number_of(one.first) for one in parts]


def test_a_batch_is_a_take_and_is_settled_when_the_next_one_is_planned() -> None:
    job = Job(queue := Queue(7))
    start = job.offsets.initial()
    assert start == {
        "version": 1, "queue": "q", "identity": IDENTITY, "reader": "job", "begin": 0, "take": 0,
    }  # fmt: skip
    first = job.latest(start)
    assert first == {**start, "take": 1} and list(first) == list(start)
    assert job.read(start, first) == [1, 2, 3] and queue.settled == []
    second = job.latest(first)
    assert queue.settled == [1, 2, 3] and job.read(first, second) == [4, 5, 6]
    job.offsets.committed(first)
    third = job.latest(second)
    assert job.read(second, third) == [7]
    assert job.latest(third) == third and queue.settled == list(range(1, 8))
    assert job.read(third, third) == []


def test_a_trigger_without_messages_is_one_request() -> None:
    job = Job(queue := Queue(1))
    end = job.latest(job.offsets.initial())
    assert job.latest(end) == end
    queue.calls.clear()
    assert job.latest(end) == end and queue.calls == ["take 2"]


def test_a_driver_that_is_lost_takes_and_reads_the_same_again() -> None:
    """Between the take and the offset log, and between the sink's commit and Spark's commit log. Before the
    first batch is written, Spark asks anew where the query begins.
    """
    job = Job(queue := Queue(5))
    start = job.offsets.initial()
    first = job.latest(start)
    job.restart()
    queue.publish(3)
    assert (
        job.offsets.initial() == start
        and job.latest(start, 1) == first
        and job.read(start, first) == [1, 2, 3]
    )
    job.restart()
    assert job.read(start, first) == [1, 2, 3] and queue.settled == []
    job.restart()
    assert job.read(first, job.latest(first, None)) == [4, 5, 6, 7, 8] and queue.settled == [1, 2, 3]


def test_a_query_ends_with_what_was_there_when_it_began() -> None:
    job = Job(queue := Queue(4))
    start = job.offsets.initial()
    job.offsets.stop_at_the_present_end()
    first = job.latest(start)
    queue.publish(10)
    second = job.latest(first)
    assert job.read(first, second) == [4] and job.latest(second) == second
    assert queue.settled == [1, 2, 3, 4]
    job.restart()
    assert job.read(second, job.latest(second, None)) == list(range(5, 15))


def test_maxBytes_is_a_limit_of_takes() -> None:
    job = Job(Queue(4), maxBytes="2")
    start = job.offsets.initial()
    assert job.read(start, job.latest(start)) == [1, 2]


def test_a_new_query_of_a_named_reader_begins_with_the_takes_that_the_reader_holds() -> None:
    job = Job(queue := Queue(5))
    start = job.offsets.initial()
    job.latest(job.latest(start, 2), 2)
    again = Job(queue)
    begin = again.offsets.initial()
    assert begin == {**start, "begin": 1, "take": 1}
    end = again.latest(begin)
    assert again.read(begin, end) == [3, 4] and queue.name == "job"
    assert queue.settled == [1, 2]
    assert again.read(end, again.latest(end)) == [5]


def test_takes_that_ended_before_a_batch_had_them_are_passed_over() -> None:
    job = Job(queue := Queue(5))
    start = job.offsets.initial()
    job.latest(start)
    queue.expire()
    job.restart()
    end = job.latest(start)
    assert end["take"] == 2 and job.read(start, end) == [1, 2, 3]


def lost_before_the_batch_is_read(job: Job, start: dict[str, Any]) -> Callable[[], Any]:
    end = job.latest(start)
    job.queue.expire()
    return lambda: job.read(start, end)


def lost_before_the_batch_is_settled(job: Job, start: dict[str, Any]) -> Callable[[], Any]:
    end = job.latest(start)
    job.queue.expire()
    return lambda: job.latest(end)["take"]


def settled_behind_an_old_checkpoint(job: Job, start: dict[str, Any]) -> Callable[[], Any]:
    job.latest(job.latest(start))
    job.restart()
    return lambda: job.latest(start)["take"]


@pytest.mark.parametrize(
    ("lose", "text", "found"),
    [
        (lost_before_the_batch_is_read, "take 1 of reader job is not held any more", []),
        (lost_before_the_batch_is_settled, "take 1 of reader job, which is written, is not", 2),
        (settled_behind_an_old_checkpoint, "take 1 of reader job is committed: the check", 2),
    ],
)
def test_takes_that_a_batch_had_fail_the_query_or_let_it_go_on(
    lose: Callable[[Job, dict[str, Any]], Callable[[], Any]], text: str, found: Any
) -> None:
    for on_gone in ("fail", "continue"):
        job = Job(Queue(5), onGone=on_gone)
        again = lose(job, job.offsets.initial())
        if on_gone == "continue":
            assert again() == found
        else:
            with pytest.raises(TakeGoneError, match=text):
                again()


def test_checkpoints_of_other_sources_are_refused() -> None:
    job = Job(queue := Queue(1))
    start = job.offsets.initial()
    for wrong, text in (
        ({**start, "version": 2}, "offsets of version 2; this release reads 1"),
        ({"version": 1, "topics": {}}, "the checkpoint is of topics, not of queue q"),
        ({**start, "queue": "p"}, "the checkpoint is of queue p, not of queue q"),
    ):
        with pytest.raises(OptionError, match=text):
            job.latest(wrong)
    with pytest.raises(OptionError, match="has the reader job, not r"):
        Job(queue, reader="r").latest(start)
    queue.identity = "0000002b"
    with pytest.raises(OptionError, match="queue q was deleted and declared again"):
        job.latest(start)
    with pytest.raises(OptionError, match="there is no queue qq in virtual host /; q is"):
        Job(queue, queue="qq").offsets.initial()


def test_a_refusal_of_the_queue_is_told_as_it_is() -> None:
    job = Job(Queue(1))
    with pytest.raises(LogApiError) as caught:
        job.latest({**job.offsets.initial(), "take": 7, "begin": 7})
    assert caught.value.facts["error"] == "not_next"


def test_a_batch_query_takes_what_is_ready_when_it_is_planned() -> None:
    queue = Queue(7)
    options = checked_queue_options({**GIVEN, "reader": "r", "maxRows": "6"})
    batch = QueueBatch(options, queue)
    assert batch.hold() == [1] and queue.held == {1: [1, 2, 3, 4, 5, 6]}
    queue.publish(1)
    assert batch.hold() == [1] and queue.ready == [7, 8]
    assert [number_of(one.first) for one in batch.ranges([1])] == [1, 2, 3, 4, 5, 6]
    queue.expire()
    with pytest.raises(TakeGoneError, match="take 1 of reader r is not held any more"):
        batch.ranges([1])
    everything = QueueBatch(options._replace(max_rows=None), queue)
    assert everything.hold() == [2] and queue.ready == [] and everything.hold() == [2]


WRONG: dict[str, dict[str, str]] = {
    "the option quue is not known; queue is": {"quue": "x"},
    "the option url is missing": {"url": ""},
    "topic and queue: a source reads topics, or takes": {"TOPIC": "t"},
    "startingAt is for topics: a queue gives its ready messages": {"startingat": "latest"},
    "endingAt is for topics": {"endingAt": "barrier:b"},
    "pushdown is for topics": {"pushdown": "true"},
    "onGone is fail or continue, not ignore": {"onGone": "ignore"},
    "reader is a name of 1 to 255 octets": {"reader": 128 * "ä"},
    "a secret is no option": {"password": "p"},
    "takes is a number above 0, not x": {"takes": "3-x"},
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong_options_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match=text):
        checked_queue_options({**GIVEN, **WRONG[text]})


def test_options_have_defaults() -> None:
    found = checked_queue_options({**GIVEN, "TAKES": "3-5", "maxrows": "7"})
    assert (found.vhost, found.reader, found.max_rows, found.on_gone) == ("/", "", 7, "fail")
    assert found.takes == range(3, 6) and checked_queue_options({**GIVEN, "takes": "4"}).takes == range(4, 5)
    assert asks_for_queue({"Queue": "q"}) and not asks_for_queue({"topic": "queue"})
