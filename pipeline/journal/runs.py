"""The messages of a publish (docs/journal-format.md, "Publishes")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from pipeline.journal.operations import OWN_METHODS, Publish
from pipeline.message import amqp091, amqp10
from pipeline.message.content import Content
from pipeline.octets.cursor import MalformedError

AMQP_0_9_1: Final = 0
AMQP_1_0: Final = 1
_QUEUE_MASK: Final = 0xFFFFFFFF


class Message(NamedTuple):
    """A message as it is stored. `at` is the offset of `raw` in the entry's data."""

    at: int
    routing_key: bytes
    raw: bytes


def messages_of(data: bytes, publish: Publish) -> Iterator[Message]:
    """The messages of a publish in an entry's data. Raises MalformedError."""
    at, own = publish.content, bool(publish.flags & OWN_METHODS)
    key, skip = publish.routing_key, publish.skip
    for number in range(publish.messages if publish.size else 0):
        length = publish.stride if publish.lengths is None else publish.lengths[number]
        if own:
            key, skip = amqp091.own_key(data[at : at + length])
        if skip > length:
            raise MalformedError(at, f"a message of {length} octets, {skip} of which are to be skipped")
        yield Message(at + skip, key, data[at + skip : at + length])
        at += length


def content_of(format: int, raw: bytes) -> Content:
    """The parts of a message. Raises MalformedError."""
    if format == AMQP_0_9_1:
        return amqp091.content_of(raw)
    if format == AMQP_1_0:
        return amqp10.content_of(raw)
    raise MalformedError(0, f"a message of unknown format {format}")


def bookmark_of(queue: int, number: int) -> str:
    """The name of a message in a queue: bookmarks of a queue sort as its messages do."""
    return f"{queue & _QUEUE_MASK:08x}{number:016x}"
