"""Serial numbers of 32 bits (RFC 1982), which delivery ids, transfer ids and delivery counts are (part 2,
section 2.8.10).

The machines count without end, and cut a count to 32 bits where the number is written.
"""

from __future__ import annotations

from typing import Final

MODULUS: Final = 1 << 32
_HALF: Final = 1 << 31


def unwrapped(number: int, near: int) -> int:
    """The count nearest to the count `near` whose last 32 bits are `number`; may be negative."""
    difference = (number - near) & (MODULUS - 1)
    return near + (difference if difference < _HALF else difference - MODULUS)
