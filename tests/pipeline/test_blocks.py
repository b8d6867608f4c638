"""Blocks as docs/log-api.md has them: what the broker encodes, and the decoder of the pipeline reads (F8)."""

from __future__ import annotations

import json
import re
import tracemalloc
from array import array
from collections.abc import Sequence
from contextlib import suppress
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.owner.log_plan import MOST_RANGES
from cluster.owner.log_reading import BLOCK_OCTETS, READ_OCTETS
from node.message.run import OWN_METHODS, Run
from node.queue import block_format
from node.queue.block_format import encode_block, encode_block_run
from pipeline.log import blocks
from pipeline.log.blocks import Block, CutShortError, read_block, refusal_in, runs_in
from pipeline.log.rows import Columns, Topic, TopicRow, rows_of_blocks
from pipeline.octets.cursor import MalformedError
from tests.messages import CHANNEL, content, run_of
from tests.structure.tree import ROOT
from tests.wire.amqp10.runs import run_of as run_of_amqp10
from tests.wire.amqp10.sections import message

pytestmark = pytest.mark.requirement("F8.3")

PAGE = (ROOT / "docs" / "log-api.md").read_text(encoding="utf-8")
TOPIC = Topic("s", 7)
QUEUE = 0x1_0000_002A


def block_of(*runs: tuple[int, int, Run], next: int = 1000, first: int | None = None) -> bytes:
    """A block of runs, each with its first number and its time."""
    parts = [part for number, time_ms, run in runs for part in encode_block_run(number, time_ms, run)]
    begin = runs[0][0] if first is None else first
    count = sum(run.count for _, _, run in runs)
    return encode_block(QUEUE, begin, next, parts, kind=block_format.MESSAGES_BLOCK, messages=count)


def decoded(octets: bytes) -> list[Block]:
    source, found = BytesIO(octets), []
    while source.tell() < len(octets):
        found.append(read_block(source.read, source.tell()))
    return found


def rows(octets: bytes) -> list[TopicRow]:
    return rows_of_blocks(TOPIC, decoded(octets))


def uniform(*contents: bytes) -> Run:
    (length,) = set(map(len, contents))
    return Run("e", "k", CHANNEL, True, len(contents), 0, length, None, length, b"".join(contents))


def with_own_methods(keys: Sequence[bytes], bodies: Sequence[bytes]) -> Run:
    """A run whose messages state their routing keys."""
    pieces = []
    for key, body in zip(keys, bodies, strict=True):
        method = b"\0\x3c\0\x28\0\0" + b"\0" + bytes((len(key),)) + key + b"\0"
        frame = b"\x01\0\x01" + len(method).to_bytes(4, "big") + method + b"\xce"
        pieces.append(frame + content(body))
    lengths = array("I", map(len, pieces))
    return Run("", None, CHANNEL, False, len(pieces), OWN_METHODS, 0, lengths, max(lengths), b"".join(pieces))


def test_runs_of_every_shape_are_read_as_the_broker_writes_them() -> None:
    octets = block_of(
        (5, 1000, uniform(content(b"a"), content(b"b"))),
        (9, 0, run_of([content(b"cc", headers={"n": 7}), content(b"", delivery_mode=2)], skip=b"skip")),
        (20, 2000, with_own_methods([b"x", b"long.key"], [b"d", b"e"])),
        (30, 3000, run_of_amqp10(message(body=b"f"), key="\udcff")),
        next=77,
    )
    (block,) = decoded(octets)
    assert (block.kind, block.messages, block.queue, block.first, block.next) == (1, 7, QUEUE, 5, 77)
    found = rows(octets)
    assert [row.sequence for row in found] == [5, 6, 9, 10, 20, 21, 30]
    assert [row.bookmark for row in found] == [f"0000002a{row.sequence:016x}" for row in found]
    assert [row.body for row in found] == [b"a", b"b", b"cc", b"", b"d", b"e", b"f"]
    assert [row.routing_key for row in found] == ["k", "k", "q", "q", "x", "long.key", "\\xff"]
    assert [row.exchange for row in found] == ["e", "e", "", "", "", "", ""]
    assert [row.time for row in found] == [1000, 1000, None, None, 2000, 2000, 3000]
    assert found[2].headers == {"n": 7} and found[3].properties == {"delivery_mode": 2}
    assert found[2].raw == content(b"cc", headers={"n": 7}) and found[6].raw == message(body=b"f")
    assert {(row.queue, row.partition) for row in found} == {("s", 7)}


def test_only_the_named_columns_are_decoded() -> None:
    """A message that cannot be decoded has a bookmark and octets."""
    octets = block_of((5, 1000, uniform(b"nothing", b"to read")))
    for names in (["bookmark", "raw"], ["routing_key", "sequence", "time"], ["partition"], []):
        columns = Columns(TOPIC, names)
        columns.add(decoded(octets)[0])
        assert list(columns.values) == names and columns.rows == 2
        assert all(len(values) == 2 for values in columns.taken().values())
        assert columns.rows == 0 and not any(columns.values.values())
    for name in ("properties", "headers", "body"):
        with pytest.raises(MalformedError):
            Columns(TOPIC, [name]).add(decoded(octets)[0])
    with pytest.raises(KeyError):
        Columns(TOPIC, ["bodies"])


def test_a_range_ends_with_its_end_or_with_a_refusal() -> None:
    told = json.dumps({"status": 410, "reason": "gone"}).encode()
    octets = encode_block(QUEUE, 5, 5, [told], kind=block_format.REFUSAL_BLOCK)
    octets += encode_block(QUEUE, 9, 9, [], kind=block_format.END_BLOCK)
    refusal, end = decoded(octets)
    assert refusal_in(refusal) == {"status": 410, "reason": "gone"}
    assert (end.kind, end.first, end.next, end.payload) == (blocks.END, 9, 9, b"")
    with pytest.raises(MalformedError, match="no JSON object"):
        refusal_in(end)


