"""Dispositions in a row that settle deliveries which follow each other, with the same outcome.

Many receivers settle one delivery after the other. The range of them all says the same as their dispositions
(part 2, section 2.6.12), and is settled at once.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final

from node.wire.amqp10.definitions import Disposition
from node.wire.amqp10.serial import MODULUS

_FIRST_AT: Final = 15
"""The place of the field `first`: behind a frame's head, that of its performative, and the role."""

_SINGLE_OCTETS: Final = 6
_RANGE_OCTETS: Final = 10
"""The octets of `first` and `last`, where `last` is null, and where both have four octets."""

_WIDE_UINT: Final = 0x70
_NULL: Final = 0x40
_MOST_REST: Final = 64
_MOST_SPAN: Final = 1 << 31
"""Serial numbers further apart have no order (RFC 1982)."""


@lru_cache(maxsize=64)
def _layout(single: bool, rest: int) -> Struct:
    """The octets up to `first`, and `first`; `last`, or null for a single delivery; the octets behind."""
    return Struct(f">{_FIRST_AT + 1}sIB{rest}s" if single else f">{_FIRST_AT + 1}sIBI{rest}s")


def with_followers(
    disposition: Disposition, data: bytes, begin: int, stop: int, end: int
) -> tuple[Disposition, int]:
    """The disposition with those behind that continue it, and the position behind them.

    The frame of the disposition is from `begin` to `stop`; the octets end at `end`.
    """
    single = disposition.last is None
    rest = stop - begin - _FIRST_AT - (_SINGLE_OCTETS if single else _RANGE_OCTETS)
    middle = _NULL if single else _WIDE_UINT
    if not disposition.settled or not 0 <= rest <= _MOST_REST or not _is_usual(data, begin, middle):
        return disposition, stop
    layout = _layout(single, rest)
    before, behind = data[begin : begin + _FIRST_AT + 1], data[stop - rest : stop]
    first = disposition.first
    last = first if disposition.last is None else disposition.last
    span = (last - first) % MODULUS
    at = stop
    while end - at >= layout.size:
        found = layout.unpack_from(data, at)
        next_first: int = found[1]
        next_last: int = next_first if single else found[3]
        span += 1 + (next_last - next_first) % MODULUS
        if found[0] != before or found[2] != middle or found[-1] != behind:
            break
        if next_first != (last + 1) % MODULUS or span >= _MOST_SPAN:
            break
        last = next_last
        at += layout.size
    if at == stop:
        return disposition, stop
    return Disposition(disposition.role, first, last, True, disposition.state, disposition.batchable), at


def _is_usual(data: bytes, begin: int, middle: int) -> bool:
    """Whether `first` of the frame at `begin` stands where most receivers have it, with `middle` behind."""
    return (
        data[begin + 4] == 2
        and data[begin + 11] == 0xC0
        and data[begin + _FIRST_AT] == _WIDE_UINT
        and data[begin + _FIRST_AT + 5] == middle
    )
