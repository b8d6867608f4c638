"""The fast path of acknowledgements: finds rows of basic.ack frames in the input, which consumers send
singly.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from node.wire.amqp091.codec import FRAME, encode_method
from node.wire.amqp091.methods import FRAME_END, BasicAck

_EXAMPLE: Final = encode_method(1, BasicAck())
_ACK: Final = Struct(">QBB")
"""Delivery tag, bits and end octet: what follows the ids in a basic.ack frame."""

_STRIDE: Final = len(_EXAMPLE)
_LEAD: Final = _STRIDE - _ACK.size

ACK_IDS: Final = _EXAMPLE[FRAME.size : _LEAD]


class Acknowledged(NamedTuple):
    """The delivery tags `first` to `last`, acknowledged by the frames up to `end`. With `multiple` each frame
    acknowledges all deliveries up to its tag.
    """

    first: int
    last: int
    multiple: bool
    end: int


def acknowledgements(data: bytes, at: int, stop: int) -> Acknowledged | None:
    """The row of basic.ack frames that begins with the complete frame from `at` to `stop`.

    The frames of a row have one channel, consecutive tags, and the same bit `multiple`. None for a frame of
    another length: the caller decodes it alone.
    """
    if stop - at != _STRIDE:
        return None
    lead = data[at : at + _LEAD]
    first, multiple, _ = _ACK.unpack_from(data, at + _LEAD)
    last, end = first, len(data) - _STRIDE
    # Tag 0 acknowledges all deliveries (basic.ack), and begins no row.
    while first and stop <= end and data.startswith(lead, stop):
        tag, bits, frame_end = _ACK.unpack_from(data, stop + _LEAD)
        if tag != last + 1 or (bits ^ multiple) & 1 or frame_end != FRAME_END:
            break
        last = tag
        stop += _STRIDE
    return Acknowledged(first, last, bool(multiple & 1), stop)
