"""The messages of runs, which publishes in journals and blocks are (docs/journal-format.md, "Publishes")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Protocol

from pipeline.message import amqp091, amqp10
from pipeline.message.content import Content
from pipeline.octets.cursor import MalformedError

AMQP_0_9_1: Final = 0
AMQP_1_0: Final = 1
UNIFORM: Final = 1
PERSISTENT: Final = 2
OWN_METHODS: Final = 16
"""Flags of a run: all messages have one length; they are persistent; each begins with its method frame."""

_QUEUE_MASK: Final = 0xFFFFFFFF


class Run(Protocol):
    """How messages stand one behind the other in some data, from the offset `content` on. `lengths` is None
    where each message has `stride` octets.
    """

    @property
    def flags(self) -> int: ...

    @property
    def format(self) -> int: ...

    @property
    def messages(self) -> int: ...

    @property
    def skip(self) -> int: ...

    @property
    def stride(self) -> int: ...

    @property
    def lengths(self) -> Any: ...

    @property
    def routing_key(self) -> bytes: ...

    @property
    def content(self) -> int: ...

    @property
    def size(self) -> int: ...


class Message(NamedTuple):
    """A message as it is stored. `at` is the offset of `raw` in the data."""

    at: int
    routing_key: bytes
    raw: bytes


def messages_of(data: bytes, run: Run) -> Iterator[Message]:
    """The messages of a run in the data. Raises MalformedError."""
    at, own = run.content, bool(run.flags & OWN_METHODS)
    key, skip = run.routing_key, run.skip
    for number in range(run.messages if run.size else 0):
        length = run.stride if run.lengths is None else run.lengths[number]
        if own:
            key, skip = amqp091.own_key(data[at : at + length])
        if skip > length:
            raise MalformedError(at, f"a message of {length} octets, {skip} of which are to be skipped")
        yield Message(at + skip, key, data[at + skip : at + length])
        at += length


def raws_of(data: bytes, run: Run) -> list[bytes]:
    """The messages of a run, each as `Message.raw`. Raises MalformedError."""
    if run.flags & OWN_METHODS or not run.size:
        return [one.raw for one in messages_of(data, run)]
    at, skip, found = run.content, run.skip, []
    lengths = [run.stride] * run.messages if run.lengths is None else run.lengths
    if skip > min(lengths):
        raise MalformedError(at, f"a message of {min(lengths)} octets, {skip} of which are to be skipped")
    for length in lengths:
        found.append(data[at + skip : at + length])
        at += length
    return found


def body_of(format: int, raw: bytes) -> bytes:
    """The body of a message. Raises MalformedError."""
    body = amqp091.only_body(raw) if format == AMQP_0_9_1 else None
    return content_of(format, raw).body if body is None else body


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
