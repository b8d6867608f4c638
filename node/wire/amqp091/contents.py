"""Reads the content header frames of messages (§4.2.6.1).

Routing by headers and the features of queues use this module. Otherwise contents pass as they came.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import Final

from node.message.format import NO_EXPIRATION, Asked
from node.message.run import Run, method_octets
from node.ranges.range_map import Span, spans_of
from node.wire.amqp091.codec import END, FRAME
from node.wire.amqp091.errors import FieldSyntaxError
from node.wire.amqp091.fields import FIXED_FIELDS, Table, read_headers, read_numbered
from node.wire.amqp091.native import (
    NATIVE_ASKED,
    NATIVE_BODY_SIZES,
    NATIVE_HEADER_KEYS,
    NATIVE_INTEGERS,
    NATIVE_TEXTS,
    NO_HEADERS,
)
from node.wire.amqp091.properties import (
    HEADER_FIXED,
    PROPERTY_NUMBERS,
    parse_expiration,
    property_places,
)

_SIZES: Final = Struct(">3xI4xQ")
"""A content header frame up to its properties: the frame's payload size, the body's size."""

_ONE_TEXT: Final = Struct(">BcI")
"""In a key: the number of a header's name, its type and the octets of its text."""

_CACHED: Final = 4096

PROPERTIES_AT: Final = FRAME.size + HEADER_FIXED
"""Where the property list begins in a content header frame."""


def properties_in(run: Run) -> Iterator[tuple[int, int, bytes]]:
    """(index of the first message, number of messages, property list) for each stretch of messages with the
    same properties.

    Raises struct.error where a content header is malformed. All messages of a run with a stride have one
    property list: `publish_path` puts only contents that differ in their bodies alone into such a run.
    """
    raw, at, skip = run.raw, 0, run.skip
    first, previous = 0, None
    for index, length in enumerate(run.lengths if run.lengths is not None else (run.stride,)):
        content = at + skip if skip >= 0 else at + method_octets(raw, at)
        size, _ = _SIZES.unpack_from(raw, content)
        properties = bytes(raw[content + PROPERTIES_AT : content + FRAME.size + size])
        if properties != previous:
            if previous is not None:
                yield first, index - first, previous
            first, previous = index, properties
        at += length
    if previous is not None:
        yield first, run.count - first, previous


def content_header_end(data: bytes | memoryview, at: int) -> int:
    """The position behind the content header frame at `at`."""
    size: int = _SIZES.unpack_from(data, at)[0]
    return at + FRAME.size + size + len(END)


def body_sizes(run: Run) -> array[int] | None:
    """The size in octets of each message's body; None when all bodies are as large as the first."""
    if run.lengths is None:
        return None
    sizes = array("Q")
    if NATIVE_BODY_SIZES is not None:
        sizes.frombytes(NATIVE_BODY_SIZES(run.raw, run.skip, run.lengths))
        return sizes
    at = 0
    for length in run.lengths:
        skip = run.skip if run.skip >= 0 else method_octets(run.raw, at)
        sizes.append(_SIZES.unpack_from(run.raw, at + skip)[1])
        at += length
    return sizes


def body_size(run: Run) -> int:
    """The size in octets of the first message's body."""
    skip = run.skip if run.skip >= 0 else method_octets(run.raw, 0)
    size: int = _SIZES.unpack_from(run.raw, skip)[1]
    return size


def body_of(run: Run) -> bytes:
    """The body of the first message."""
    content = next(run.contents())
    body, at = bytearray(), content_header_end(content, 0)
    while at < len(content):
        (_, _, size) = FRAME.unpack_from(content, at)
        body += content[at + FRAME.size : at + FRAME.size + size]
        at += FRAME.size + size + len(END)
    return bytes(body)


def size_spans(run: Run) -> list[Span]:
    """(first, last, octets of the body) for messages in a row with bodies of one size, counted from 0."""
    sizes = body_sizes(run)
    return [(0, run.count - 1, body_size(run))] if sizes is None else spans_of(sizes, 0)


def read_headers_property(properties: bytes) -> Table:
    """The headers in a property list, which starts with its flags; empty without any.

    Raises FieldSyntaxError.
    """
    try:
        place = property_places(properties).get("headers")
        return {} if place is None else read_headers(properties, place[0])[0]
    except (StructError, IndexError):
        raise FieldSyntaxError("the properties of a content are cut short") from None


def read_expiration(properties: bytes) -> int | None:
    """The expiration in a property list, in milliseconds; None without one.

    Raises FieldSyntaxError, ExpirationError.
    """
    place = property_places(properties).get("expiration")
    return None if place is None else parse_expiration(properties[place[0] + 1 : place[1]])


