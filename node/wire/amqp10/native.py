"""The functions of `_application.c`, where they were built; None elsewhere. Their twin is `Amqp10Facts`."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from importlib import import_module
from typing import Final

PropertyKeys = Callable[
    [bytes | bytearray | memoryview, int, "array[int]", tuple[bytes, ...]],
    list[tuple[int, int, bytes]] | None,
]
"""(octets, octets of the transfer frame, lengths, names) -> (first, count, key) of messages with the same
values of these application-properties; None where the twin has to look.
"""

Integers = Callable[
    [bytes | bytearray | memoryview, int, "array[int]", tuple[bytes, ...]],
    list[tuple[int, int, int]] | None,
]
"""(octets, octets of the transfer frame, lengths, the name of one application-property) -> (first, count,
integer) of messages with the same integer there; None where the twin has to look.
"""

try:
    _found: object = import_module("node.wire.amqp10._application")
except ModuleNotFoundError:
    _found = None

NATIVE_PROPERTY_KEYS: Final[PropertyKeys | None] = getattr(_found, "property_keys", None)
NATIVE_INTEGERS: Final[Integers | None] = getattr(_found, "integers", None)
