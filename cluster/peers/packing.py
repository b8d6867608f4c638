"""msgpack with extensions for the arguments of declarations: decimals, and names in any octets."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import msgpack

from replication.forms import expect
from replication.raft import MessageError

_DECIMAL: Final = 1


def pack(value: Any) -> bytes:
    """The msgpack of a value. Raises TypeError for a type that field tables do not have."""
    return bytes(msgpack.packb(value, default=_extension, unicode_errors="surrogateescape"))


def pack_joined(head: Sequence[Any], values: Sequence[bytes]) -> bytes:
    """The msgpack of a list: the values `head`, then a list of `values`, each of them packed already."""
    packer = msgpack.Packer()
    opened = packer.pack_array_header(len(head) + 1)
    return b"".join([opened, *map(pack, head), packer.pack_array_header(len(values)), *values])


def unpack_part(parts: Sequence[bytes], form: Any, place: int = 1) -> Any:
    """The value in one part of a message, which must have this form (`replication.forms`). Raises
    MessageError.
    """
    try:
        value = unpack(parts[place])
    except Exception as error:
        raise MessageError(f"part {place} of a message does not decode: {error}") from error
    expect(value, form)
    return value


def unpack(data: bytes) -> Any:
    """Inverse of `pack`. Raises ValueError for malformed octets."""
    return msgpack.unpackb(data, ext_hook=_value, unicode_errors="surrogateescape")


def _extension(value: object) -> msgpack.ExtType:
    if isinstance(value, Decimal):
        return msgpack.ExtType(_DECIMAL, str(value).encode())
    raise TypeError(f"{type(value).__name__} has no place in a field table")


def _value(code: int, data: bytes) -> Any:
    if code != _DECIMAL:
        raise ValueError(f"unknown extension {code}")
    return Decimal(data.decode())
