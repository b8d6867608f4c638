"""Messages of AMQP 1.0 with application-properties in all encodings, well-formed and not."""

from __future__ import annotations

from typing import Final

from node.wire.amqp10 import definitions as d

SMALL_HEADER: Final = d.Header(durable=True).encode()
BODY: Final = b"\x00\x53\x75\xa0\x01x"

VALUES: Final = [
    b"\x40", b"\x41", b"\x42", b"\x56\x00", b"\x56\x01", b"\x50\x07", b"\x60\x00\x07", b"\x43", b"\x52\x09",
    b"\x70\x00\x00\x00\x07", b"\x44", b"\x53\x07", b"\x80" + bytes(8), b"\x51\xff", b"\x61\xff\xfe",
    b"\x54\x05", b"\x71\xff\xff\xff\xff", b"\x55\xff", b"\x81" + bytes(7) + b"\x02", b"\x72\x3f\x80\x00\x00",
    b"\x82\x3f\xf0" + bytes(6), b"\x83" + bytes(7) + b"\x01", b"\x98" + bytes(range(16)), b"\xa0\x02ab",
    b"\xb0\x00\x00\x00\x02ab", b"\xa1\x03red", b"\xb1\x00\x00\x00\x03red", b"\xa3\x04blue",
    b"\xb3\x00\x00\x00\x04blue", b"\xa1\x00",
]  # fmt: skip
"""Values that C reads."""

OTHERS: Final = [
    b"\xa1\x02\xc3\xa9", b"\xa1\x01\xff", b"\xa3\x01\xe9", b"\x73\x00\x00\x00A", b"\x73\x00\x11\x00\x00",
    b"\x56\x02", b"\x74" + bytes(4), b"\x84" + bytes(8), b"\x94" + bytes(16), b"\x45", b"\xc0\x01\x00",
    b"\xc1\x01\x00", b"\xe0\x02\x00\x40", b"\x00\x53\x01\x40", b"\x47", b"\x3f", b"\xa1\x09cut",
]  # fmt: skip
"""Values that are left to the twin, some of them malformed."""

NAMES: Final = [
    b"\xa1\x01n",
    b"\xa1\x04kind",
    b"\xb1\x00\x00\x00\x01n",
    b"\xa1\x05other",
    b"\xa1\x02\xc3\xa9",
]
ODD_NAMES: Final = [b"\xa3\x01n", b"\x50\x01", b"\x40", b"\xa1\x01\xff"]


def properties(*pairs: bytes, wide: bool = False, count: int | None = None) -> bytes:
    """The section with these keys and values. `count` is stated instead of their number."""
    whole, items = b"".join(pairs), len(pairs) if count is None else count
    if wide or len(whole) > 254:
        return b"\x00\x53\x74\xd1" + (len(whole) + 4).to_bytes(4, "big") + items.to_bytes(4, "big") + whole
    return b"\x00\x53\x74\xc1" + bytes((len(whole) + 1, items)) + whole


MESSAGES: Final = [
    SMALL_HEADER + properties(name, value, wide=wide) + BODY
    for name in NAMES
    for value in (*VALUES, *OTHERS)
    for wide in (False, True)
]
