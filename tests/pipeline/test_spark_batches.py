"""The columns of many messages at once are those of the decoder that takes message by message (F8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock
from weakref import ref

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.arrow import journals, topics
from pipeline.arrow.columns import arrow_schema, record_batch
from pipeline.arrow.journals import MESSAGE_COLUMNS, EntryBatches, message_batches
from pipeline.arrow.property_lists import property_columns
from pipeline.arrow.slices import SlicedOctets
from pipeline.arrow.topics import TopicBatches
from pipeline.journal import tables
from pipeline.journal.damage import FAIL, REPORT, DamageError
from pipeline.journal.segments import Segment, SegmentReader, segments_in
from pipeline.journal.tables import messages_of_entry, messages_of_publish
from pipeline.log.blocks import MESSAGES, RUN, Block
from pipeline.log.rows import TOPIC_COLUMNS, Columns, Topic
from pipeline.message import amqp091
from pipeline.message.runs import AMQP_0_9_1, UNIFORM
from pipeline.octets.cursor import MalformedError
from tests.pipeline import stored_messages as stored
from tests.pipeline.journals import BytesOctets, entry, put_down, segment_of, tables_of
from tests.pipeline.test_tables import lives
from tests.site import Site

pytestmark = [pytest.mark.spark, pytest.mark.requirement("F8.1")]

TOPIC = Topic("s", 7)
ANY = settings(max_examples=250, deadline=None)
TOPIC_NAMES = st.sampled_from(
    [list(TOPIC_COLUMNS), ["bookmark", "time"], ["routing_key"], ["raw"], ["body"], ["headers", "exchange"]]
)
JOURNAL_NAMES = st.sampled_from(
    [list(MESSAGE_COLUMNS), ["queue", "time", "bookmark"], ["routing_key", "body"], ["raw"], ["properties"]]
)


def outcome(read: Callable[[], Any]) -> Any:
    """The value, or the error."""
    try:
        return read()
    except (MalformedError, DamageError) as error:
        return type(error), str(error)


def one_by_one(blocks: Sequence[Block], names: Sequence[str]) -> Any:
    columns = Columns(TOPIC, names)
    for one in blocks:
        columns.add(one)
    return record_batch(TOPIC_COLUMNS, columns.taken())


def together(blocks: Sequence[Block], names: Sequence[str]) -> Any:
    batches = TopicBatches(TOPIC, names)
    for one in blocks:
        batches.add(one)
    assert batches.rows == sum(one.messages for one in blocks)
    batch = batches.taken()
    batch.validate(full=True)
    assert batches.rows == batches.octets == 0
    return batch


@ANY
@given(st.lists(stored.blocks(), max_size=3), TOPIC_NAMES)
def test_blocks_are_read_at_once_as_message_by_message(blocks: list[Block], names: list[str]) -> None:
    assert outcome(lambda: together(blocks, names)) == outcome(lambda: one_by_one(blocks, names))


@ANY
@given(st.lists(stored.blocks(), max_size=3), TOPIC_NAMES)
def test_runs_in_turns_are_read_as_message_by_message(blocks: list[Block], names: list[str]) -> None:
    with mock.patch.object(topics, "PARTS_IN_THEIR_ORDER", 1):
        assert outcome(lambda: together(blocks, names)) == outcome(lambda: one_by_one(blocks, names))


@ANY
@given(stored.blocks(), st.data())
def test_blocks_with_changed_octets_are_read_alike(block: Block, data: Any) -> None:
    payload = bytearray(block.payload)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(payload)))
        payload[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    changed = [block._replace(payload=bytes(payload))]
    names = list(TOPIC_COLUMNS)
    assert outcome(lambda: together(changed, names)) == outcome(lambda: one_by_one(changed, names))


@ANY
@given(st.lists(stored.property_lists(), max_size=5) | st.lists(stored.property_lists(False), max_size=9))
def test_property_lists_are_read_at_once_as_one_by_one(lists: list[bytes]) -> None:
    def slow() -> Any:
        decoded = [amqp091.properties_of(one) for one in lists]
        values = {"properties": [one for one, _ in decoded], "headers": [one for _, one in decoded]}
        return record_batch(TOPIC_COLUMNS, values)

    def fast() -> Any:
        ends = np.cumsum([len(one) for one in lists], dtype=np.int64)
        starts = ends - np.array([len(one) for one in lists], np.int64)
        found = property_columns(SlicedOctets(*lists), starts, ends)
        schema = arrow_schema(TOPIC_COLUMNS, found._fields)
        return pa.RecordBatch.from_arrays(list(found), schema=schema)

    assert outcome(fast) == outcome(slow)


def test_blocks_of_large_messages_are_gone_when_their_columns_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Messages with several frames, which are decoded one by one."""

    class Noted(Block):
        """A block with a set of its own, which weak references find."""

    frames = stored.content(b"\0\0", b"one", b"two")
    run = RUN.pack(5, 0, 1, UNIFORM, AMQP_0_9_1, 0, len(frames), len(frames), 0, 0)
    block = Noted(MESSAGES, 1, 1, 5, 6, run + frames)
    block.held = set[int]()
    found, real = ref(block.held), topics.record_batch

    def noted(*columns: Any) -> Any:
        assert found() is None
        return real(*columns)

    monkeypatch.setattr(topics, "record_batch", noted)
    batches = TopicBatches(TOPIC, list(TOPIC_COLUMNS))
    batches.add(block)
    del block
    assert batches.taken()["body"].to_pylist() == [b"onetwo"]


