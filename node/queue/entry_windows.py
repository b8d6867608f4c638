"""Finds the publish operations of an entry that is not in memory as a whole, by reading the heads of its
operations alone. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import error as StructError
from typing import Final, NamedTuple

from node.queue.entry_format import (
    BATCH_HEAD,
    FORMAT_VERSION,
    READERS,
    EntryFormatError,
    publish_extent,
)
from node.queue.operations import OpKind

WINDOW_OCTETS: Final = 16 * 1024
"""Octets of an entry that are looked at together, unless one operation that is no publish has more."""

_GROWTH: Final = 8
_PUBLISH: Final = int(OpKind.PUBLISH)

ReadOctets = Callable[[int, int], bytes]
"""(start, end) -> the octets of an entry between two offsets."""


class PublishPlace(NamedTuple):
    """A publish operation: the number of its first message, how many it has, its offset, and the offset
    behind it.
    """

    first: int
    messages: int
    start: int
    end: int


class EntryPlace(NamedTuple):
    """A place between two operations of an entry: its offset, the end of its batch, and the number of the
    next message that the batch publishes. Where both offsets are the same, a batch begins there, or the entry
    ends.
    """

    offset: int
    batch_end: int
    sequence: int


ENTRY_BEGIN: Final = EntryPlace(1, 1, 0)


def publishes_from(read: ReadOctets, size: int, place: EntryPlace) -> tuple[list[PublishPlace], EntryPlace]:
    """The publishes of one window from a place on, in an entry of so many octets, and the place behind it.
    Raises EntryFormatError.
    """
    if place == ENTRY_BEGIN and read(0, 1) != bytes((FORMAT_VERSION,)):
        raise EntryFormatError("entry of another format version: start the release that wrote it")
    offset, end, sequence = place if place.offset < place.batch_end else _batch_at(read, size, place.offset)
    found: list[PublishPlace] = []
    octets = WINDOW_OCTETS
    while offset < end:
        window = read(offset, min(offset + octets, end))
        within = 0
        while within < len(window):
            try:
                if window[within] == _PUBLISH:
                    count, behind = publish_extent(window, within)
                    found.append(PublishPlace(sequence, count, offset + within, offset + behind))
                    sequence += count
                elif (behind := READERS[window[within]](window, within)[1]) > len(window):
                    break
            except (LookupError, StructError, ValueError):
                break
            within = behind
        if offset + within > end or (not within and len(window) == end - offset):
            raise EntryFormatError(f"operation in the batch that ends at octet {end} is malformed")
        if within:
            return found, EntryPlace(offset + within, end, sequence)
        octets *= _GROWTH
    return found, EntryPlace(end, end, sequence)


def _batch_at(read: ReadOctets, size: int, offset: int) -> EntryPlace:
    """The place in front of the first operation of a batch."""
    head = read(offset, offset + BATCH_HEAD.size)
    if len(head) < BATCH_HEAD.size:
        raise EntryFormatError(f"op batch header at octet {offset} of {size} is cut short")
    _, _, sequence, length = BATCH_HEAD.unpack(head)
    start = offset + BATCH_HEAD.size
    if start + length > size:
        raise EntryFormatError(f"op batch at octet {start} of {size} is cut short")
    return EntryPlace(start, start + length, sequence)
