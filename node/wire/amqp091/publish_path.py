"""The hot path: basic.publish frames with their content, taken many at a time.

A publisher mostly repeats the same method frame, and often the same content header. Three shapes are
recognised, from the position of a publish method on:

- identical prefixes: method, content header and body frame header are octet for octet those of the
  message before. Found by comparing columns: octet i of every message is one strided slice, so the
  work for each message is done in C. The result is one uniform run, a single slice of the input.
- identical methods: contents of one body frame each, of any size, with properties of equal
  traits. A loop over the messages; the result is one run with lengths.
- anything else is left to the frame-by-frame path in `channel`, with which both agree.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

from node.message.run import Run
from node.wire.amqp091.codec import FRAME, FRAME_OVERHEAD, FRAME_SLACK, decode_method
from node.wire.amqp091.errors import FieldSyntaxError, ProtocolException, UnsupportedError
from node.wire.amqp091.methods import FRAME_BODY, FRAME_END, FRAME_HEADER, BasicPublish
from node.wire.amqp091.primitives import LONG, LONGLONG, SHORT
from node.wire.amqp091.properties import CLASS_BASIC, HEADER_FIXED, PropertyChecks, Traits

PUBLISH_IDS: Final = SHORT.pack(BasicPublish.CLASS_ID) + SHORT.pack(BasicPublish.METHOD_ID)

_CONTENT: Final = Struct(">BHIHHQ")
"""Frame header and fixed part of a content header frame."""

_SIZE: Final = LONGLONG
"""The body size, right before the property flags."""

_PROPERTIES: Final = FRAME.size + HEADER_FIXED
"""Offset of the property flags in a content header frame."""

UNIFORM_FROM: Final = 8
"""Identical messages that are worth a run of their own among others of the same method."""

FEW: Final = 16
"""Identical messages that are compared one by one: the columns of fewer take longer."""

_REMEMBERED_OCTETS: Final = 256 * 1024
"""Octets that the remembered targets of a connection may take."""

TARGET_OCTETS: Final = 256
"""Octets of one target besides its two names, which are kept twice: in the frame, and as text."""


class Target(NamedTuple):
    """The fields of a basic.publish."""

    exchange: str
    routing_key: str
    mandatory: bool


class ContentPlace(NamedTuple):
    """Where a complete message with at most one body frame lies in the input."""

    properties: int
    """Position of the property flags."""
    header_end: int
    end: int
    largest_frame: int


class Published(NamedTuple):
    """Messages found at the start of the input, and the position behind them."""

    run: Run
    mandatory: bool
    end: int
    reply_here: bool


CHECKED_IN_A_RUN: Final = 64 * 1024
"""Octets of property lists not remembered, from which on a run ends: a turn takes a share of such work."""


class PublishPath:
    """Takes runs out of a connection's input. `body_max` is the largest message body it takes."""

    __slots__ = (
        "_boundaries",
        "_checks",
        "_inline_max",
        "_largest_payload",
        "_prefix",
        "_stride",
        "_targets",
        "remembered",
    )

    def __init__(self, frame_max: int, body_max: int, checks: PropertyChecks):
        self._largest_payload = frame_max - FRAME_OVERHEAD + FRAME_SLACK
        self._inline_max = min(self._largest_payload, body_max)
        self._checks = checks
        self._targets: dict[bytes, Target] = {}
        self.remembered = 0
        """Octets that the targets take which are remembered."""
        self._prefix = b""
        self._stride = 0
        self._boundaries: tuple[int, ...] = ()
        """Where frame headers and frames of such a message end."""

    def target(self, payload: bytes) -> Target:
        """Decode the payload of a basic.publish method frame.

        Raises FieldSyntaxError, and UnsupportedError for `immediate`.
        """
        known = self._targets.get(payload)
        if known is not None:
            return known
        method = decode_method(payload)
        if not isinstance(method, BasicPublish):
            raise FieldSyntaxError("not a basic.publish")
        if method.immediate:
            raise UnsupportedError("immediate=true", (method.CLASS_ID, method.METHOD_ID))
        target = Target(method.exchange, method.routing_key, method.mandatory)
        if self.remembered > _REMEMBERED_OCTETS:
            self.clear()
        self._targets[payload] = target
        self.remembered += 2 * len(payload) + TARGET_OCTETS
        return target

    def clear(self) -> None:
        """Remember nothing."""
        self._targets.clear()
        self.remembered = 0
        self._prefix, self._stride = b"", 0

    def take(self, data: bytes, at: int, method_end: int) -> Published | None:
        """The run that starts with the complete publish method frame at `at`; None to go frame by frame.

        Raises what the frame-by-frame path would raise for the first message's method and header.
        """
        channel = data[at + 1] << 8 | data[at + 2]
        message = self._message(data, method_end, channel)
        if message is None:
            return None
        target = self.target(data[at + FRAME.size : method_end - 1])
        properties = data[message.properties : message.header_end - 1]
        traits = self._checks.traits(properties)
        stride = message.end - at
        prefix = data[at : min(message.header_end + FRAME.size, message.end)]
        count = _identical(data, at, prefix, stride) if data.startswith(prefix, at + stride) else 1
        end = at + count * stride
        if count < UNIFORM_FROM and len(data) - end >= stride and data.startswith(data[at:method_end], end):
            return self._varied(data, at, method_end, target, message, traits)
        self._prefix, self._stride = prefix, stride
        header_end = message.header_end - at
        self._boundaries = (method_end - at + FRAME.size, header_end, header_end + FRAME.size, stride)
        run = Run(
            target.exchange, target.routing_key, channel, traits.persistent,
            count, method_end - at, stride, None, message.largest_frame, data[at:end], traits.special,
        )  # fmt: skip
        self._checks.wide += count * traits.wide
        return Published(run, target.mandatory, end, traits.reply_here)

    def unfinished(self, data: bytes, at: int) -> int:
        """How many octets to wait for, if the input ends inside one more message like the last run's.

        It is worth waiting: otherwise every piece of input would begin with half a message. And it is
        safe: a client that began a frame finishes it, and a frame behind it has a header.
        """
        rest = len(data) - at
        if rest >= self._stride or not data.startswith(self._prefix[:rest], at):
            return 0
        return next(boundary for boundary in self._boundaries if boundary > rest)

    def _varied(
        self, data: bytes, at: int, method_end: int, target: Target, first: ContentPlace, traits: Traits
    ) -> Published:
        """Messages from `at` on that share the method frame and the first one's traits."""
        checks, skip = self._checks, method_end - at
        method = data[at:method_end]
        channel = data[at + 1] << 8 | data[at + 2]
        lengths = array("I", (first.end - at,))
        position, largest = self._alike(data, at, first, lengths)
        latest = data[at : first.header_end + FRAME.size]
        wide = len(lengths) * traits.wide
        while checks.checked < CHECKED_IN_A_RUN and data.startswith(method, position):
            if _become_uniform(lengths) and data.startswith(latest, position):
                break
            place = self._message(data, position + skip, channel)
            found = None if place is None else self._traits_as(data, place, traits)
            if place is None or found is None:
                break
            before = len(lengths)
            lengths.append(place.end - position)
            latest = data[position : place.header_end + FRAME.size]
            if data.startswith(
                data[place.properties : place.header_end], place.end + place.properties - position
            ):
                position, largest_alike = self._alike(data, position, place, lengths)
                largest = max(largest, largest_alike)
            else:
                position, largest = place.end, max(largest, place.largest_frame)
            if found.wide:
                wide += (len(lengths) - before) * found.wide
        run = Run(
            target.exchange, target.routing_key, channel, traits.persistent,
            len(lengths), skip, 0, lengths, largest, data[at:position], traits.special,
        )  # fmt: skip
        checks.wide += wide
        return Published(run, target.mandatory, position, traits.reply_here)

    def _traits_as(self, data: bytes, place: ContentPlace, traits: Traits) -> Traits | None:
        """The traits at `place` where they are those of the run, however wide the headers are.

        None for a wrong property list, too: the frame-by-frame path has the right words for it.
        """
        try:
            found = self._checks.traits(data[place.properties : place.header_end - 1])
        except ProtocolException:
            return None
        if found == traits or (found.wide != traits.wide and found._replace(wide=traits.wide) == traits):
            return found
        return None

    def _alike(self, data: bytes, at: int, place: ContentPlace, lengths: array[int]) -> tuple[int, int]:
        """Add the messages behind the one at `at` that differ from it in nothing but their bodies.

        Returns the position behind them, and the size of the largest frame, that message's included.
        """
        end, position, largest_body = len(data), place.end, 0
        if place.end > place.header_end:
            lead = data[at : place.properties - _SIZE.size]
            middle = data[place.properties : place.header_end + FRAME.size - LONG.size]
            layout = _layout(len(lead), len(middle))
            unpack, fixed, body_max, same = layout.unpack_from, layout.size, self._inline_max, 0
            while end - position > fixed and same < UNIFORM_FROM:
                next_lead, body_size, next_middle, frame_size = unpack(data, position)
                stop = position + fixed + body_size
                if (
                    next_lead != lead
                    or next_middle != middle
                    or body_size != frame_size
                    or not 0 < body_size <= body_max
                    or stop >= end
                    or data[stop] != FRAME_END
                ):
                    break
                length = stop + 1 - position
                same = same + 1 if length == lengths[-1] else 0
                lengths.append(length)
                if body_size > largest_body:
                    largest_body = body_size
                position = stop + 1
        return position, max(place.largest_frame, largest_body + FRAME_OVERHEAD)

    def _message(self, data: bytes, at: int, channel: int) -> ContentPlace | None:
        """The content at `at` if it is complete, well-formed and in at most one body frame."""
        end = len(data)
        if end - at < _CONTENT.size:
            return None
        kind, number, size, class_id, weight, body_size = _CONTENT.unpack_from(data, at)
        header_end = at + size + FRAME_OVERHEAD
        if (
            kind != FRAME_HEADER
            or number != channel
            or class_id != CLASS_BASIC
            or weight
            or not HEADER_FIXED + 2 <= size <= self._largest_payload
            or header_end > end
            or data[header_end - 1] != FRAME_END
            or body_size > self._inline_max
        ):
            return None
        if not body_size:
            return ContentPlace(at + _PROPERTIES, header_end, header_end, size + FRAME_OVERHEAD)
        stop = header_end + body_size + FRAME_OVERHEAD
        if stop > end or data[stop - 1] != FRAME_END:
            return None
        if FRAME.unpack_from(data, header_end) != (FRAME_BODY, channel, body_size):
            return None
        return ContentPlace(at + _PROPERTIES, header_end, stop, max(size, body_size) + FRAME_OVERHEAD)


def _become_uniform(lengths: array[int]) -> bool:
    """Whether enough messages in a row had one length for the next ones to be a uniform run."""
    return len(lengths) > UNIFORM_FROM and len(set(lengths[-UNIFORM_FROM - 1 :])) == 1


@lru_cache(maxsize=512)
def _layout(lead: int, middle: int) -> Struct:
    """A message up to its body: what lies before and behind the body size, and the body frame's size."""
    return Struct(f">{lead}sQ{middle}sI")


def _identical(data: bytes, at: int, prefix: bytes, stride: int) -> int:
    """How many messages of length `stride` from `at` on begin with `prefix` and end with an end octet."""
    last = at + stride - 1
    few = min(len(data) - last, FEW * stride)
    for end in range(last, last + few, stride):
        if data[end] != FRAME_END or not data.startswith(prefix, end - stride + 1):
            return (end - last) // stride
    count = (len(data) - at) // stride
    if count <= FEW:
        return count
    for offset, octet in (*enumerate(prefix), (stride - 1, FRAME_END)):
        expected = bytes((octet,))
        column = data[at + offset : at + count * stride : stride]
        if column != expected * count:
            count -= len(column.lstrip(expected))
    return count
