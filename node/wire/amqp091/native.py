"""The functions of `_contents.c` and `_properties.c`, where they were built; None elsewhere.

Each has a twin in Python, which runs without it: `PublishPath`, `codec.encode_deliveries`, and in `contents`
`body_sizes`, `asked_in`, `texts_in`, `header_keys` and `routing_keys`; that of `offsets` is
`rewriting.with_offsets`, and that of `alike` is `checked_messages.MessageChecks.check`. What `integers`
tells, the keys of `header_keys` tell, too.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Final

from node.message.format import Asked

RawOctets = bytes | bytearray | memoryview

Scan = Callable[[bytes, int, int, bool, int, bytes | None, int, int], tuple[bytes, int, int]]
"""(input, position, octets of the method frame, whether the routing keys may differ, traits, user-id, largest
payload, largest body) -> (lengths, end, largest frame). Measures messages of one method frame, or of one
exchange, and the same traits.
"""

Alike = Callable[[bytes, int, "array[int] | memoryview", int, bytes | None, int], tuple[int, int, int]]
"""(octets, position, lengths, traits, user-id, largest body) -> (number, end, largest frame). Counts contents
of these lengths and traits, on the channel of the first.
"""

BodySizes = Callable[[RawOctets, int, "array[int]"], bytes]
"""(octets, octets of the method frame, lengths) -> sizes, of eight octets each."""

Deliveries = Callable[[RawOctets, int, "array[int]", bytes, bytes, int, int], bytes]
"""(octets, octets of the method frame, lengths, basic.deliver before its tag, behind its tag, first tag,
channel) -> the frames for the consumer. Where the messages state their routing keys, the given octets of
basic.deliver end before the key.
"""

RoutingKeys = Callable[[RawOctets, "array[int]"], list[bytes]]
"""(octets, lengths) -> the routing key of each message, whose method frame states it."""

AskedIn = Callable[[RawOctets, int, "array[int]"], list[Asked] | None]
"""(octets, octets of the method frame, lengths) -> wishes; None where the twin has to look."""

TextsIn = Callable[[RawOctets, int, "array[int]", int], list[bytes | None] | None]
"""(octets, octets of the method frame, lengths, number of a property) -> the value of each message, None
without one; None where the twin has to look.
"""

HeaderKeys = Callable[[RawOctets, int, "array[int]", tuple[bytes, ...]], list[tuple[int, int, bytes]] | None]
"""(octets, octets of the method frame, lengths, names of headers) -> (first, count, key) of messages with the
same values of these headers; None where the twin has to look.
"""

Integers = Callable[[RawOctets, int, "array[int]", tuple[bytes, ...]], list[tuple[int, int, int]] | None]
"""(octets, octets of the method frame, lengths, the name of one header) -> (first, count, integer) of
messages with the same integer in this header; None where some message does not have the header once, as an
integer.
"""

Offsets = Callable[[RawOctets, int, "array[int]", int, int], tuple[bytes, bytes, int] | None]
"""(octets, octets of the method frame, lengths, channel, first) -> (octets, lengths, largest content header
frame) of the messages with their places in a stream, from `first` on; None where the twin has to look.
"""

NO_HEADERS: Final = b"h"
"""The key of messages that have none of the headers."""


def _built(name: str) -> ModuleType | None:
    """A module in C; None where it was not built."""
    try:
        return import_module(f"node.wire.amqp091.{name}")
    except ModuleNotFoundError:
        return None


_CONTENTS: Final = _built("_contents")
_PROPERTIES: Final = _built("_properties")

NATIVE_SCAN: Final[Scan | None] = getattr(_CONTENTS, "scan", None)
NATIVE_ALIKE: Final[Alike | None] = getattr(_CONTENTS, "alike", None)
NATIVE_BODY_SIZES: Final[BodySizes | None] = getattr(_CONTENTS, "body_sizes", None)
NATIVE_ROUTING_KEYS: Final[RoutingKeys | None] = getattr(_CONTENTS, "routing_keys", None)
NATIVE_DELIVERIES: Final[Deliveries | None] = getattr(_CONTENTS, "deliveries", None)
NATIVE_ASKED: Final[AskedIn | None] = getattr(_PROPERTIES, "asked", None)
NATIVE_HEADER_KEYS: Final[HeaderKeys | None] = getattr(_PROPERTIES, "header_keys", None)
NATIVE_INTEGERS: Final[Integers | None] = getattr(_PROPERTIES, "integers", None)
NATIVE_OFFSETS: Final[Offsets | None] = getattr(_PROPERTIES, "offsets", None)
NATIVE_TEXTS: Final[TextsIn | None] = getattr(_PROPERTIES, "texts", None)
