"""Blocks that sinks post: what the pipeline encodes, the broker reads, and refuses by the octet (F8)."""

from __future__ import annotations

import tracemalloc
from struct import pack_into
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.admin.api.posted_blocks import (
    LARGEST_BLOCK,
    MOST_RUNS,
    BlockSyntaxError,
    read_posted_block,
)
from node.message.run import Run
from node.wire.checked_messages import MessageChecks
from node.wire.formats import FORMATS, format_of
from pipeline.log import posting
from pipeline.log.blocks import CRC, HEAD, RUN
from pipeline.log.posting import BlockBuilder, place_of
from pipeline.message.encoding import UnfitError, encode_content, encode_properties
from pipeline.message.runs import content_of
from tests.messages import content
from tests.wire.amqp10.sections import message

pytestmark = pytest.mark.requirement("F8.4")

PAYLOAD = HEAD.size + CRC.size
PLAIN = encode_properties({}, None)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        "content_type": TEXTS,
        "delivery_mode": st.sampled_from((1, 2)),
        "priority": st.integers(0, 9),
        "expiration": st.integers(0, 2**32 - 1).map(str),
        "message_id": TEXTS,
        "timestamp": st.integers(0, 2**64 - 1),
    },
)
HEADERS = st.none() | st.dictionaries(TEXTS, st.none() | TEXTS, max_size=4)
MESSAGES = st.tuples(
    st.sampled_from(("", "e")), st.sampled_from(("q", "k", "")), PROPERTIES, HEADERS, st.binary(max_size=300)
)


def checks(user: str | None = "guest") -> MessageChecks:
    return MessageChecks(user, LARGEST_BLOCK)


def block(*messages: tuple[str, str, bytes]) -> bytes:
    builder = BlockBuilder(LARGEST_BLOCK)
    for exchange, key, raw in messages:
        place = place_of(exchange, key, raw)
        assert builder.takes(place, raw)
        builder.add(place, raw)
    return builder.take()


def runs_of(data: bytes, user: str | None = "guest") -> list[Run]:
    return [run for run in read_posted_block(data, checks(user)) if run is not None]


def marked(data: bytes) -> bytes:
    """The block with the CRC that belongs to it."""
    changed = bytearray(data)
    CRC.pack_into(changed, HEAD.size, crc32(data[PAYLOAD:], crc32(data[: HEAD.size])))
    return bytes(changed)


@given(st.lists(MESSAGES, max_size=30))
def test_every_message_arrives_as_it_was_written(rows: list[Any]) -> None:
    written = [
        (exchange, key, encode_content(encode_properties(properties, headers), body))
        for exchange, key, properties, headers, body in rows
    ]
    runs = runs_of(block(*written))
    found = [(run.exchange, run.routing_key, raw) for run in runs for raw in run.contents()]
    assert found == written
    for run in runs:
        assert {raw[9:11] for raw in run.contents()} == {b"\0\0"}
        assert run.special == any(
            {"priority", "expiration"} & content_of(0, raw).properties.keys()
            or "x-delay" in content_of(0, raw).headers
            for raw in run.contents()
        ) or {"CC", "BCC", "x-delay"} & {name for row in rows for name in row[3] or ()}
        modes = {content_of(0, raw).properties["delivery_mode"] for raw in run.contents()}
        assert modes == {2 if run.persistent else 1}
        assert [body for _, _, body in map(_shown, run.contents())] == [
            bytes(body) for body in map(_body, run.contents())
        ]
    shown = [content_of(0, raw) for *_, raw in found]
    assert [one.body for one in shown] == [body for *_, body in rows]
    assert [one.headers for one in shown] == [headers or {} for *_, headers, _ in rows]


def _shown(raw: bytes) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    found = content_of(0, raw)
    return found.properties, found.headers, found.body


def _body(raw: bytes) -> bytes:
    run = Run("", "q", 1, True, 1, 0, len(raw), None, len(raw), raw)
    return format_of(run).contents(run)[1]


def test_messages_of_both_protocols_go_into_one_block() -> None:
    raws = [content(b"1"), message(b""), content(b"2", delivery_mode=2)]
    runs = runs_of(block(*(("", "q", raw) for raw in raws)))
    assert [run.format for run in runs] == [0, 1, 0]
    assert [raw for run in runs for raw in run.contents()] == raws
    assert [run.persistent for run in runs] == [False, True, True] and set(FORMATS) == {0, 1}


RAW = content(b"abc", user_id="guest")
RUN_AT = PAYLOAD
CONTENT_AT = PAYLOAD + RUN.size + 1 + 4

