"""Reads and writes the properties of a content as values by name, for the administration (§4.2.6.1).

Sessions never decode properties like this: see `properties`.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import error as StructError
from typing import Any, Final

from node.wire.amqp091.errors import FieldSyntaxError
from node.wire.amqp091.fields import Timestamp, encode_table, read_headers
from node.wire.amqp091.methods import BASIC_PROPERTIES
from node.wire.amqp091.primitives import LONGLONG, OCTET, SHORT, encode_shortstr
from node.wire.amqp091.properties import CLASS_BASIC

_FIRST_FLAG: Final = 1 << 15
_MORE_FLAGS: Final = 1


def encode_properties(values: Mapping[str, Any]) -> bytes:
    """The property list. Raises ValueError, with the property's name, for a value that it cannot hold."""
    flags, parts = 0, []
    for number, (name, kind) in enumerate(BASIC_PROPERTIES):
        if values.get(name) is not None:
            flags |= _FIRST_FLAG >> number
            try:
                parts.append(_ENCODERS[kind](values[name]))
            except (ValueError, TypeError, AttributeError, StructError):
                raise ValueError(f"{name} is no {kind}") from None
    return SHORT.pack(flags) + b"".join(parts)


def encode_header(body_size: int, properties: bytes) -> bytes:
    """The payload of a content header frame."""
    return SHORT.pack(CLASS_BASIC) + SHORT.pack(0) + LONGLONG.pack(body_size) + properties


def read_properties(data: bytes) -> dict[str, Any]:
    """The values in a property list, by name. Raises FieldSyntaxError."""
    try:
        (flags,) = SHORT.unpack_from(data)
        at, more = SHORT.size, flags
        while more & _MORE_FLAGS:
            (more,) = SHORT.unpack_from(data, at)
            at += SHORT.size
        values = {}
        for number, (name, kind) in enumerate(BASIC_PROPERTIES):
            if flags & _FIRST_FLAG >> number:
                values[name], at = _READERS[kind](data, at)
        return values
    except (StructError, IndexError):
        raise FieldSyntaxError("a property list is cut short") from None


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    """A short string, with octets that are not UTF-8 replaced: applications put ids into properties."""
    end = at + 1 + data[at]
    return data[at + 1 : end].decode("utf-8", "replace"), end


def _read_octet(data: bytes, at: int) -> tuple[int, int]:
    return data[at], at + 1


def _read_timestamp(data: bytes, at: int) -> tuple[Timestamp, int]:
    return Timestamp(LONGLONG.unpack_from(data, at)[0]), at + LONGLONG.size


_ENCODERS: Final[dict[str, Any]] = {
    "shortstr": encode_shortstr,
    "table": encode_table,
    "octet": OCTET.pack,
    "timestamp": LONGLONG.pack,
}
_READERS: Final[dict[str, Any]] = {
    "shortstr": _read_text,
    "table": read_headers,
    "octet": _read_octet,
    "timestamp": _read_timestamp,
}
