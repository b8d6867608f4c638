"""Content headers (§4.2.6.1): checked when a message comes in, and decoded no further than that asks.

Properties go to the consumer as they came. They are checked all the same, so that no publisher can
send what breaks another client's decoder.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from node.wire.amqp091.errors import FieldSyntaxError, FrameError, UnexpectedFrameError
from node.wire.amqp091.fields import read_headers
from node.wire.amqp091.methods import BASIC_PROPERTIES
from node.wire.amqp091.primitives import SHORT

CLASS_BASIC: Final = 60
PERSISTENT: Final = 2
"""The delivery mode of messages that survive a restart."""

_HEADER: Final = Struct(">HHQ")
HEADER_FIXED: Final = _HEADER.size
"""Octets before the property flags: class, weight, body size."""

_MORE_FLAGS: Final = 1
_KNOWN_FLAGS: Final = sum(1 << (15 - n) for n in range(len(BASIC_PROPERTIES)))
_SIZES: Final = {"octet": 1, "timestamp": 8}
_CACHED_PROPERTIES: Final = 512
_CACHED_SIZE: Final = 256


class ContentHeader(NamedTuple):
    """What the broker has to know of a content before its body comes."""

    body_size: int
    persistent: bool


class PropertyChecks:
    """Checks property lists, and remembers those that it has seen: publishers repeat themselves."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[bytes, bool] = {}

    def persistent(self, properties: bytes) -> bool:
        """Whether the delivery mode among these flags and values is persistent.

        Raises FieldSyntaxError when they are not a property list.
        """
        found = self._seen.get(properties)
        if found is None:
            found = check_properties(properties)
            if len(properties) <= _CACHED_SIZE:
                if len(self._seen) >= _CACHED_PROPERTIES:
                    self._seen.clear()
                self._seen[properties] = found
        return found

    def header(self, payload: bytes) -> ContentHeader:
        """Check the payload of a content header frame.

        Raises FrameError for a class other than basic, UnexpectedFrameError for any other weight
        than zero or a header that is cut short, FieldSyntaxError for its properties.
        """
        if len(payload) < HEADER_FIXED + 2:
            raise UnexpectedFrameError("a content header is cut short")
        class_id, weight, body_size = _HEADER.unpack_from(payload)
        if class_id != CLASS_BASIC:
            raise FrameError(f"a content header of class {class_id} after basic.publish")
        if weight:
            raise UnexpectedFrameError("the weight of a content header must be zero")
        return ContentHeader(body_size, self.persistent(payload[HEADER_FIXED:]))


def check_properties(data: bytes) -> bool:
    """Walk property flags and values; returns whether the message is persistent.

    Raises FieldSyntaxError for flags that class basic does not define and values that are ill-formed.
    """
    try:
        (flags,) = SHORT.unpack_from(data)
        at = 2
        more = flags & _MORE_FLAGS
        while more:
            (further,) = SHORT.unpack_from(data, at)
            at += 2
            more = further & _MORE_FLAGS
            if further & ~_MORE_FLAGS:
                raise FieldSyntaxError("property flags of no property of class basic")
        if flags & ~(_KNOWN_FLAGS | _MORE_FLAGS):
            raise FieldSyntaxError("property flags of no property of class basic")
        persistent = False
        for number, (name, kind) in enumerate(BASIC_PROPERTIES):
            if flags & (1 << (15 - number)):
                if name == "delivery_mode":
                    persistent = data[at] == PERSISTENT
                at = _behind(data, at, kind)
    except (StructError, IndexError):
        raise FieldSyntaxError("a property list is cut short") from None
    if at != len(data):
        raise FieldSyntaxError("a property list is too long or cut short")
    return persistent


def _behind(data: bytes, at: int, kind: str) -> int:
    """The position behind a value. Short strings may hold any octets: applications put ids into them."""
    if kind == "shortstr":
        return at + 1 + data[at]
    if kind == "table":
        return read_headers(data, at)[1]
    return at + _SIZES[kind]
