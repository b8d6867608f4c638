"""Changes the properties of messages; bodies stay octet for octet (A21).

Values that are not changed keep their octets.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import lru_cache
from struct import Struct
from typing import Final

from node.message.run import Run, method_octets
from node.message.streams import X_STREAM_OFFSET
from node.wire.amqp091.codec import END, FRAME
from node.wire.amqp091.contents import PROPERTIES_AT, content_header_end
from node.wire.amqp091.fields import join_table, split_table
from node.wire.amqp091.header_tables import ANY_NUMBER
from node.wire.amqp091.methods import FRAME_HEADER
from node.wire.amqp091.native import NATIVE_OFFSETS
from node.wire.amqp091.primitives import SHORT
from node.wire.amqp091.properties import PROPERTY_FLAGS, Traits, check_properties, property_places

DELIVERY_COUNT: Final = b"x-delivery-count"
"""The header with the number of a message's failed deliveries, for consumers; absent for 0."""

BOOKMARK: Final = b"x-bookmark"
"""The header with the bookmark of a message, for consumers that ask for it (`node.message.bookmarks`)."""

STREAM_OFFSET: Final = X_STREAM_OFFSET.encode()
"""The header with the place of a message in its stream."""

LOCKED_UNTIL: Final = b"x-locked-until"
"""The header with the end of a message's lease, in milliseconds since the epoch."""

_LONG: Final = Struct(">cq")
_TEXT: Final = Struct(">cI")
_OFFSET: Final = Struct(">q")

_REMEMBERED: Final = 64
"""The property lists of a run for which the changed ones are remembered."""

Headers = dict[bytes, bytes]
"""Encoded values, type octet included, by header name."""


def edit_properties(
    properties: bytes, edit: Callable[[Headers], Headers], without: Collection[str] = ()
) -> bytes:
    """A property list with the headers that `edit` returns, and without the properties `without`.

    Raises FieldSyntaxError.
    """
    places = property_places(properties)
    headers = dict(split_table(properties, places["headers"][0])) if "headers" in places else {}
    values = {name: properties[start:end] for name, (start, end) in places.items() if name not in without}
    values.pop("headers", None)
    headers = edit(headers)
    if headers:
        values["headers"] = join_table(headers.items())
    flags = sum(PROPERTY_FLAGS[name] for name in values)
    return SHORT.pack(flags) + b"".join(values[name] for name in PROPERTY_FLAGS if name in values)


def with_properties(run: Run, change: Callable[[bytes], bytes]) -> Run:
    """The run with each message's property list replaced by `change` of it. The run takes the traits of the
    first message, and `change` must give all messages the same.
    """
    remember = lru_cache(maxsize=_REMEMBERED)(change)
    return _with_each(run, lambda _, properties: remember(properties))


def _with_each(run: Run, change: Callable[[int, bytes], bytes]) -> Run:
    """As `with_properties`, with the index of the message for `change`."""
    raw, at = memoryview(run.raw), 0
    pieces: list[bytes | memoryview] = []
    lengths = array("I")
    traits: Traits | None = None
    largest = run.largest_frame
    for index, length in enumerate(run.lengths if run.lengths is not None else [run.stride] * run.count):
        own = method_octets(raw, at) if run.routing_key is None else 0
        start, end = at + (own or run.skip), at + length
        header_end = content_header_end(raw, start)
        changed = change(index, bytes(raw[start + PROPERTIES_AT : header_end - 1]))
        traits = traits or check_properties(changed, ANY_NUMBER)
        fixed = raw[start + FRAME.size : start + PROPERTIES_AT]
        header = b"".join(
            (FRAME.pack(FRAME_HEADER, run.channel, len(fixed) + len(changed)), fixed, changed, END)
        )
        pieces += (raw[at : at + own], header, raw[header_end:end])
        lengths.append(own + len(header) + end - header_end)
        largest = max(largest, len(header))
        at = end
    assert traits is not None
    return _rewritten(run, traits, b"".join(pieces), lengths, largest)


def _rewritten(run: Run, traits: Traits, octets: bytes, lengths: array[int], largest: int) -> Run:
    """The run with the messages that are end to end in the octets, and the traits of the first one."""
    return replace(
        run,
        persistent=traits.persistent,
        special=traits.special,
        skip=min(run.skip, 0),
        stride=0,
        lengths=lengths,
        largest_frame=largest,
        raw=octets,
    )


def with_delivery_count(run: Run, failures: int) -> Run:
    """The messages with the number of failed deliveries in the header `x-delivery-count`."""
    return _with_headers(run, {DELIVERY_COUNT: _LONG.pack(b"l", failures)})


def with_lease(run: Run, bookmark: str, until: int | None) -> Run:
    """The one message of a run with its bookmark, and the end of its lease if there is one, in headers."""
    told = {BOOKMARK: _text(bookmark)}
    if until is not None:
        told[LOCKED_UNTIL] = _LONG.pack(b"l", until)
    return _with_headers(run, told)


def with_offsets(run: Run, first: int) -> Run:
    """The messages with their places in a stream, from `first` on, in headers."""
    told = None
    if NATIVE_OFFSETS is not None:
        told = NATIVE_OFFSETS(run.raw, run.skip, run.each_length(), run.channel, first)
    if told is not None:
        octets, lengths, largest = told
        start = method_octets(octets, 0) if run.routing_key is None else 0
        header_end = content_header_end(octets, start)
        traits = check_properties(octets[start + PROPERTIES_AT : header_end - 1], ANY_NUMBER)
        return _rewritten(run, traits, octets, array("I", lengths), max(run.largest_frame, largest))
    remember = lru_cache(maxsize=_REMEMBERED)(_around_offset)

    def change(index: int, properties: bytes) -> bytes:
        before, behind = remember(properties)
        return before + _OFFSET.pack(first + index) + behind

    return _with_each(run, change)


def _around_offset(properties: bytes) -> tuple[bytes, bytes]:
    """The octets of a property list before and behind the place of the message in its stream."""

    def of(octets: bytes) -> bytes:
        return edit_properties(properties, lambda headers: {**headers, STREAM_OFFSET: b"l" + octets})

    # The lists differ in the octets of the place alone.
    low, high = of(bytes(_OFFSET.size)), of(b"\xff" * _OFFSET.size)
    at = next(at for at, (one, other) in enumerate(zip(low, high, strict=True)) if one != other)
    return low[:at], low[at + _OFFSET.size :]


def _text(text: str) -> bytes:
    octets = text.encode()
    return _TEXT.pack(b"S", len(octets)) + octets


def _with_headers(run: Run, told: Headers) -> Run:
    """The messages with further headers, or with other values of theirs."""

    def edit(headers: Headers) -> Headers:
        return {**headers, **told}

    return with_properties(run, lambda properties: edit_properties(properties, edit))
