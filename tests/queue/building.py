"""Runs, batches and entries for the engine's tests."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from struct import pack

from hypothesis import strategies as st

from node.message.run import OWN_METHODS, Run
from node.queue.entry_format import Buffer, EntryMessages, encode_batch, encode_entry, encode_publish
from node.queue.operations import OWNER
from node.wire.amqp091.codec import encode_frame, encode_method
from node.wire.amqp091.methods import FRAME_BODY, FRAME_HEADER, BasicPublish

SKIP = 3


def uniform_run(count: int, size: int = 5, key: str = "key") -> Run:
    """A run of messages of one length, whose content is their index."""
    raw = b"".join(b"MMM" + index.to_bytes(size, "big") for index in range(count))
    return Run("exchange", key, 1, True, count, SKIP, SKIP + size, None, size, raw)


def varied_run(sizes: Sequence[int], persistent: bool = True, special: bool = False) -> Run:
    """A run of messages of these lengths, whose content is their index, repeated."""
    raw = b"".join(b"MMM" + bytes((index % 256,)) * size for index, size in enumerate(sizes))
    lengths = array("I", (SKIP + size for size in sizes))
    return Run("ex", "k", 9, persistent, len(sizes), SKIP, 0, lengths, max(sizes), raw, special)


def keyed_content(index: int) -> bytes:
    """The content frames of the message with this index in a `keyed_run`."""
    header = pack(">HHQH", BasicPublish.CLASS_ID, 0, 1, 0)
    return encode_frame(FRAME_HEADER, 9, header) + encode_frame(FRAME_BODY, 9, bytes((index % 256,)))


def keyed_run(keys: Sequence[str]) -> Run:
    """A run of messages with these routing keys, whose body is their index."""
    methods = [encode_method(9, BasicPublish("ex", key)) for key in keys]
    pieces = [method + keyed_content(index) for index, method in enumerate(methods)]
    lengths = array("I", map(len, pieces))
    return Run("ex", None, 9, True, len(keys), OWN_METHODS, 0, lengths, 1, b"".join(pieces))


RUNS = st.one_of(
    st.builds(keyed_run, st.lists(st.text(max_size=9), min_size=1, max_size=9)),
    st.builds(uniform_run, st.integers(1, 12), st.integers(1, 9), st.text(max_size=9)),
    st.builds(varied_run, st.lists(st.integers(0, 9), min_size=1, max_size=9), st.booleans(), st.booleans()),
)


def one_batch(
    operations: Iterable[Buffer], front_end: int = OWNER, number: int = 0, first_sequence: int = 0
) -> bytes:
    """An entry of a single operation batch."""
    return encode_entry([encode_batch(front_end, number, first_sequence, list(operations))])


def published(first_sequence: int, run: Run, *queues: int, front_end: int = OWNER, number: int = 0) -> bytes:
    """An entry that publishes one run."""
    return one_batch(encode_publish(run, queues), front_end, number, first_sequence)


def contents(data: Buffer, first: int, last: int) -> dict[int, bytes]:
    """The contents of an entry's messages in a range of sequence numbers, by number."""
    return {
        start + i: content
        for start, run in EntryMessages(data).runs(first, last)
        for i, content in enumerate(run.contents())
    }
