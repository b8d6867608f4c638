"""Frames around methods and contents, both ways (§4.2.3 to §4.2.6).

The messages of a run are encoded for a client as basic.deliver, basic.get-ok or basic.return with contents.
The content frames are sent as they came. Only the channel number is changed where the publisher used another
one, and body frames are cut again where they are larger than this client accepts.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from struct import Struct, iter_unpack
from struct import error as StructError
from typing import Final

from node.message.run import Run
from node.wire.amqp091.errors import FieldSyntaxError, UnsupportedError
from node.wire.amqp091.methods import (
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    METHODS,
    BasicDeliver,
)
from node.wire.amqp091.native import NATIVE_DELIVERIES
from node.wire.amqp091.primitives import LONG, LONGLONG, SHORT, Method, encode_shortstr
from node.wire.amqp091.routing_keys import by_key

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
"""The protocol header that a client sends first, and the server's answer to any other octets (§4.2.2)."""

ACCEPTED_HEADERS: Final = (
    PROTOCOL_HEADER,
    b"AMQP\x01\x01\x00\x09",
    b"AMQP\x01\x01\x08\x00",
    b"AMQP\x01\x01\x09\x01",
)
"""Some clients of 0-9-1 still send the numbers of 0-9 or 0-8, or numbers of their own. RabbitMQ
accepts them.
"""

FRAME: Final = Struct(">BHI")
"""Type, channel and size of the payload; the payload and the end octet follow."""

FRAME_OVERHEAD: Final = FRAME.size + 1
FRAME_SLACK: Final = FRAME_OVERHEAD
"""A client's frames may be so many octets longer than agreed (§4.2.3), as RabbitMQ allows: some clients cut
bodies into payloads of frame-max octets. The server's frames never exceed the agreed size.
"""

END: Final = bytes((FRAME_END,))
FRAME_TYPES: Final = frozenset((FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT))
HEARTBEAT: Final = FRAME.pack(FRAME_HEARTBEAT, 0, 0) + END

_METHOD: Final = Struct(">BHIHH")


def decode_method(payload: bytes) -> Method:
    """The method in the payload of a method frame.

    Raises UnsupportedError for a class or method that the protocol does not have, FieldSyntaxError
    for arguments that are cut short, ill-formed, or followed by more octets.
    """
    if len(payload) < 4:
        raise FieldSyntaxError("a method frame is cut short")
    (method_id,) = LONG.unpack_from(payload)
    kind = METHODS.get(method_id)
    ids = (method_id >> 16, method_id & 0xFFFF)
    if kind is None:
        raise UnsupportedError(f"there is no method {ids[1]} of class {ids[0]}", ids)
    try:
        method, at = kind.decode_arguments(payload, 4)
    except (StructError, IndexError):
        raise FieldSyntaxError(f"{kind.__doc__} is cut short", ids) from None
    except FieldSyntaxError as error:
        raise FieldSyntaxError(f"{kind.__doc__}: {error}", ids) from None
    if at != len(payload):
        raise FieldSyntaxError(f"{kind.__doc__} has {len(payload) - at} octets too many or few", ids)
    decoded: Method = method
    return decoded


def encode_method(channel: int, method: Method) -> bytes:
    """The method frame."""
    arguments = method.encode_arguments()
    size = len(arguments) + 4
    return _METHOD.pack(FRAME_METHOD, channel, size, method.CLASS_ID, method.METHOD_ID) + arguments + END


def encode_frame(kind: int, channel: int, payload: bytes | memoryview) -> bytes:
    return b"".join((FRAME.pack(kind, channel, len(payload)), payload, END))


_TAG_BYTES = LONGLONG.size

_NO_KEY: Final = b"\0" + END
"""An empty routing key at the end of a method frame."""


def encode_deliveries(
    channel: int, consumer_tag: str, first_tag: int, redelivered: bool, run: Run, frame_max: int
) -> bytes | bytearray:
    """The messages of the run as basic.deliver with their contents, with delivery tags from `first_tag` on.
    No body frame exceeds `frame_max` octets.
    """
    if run.routing_key is None:
        return _encode_with_keys(channel, consumer_tag, first_tag, redelivered, run, frame_max)
    before, after = _deliver_frame(channel, consumer_tag, redelivered, run.exchange, run.routing_key)
    if NATIVE_DELIVERIES is not None and run.largest_frame <= frame_max:
        return NATIVE_DELIVERIES(run.raw, run.skip, run.each_length(), before, after, first_tag, channel)
    tags = range(first_tag, first_tag + run.count)
    raw = _uniform_raw(run, channel, frame_max)
    if raw is None:
        pack = LONGLONG.pack
        return b"".join(
            [
                piece
                for tag, content in zip(tags, contents(run, channel, frame_max), strict=True)
                for piece in (before, pack(tag), after, content)
            ]
        )
    length = run.stride - run.skip
    record = _record(len(before), len(after), length)
    encoded = bytearray(record.size * run.count)
    pack_into, size, position = record.pack_into, record.size, 0
    for tag, (content,) in zip(tags, iter_unpack(f"{run.skip}x{length}s", raw), strict=True):
        pack_into(encoded, position, before, tag, after, content)
        position += size
    return encoded


