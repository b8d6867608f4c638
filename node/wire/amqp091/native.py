"""The functions of `_contents.c`, where they were built; None elsewhere.

Each has a twin in Python, which runs without it: `PublishPath`, `contents.body_sizes`,
`codec.encode_deliveries`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Final

RawOctets = bytes | bytearray | memoryview

Scan = Callable[[bytes, int, int, int, bytes | None, int, int], tuple[bytes, int, int]]
"""(input, position, octets of the method frame, traits, user-id, largest payload, largest body) -> (lengths,
end, largest frame). Measures messages of one method frame and the same traits.
"""

BodySizes = Callable[[RawOctets, int, "array[int]"], bytes]
"""(octets, octets of the method frame, lengths) -> sizes, of eight octets each."""

Deliveries = Callable[[RawOctets, int, "array[int]", bytes, bytes, int, int], bytes]
"""(octets, octets of the method frame, lengths, basic.deliver before its tag, behind its tag, first tag,
channel) -> the frames for the consumer.
"""


def _built() -> ModuleType | None:
    """The module of `_contents.c`; None where it was not built."""
    try:
        return import_module("node.wire.amqp091._contents")
    except ModuleNotFoundError:
        return None


NATIVE_SCAN: Final[Scan | None] = getattr(_built(), "scan", None)
NATIVE_BODY_SIZES: Final[BodySizes | None] = getattr(_built(), "body_sizes", None)
NATIVE_DELIVERIES: Final[Deliveries | None] = getattr(_built(), "deliveries", None)
