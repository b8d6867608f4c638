"""Which group a message belongs to (queue argument x-group-by), as a number that replicas agree on."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Final

from node.message.content import read_headers_property, read_short_string
from node.queue.features.group import NO_GROUP

ROUTING_KEY: Final = "routing_key"

PROPERTIES: Final = frozenset(("message_id", "correlation_id", "type", "app_id", "user_id", "reply_to"))
"""The properties that can be a key; any other name is that of a header."""

_CACHED: Final = 4096


def named(argument: str) -> str:
    """What an argument x-group-by names: properties also with hyphens, as `correlation-id`."""
    name = argument.replace("-", "_")
    return name if name in PROPERTIES or name == ROUTING_KEY else argument


@lru_cache(_CACHED)
def group_of(properties: bytes, name: str) -> int:
    """The group of messages with this property list, by one of PROPERTIES or a header.

    NO_GROUP for messages that have nothing of the name. Raises FieldSyntaxError.
    """
    if name in PROPERTIES:
        value = read_short_string(properties, name)
        return NO_GROUP if value is None else group_named(value)
    header = read_headers_property(properties).get(name)
    if header is None:
        return NO_GROUP
    return group_named(header.encode() if isinstance(header, str) else repr(header).encode())


def group_named(key: bytes) -> int:
    """The group of a key: 64 bits of a digest. Groups that share one only wait for each other."""
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "little") or 1