def read_priority_property(properties: bytes) -> int:
    """The priority in a property list, 0 without one. Raises FieldSyntaxError."""
    place = property_places(properties).get("priority")
    return 0 if place is None else properties[place[0]]


def read_delay(properties: bytes) -> int:
    """The milliseconds in the header `x-delay` of a property list; 0 for anything but an integer above zero.

    Raises FieldSyntaxError.
    """
    delay = read_headers_property(properties).get("x-delay")
    return delay if isinstance(delay, int) and not isinstance(delay, bool) and delay > 0 else 0


@lru_cache(_CACHED)
def _wishes(properties: bytes) -> tuple[int, int, int]:
    """Delay, priority and expiration in a property list. Raises FieldSyntaxError, ExpirationError."""
    expiration = read_expiration(properties)
    return (
        read_delay(properties),
        read_priority_property(properties),
        NO_EXPIRATION if expiration is None else expiration,
    )


def asked_in(run: Run) -> list[Asked]:
    """The wishes of the messages of a run. Raises FieldSyntaxError, ExpirationError."""
    if NATIVE_ASKED is not None and run.lengths is not None:
        known = NATIVE_ASKED(run.raw, run.skip, run.lengths)
        if known is not None:
            return known
    found: list[Asked] = []
    for index, count, properties in properties_in(run):
        delay, priority, expiration = _wishes(properties)
        first, before = index, found[-1] if found else None
        if before is not None and before[2:] == (delay, priority, expiration):
            first = found.pop()[0]
        found.append((first, index + count - 1, delay, priority, expiration))
    return found


def texts_in(run: Run, name: str) -> list[tuple[int, int, bytes | None]]:
    """(first, last, value) of messages in a row with the same value of a short string. Raises
    FieldSyntaxError.
    """
    if NATIVE_TEXTS is not None and run.lengths is not None:
        known = NATIVE_TEXTS(run.raw, run.skip, run.lengths, PROPERTY_NUMBERS[name])
        if known is not None:
            return [(index, index, value) for index, value in enumerate(known)]
    return [
        (index, index + count - 1, read_short_string(properties, name))
        for index, count, properties in properties_in(run)
    ]


def header_keys(run: Run, names: tuple[str, ...]) -> list[tuple[int, int, bytes]]:
    """(first, count, key) of messages in a row with the same values of the headers with these names.

    The key is the whole property list, or from C the octets of these headers alone; the first octet tells
    which.
    """
    known = None if run.lengths is None else told_headers(run, names)
    if known is not None:
        return known
    return [(first, count, b"p" + properties) for first, count, properties in properties_in(run)]


def told_headers(run: Run, names: tuple[str, ...]) -> list[tuple[int, int, bytes]] | None:
    """As `header_keys`, from C alone: each key has the octets of these headers."""
    if NATIVE_HEADER_KEYS is None:
        return None
    wanted = tuple([name.encode("utf-8", "surrogateescape") for name in names])
    return NATIVE_HEADER_KEYS(run.raw, run.skip, run.each_length(), wanted)


def header_integers(run: Run, name: str) -> list[tuple[int, int, int]] | None:
    """(first, count, integer) of messages in a row with the same integer in the header with this name, from C
    alone; None where some message does not have the header once, as an integer.
    """
    if NATIVE_INTEGERS is None:
        return None
    return NATIVE_INTEGERS(run.raw, run.skip, run.each_length(), (name.encode("utf-8", "surrogateescape"),))


def headers_of_key(key: bytes, names: tuple[str, ...]) -> Table:
    """The headers in a key of `told_headers`; none where a header stands there twice."""
    begin = len(NO_HEADERS)
    if len(key) > begin + 1:
        fixed = FIXED_FIELDS.get(key[begin + 1])
        if fixed is not None and len(key) == begin + 2 + fixed.size:
            return {names[key[begin]]: fixed.unpack_from(key, begin + 2)[0]}
    if len(key) >= begin + _ONE_TEXT.size:
        # Most keys are one text.
        number, kind, length = _ONE_TEXT.unpack_from(key, begin)
        text = key[begin + _ONE_TEXT.size :]
        if kind == b"S" and length == len(text):
            try:
                return {names[number]: text.decode("utf-8")}
            except UnicodeDecodeError:
                return {names[number]: text}
    try:
        return read_numbered(key, len(NO_HEADERS), names)
    except FieldSyntaxError:
        return {}


def read_short_string(properties: bytes, name: str) -> bytes | None:
    """The octets of a short string such as `message_id`; None without it. Raises FieldSyntaxError."""
    place = property_places(properties).get(name)
    return None if place is None else properties[place[0] + 1 : place[1]]
