"""How one batch of messages to a peer lies in the frames of a ZeroMQ message.

Frame 0 is the header, one u32 for each part, the route, then every small part end to end. Each part
of `OWN_FRAME` octets or more follows as a frame of its own, so that large bodies are never joined.
One frame for a turn's small messages matters: each further frame costs both sides some work of its
own, while joining small parts costs a memory copy.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

FORMAT = 1
OWN_FRAME = 32 * 1024
"""Parts of at least this many octets travel in a frame of their own."""
MAX_PART = (1 << 31) - 1
"""Largest part, in octets: the lengths are u32 whose highest bit ends a message."""

_HEADER = struct.Struct(">BQQQQQHI")
_LAST = 1 << 31


class MalformedEnvelopeError(ValueError):
    """The frames of a received batch contradict its header; the batch is dropped."""


@dataclass(init=False, slots=True)
class Envelope:
    """The header of a batch.

    `incarnation` names one run of the sending process and `sequence` counts its batches to this
    peer from 1, so that the receiver sees a loss as a hole. `seen_incarnation` and `seen_sequence`
    name the newest batch that the sender has received from the peer (0, 0: none). `window_bytes` is
    what the sender lets be unacknowledged, so that the receiver knows when to acknowledge. `route`
    names the cluster, the sender and the receiver (see `route`).
    """

    incarnation: Final[int]
    sequence: Final[int]
    seen_incarnation: Final[int]
    seen_sequence: Final[int]
    window_bytes: Final[int]
    route: Final[bytes]

    def __init__(
        self,
        incarnation: int,
        sequence: int,
        seen_incarnation: int,
        seen_sequence: int,
        window_bytes: int,
        route: bytes,
    ) -> None:
        self.incarnation = incarnation
        self.sequence = sequence
        self.seen_incarnation = seen_incarnation
        self.seen_sequence = seen_sequence
        self.window_bytes = window_bytes
        self.route = route


def route(cluster: str, sender: str, receiver: str) -> bytes:
    """The octets that name cluster, sender and receiver; a node drops batches that are not for it."""
    return "\0".join((cluster, sender, receiver)).encode()


def encode(envelope: Envelope, messages: Sequence[Sequence[bytes | memoryview]]) -> list[bytes | memoryview]:
    """The frames of one batch. Messages have at least one part each."""
    lengths: list[int] = []
    small: list[bytes | memoryview] = []
    frames: list[bytes | memoryview] = [b""]
    for parts in messages:
        for part in parts:
            size = len(part)
            lengths.append(size)
            (frames if size >= OWN_FRAME else small).append(part)
        lengths[-1] |= _LAST
    head = _HEADER.pack(
        FORMAT,
        envelope.incarnation,
        envelope.sequence,
        envelope.seen_incarnation,
        envelope.seen_sequence,
        envelope.window_bytes,
        len(envelope.route),
        len(lengths),
    )
    frames[0] = b"".join((head, struct.pack(f">{len(lengths)}I", *lengths), envelope.route, *small))
    return frames


def decode(frames: Sequence[bytes | memoryview]) -> tuple[Envelope, list[list[bytes]]]:
    """Envelope and messages of a batch; raises `MalformedEnvelopeError`.

    Small parts are copied out of the joined frame, so that keeping one never keeps them all. The octets of
    that frame need not stay as they are.
    """
    first = frames[0]
    try:
        version, incarnation, sequence, seen_incarnation, seen, window, route_size, count = (
            _HEADER.unpack_from(first)
        )
        if version != FORMAT:
            raise MalformedEnvelopeError(f"batch format {version}, this release reads {FORMAT}")
        lengths = struct.unpack_from(f">{count}I", first, _HEADER.size)
    except struct.error as error:
        raise MalformedEnvelopeError(f"truncated header: {error}") from error
    start = _HEADER.size + 4 * count
    place = start + route_size
    envelope = Envelope(incarnation, sequence, seen_incarnation, seen, window, bytes(first[start:place]))
    return envelope, _cut(frames, lengths, place)


def _cut(frames: Sequence[bytes | memoryview], lengths: Sequence[int], place: int) -> list[list[bytes]]:
    first = frames[0]
    messages: list[list[bytes]] = []
    parts: list[bytes] = []
    frame = 1
    for length in lengths:
        size = length & ~_LAST
        if size >= OWN_FRAME:
            if frame >= len(frames) or len(frames[frame]) != size:
                raise MalformedEnvelopeError(f"part of {size} octets has no frame of that size")
            parts.append(bytes(frames[frame]))
            frame += 1
        else:
            parts.append(bytes(first[place : place + size]))
            place += size
        if length & _LAST:
            messages.append(parts)
            parts = []
    if parts or place != len(first) or frame != len(frames):
        raise MalformedEnvelopeError("lengths do not add up to the frames")
    return messages