def _encode_with_keys(
    channel: int, consumer_tag: str, first_tag: int, redelivered: bool, run: Run, frame_max: int
) -> bytes:
    """As `encode_deliveries`, for a run whose messages state their routing keys."""
    if NATIVE_DELIVERIES is not None and run.lengths is not None and run.largest_frame <= frame_max:
        before, after = _deliver_frame(channel, consumer_tag, redelivered, run.exchange, "")
        after = after[: -len(_NO_KEY)]
        return NATIVE_DELIVERIES(run.raw, run.skip, run.lengths, before, after, first_tag, channel)
    parts: list[bytes | bytearray] = []
    for _, piece in by_key(run):
        parts.append(encode_deliveries(channel, consumer_tag, first_tag, redelivered, piece, frame_max))
        first_tag += piece.count
    return b"".join(parts)


def encode_contents(channel: int, method: Method, run: Run, frame_max: int) -> bytes:
    """The messages of the run, each behind the same method frame: basic.get-ok or basic.return."""
    frame = encode_method(channel, method)
    return b"".join([piece for content in contents(run, channel, frame_max) for piece in (frame, content)])


def contents(run: Run, channel: int, frame_max: int) -> Iterator[bytes]:
    """The content frames of each message, for `channel`, none longer than `frame_max` octets."""
    raw = _uniform_raw(run, channel, frame_max)
    if raw is not None:
        return (content for (content,) in iter_unpack(f"{run.skip}x{run.stride - run.skip}s", raw))
    if run.largest_frame > frame_max:
        return (_recut(content, channel, frame_max) for content in run.contents())
    if run.channel != channel:
        return (_moved(content, channel) for content in run.contents())
    return run.contents()


@lru_cache(maxsize=1024)
def _deliver_frame(
    channel: int, consumer_tag: str, redelivered: bool, exchange: str, routing_key: str
) -> tuple[bytes, bytes]:
    """The parts of a basic.deliver frame before and behind its delivery tag."""
    frame = encode_method(channel, BasicDeliver(consumer_tag, 0, redelivered, exchange, routing_key))
    cut = FRAME.size + 4 + len(encode_shortstr(consumer_tag))
    return frame[:cut], frame[cut + _TAG_BYTES :]


@lru_cache(maxsize=256)
def _record(before: int, after: int, length: int) -> Struct:
    """One delivery: the method frame around its tag, and the content frames."""
    return Struct(f">{before}sQ{after}s{length}s")


def _uniform_raw(run: Run, channel: int, frame_max: int) -> bytes | memoryview | bytearray | None:
    """The octets of a run with a stride, with the number of `channel`; None where messages need work one by
    one.
    """
    if run.lengths is not None or run.largest_frame > frame_max:
        return None
    return run.raw if run.channel == channel else _moved_uniform(run, channel)


def _moved_uniform(run: Run, channel: int) -> bytearray | None:
    """Change the channel number in all messages at once, column by column.

    That is possible where the messages' frames lie at the same offsets: each frame header must have
    the same type and size octets in every message.
    """
    raw = bytearray(run.raw)
    high, low = SHORT.pack(channel)
    at = run.skip
    while at < run.stride:
        kind, _, size = FRAME.unpack_from(raw, at)
        header = FRAME.pack(kind, run.channel, size)
        for offset, octet in enumerate(header):
            if raw[at + offset :: run.stride] != bytes((octet,)) * run.count:
                return None
        raw[at + 1 :: run.stride] = bytes((high,)) * run.count
        raw[at + 2 :: run.stride] = bytes((low,)) * run.count
        at += size + FRAME_OVERHEAD
    return raw


def _frames(content: bytes) -> Iterator[tuple[int, int, int]]:
    """Type, start and end of each frame."""
    at = 0
    while at < len(content):
        kind, _, size = FRAME.unpack_from(content, at)
        end = at + size + FRAME_OVERHEAD
        yield kind, at, end
        at = end


def _moved(content: bytes, channel: int) -> bytes:
    """The same frames with another channel number."""
    moved = bytearray(content)
    number = SHORT.pack(channel)
    for _, start, _ in _frames(content):
        moved[start + 1 : start + 3] = number
    return bytes(moved)


def _recut(content: bytes, channel: int, frame_max: int) -> bytes:
    """The same content with body frames of at most `frame_max` octets (§4.2.6.2)."""
    frames = list(_frames(content))
    kind, start, end = frames[0]
    header = content[start + FRAME.size : end - 1]
    body = b"".join([content[start + FRAME.size : end - 1] for _, start, end in frames[1:]])
    room = frame_max - FRAME_OVERHEAD
    parts: list[bytes] = [FRAME.pack(kind, channel, len(header)), header, END]
    for at in range(0, len(body), room):
        piece = body[at : at + room]
        parts += (FRAME.pack(FRAME_BODY, channel, len(piece)), piece, END)
    return b"".join(parts)
