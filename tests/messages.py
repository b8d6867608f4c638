"""Messages as clients send them: content frames with properties, and what stands in those that came back."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

from pika import BasicProperties
from pika.frame import Body, Header, decode_frame

from node.message.run import Run
from node.wire.amqp091.properties import PropertyChecks

CHANNEL = 1


def content(body: bytes, **properties: Any) -> bytes:
    """Content header and body frame of a message; properties as pika names them."""
    header: bytes = Header(CHANNEL, len(body), BasicProperties(**properties)).marshal()
    return header + (Body(CHANNEL, body).marshal() if body else b"")


def run_of(contents: Iterable[bytes], *, exchange: str = "", key: str = "q", skip: bytes = b"") -> Run:
    """A run of such contents, all of the same traits, each behind `skip`."""
    pieces = [skip + one for one in contents]
    traits = PropertyChecks().header(pieces[0][len(skip) + 7 : _frame_end(pieces[0], len(skip)) - 1]).traits
    lengths = array("I", map(len, pieces))
    return Run(
        exchange, key, CHANNEL, traits.persistent, len(pieces), len(skip), 0, lengths, max(lengths),
        b"".join(pieces), traits.special,
    )  # fmt: skip


def _frame_end(data: bytes, at: int) -> int:
    return at + 8 + int.from_bytes(data[at + 3 : at + 7], "big")


def parts(content: bytes) -> tuple[BasicProperties, bytes]:
    """Properties and body."""
    used, header = decode_frame(content)
    body = b""
    while used < len(content):
        more, frame = decode_frame(content[used:])
        body += frame.fragment
        used += more
    return header.properties, body
