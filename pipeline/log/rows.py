"""The columns of the messages of streams, as blocks give them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NamedTuple

from pipeline.log.blocks import Block, BlockRun, runs_in
from pipeline.message.content import Content
from pipeline.message.row_types import types_of
from pipeline.message.runs import (
    OWN_METHODS,
    body_of,
    bookmark_of,
    content_of,
    messages_of,
    raws_of,
)
from pipeline.message.text import shown_text


class TopicRow(NamedTuple):
    """A message of a stream. `queue` is the stream's name. `time`: when the owner took the message, in
    milliseconds since the epoch. `raw`: the message bit for bit, properties included.
    """

    bookmark: str
    queue: str
    partition: int
    sequence: int
    time: int | None
    exchange: str
    routing_key: str
    properties: dict[str, Any] | None
    headers: dict[str, Any] | None
    body: bytes | None
    raw: bytes | None


TOPIC_COLUMNS: Final = types_of(TopicRow)
"""The columns with their types."""

_DECODED: Final = frozenset(("properties", "headers"))


class Topic(NamedTuple):
    """A stream and its partition, as rows name them."""

    name: str
    partition: int


class Columns:
    """The values of the wanted columns, message by message. Only what these need is decoded."""

    def __init__(self, topic: Topic, names: Sequence[str]) -> None:
        """Raises KeyError for an unknown column."""
        self._topic = topic
        self._readers = {name: _READERS[name] for name in names}
        self._decodes = not _DECODED.isdisjoint(names)
        self._splits = self._decodes or not {"body", "raw"}.isdisjoint(names)
        self.values: dict[str, list[Any]] = {name: [] for name in names}
        self.rows = self.octets = 0

    def add(self, block: Block) -> None:
        """Add the messages of a block. Raises MalformedError."""
        for run in runs_in(block):
            self.add_run(block, run)
        self.octets += len(block.payload)

    def add_run(self, block: Block, run: BlockRun) -> None:
        """Add the messages of one run of a block. Raises MalformedError."""
        raws = raws_of(block.payload, run) if self._splits else []
        contents = [content_of(run.format, raw) for raw in raws] if self._decodes else None
        piece = _Piece(self._topic, block, run, raws, contents)
        for name, read in self._readers.items():
            self.values[name] += read(piece)
        self.rows += run.messages

    def taken(self) -> dict[str, list[Any]]:
        """The values so far; begins anew."""
        found = self.values
        self.values = {name: [] for name in found}
        self.rows = self.octets = 0
        return found


class _Piece(NamedTuple):
    """A run, with as much of its messages as the wanted columns need."""

    topic: Topic
    block: Block
    run: BlockRun
    raws: list[bytes]
    contents: list[Content] | None


def _numbers(piece: _Piece) -> range:
    return range(piece.run.first, piece.run.first + piece.run.messages)


def _keys(piece: _Piece) -> list[str]:
    if piece.run.flags & OWN_METHODS:
        return [shown_text(one.routing_key) for one in messages_of(piece.block.payload, piece.run)]
    return [shown_text(piece.run.routing_key)] * piece.run.messages


def _bookmarks(piece: _Piece) -> list[str]:
    queue = bookmark_of(piece.block.queue, 0)[:8]
    return [f"{queue}{number:016x}" for number in _numbers(piece)]


def _bodies(piece: _Piece) -> list[bytes]:
    if piece.contents is not None:
        return [one.body for one in piece.contents]
    format = piece.run.format
    return [body_of(format, raw) for raw in piece.raws]


_READERS: Final[dict[str, Callable[[_Piece], Collection[Any]]]] = {
    "bookmark": _bookmarks,
    "queue": lambda piece: [piece.topic.name] * piece.run.messages,
    "partition": lambda piece: [piece.topic.partition] * piece.run.messages,
    "sequence": _numbers,
    "time": lambda piece: [piece.run.time or None] * piece.run.messages,
    "exchange": lambda piece: [shown_text(piece.run.exchange)] * piece.run.messages,
    "routing_key": _keys,
    "properties": lambda piece: [one.properties for one in piece.contents or ()],
    "headers": lambda piece: [one.headers for one in piece.contents or ()],
    "body": _bodies,
    "raw": lambda piece: piece.raws,
}


def rows_of_blocks(topic: Topic, blocks: Sequence[Block]) -> list[TopicRow]:
    """The messages of blocks as rows, all columns of them. Raises MalformedError."""
    columns = Columns(topic, TopicRow._fields)
    for block in blocks:
        columns.add(block)
    return [TopicRow(*values) for values in zip(*columns.values.values(), strict=True)]