def test_each_octet_of_a_message_may_be_another_or_missing() -> None:
    """Of a message with each kind of a value, in a run whose messages have their own keys."""
    block = stored.block_of_every_kind()
    names = list(TOPIC_COLUMNS)
    assert together([block], names) == one_by_one([block], names)
    for at in range(len(block.payload)):
        for octet in {0, 1, 0xFF, block.payload[at] + 1 & 0xFF, block.payload[at] - 1 & 0xFF}:
            changed = block.payload[:at] + bytes((octet,)) + block.payload[at + 1 :]
            blocks = [block._replace(payload=changed)]
            for wanted in (names, ["body", "routing_key"]):
                fast = outcome(lambda blocks=blocks, wanted=wanted: together(blocks, wanted))
                assert fast == outcome(lambda blocks=blocks, wanted=wanted: one_by_one(blocks, wanted)), at


def regular_block(count: int) -> Block:
    """A block of one run whose messages are all different, and none of them is rare."""

    def message(number: int) -> bytes:
        text = f"{number:04d}".encode()
        header = b"\x01hS\0\0\0\x04" + text + b"\x01nI" + number.to_bytes(4, "big")
        listed = b"\x30\x80" + len(header).to_bytes(4, "big") + header + b"\x02\x04" + text
        return stored.content(listed, text * (number % 5))

    pieces = [message(number) for number in range(count)]
    head = RUN.pack(5, 1, count, 0, 0, 0, 0, sum(map(len, pieces)), 0, 1) + b"q"
    lengths = b"".join(len(one).to_bytes(4, "little") for one in pieces)
    return Block(1, count, stored.QUEUE, 5, 5 + count, head + lengths + b"".join(pieces))


def test_messages_as_clients_send_them_need_no_decoder_of_single_messages() -> None:
    """Otherwise the other tests would compare the slow reader with itself."""
    block = regular_block(300)
    names = list(TOPIC_COLUMNS)
    expected = one_by_one([block], names)
    with (
        mock.patch.object(topics, "Columns", side_effect=AssertionError),
        mock.patch.object(amqp091, "properties_of", side_effect=AssertionError),
    ):
        assert together([block], names) == expected
    assert expected["headers"][17].as_py() == [("h", "0017"), ("n", "17")]


def strange_block() -> Block:
    """A block with one message that only the decoder of single messages reads."""
    octets = stored.content(b"\0\0", b"a", b"b")
    head = RUN.pack(15, 1, 1, 0, 0, 0, 0, len(octets), 0, 0) + len(octets).to_bytes(4, "little")
    return Block(1, 1, stored.QUEUE, 15, 16, head + octets)


@pytest.mark.parametrize(("turns", "singly", "at_once"), [(1, 1, 2), (2, 2, 3), (30, 1, 1)])
def test_strange_messages_slow_only_their_runs(turns: int, singly: int, at_once: int) -> None:
    """Many runs in turns need each of the two decoders once."""
    blocks = [regular_block(10), *[strange_block(), regular_block(10)] * turns]
    names = ["body", "sequence"]
    with (
        mock.patch.object(topics, "Columns", wraps=Columns) as slow,
        mock.patch.object(TopicBatches, "_regular", autospec=True, side_effect=TopicBatches._regular) as fast,
    ):
        assert together(blocks, names) == one_by_one(blocks, names)
    assert (slow.call_count, fast.call_count) == (singly, at_once)


def test_a_column_that_is_unknown_is_refused() -> None:
    with pytest.raises(KeyError):
        TopicBatches(TOPIC, ["bodies"])


# -- journals ------------------------------------------------------------------------------------------


def segment_data(written: Sequence[bytes]) -> bytes:
    return segment_of([[entry(index, data) for index, data in enumerate(written, 1)]])


def journal_slow(data: bytes, names: Sequence[str], on_damage: str) -> Any:
    rows = list(tables_of(data, on_damage=on_damage).messages(names))
    return record_batch(MESSAGE_COLUMNS, {name: [getattr(row, name) for row in rows] for name in names})


