"""The errors of the codec of AMQP 1.0. The type of an exception states the error condition that the peer is
told (part 2, section 2.8), and the endpoint that the error ends.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar


class Ends(Enum):
    """The endpoint that an error ends, with all that is inside."""

    CONNECTION = "connection"
    SESSION = "session"
    LINK = "link"


class WireError(Exception):
    """The octets of a peer break the protocol. `str(error)` is the description that the peer is told."""

    condition: ClassVar[str]
    ends: ClassVar[Ends]


class FrameBoundsError(WireError):
    """The octets are no frames: the size, the data offset or the type of a frame is wrong (section 2.3.1)."""

    condition = "amqp:connection:framing-error"
    ends = Ends.CONNECTION


class FrameTooLargeError(FrameBoundsError):
    """The frame is larger than its receiver accepts (section 2.7.1)."""


class FrameSizeTooSmallError(WireError):
    """The server's performative does not fit into the largest frame that the peer accepts."""

    condition = "amqp:frame-size-too-small"
    ends = Ends.CONNECTION


class ValueSyntaxError(WireError):
    """The octets are no value of the type system, or not the value that stands here."""

    condition = "amqp:decode-error"
    ends = Ends.CONNECTION


class FieldChoiceError(WireError):
    """The value of a field is none of its type's choices."""

    condition = "amqp:invalid-field"
    ends = Ends.CONNECTION


class ValueBoundsError(WireError):
    """A value is nested deeper, or has more parts, than the server decodes."""

    condition = "amqp:resource-limit-exceeded"
    ends = Ends.CONNECTION


class SectionError(WireError):
    """The sections of a message break the message format (part 3, section 3.2). Other links go on."""

    condition = "amqp:decode-error"
    ends = Ends.LINK


class SectionBoundsError(SectionError):
    """The message has more sections than the server looks through."""

    condition = "amqp:resource-limit-exceeded"
