"""The codes in front of encoded values (part 1, section 1.6).

The upper four bits say how many octets follow: 0x4 none, 0x5 one, 0x6 two, 0x7 four, 0x8 eight, 0x9 sixteen;
0xA, 0xC and 0xE as many as one octet says, 0xB, 0xD and 0xF as many as four octets say.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final


class FormatCode(IntEnum):
    """The code of each encoding."""

    DESCRIBED = 0x00
    NULL = 0x40
    BOOLEAN = 0x56
    TRUE = 0x41
    FALSE = 0x42
    UBYTE = 0x50
    USHORT = 0x60
    UINT = 0x70
    SMALL_UINT = 0x52
    UINT_0 = 0x43
    ULONG = 0x80
    SMALL_ULONG = 0x53
    ULONG_0 = 0x44
    BYTE = 0x51
    SHORT = 0x61
    INT = 0x71
    SMALL_INT = 0x54
    LONG = 0x81
    SMALL_LONG = 0x55
    FLOAT = 0x72
    DOUBLE = 0x82
    DECIMAL_32 = 0x74
    DECIMAL_64 = 0x84
    DECIMAL_128 = 0x94
    CHAR = 0x73
    TIMESTAMP = 0x83
    UUID = 0x98
    BINARY_8 = 0xA0
    BINARY_32 = 0xB0
    STRING_8 = 0xA1
    STRING_32 = 0xB1
    SYMBOL_8 = 0xA3
    SYMBOL_32 = 0xB3
    LIST_0 = 0x45
    LIST_8 = 0xC0
    LIST_32 = 0xD0
    MAP_8 = 0xC1
    MAP_32 = 0xD1
    ARRAY_8 = 0xE0
    ARRAY_32 = 0xF0


FIXED_WIDTHS: Final = (0, 1, 2, 4, 8, 16)
"""Octets behind codes 0x4_ to 0x9_."""

OCTETS_2: Final = Struct(">H")
OCTETS_4: Final = Struct(">I")
OCTETS_8: Final = Struct(">Q")