def journal_fast(data: bytes, names: Sequence[str], on_damage: str) -> Any:
    reader = SegmentReader(Segment("n1", "1.segment", 1, True), BytesOctets(data), on_damage)
    batches = list(EntryBatches(reader, names).read())
    schema = arrow_schema(MESSAGE_COLUMNS, names)
    if not batches:
        return record_batch(MESSAGE_COLUMNS, {name: [] for name in names})
    for one in batches:
        one.validate(full=True)
    return pa.Table.from_batches(batches, schema).combine_chunks().to_batches()[0]


@ANY
@given(st.lists(stored.entries(), max_size=4), JOURNAL_NAMES, st.sampled_from([FAIL, REPORT]))
def test_entries_are_read_at_once_as_message_by_message(
    written: list[bytes], names: list[str], on_damage: str
) -> None:
    data = segment_data(written)
    fast = outcome(lambda: journal_fast(data, names, on_damage))
    assert fast == outcome(lambda: journal_slow(data, names, on_damage))


@ANY
@given(st.lists(stored.entries(), max_size=4), JOURNAL_NAMES, st.sampled_from([FAIL, REPORT]))
def test_publishes_in_turns_are_read_as_message_by_message(
    written: list[bytes], names: list[str], on_damage: str
) -> None:
    data = segment_data(written)
    with mock.patch.object(journals, "PARTS_IN_THEIR_ORDER", 1):
        fast = outcome(lambda: journal_fast(data, names, on_damage))
    assert fast == outcome(lambda: journal_slow(data, names, on_damage))


@pytest.mark.parametrize(("turns", "whole", "singly"), [(3, 1, 7), (30, 0, 30)])
def test_strange_publishes_in_turns_with_others_slow_only_themselves(
    turns: int, whole: int, singly: int
) -> None:
    """An entry with a few of them is read message by message."""
    octets, strange = stored.content(b"\0\0", b"ab"), stored.content(b"\0\0", b"a", b"b")
    told = {"format": 0, "skip": 0, "stride": 0, "flags": 0, "exchange": b"", "key": b"q"}
    usual, rare = (
        stored.publish({**told, "lengths": [len(one)]}, one, [stored.QUEUE, 7]) for one in (octets, strange)
    )
    data = segment_data([stored.entry_of((1, usual + (rare + usual) * turns))])
    names = list(MESSAGE_COLUMNS)
    expected = journal_slow(data, names, FAIL)
    with (
        mock.patch.object(journals, "messages_of_entry", wraps=messages_of_entry) as entries,
        mock.patch.object(tables, "messages_of_publish", wraps=messages_of_publish) as publishes,
        mock.patch.object(journals, "messages_of_publish", publishes),
    ):
        assert journal_fast(data, names, FAIL) == expected
    assert (entries.call_count, publishes.call_count) == (whole, singly)
    assert expected["body"].to_pylist() == [b"ab"] * 2 * (2 * turns + 1)


@ANY
@given(st.lists(stored.entries(), min_size=1, max_size=3), st.data())
def test_entries_with_changed_octets_are_read_alike(written: list[bytes], data: Any) -> None:
    for place, one in enumerate(written):
        at, part = data.draw(st.integers(0, len(one))), data.draw(st.binary(max_size=3))
        written[place] = one[:at] + part + one[at + data.draw(st.integers(0, 3)) :]
    octets = segment_data(written)
    names = list(MESSAGE_COLUMNS)
    for on_damage in (FAIL, REPORT):
        fast = outcome(lambda on_damage=on_damage: journal_fast(octets, names, on_damage))
        assert fast == outcome(lambda on_damage=on_damage: journal_slow(octets, names, on_damage))


def test_the_journal_of_a_node_is_read_alike(tmp_path: Path) -> None:
    site = Site("n1", "n2")
    lives(site.client("n1"))
    names = list(MESSAGE_COLUMNS)
    for directory in put_down(site.nodes.values(), tmp_path):
        for segment in segments_in(directory):
            data = Path(segment.path).read_bytes()
            with mock.patch.object(journals, "messages_of_entry", side_effect=AssertionError):
                (batch,) = message_batches(segment, names, FAIL)
            rows = journal_slow(data, names, FAIL)
            assert len(rows) >= 10
            for name in sorted({*names} - {"node", "segment"}):
                assert batch[name] == rows[name], name


def test_a_message_to_many_queues_takes_no_memory_for_each() -> None:
    octets = stored.content(b"\0\0", bytes(1 << 20))
    told = {
        "format": 0, "skip": 0, "stride": 0, "flags": 0, "exchange": b"", "key": b"q",
        "lengths": [len(octets)],
    }  # fmt: skip
    data = segment_data([stored.entry_of((1, stored.publish(told, octets, list(range(1, 201)))))])
    reader = SegmentReader(Segment("n1", "1.segment", 1, True), BytesOctets(data), FAIL)
    before, rows = pa.total_allocated_bytes(), 0
    for batch in EntryBatches(reader, ["queue", "body"]).read():
        rows += len(batch)
        assert pa.total_allocated_bytes() - before < 48 << 20
    assert rows == 200
