"""Encodes contents of AMQP 0-9-1: a content header frame and content body frames (sections 2.3.5 and
4.2.6).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import Any, Final

CHANNEL: Final = 1
"""The channel number of encoded frames."""

BODY_FRAME_OCTETS: Final = 128 * 1024 - 8
"""The largest payload of an encoded body frame: most clients take such frames."""

PERSISTENT: Final = 2

_FRAME: Final = Struct(">BHI")
_HEADER: Final = Struct(">HHQ")
_HEADER_FRAME, _BODY_FRAME, _BASIC = 2, 3, 60
END: Final = b"\xce"
"""The last octet of each frame."""

HEADER_OCTETS: Final = _HEADER.size
"""The octets of the payload of a content header frame in front of the property list."""

CONTENT_HEAD: Final = _FRAME.pack(_HEADER_FRAME, CHANNEL, 0) + _HEADER.pack(_BASIC, 0, 0)
BODY_HEAD: Final = _FRAME.pack(_BODY_FRAME, CHANNEL, 0)
"""The octets in front of a property list, and in front of a body, with 0 for both sizes."""

FRAME_SIZE_AT: Final = 3
BODY_SIZE_AT: Final = _FRAME.size + 4
"""Where the sizes stand in them: of the frame's payload in four octets, of the body in eight."""

_LONG: Final = Struct(">I")
_TIME: Final = Struct(">Q")
_SHORT_MOST: Final = 255
_REMEMBERED: Final = 1024

_FIELDS: Final = (
    ("content_type", 15), ("content_encoding", 14), ("headers", 13), ("delivery_mode", 12), ("priority", 11),
    ("correlation_id", 10), ("reply_to", 9), ("expiration", 8), ("message_id", 7), ("timestamp", 6),
    ("type", 5), ("user_id", 4), ("app_id", 3), ("cluster_id", 2),
)  # fmt: skip
"""The properties in their order, with the bits of their flags."""

ENCODED_PROPERTIES: Final = tuple(name for name, _ in _FIELDS if name != "headers")
_OCTETS: Final = frozenset(("delivery_mode", "priority"))


class UnfitError(ValueError):
    """A message cannot be encoded: the text says why."""


def encode_properties(properties: Mapping[str, Any], headers: Mapping[str, str | None] | None) -> bytes:
    """A property list; values that are None are left out. A message is persistent unless its `delivery_mode`
    says otherwise. Raises UnfitError.
    """
    given = {name: value for name, value in properties.items() if value is not None}
    given.setdefault("delivery_mode", PERSISTENT)
    flags, parts = 0, list[bytes]()
    for name, bit in _FIELDS:
        value = headers if name == "headers" else given.pop(name, None)
        if value is not None:
            flags |= 1 << bit
            parts.append(_table(value) if name == "headers" else _value(name, value))
    if given:
        raise UnfitError(f"AMQP 0-9-1 has no property {min(given)}")
    return flags.to_bytes(2, "big") + b"".join(parts)


def _value(name: str, value: Any) -> bytes:
    try:
        if name in _OCTETS:
            return bytes((value,))
        return _TIME.pack(value) if name == "timestamp" else _short(value)
    except UnfitError as error:
        raise UnfitError(f"the property {name} is {error}") from None
    except (ValueError, StructError, TypeError):
        raise UnfitError(f"the property {name} cannot be {value!r}") from None


def _short(text: str) -> bytes:
    octets = text.encode("utf-8")
    if len(octets) > _SHORT_MOST:
        raise UnfitError(f"a text of {len(octets)} octets; {_SHORT_MOST} are allowed")
    return bytes((len(octets),)) + octets


def _table(headers: Mapping[str, str | None]) -> bytes:
    parts = list[bytes]()
    for name, value in headers.items():
        parts.append(_short(name))
        if value is None:
            parts.append(b"V")
        else:
            octets = value.encode("utf-8")
            parts += (b"S", _LONG.pack(len(octets)), octets)
    table = b"".join(parts)
    return _LONG.pack(len(table)) + table


def encode_content(properties: bytes, body: bytes) -> bytes:
    """The frames of a message with an encoded property list."""
    if 0 < len(body) <= BODY_FRAME_OCTETS:
        return b"".join((_heads(properties, len(body)), body, END))
    header = _HEADER.pack(_BASIC, 0, len(body)) + properties
    parts = [_FRAME.pack(_HEADER_FRAME, CHANNEL, len(header)), header, END]
    for at in range(0, len(body), BODY_FRAME_OCTETS):
        piece = body[at : at + BODY_FRAME_OCTETS]
        parts += (_FRAME.pack(_BODY_FRAME, CHANNEL, len(piece)), piece, END)
    return b"".join(parts)


@lru_cache(_REMEMBERED)
def _heads(properties: bytes, length: int) -> bytes:
    """The octets in front of a body that one frame has: most messages repeat them."""
    header = _HEADER.pack(_BASIC, 0, length) + properties
    frames = _FRAME.pack(_HEADER_FRAME, CHANNEL, len(header)), _FRAME.pack(_BODY_FRAME, CHANNEL, length)
    return b"".join((frames[0], header, END, frames[1]))


def channel_of(raw: bytes) -> int:
    """The channel number of the frames of a message. Raises UnfitError."""
    if len(raw) < _FRAME.size:
        raise UnfitError("a message that is cut short")
    channel: int = _FRAME.unpack_from(raw)[1]
    return channel
