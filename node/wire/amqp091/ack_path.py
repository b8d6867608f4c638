"""Acknowledgements on the fast path: consumers send them one by one, and many arrive in one piece."""

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
    """Consecutive tags, acknowledged by the frames up to `end`; `multiple` is about `last` alone."""

    first: int
    last: int
    multiple: bool
    end: int


def acknowledgements(data: bytes, at: int, stop: int) -> Acknowledged | None:
    """The row of basic.ack frames that begins with the complete one from `at` to `stop`.

    A row has the same channel and tags that grow by one. None for a frame of another length, which is
    left to the decoder.
    """
    if stop - at != _STRIDE:
        return None
    lead = data[at : at + _LEAD]
    first, bits, _ = _ACK.unpack_from(data, at + _LEAD)
    if bits & 1:
        return Acknowledged(first, first, True, stop)
    last, end = first, len(data) - _STRIDE
    while stop <= end and data.startswith(lead, stop):
        tag, bits, frame_end = _ACK.unpack_from(data, stop + _LEAD)
        if tag != last + 1 or bits & 1 or frame_end != FRAME_END:
            break
        last = tag
        stop += _STRIDE
    return Acknowledged(first, last, False, stop)
