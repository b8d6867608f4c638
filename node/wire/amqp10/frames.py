"""Cuts octets into frames, and puts frames around performatives (part 2, section 2.3).

Payloads stay where they are: a frame that comes in has the place of its payload in the octets that were read,
and a frame that goes out is a list of buffers. A frame that comes in several reads is joined first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import Final, TypeAlias

from node.wire.amqp10.composite import Composite
from node.wire.amqp10.definitions import (
    FRAMES,
    MIN_MAX_FRAME_SIZE,
    SASL_FRAMES,
    Disposition,
    Transfer,
    read_composite,
)
from node.wire.amqp10.disposition_rows import with_followers
from node.wire.amqp10.errors import (
    FrameBoundsError,
    FrameSizeTooSmallError,
    FrameTooLargeError,
    ValueSyntaxError,
    WireError,
)
from node.wire.amqp10.transfer_rows import TransferRow, TransferShape, row_at, shape_of

_HEAD: Final = Struct(">IBBH")
"""Size, data offset in words of four octets, type, and channel."""

_HEAD_OCTETS: Final = 8
# The members of FrameType, as numbers that compiled code needs not look up for each frame.
_AMQP: Final = 0
_SASL: Final = 1
_MAGIC: Final = 0x414D5150
"""`AMQP`. A frame of this size would have more than a gigabyte."""

MAX_MAX_FRAME_SIZE: Final = 1 << 30

FRAMES_AT_ONCE: Final = 512
"""So many frames are cut from the input at once: a peer can send thousands of empty ones in one piece."""

EMPTY_FRAME: Final = _HEAD.pack(_HEAD_OCTETS, 2, 0, 0)
"""A frame without performative, which says only that its sender lives (section 2.4.5)."""


class FrameType(IntEnum):
    AMQP = 0
    SASL = 1


class ProtocolId(IntEnum):
    """The layer that a protocol header asks for (section 2.2, part 5)."""

    AMQP = 0
    TLS = 2
    SASL = 3


class ProtocolHeader:
    """The eight octets in front of the frames of a layer."""

    __slots__ = ("major", "minor", "protocol_id", "revision")

    def __init__(self, protocol_id: int, major: int = 1, minor: int = 0, revision: int = 0) -> None:
        self.protocol_id = protocol_id
        self.major = major
        self.minor = minor
        self.revision = revision

    @property
    def known(self) -> bool:
        """Whether the header is one of AMQP 1.0.0."""
        version = (self.major, self.minor, self.revision)
        return version == (1, 0, 0) and self.protocol_id in (ProtocolId.AMQP, ProtocolId.TLS, ProtocolId.SASL)

    def encode(self) -> bytes:
        return b"AMQP" + bytes((self.protocol_id, self.major, self.minor, self.revision))


class Frame:
    """A frame that came in: the octets of `data` from `begin` to `end`; the payload begins at `start`.

    `performative` is None for an empty frame. The channel of a SASL frame has no meaning.
    """

    __slots__ = ("begin", "channel", "data", "end", "kind", "performative", "start")

    def __init__(
        self,
        kind: int,
        channel: int,
        performative: Composite | None,
        data: bytes,
        begin: int,
        start: int,
        end: int,
    ) -> None:
        self.kind: Final = kind
        self.channel: Final = channel
        self.performative: Final = performative
        self.data: Final = data
        self.begin: Final = begin
        self.start: Final = start
        self.end: Final = end

    @property
    def payload(self) -> memoryview:
        return memoryview(self.data)[self.start : self.end]


Received: TypeAlias = "Frame | TransferRow | ProtocolHeader"


class FrameParser:
    """Cuts the octets of one connection into frames and protocol headers.

    A protocol header may stand wherever a frame may: clients send the header of AMQP right behind their SASL
    frames. The session decides whether a header may stand there.
    """

    __slots__ = ("_held", "_max_frame_size", "_needed", "_rows", "_shape", "failure", "unfinished")

    def __init__(self, max_frame_size: int = MIN_MAX_FRAME_SIZE, *, rows: bool = False) -> None:
        """The largest frame has `max_frame_size` octets, 512 before the connection agrees on another size.
        `rows`: transfers that are alike come as rows, and dispositions that continue each other as one.
        """
        self._rows = rows
        self._shape: TransferShape | None = None
        """The shape of the last transfer."""
        self._held = bytearray()
        self._needed = _HEAD_OCTETS
        self._max_frame_size = MIN_MAX_FRAME_SIZE
        self.failure: WireError | None = None
        self.unfinished = False
        """Whether further frames are complete, because `receive` returns at most FRAMES_AT_ONCE."""
        self.accept(max_frame_size)

    def accept(self, max_frame_size: int) -> None:
        """From now on take frames of up to `max_frame_size` octets, from 512 to 1 GiB. Raises ValueError."""
        if not MIN_MAX_FRAME_SIZE <= max_frame_size <= MAX_MAX_FRAME_SIZE:
            raise ValueError(f"{max_frame_size} is no size for the largest frame")
        self._max_frame_size = max_frame_size

    @property
    def held(self) -> int:
        """Octets of a frame that is not complete."""
        return len(self._held)

    def receive(self, data: bytes) -> list[Received]:
        """The frames that are complete with `data`, at most FRAMES_AT_ONCE.

        Where the octets break the protocol `failure` is set, after the frames in front of these octets were
        returned. All later octets are ignored.
        """
        if self.failure is not None:
            return []
        if self._held:
            self._held += data
            if len(self._held) < self._needed and not self.unfinished:
                return []
            data = bytes(self._held)
            self._held = bytearray()
        found: list[Received] = []
        at = 0
        try:
            at = self._cut(data, found)
        except WireError as error:
            self.failure = error
        except (IndexError, StructError):
            self.failure = ValueSyntaxError("a performative is cut short")
        if self.failure is None and at < len(data):
            self._held += data[at:]
        return found

    def _cut(self, data: bytes, found: list[Received]) -> int:
        """Append the complete frames of `data`; return the position behind them. Raises WireError."""
        at, end = 0, len(data)
        self.unfinished = False
        while end - at >= _HEAD_OCTETS:
            if len(found) == FRAMES_AT_ONCE:
                self.unfinished = True
                break
            if self._shape is not None:
                row = row_at(self._shape, data, at, end, self._max_frame_size)
                if row is not None:
                    found.append(row)
                    at = row.end
                    continue
            size, offset, kind, channel = _HEAD.unpack_from(data, at)
            stop: int = at + size
            if size > self._max_frame_size:
                if size != _MAGIC:
                    raise FrameTooLargeError(f"a frame of {size} octets; {self._max_frame_size} are agreed")
                stop = at + _HEAD_OCTETS
                found.append(ProtocolHeader(data[at + 4], data[at + 5], data[at + 6], data[at + 7]))
                at = stop
                continue
            body: int = at + offset * 4
            if offset < 2 or body > stop or kind > _SASL:
                raise FrameBoundsError(f"a frame of {size} octets, type {kind}, with data offset {offset}")
            if stop > end:
                self._needed = size
                return at
            frame = _frame(kind, channel, data, at, body, stop)
            if self._rows:
                frame = self._looked_at(frame, end)
            found.append(frame)
            at = frame.end
        self._needed = _HEAD_OCTETS
        return at

    def _looked_at(self, frame: Frame, end: int) -> Frame:
        """The frame, with the dispositions that continue it. Remembers the shape of a transfer."""
        performative, data, begin = frame.performative, frame.data, frame.begin
        if isinstance(performative, Transfer):
            self._shape = shape_of(performative, data, begin, frame.start)
        elif isinstance(performative, Disposition):
            joint, stop = with_followers(performative, data, begin, frame.end, end)
            if stop > frame.end:
                return Frame(_AMQP, frame.channel, joint, data, begin, stop, stop)
        return frame


def _frame(kind: int, channel: int, data: bytes, begin: int, at: int, end: int) -> Frame:
    """The frame from `begin` on whose body stands from `at` to `end`. Raises WireError, IndexError and
    struct.error.
    """
    if at == end:
        if kind:
            raise FrameBoundsError("a SASL frame is empty")
        return Frame(kind, channel, None, data, begin, at, end)
    readers = SASL_FRAMES if kind else FRAMES
    reader, start = None, end
    # A performative of up to 255 octets with its descriptor in the shortest encoding: nearly each there is.
    if end - at > 5 and data[at] == 0 and data[at + 1] == 0x53 and data[at + 3] == 0xC0:
        reader, start = readers.get(data[at + 2]), at + 5 + data[at + 4]
    if reader is not None and start <= end:
        performative = reader(data, at + 6, start, data[at + 5])
    else:
        performative, start = read_composite(data, at, end, readers)
    if start < end and not isinstance(performative, Transfer):
        raise ValueSyntaxError(f"{end - start} octets behind a performative that has no payload")
    return Frame(kind, channel, performative, data, begin, start, end)


def frames_of(row: TransferRow) -> Iterator[Frame]:
    """The frames of a row."""
    at, data = row.begin, row.data
    for length in row.lengths:
        yield _frame(_AMQP, row.channel, data, at, at + _HEAD_OCTETS, at + length)
        at += length


def frame_buffers(
    channel: int,
    performative: Composite,
    payload: Sequence[bytes | memoryview] = (),
    max_frame_size: int = MIN_MAX_FRAME_SIZE,
) -> list[bytes | memoryview]:
    """The frame, as buffers to be sent one behind the other: the last ones are those of the payload.

    `channel` is at most 65,535.

    Raises FrameSizeTooSmallError where the frame is larger than the peer accepts, and ValueError for a field
    that its type cannot hold.
    """
    body = performative.encode()
    size = _HEAD_OCTETS + len(body)
    for part in payload:
        size += len(part)
    if size > max_frame_size:
        raise FrameSizeTooSmallError(f"a frame of {size} octets; {max_frame_size} are agreed")
    kind = _SASL if performative.CODE in SASL_FRAMES else _AMQP
    return [_HEAD.pack(size, 2, kind, channel) + body, *payload]
