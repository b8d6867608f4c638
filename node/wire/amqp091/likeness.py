"""How alike the publishes in a connection's input are: comparisons of the octets of messages in a row."""

from __future__ import annotations

from array import array
from typing import Final

from node.wire.amqp091.codec import FRAME, FRAME_OVERHEAD
from node.wire.amqp091.methods import FRAME_END, FRAME_METHOD
from node.wire.amqp091.routing_keys import EXCHANGE_AT

UNIFORM_FROM: Final = 8
"""The least number of identical messages in a row that get a uniform run of their own."""

FEW: Final = 16
"""From so many messages on, comparing columns is faster than comparing the messages one by one."""


def other_key_end(data: bytes, first: int, first_end: int, at: int) -> int:
    """The position behind the basic.publish frame at `at`, where it differs from the first one in nothing but
    an ASCII routing key; 0 for anything else.
    """
    key_at = first + EXCHANGE_AT + 1 + data[first + EXCHANGE_AT]
    head = data[first + FRAME.size : key_at]
    other = at + key_at - first
    if other >= len(data) or not data.startswith(head, at + FRAME.size):
        return 0
    key = data[other + 1 : other + 1 + data[other]]
    end = other + 1 + data[other] + 2
    frame = FRAME.pack(FRAME_METHOD, data[first + 1] << 8 | data[first + 2], end - at - FRAME_OVERHEAD)
    whole = data.startswith(frame, at) and data.startswith(data[first_end - 2 : first_end], end - 2)
    return end if whole and key.isascii() and 0 not in key else 0


def become_uniform(lengths: array[int]) -> bool:
    """Whether enough messages in a row had one length for the next ones to be a uniform run."""
    return len(lengths) > UNIFORM_FROM and len(set(lengths[-UNIFORM_FROM - 1 :])) == 1


def identical(data: bytes, at: int, prefix: bytes, stride: int) -> int:
    """The number of messages of length `stride` from `at` on that begin with `prefix` and end with an end
    octet.
    """
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
