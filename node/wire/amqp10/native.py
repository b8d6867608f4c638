"""The function of `_application.c`, where it was built; None elsewhere. Its twin is `Amqp10Facts`."""

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

try:
    _found = getattr(import_module("node.wire.amqp10._application"), "property_keys", None)
except ModuleNotFoundError:
    _found = None

NATIVE_PROPERTY_KEYS: Final[PropertyKeys | None] = _found
