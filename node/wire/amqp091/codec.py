"""Frames around methods and contents, both ways (§4.2.3 to §4.2.6)."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final

from node.wire.amqp091.errors import FieldSyntaxError, UnsupportedError
from node.wire.amqp091.methods import (
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    METHODS,
)
from node.wire.amqp091.primitives import LONG, Method

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
bodies
into payloads of frame-max octets. The server's frames never exceed the agreed size.
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