def test_octets_that_end_early_are_cut_short() -> None:
    octets = block_of((5, 1000, uniform(content(b"a"))))
    for length in range(len(octets)):
        with pytest.raises(CutShortError):
            read_block(BytesIO(octets[:length]).read)


WRONG = {
    "a block that begins with": lambda octets: b"b" + octets[1:],
    "a block of version 2; this release reads 1 at octet 104": lambda octets: (
        octets[:4] + b"\x02" + octets[5:]
    ),
    "a block with another CRC at octet 140": lambda octets: octets[:-1] + b"?",
}


@pytest.mark.parametrize("text", WRONG)
def test_an_error_names_the_octet(text: str) -> None:
    octets = WRONG[text](block_of((5, 1000, uniform(content(b"a")))))
    with pytest.raises(MalformedError, match=text):
        read_block(BytesIO(octets).read, 100)


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (block_of((5, 0, uniform(b"a", b"b")), (6, 0, uniform(b"c"))), "a run of message 6 behind 6"),
        (block_of((5, 0, uniform(b"a", b"b")), next=6), "2 messages in a block that has 2"),
        (block_of((5, 0, uniform(b"a")), first=6), "a run of message 5 behind 5"),
    ],
)
def test_runs_that_contradict_their_block_are_refused(octets: bytes, text: str) -> None:
    with pytest.raises(MalformedError, match=text):
        list(runs_in(decoded(octets)[0]))


def everything(octets: bytes) -> None:
    """Read all blocks, and all columns. Raises nothing but what the decoder says."""
    source = BytesIO(octets)
    with suppress(CutShortError, MalformedError):
        while True:
            block = read_block(source.read, source.tell())
            if block.kind == blocks.MESSAGES:
                rows_of_blocks(TOPIC, [block])


ANY = settings(max_examples=200, deadline=None)


@ANY
@given(st.binary(max_size=500))
def test_any_octets_are_refused(octets: bytes) -> None:
    everything(octets)
    everything(blocks.MAGIC + octets)


@ANY
@given(st.data())
def test_any_change_of_a_payload_is_refused_or_read(data: Any) -> None:
    """Also where the CRC is right: another program may have written the block."""
    octets = block_of(
        (5, 1000, uniform(content(b"a"), content(b"b"))),
        (20, 2000, with_own_methods([b"x", b"long.key"], [b"d", b"e"])),
        (30, 3000, run_of_amqp10(message(body=b"f"))),
    )
    payload = bytearray(decoded(octets)[0].payload)
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(payload)))
        part = data.draw(st.binary(max_size=8))
        payload[start : start + (len(part) if data.draw(st.booleans()) else 0)] = part
    everything(encode_block(QUEUE, 5, 1000, [bytes(payload)], kind=1, messages=5))


def test_a_length_that_is_wrong_takes_no_memory() -> None:
    head = blocks.HEAD.pack(blocks.MAGIC, blocks.VERSION, 1, 0, (1 << 32) - 1, 1, QUEUE, 5, 6)
    tracemalloc.start()
    with pytest.raises(CutShortError):
        read_block(BytesIO(head + bytes(4) + bytes(1000)).read)
    run = encode_block(QUEUE, 5, 6, [b"\xff" * 34], kind=1, messages=1)
    with pytest.raises(MalformedError):
        rows(run)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


# -- the document ---------------------------------------------------------------------------------------


def test_the_page_has_what_the_broker_writes() -> None:
    head = block_format.BLOCK_HEAD.size
    assert (head, blocks.HEAD.size, blocks.CRC.size) == (40, 40, block_format.BLOCK_CRC.size)
    assert f"A block is a head of {head + block_format.BLOCK_CRC.size} octets" in PAGE
    assert f"| {head} | u32 | CRC of the octets 0 to {head - 1} and of the payload |" in PAGE
    assert f"| 4 | u8 | version: {block_format.BLOCK_VERSION}." in PAGE
    kinds = {
        name.removesuffix("_BLOCK"): getattr(block_format, name)
        for name in vars(block_format)
        if name.endswith("_BLOCK")
    }
    assert dict(re.findall(r"^\| (\d) \| ([A-Z]+) \|", PAGE, re.MULTILINE)) == {
        str(kind): name for name, kind in kinds.items()
    }
    flags = block_format.UNIFORM_RUN, block_format.PERSISTENT_RUN, block_format.OWN_METHODS_RUN
    assert "flags: {} all messages have one length, {} persistent, {} each".format(*flags) in PAGE
    table = PAGE[PAGE.index("| type | content |") :]
    sizes = {"u64": 8, "u32": 4, "u16": 2, "u8": 1}
    fields = re.findall(r"^\| (u64|u32|u16|u8)( \w)? \|", table, re.MULTILINE)
    assert sum(sizes[name] for name, _ in fields) == block_format.RUN_HEAD.size


def test_the_page_has_the_limits_of_the_broker() -> None:
    assert f"At most {BLOCK_OCTETS >> 10} KiB of messages" in PAGE
    assert f"a step of {READ_OCTETS >> 10} KiB of entries at a time" in PAGE
    assert f"more than {MOST_RANGES:,} ranges" in PAGE


def test_a_payload_that_comes_in_pieces_is_in_memory_once() -> None:
    octets = encode_block(QUEUE, 1, 2, [bytes(8 << 20)], kind=block_format.MESSAGES_BLOCK, messages=1)
    source = BytesIO(octets)
    tracemalloc.start()
    try:
        payload = read_block(source.read).payload
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(payload) == 8 << 20
    assert peak < 1.5 * len(payload)