WRONG: dict[str, tuple[int, bytes, int]] = {
    "does not begin so": (0, b"x", 0),
    "a block of version 2": (4, b"\2", 4),
    "a block of kind 2": (5, b"\2", 5),
    "an octet that is not 0": (6, b"\1", 6),
    "a payload of ": (8, b"\1", 8),
    "1 are there": (12, b"\2", 12),
    "a queue; the messages": (16, b"\1", 16),
    "a first message": (24, b"\1", 24),
    "a run of row 1 behind row -1": (RUN_AT, b"\1", RUN_AT),
    "without messages": (RUN_AT + 16, b"\0", RUN_AT + 16),
    "flags 16": (RUN_AT + 20, b"\x10", RUN_AT + 20),
    "a message format 7": (RUN_AT + 21, b"\7", RUN_AT + 21),
    "octets to skip": (RUN_AT + 22, b"\1", RUN_AT + 22),
    "a run of 4294967295 messages": (RUN_AT + 16, b"\xff\xff\xff\xff", RUN_AT + 28),
    "lengths that do not add up": (CONTENT_AT - 4, b"\1", CONTENT_AT - 4),
    "a frame of type 3": (CONTENT_AT, b"\3", CONTENT_AT),
    "a frame that is cut short": (CONTENT_AT + 3, b"\x7f", CONTENT_AT),
    "other body frames than those of 4": (CONTENT_AT + 18, b"\4", CONTENT_AT),
    "user_id property set to 'Guest'": (CONTENT_AT + 22, b"G", CONTENT_AT),
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_block_is_refused_by_the_octet(text: str) -> None:
    at, octets, told = WRONG[text]
    data = bytearray(block(("", "q", RAW)))
    data[at : at + len(octets)] = octets
    with pytest.raises(BlockSyntaxError, match=text) as caught:
        runs_of(marked(bytes(data)))
    assert caught.value.at == told
    assert caught.value.row == (0 if at >= CONTENT_AT else -1)


def test_a_block_with_another_crc_or_cut_short_is_refused() -> None:
    data = block(("", "q", RAW))
    for wrong in (data[:-1] + b"?", *(data[:length] for length in range(len(data)))):
        with pytest.raises(BlockSyntaxError):
            runs_of(wrong)


def test_bounds_of_blocks_hold_on_both_sides() -> None:
    assert (posting.LARGEST_BLOCK, posting.MOST_RUNS) == (LARGEST_BLOCK, MOST_RUNS)
    room = LARGEST_BLOCK - PAYLOAD - RUN.size - 1 - 4
    raw = encode_content(PLAIN, b"x")
    frames = LARGEST_BLOCK // 131_064 + 1
    largest = encode_content(PLAIN, b"x" * (room - len(encode_content(PLAIN, b"")) - 8 * frames))
    builder, place = BlockBuilder(1000), place_of("", "q", raw)
    assert builder.takes(place, largest)
    builder.add(place, largest)
    assert not builder.takes(place, raw)
    assert [run.count for run in runs_of(builder.take())] == [1]
    with pytest.raises(UnfitError, match="a block has 25165824"):
        builder.takes(place, b"\2" + bytes(room))
    for number in range(MOST_RUNS):
        builder = builder if number else BlockBuilder(LARGEST_BLOCK)
        builder.add(place_of("", "ab"[number % 2], raw), raw)
    assert not builder.takes(place_of("", "c", raw), raw)
    assert len(runs_of(builder.take())) == MOST_RUNS
    alternating = [("", "q", content(b"", delivery_mode=1 + number % 2)) for number in range(MOST_RUNS + 1)]
    with pytest.raises(BlockSyntaxError, match="more than 4096 runs"):
        runs_of(block(*alternating))


@given(st.data())
def test_random_changes_are_refused_or_read_and_take_little_memory(data: st.DataObject) -> None:
    right = block(("e", "q", RAW), ("e", "q", content(b"d")), ("", "q", message(b"")))
    changed = bytearray(right)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(changed) - 4))
        form, value = data.draw(
            st.sampled_from((("B", 0), ("B", 255), ("<I", 2**32 - 1), ("<H", 65535), ("<I", 2**31)))
        )
        pack_into(form, changed, at, value)
    cut = data.draw(st.integers(0, len(changed)) | st.just(len(changed)))
    octets = bytes(changed[:cut])
    tracemalloc.start()
    try:
        for one in (octets, marked(octets) if len(octets) >= PAYLOAD else octets):
            try:
                runs_of(one)
            except BlockSyntaxError as error:
                assert 0 <= error.at <= max(len(one), PAYLOAD)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@given(st.binary(max_size=200))
def test_random_octets_are_refused(octets: bytes) -> None:
    with pytest.raises(BlockSyntaxError):
        runs_of(octets)


def test_names_and_properties_that_no_message_can_have_are_refused() -> None:
    for properties, text in (
        ({"priority": 256}, "the property priority cannot be 256"),
        ({"message_id": "é" * 128}, "message_id is a text of 256 octets"),
        ({"ttl": 5}, "AMQP 0-9-1 has no property ttl"),
    ):
        with pytest.raises(UnfitError, match=text):
            encode_properties(properties, None)
    with pytest.raises(UnfitError, match="a name of 256 octets"):
        place_of("", "k" * 256, RAW)
    with pytest.raises(UnfitError, match="no message of AMQP"):
        place_of("", "k", b"?")
