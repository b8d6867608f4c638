"""Transfer frames in a row that differ in their delivery-ids, delivery-tags and messages alone.

Senders write all transfers of a link alike, but for deliveries in several frames. So the parser compares the
octets of a transfer with those of the last one, and decodes the fields of the first transfer only. A row says
nothing that its frames do not say: the session takes a row apart where a frame needs a look of its own.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from struct import Struct
from typing import Final

from node.wire.amqp10.definitions import Transfer
from node.wire.amqp10.serial import MODULUS

_HEAD_OCTETS: Final = 14
"""A frame's head, and that of its performative: descriptor, code, size and number of fields."""

_UINT_OCTETS: Final = {0x43: 1, 0x52: 2, 0x70: 5}
_WIDE_UINT: Final = 0x70
_SHORT_BINARY: Final = 0xA0
_LARGEST_TAG: Final = 32
"""The largest number of octets in a delivery-tag (section 2.8.7)."""

_MOST_REST: Final = 32


@lru_cache(maxsize=256)
def _layout(before: int, tag: int, rest: int) -> Struct:
    """The frame's size, the octets up to the delivery-id, the delivery-id, code and length of the tag, and
    the octets from the tag to the message.
    """
    return Struct(f">I{before}sI2s{tag}x{rest}s")


class TransferShape:
    """The octets that a transfer frame has in common with the frames behind it."""

    __slots__ = ("before", "layout", "rest", "skip", "tag", "transfer")

    def __init__(self, transfer: Transfer, before: bytes, tag: bytes, rest: bytes) -> None:
        self.transfer: Final = transfer
        self.before: Final = before
        self.tag: Final = tag
        self.rest: Final = rest
        self.layout: Final = _layout(len(before), tag[1], len(rest))
        self.skip: Final = self.layout.size
        """The octets in front of the message."""


class TransferRow:
    """Frames of one shape, end to end in `data` from `begin` to `end`, with delivery-ids that follow each
    other. `lengths` has the octets of each frame. The message in a frame begins behind `skip` octets.

    `transfer` has the fields of all frames, but for the delivery-id and the delivery-tag.
    """

    __slots__ = ("begin", "channel", "data", "end", "first_id", "lengths", "skip", "transfer")

    def __init__(
        self,
        shape: TransferShape,
        channel: int,
        data: bytes,
        begin: int,
        end: int,
        first_id: int,
        lengths: array[int],
    ) -> None:
        self.transfer: Final = shape.transfer
        self.skip: Final = shape.skip
        self.channel: Final = channel
        self.data: Final = data
        self.begin: Final = begin
        self.end: Final = end
        self.first_id: Final = first_id
        self.lengths: Final = lengths


def shape_of(transfer: Transfer, data: bytes, begin: int, start: int) -> TransferShape | None:
    """The shape of the frame at `begin`, whose message begins at `start`.

    None for a frame whose fields do not stand where most senders have them, and for one of a delivery in
    several frames.
    """
    if transfer.more or transfer.aborted or transfer.delivery_id is None or transfer.delivery_tag is None:
        return None
    if data[begin + 4] != 2 or data[begin + 11] != 0xC0:
        return None
    octets = _UINT_OCTETS.get(data[begin + _HEAD_OCTETS])
    if octets is None:
        return None
    id_at = begin + _HEAD_OCTETS + octets + 1
    tag_at = id_at + 4
    if data[id_at - 1] != _WIDE_UINT or data[tag_at] != _SHORT_BINARY or data[tag_at + 1] > _LARGEST_TAG:
        return None
    rest_at = tag_at + 2 + data[tag_at + 1]
    if start - rest_at > _MOST_REST:
        return None
    return TransferShape(transfer, data[begin + 4 : id_at], data[tag_at : tag_at + 2], data[rest_at:start])


def row_at(
    shape: TransferShape, data: bytes, begin: int, end: int, max_frame_size: int
) -> TransferRow | None:
    """The frames of the shape that stand at `begin`, whole and none larger than `max_frame_size`; None for
    no such frame.
    """
    unpack, skip = shape.layout.unpack_from, shape.skip
    before, tag, rest = shape.before, shape.tag, shape.rest
    lengths = array("I")
    at = begin
    first = next_id = 0
    while end - at >= skip:
        found_size, found_before, found_id, found_tag, found_rest = unpack(data, at)
        size: int = found_size
        if size < skip or size > max_frame_size or size > end - at:
            break
        if found_before != before or found_tag != tag or found_rest != rest:
            break
        number: int = found_id
        if at == begin:
            first = number
        elif number != next_id:
            break
        next_id = (number + 1) % MODULUS
        lengths.append(size)
        at += size
    if at == begin:
        return None
    channel = data[begin + 6] << 8 | data[begin + 7]
    return TransferRow(shape, channel, data, begin, at, first, lengths)
