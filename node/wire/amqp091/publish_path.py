"""The hot path of publishers: takes many basic.publish frames with their contents at a time, and confirms
them by few frames.

A publisher mostly repeats the same method frame, and often the same content header. From the position of a
basic.publish frame on, `PublishPath.take` recognises four shapes:

- identical prefixes: method, content header and body frame header are octet for octet those of the message
  before. They are found by comparing columns: octet i of every message is one strided slice, so that the work
  for each message is done in C. The result is one uniform run, a single slice of the input.
- identical methods: contents of one body frame each, of any size, with properties of equal traits. They are
  found by a loop over the messages, in C where `_contents.c` was built. The result is one run with lengths.
- methods that differ in their routing keys alone, with contents as in the second shape. They are found by the
  same loop. The result is one run whose messages state their keys (`run.OWN_METHODS`).
- any other message goes the frame-by-frame path in `channel`, which has the same results.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

from node.message.run import OWN_METHODS, Run
from node.wire.amqp091.codec import FRAME, FRAME_OVERHEAD, FRAME_SLACK, decode_method, encode_method
from node.wire.amqp091.errors import FieldSyntaxError, ProtocolException, UnsupportedError
from node.wire.amqp091.likeness import UNIFORM_FROM, become_uniform, identical, other_key_end
from node.wire.amqp091.methods import (
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    BasicAck,
    BasicNack,
    BasicPublish,
)
from node.wire.amqp091.native import NATIVE_SCAN, Scan
from node.wire.amqp091.primitives import LONG, LONGLONG, SHORT
from node.wire.amqp091.properties import CLASS_BASIC, HEADER_FIXED, PropertyChecks, Traits

PUBLISH_IDS: Final = SHORT.pack(BasicPublish.CLASS_ID) + SHORT.pack(BasicPublish.METHOD_ID)

_CONTENT: Final = Struct(">BHIHHQ")
"""The frame header and the fixed part of a content header frame."""

_SIZE: Final = LONGLONG
"""The body size, directly before the property flags."""

_PROPERTIES: Final = FRAME.size + HEADER_FIXED
"""The offset of the property flags in a content header frame."""

_REMEMBERED_OCTETS: Final = 256 * 1024
"""Octets of memory for the remembered targets of a connection."""

TARGET_OCTETS: Final = 256
"""Octets of memory for one target, in addition to its names in the frame and as texts."""


class Target(NamedTuple):
    """The fields of a basic.publish."""

    exchange: str
    routing_key: str
    mandatory: bool


class ContentPlace(NamedTuple):
    """The positions of a complete content with at most one body frame in the input."""

    properties: int
    """The position of the property flags."""
    header_end: int
    end: int
    largest_frame: int


class Published(NamedTuple):
    """A run of publishes from the input, and the position behind it."""

    run: Run
    mandatory: bool
    end: int
    reply_here: bool


CHECKED_IN_A_RUN: Final = 64 * 1024
"""A run ends when so many octets of its property lists had to be checked, because a turn does only a share of
that work.
"""


class PublishPath:
    """Takes runs out of a connection's input. `body_max` is the largest body in octets that it takes."""

    __slots__ = (
        "_boundaries",
        "_checks",
        "_inline_max",
        "_largest_payload",
        "_prefix",
        "_scan",
        "_stride",
        "_targets",
        "remembered",
    )

    def __init__(
        self, frame_max: int, body_max: int, checks: PropertyChecks, scan: Scan | None = NATIVE_SCAN
    ):
        self._largest_payload = frame_max - FRAME_OVERHEAD + FRAME_SLACK
        self._inline_max = min(self._largest_payload, body_max)
        self._checks = checks
        self._scan = scan
        self._targets: dict[bytes, Target] = {}
        self.remembered = 0
        """Octets of memory for the remembered targets."""
        self._prefix = b""
        self._stride = 0
        self._boundaries: tuple[int, ...] = ()
        """The offsets at which frame headers and frames of a message like the last run's end."""

    def target(self, payload: bytes) -> Target:
        """The decoded or remembered payload of a basic.publish method frame.

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
        """Forget all targets."""
        self._targets.clear()
        self.remembered = 0
        self._prefix, self._stride = b"", 0

    def take(self, data: bytes, at: int, method_end: int) -> Published | None:
        """The run that starts with the complete publish method frame at `at`; None where the message has to
        go frame by frame.

        Raises the errors that the frame-by-frame path raises for the first message's method and header.
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
        count = identical(data, at, prefix, stride) if data.startswith(prefix, at + stride) else 1
        end = at + count * stride
        if count < UNIFORM_FROM and len(data) > end:
            varied = self._differing(data, at, method_end, end, target, message, traits)
            if varied is not None:
                return varied
        self._prefix, self._stride = prefix, stride
        header_end = message.header_end - at
        self._boundaries = (method_end - at + FRAME.size, header_end, header_end + FRAME.size, stride)
        exchange, routing_key, mandatory = target
        persistent, special, reply_here, wide = traits
        skip, largest, raw = method_end - at, message.largest_frame, data[at:end]
        run = Run(
            exchange, routing_key, channel, persistent, count, skip, stride, None, largest, raw, special
        )
        self._checks.wide += count * wide
        return Published(run, mandatory, end, reply_here)

    def unfinished(self, data: bytes, at: int) -> int:
        """The number of octets to wait for, where the input ends inside one more message like the last run's;
        0 elsewhere.

        Without waiting, every piece of input would begin with half a message. Waiting is safe: a client that
        has begun a frame finishes it, and the next frame has a header.
        """
        rest = len(data) - at
        if rest >= self._stride or not data.startswith(self._prefix[:rest], at):
            return 0
        return next(boundary for boundary in self._boundaries if boundary > rest)

    def _differing(
        self,
        data: bytes,
        at: int,
        method_end: int,
        end: int,
        target: Target,
        first: ContentPlace,
        traits: Traits,
    ) -> Published | None:
        """The run of messages from `at` on that differ in more than their bodies; None where the one at `end`
        cannot join them.
        """
        scan = None if traits.wide else self._scan
        scanned = None
        if len(data) - end >= first.end - at and data.startswith(data[at:method_end], end):
            if scan is not None:
                scanned = self._scanned(scan, data, at, method_end, target, traits, own=False)
            if scanned is None:
                return self._varied(data, at, method_end, target, first, traits)
            end = scanned.end
        few = scanned is None or scanned.run.count < UNIFORM_FROM
        if few and not (traits.wide or traits.reply_here) and other_key_end(data, at, method_end, end):
            if scan is None:
                keyed = self._keyed(data, at, method_end, target, traits)
            else:
                keyed = self._scanned(scan, data, at, method_end, target, traits, own=True)
            if keyed is not None and keyed.end > end:
                return keyed
        return scanned

    def _scanned(
        self, scan: Scan, data: bytes, at: int, method_end: int, target: Target, traits: Traits, *, own: bool
    ) -> Published | None:
        """The run that `_varied` would find, with `own` the one that `_keyed` would find, up to the first
        message that only they can judge. None where that is the first one.
        """
        skip, user = method_end - at, self._checks.user
        measured, end, largest = scan(
            data, at, skip, own, traits.bits, user, self._largest_payload, self._inline_max
        )
        lengths = array("I")
        lengths.frombytes(measured)
        if not lengths:
            return None
        exchange, routing_key, mandatory = target
        key = None if own else routing_key
        skip = OWN_METHODS if own else skip
        persistent, special, reply_here, _ = traits
        channel, count, raw = data[at + 1] << 8 | data[at + 2], len(lengths), data[at:end]
        run = Run(exchange, key, channel, persistent, count, skip, 0, lengths, largest, raw, special)
        return Published(run, mandatory, end, reply_here)

    def _keyed(
        self, data: bytes, at: int, method_end: int, target: Target, traits: Traits
    ) -> Published | None:
        """The run of messages from `at` on that have one exchange, and the traits of the first one. Ends
        where one routing key is repeated. None where the first message is none.
        """
        channel = data[at + 1] << 8 | data[at + 2]
        lengths = array("I")
        position, content, largest, same = at, method_end, 0, 0
        while content and self._checks.checked < CHECKED_IN_A_RUN and same < UNIFORM_FROM:
            place = self._message(data, content, channel)
            if place is None or self._traits_as(data, place, traits) != traits:
                break
            lengths.append(place.end - position)
            largest = max(largest, place.largest_frame)
            same = same + 1 if data.startswith(data[position:content], place.end) else 0
            position = place.end
            content = other_key_end(data, at, method_end, position)
        if not lengths:
            return None
        exchange, _, mandatory = target
        persistent, special, _, _ = traits
        count, raw = len(lengths), data[at:position]
        run = Run(exchange, None, channel, persistent, count, OWN_METHODS, 0, lengths, largest, raw, special)
        return Published(run, mandatory, position, False)

    def _varied(
        self, data: bytes, at: int, method_end: int, target: Target, first: ContentPlace, traits: Traits
    ) -> Published:
        """The run of messages from `at` on that have one method frame and the traits of the first one."""
        checks, skip = self._checks, method_end - at
        method = data[at:method_end]
        channel = data[at + 1] << 8 | data[at + 2]
        lengths = array("I", (first.end - at,))
        position, largest = self._alike(data, at, first, lengths)
        latest = data[at : first.header_end + FRAME.size]
        wide = len(lengths) * traits.wide
        while checks.checked < CHECKED_IN_A_RUN and data.startswith(method, position):
            if become_uniform(lengths) and data.startswith(latest, position):
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
        exchange, routing_key, mandatory = target
        persistent, special, reply_here, _ = traits
        count, raw = len(lengths), data[at:position]
        run = Run(exchange, routing_key, channel, persistent, count, skip, 0, lengths, largest, raw, special)
        checks.wide += wide
        return Published(run, mandatory, position, reply_here)

    def _traits_as(self, data: bytes, place: ContentPlace, traits: Traits) -> Traits | None:
        """The traits at `place` where they are those of the run, whatever the number of header values.

        None also for an invalid property list, which the frame-by-frame path refuses.
        """
        try:
            found = self._checks.traits(data[place.properties : place.header_end - 1])
        except ProtocolException:
            return None
        if found == traits or (found.wide != traits.wide and found._replace(wide=traits.wide) == traits):
            return found
        return None

    def _alike(self, data: bytes, at: int, place: ContentPlace, lengths: array[int]) -> tuple[int, int]:
        """Add the messages behind the one at `at` that differ from it in their bodies alone.

        Returns the position behind them, and the size of the largest frame, that of the first message
        included.
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


@lru_cache(maxsize=512)
def _layout(lead: int, middle: int) -> Struct:
    """A message up to its body: the octets before and behind the body size, and the size of the
    body frame.
    """
    return Struct(f">{lead}sQ{middle}sI")


class Confirms:
    """Publisher confirms of one channel, in few frames for many messages.

    The confirms of a turn are sent at its end. A range that begins directly behind all settled tags is one
    basic.ack or basic.nack with `multiple`. A range behind a gap takes a frame for each message, because
    `multiple` would include the gap.

    All tags up to `settled_to` are acknowledged or refused; `_ahead` has the settled ranges beyond, last tag
    by first tag.
    """

    __slots__ = ("_ahead", "_channel", "_due", "settled_to")

    def __init__(self, channel: int) -> None:
        self.settled_to = 0
        self._channel = channel
        self._ahead: dict[int, int] = {}
        self._due: list[tuple[int, int, bool]] = []

    @property
    def count(self) -> int:
        """The number of tags that frames have settled."""
        return self.settled_to + sum(last - first + 1 for first, last in self._ahead.items())

    def add(self, first: int, last: int, positive: bool) -> None:
        """Settle a closed range of tags, none of which is settled yet: acknowledged, or (`positive` False)
        refused.
        """
        due = self._due
        if due and due[-1][1] + 1 == first and due[-1][2] == positive:
            due[-1] = (due[-1][0], last, positive)
        else:
            due.append((first, last, positive))

    def take(self) -> bytes:
        """The frames for the ranges added since the last call."""
        if not self._due:
            return b""
        due, self._due = sorted(self._due), []
        joined = [due[0]]
        for first, last, positive in due[1:]:
            before = joined[-1]
            if before[1] + 1 == first and before[2] == positive:
                joined[-1] = (before[0], last, positive)
            else:
                joined.append((first, last, positive))
        return b"".join([self._frames(first, last, positive) for first, last, positive in joined])

    def _frames(self, first: int, last: int, positive: bool) -> bytes:
        if first == self.settled_to + 1:
            self.settled_to = last
            while self.settled_to + 1 in self._ahead:
                self.settled_to = self._ahead.pop(self.settled_to + 1)
            multiple = first != last
            method = BasicAck(last, multiple) if positive else BasicNack(last, multiple, requeue=False)
            return encode_method(self._channel, method)
        self._ahead[first] = last
        frame = encode_method(self._channel, BasicAck(0) if positive else BasicNack(0, requeue=False))
        cut = len(frame) - LONGLONG.size - 2
        before, after = frame[:cut], frame[cut + LONGLONG.size :]
        return b"".join([before + LONGLONG.pack(tag) + after for tag in range(first, last + 1)])
