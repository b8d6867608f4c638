"""ZMTP 3.1, what ZeroMQ speaks on a connection (https://rfc.zeromq.org/spec/37/). Pure.

A connection begins with a greeting of each side, which names the security mechanism; commands of the
mechanism follow until both sides are ready; then come messages of one or more frames, with heartbeats
between them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

GREETING_BYTES: Final = 64
KEPT_BYTES: Final = 2 << 20
"""A reader keeps room of this size for frames that arrive in pieces; longer ones get room for themselves."""

MORE: Final = 1
"""Flag of a frame after which the same message has another one."""
_LONG: Final = 2
COMMAND: Final = 4
_RESERVED: Final = 0xF8

_SIGNATURE: Final = b"\xff\0\0\0\0\0\0\0\0\x7f"
_GREETING: Final = struct.Struct(">10sBB20sB31x")
_SHORT_HEADER: Final = struct.Struct(">BB")
_LONG_HEADER: Final = struct.Struct(">BQ")
_METADATA_VALUE: Final = struct.Struct(">I")


class ProtocolError(Exception):
    """The other side breaks the protocol, or speaks another one; the connection cannot go on."""


class RefusedError(ProtocolError):
    """The other side has refused this node with an ERROR command."""


class StrangerError(ProtocolError):
    """The other side may not connect, and is told so."""


def greeting(mechanism: str, as_server: bool) -> bytes:
    return _GREETING.pack(_SIGNATURE, 3, 1, mechanism.encode(), as_server)


def check_greeting(octets: bytes, mechanism: str) -> None:
    """Raises ProtocolError unless the other side speaks ZMTP 3 and the same mechanism."""
    signature, major, _, named, _ = _GREETING.unpack(octets)
    if signature[0] != 0xFF or signature[9] != 0x7F or major < 3:
        raise ProtocolError("the other side speaks another protocol")
    theirs = named.rstrip(b"\0").decode("ascii", "replace")
    if theirs != mechanism:
        raise ProtocolError(f"the other side has other keys or none: it speaks {theirs}, not {mechanism}")


def header(size: int, flags: int = 0) -> bytes:
    """The head before the octets of a frame."""
    return _SHORT_HEADER.pack(flags, size) if size < 256 else _LONG_HEADER.pack(flags | _LONG, size)


def command(name: bytes, data: bytes = b"") -> bytes:
    """The octets of a command's frame, without the header."""
    return bytes((len(name),)) + name + data


def split_command(body: bytes) -> tuple[bytes, bytes]:
    """Name and data of a command; raises ProtocolError."""
    if not body or len(body) <= body[0]:
        raise ProtocolError("a command without a name")
    return body[1 : 1 + body[0]], body[1 + body[0] :]


def metadata(socket_type: str, more: Mapping[bytes, bytes] = MappingProxyType({})) -> bytes:
    """The one property that each side has to tell of its socket, and more of them."""
    properties = {b"Socket-Type": socket_type.encode(), **more}
    return b"".join(
        bytes((len(name),)) + name + _METADATA_VALUE.pack(len(value)) + value
        for name, value in properties.items()
    )


def check_metadata(octets: bytes, socket_type: str) -> dict[bytes, bytes]:
    """The properties, by names in lower case.

    Raises ProtocolError unless the other side's socket is of this type.
    """
    place, found = 0, dict[bytes, bytes]()
    try:
        while place < len(octets):
            start = place + 1 + octets[place]
            [size] = _METADATA_VALUE.unpack_from(octets, start)
            value = start + _METADATA_VALUE.size
            # Names are compared without regard to case (ZMTP 3.1, "metadata").
            found[octets[place + 1 : start].lower()] = octets[value : value + size]
            place = value + size
    except struct.error as error:
        raise ProtocolError("metadata is cut short") from error
    if place != len(octets) or found.get(b"socket-type") != socket_type.encode():
        raise ProtocolError(f"the other side's socket is no {socket_type}")
    return found


class ZmtpFrameReader:
    """Cuts the input into frames; holds at most one frame that is not complete."""

    __slots__ = ("_flags", "_frame", "_head", "_missing", "_size", "limit")

    def __init__(self, limit_bytes: int) -> None:
        """A frame of more than `limit_bytes` is a ProtocolError."""
        self.limit = limit_bytes
        self._head = b""
        self._flags = 0
        self._size = 0
        self._missing = 0
        self._frame = memoryview(bytearray())
        """Room for one frame at least as long as that which is not complete."""

    def rest(self) -> memoryview:
        """Where the missing octets of a frame may be received to, so that they are not copied there."""
        return self._frame[self._size - self._missing : self._size]

    def feed(self, octets: memoryview, placed: int = 0) -> Iterator[tuple[int, memoryview]]:
        """Each frame that is complete now: flags without the one for the length, and octets.

        `placed` octets that come before these are in `rest()` already. The octets of a frame are there until
        the next frame is asked for. `limit` may be changed from one frame to the next. Raises ProtocolError.
        """
        if self._missing:
            self._missing -= placed
            taken = self._place(octets)
            octets = octets[taken:]
            if self._missing:
                return
            yield self._flags, self._frame[: self._size]
            if len(self._frame) > KEPT_BYTES:
                self._frame = memoryview(bytearray())
            self._size = 0
        if self._head:
            octets = memoryview(self._head + octets)
            self._head = b""
        place, end = 0, len(octets)
        while place < end:
            flags = octets[place]
            start = place + (9 if flags & _LONG else 2)
            if start > end:
                break
            size = _LONG_HEADER.unpack_from(octets, place)[1] if flags & _LONG else octets[place + 1]
            if flags & _RESERVED or size > self.limit:
                raise ProtocolError(f"a frame of {size} octets with flags {flags}, of {self.limit} at most")
            place = start + size
            if place > end:
                self._begin(flags & ~_LONG, size)
                self._place(octets[start:])
                return
            yield flags & ~_LONG, octets[start:place]
        self._head = bytes(octets[place:])

    def _begin(self, flags: int, size: int) -> None:
        self._flags, self._size, self._missing = flags, size, size
        if size > len(self._frame):
            self._frame = memoryview(bytearray(max(size, min(2 * len(self._frame), KEPT_BYTES))))

    def _place(self, octets: memoryview) -> int:
        """How many of the octets belong to the frame that is not complete; it has them now."""
        start = self._size - self._missing
        part = octets[: self._missing]
        self._frame[start : start + len(part)] = part
        self._missing -= len(part)
        return len(part)
