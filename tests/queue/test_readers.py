"""Readers of streams in the log, in snapshots and in a stream's state (F8)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.message.reason import Reason
from node.queue.decision_format import (
    encode_advance,
    encode_make_reader,
    encode_remove,
    encode_retention_passed,
)
from node.queue.entry_format import EntryFormatError, read_operations
from node.queue.partition import SnapshotFormatError
from node.queue.queue import PLAIN_VERSION, WITH_READERS, WITH_SUBSCRIPTIONS
from node.queue.subscriptions import (
    NO_LOSS,
    Advance,
    Loss,
    MakeReader,
    MaxLag,
    RetentionPassed,
    Subscriptions,
)
from tests.queue.building import one_batch, published, uniform_run
from tests.queue.test_partition import machine_with

pytestmark = pytest.mark.requirement("F8.3")

LIMIT = MaxLag(messages=5)
U64 = st.integers(0, 5) | st.integers(0, (1 << 64) - 1)
NAMES = st.binary(min_size=1, max_size=255)
STEPS = st.one_of(
    st.builds(MakeReader, st.just(1), NAMES, U64, st.builds(MaxLag, U64, U64, U64)),
    st.builds(RetentionPassed, st.just(1), U64, U64),
)


def encoded(step: MakeReader | RetentionPassed) -> bytes:
    return encode_make_reader(step) if isinstance(step, MakeReader) else encode_retention_passed(step)


class Stream:
    """A stream in queue 1 of a machine, beside queue 2, and which messages it had and lost."""

    def __init__(self) -> None:
        self.machine, self.index = machine_with(1, 2), 1
        self.had: list[int] = []
        self.removed: list[int] = []

    @property
    def subscriptions(self) -> Subscriptions:
        return self.machine.queues[1].subscriptions or Subscriptions()

    def apply(self, *operations: bytes) -> None:
        self.index += 1
        self.machine.apply(self.index, one_batch(operations))

    def publish(self, count: int, other: int = 0) -> None:
        """Messages of the stream, and behind them some of the other queue."""
        for queue, number in ((1, count), (2, other)):
            if number:
                first = self.machine.next_sequence
                self.index += 1
                self.machine.apply(self.index, published(first, uniform_run(number), queue))
                self.had += range(first, first + number) if queue == 1 else ()

    def remove(self, count: int) -> None:
        """Retention removes the oldest messages."""
        gone = self.had[len(self.removed) :][:count]
        if gone:
            self.removed += gone
            ranges = [(one, one) for one in gone]
            step = RetentionPassed(1, gone[-1], len(gone))
            self.apply(encode_retention_passed(step), encode_remove(1, Reason.EXPIRED, ranges))

    def make(self, name: bytes, place: int) -> None:
        self.apply(encode_make_reader(MakeReader(1, name, place, LIMIT)))

    def advance(self, name: bytes, place: int) -> None:
        self.apply(encode_advance(Advance(1, name, place)))

    def lost(self, name: bytes) -> Loss:
        return self.subscriptions.lost(name, self.machine.queues[1].mark)


@given(STEPS)
def test_an_operation_is_read_as_it_was_written(step: MakeReader | RetentionPassed) -> None:
    octets = encoded(step)
    assert list(read_operations(octets)) == [step]
    for size in range(1, len(octets)):
        with pytest.raises(EntryFormatError):
            list(read_operations(octets[:size]))


def test_an_operation_of_an_unknown_step_is_refused() -> None:
    octets = bytearray(encode_retention_passed(RetentionPassed(1, 2, 3)))
    octets[1] = 9
    with pytest.raises(EntryFormatError):
        list(read_operations(bytes(octets)))


def test_a_reader_keeps_its_place_when_it_is_made_again() -> None:
    stream = Stream()
    stream.publish(5)
    stream.make(b"a", 2)
    stream.apply(encode_make_reader(MakeReader(1, b"a", 4, MaxLag(octets=7))))
    assert stream.subscriptions.place(b"a") == 2
    assert stream.subscriptions.max_lags == {b"a": MaxLag(octets=7)}


def test_a_subscription_becomes_a_reader_where_it_is() -> None:
    stream = Stream()
    stream.publish(5)
    stream.advance(b"a", 3)
    assert not stream.subscriptions.has_readers
    stream.make(b"a", 0)
    assert stream.subscriptions.place(b"a") == 3 and stream.subscriptions.has_readers


def test_a_forgotten_reader_leaves_nothing() -> None:
    stream = Stream()
    stream.publish(2)
    stream.make(b"a", 0)
    stream.advance(b"a", 0)
    assert stream.machine.queues[1].subscriptions is None


def test_a_lagging_reader_makes_no_room_for_others() -> None:
    stream = Stream()
    stream.publish(9)
    stream.make(b"reader", 1)
    stream.advance(b"subscription", 1)
    stream.remove(5)
    assert stream.subscriptions.stale(6) == [b"subscription"]


def test_lost_messages_are_counted_from_the_place_on() -> None:
    stream = Stream()
    stream.publish(10, other=4)
    stream.publish(10)
    stream.make(b"a", stream.had[3])
    stream.make(b"b", 0)
    stream.remove(4)
    assert (stream.lost(b"a"), stream.lost(b"b")) == (NO_LOSS, Loss(4, True))
    stream.remove(9)
    assert (stream.lost(b"a"), stream.lost(b"b")) == (Loss(9, True), Loss(13, True))
    # In the middle of what was lost the number of messages behind the place is bounded alone.
    stream.advance(b"a", stream.had[10])
    assert stream.lost(b"a") == Loss(2, False)
    stream.advance(b"a", stream.had[12])
    assert stream.lost(b"a") == NO_LOSS


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 5), st.integers(0, 3)),
        st.tuples(st.just("remove"), st.integers(1, 6), st.just(0)),
        st.tuples(st.just("make"), st.sampled_from((b"a", b"b")), st.integers(0, 20)),
        st.tuples(st.just("advance"), st.sampled_from((b"a", b"b")), st.integers(1, 20)),
        st.tuples(st.just("forget"), st.sampled_from((b"a", b"b")), st.just(0)),
    ),
    max_size=30,
)


@given(ACTIONS)
def test_the_number_of_lost_messages_is_exact_or_a_bound(actions: list) -> None:
    stream, places = Stream(), dict[bytes, int]()
    for action, what, number in actions:
        end, mark = stream.machine.next_sequence - 1, stream.machine.queues[1].mark
        if action == "publish":
            stream.publish(what, number)
        elif action == "remove":
            stream.remove(what)
        elif action == "make":
            # The owner makes none whose place retention has passed.
            places.setdefault(what, max(mark, min(number, end)))
            stream.make(what, places[what])
        elif action == "advance" and what in places and min(number, end) > 0:
            places[what] = max(places[what], min(number, end))
            stream.advance(what, min(number, end))
        elif action == "forget":
            places.pop(what, None)
            stream.advance(what, 0)
    for name, place in places.items():
        assert stream.subscriptions.place(name) == place
        really, told = sum(one > place for one in stream.removed), stream.lost(name)
        assert told.messages == really if told.exact else told.messages >= really
    data = stream.machine.snapshot()
    again = machine_with()
    again.restore(data)
    assert again.snapshot() == data
    found = again.queues[1].subscriptions or Subscriptions()
    known = WITH_READERS if places or stream.removed else PLAIN_VERSION
    assert data[0] == known and found.passed == len(stream.removed)
    assert set(found.names()) == set(places) == set(found.max_lags)


def test_a_stream_without_readers_writes_the_snapshots_of_the_release_before() -> None:
    stream = Stream()
    stream.publish(3)
    assert stream.machine.snapshot()[0] == PLAIN_VERSION
    stream.advance(b"a", 2)
    assert stream.machine.snapshot()[0] == WITH_SUBSCRIPTIONS
    stream.make(b"a", 0)
    data = stream.machine.snapshot()
    assert data[0] == WITH_READERS
    # A reader that has no place.
    with pytest.raises(SnapshotFormatError):
        machine_with().restore(data.replace(b"a", b"b", 1))


def test_operations_for_a_queue_that_is_gone_have_no_effect() -> None:
    machine = machine_with()
    machine.apply(1, one_batch([encoded(MakeReader(7, b"a", 1, LIMIT)), encoded(RetentionPassed(7, 1, 1))]))
    assert not machine.queues
