"""Sender-selected distribution (RabbitMQ's extension): further routing keys in the headers CC and BCC.

Callers use this module only for runs that may have one of these headers (`Amqp091Format.may_have_copies`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from node.message.format import Copies
from node.message.run import Run
from node.refusal import PreconditionFailedError
from node.wire.amqp091.fields import split_array, split_table
from node.wire.amqp091.native import NATIVE_HEADER_KEYS, NO_HEADERS
from node.wire.amqp091.properties import property_places
from node.wire.amqp091.rewriting import Headers, edit_properties

REMEMBERED_OCTETS: Final = 512
"""The largest property list whose keys are cached."""

CC: Final = b"CC"
"""The name of the one header, and a part of the name of the other."""

BCC: Final = b"BCC"

_ARRAY: Final = b"A"
_TEXT: Final = b"S"
_TYPES: Final = {
    b"S": "longstr",
    b"I": "signedint",
    b"t": "bool",
    b"F": "table",
    b"V": "void",
    b"b": "byte",
    b"B": "unsignedbyte",
    b"s": "short",
    b"u": "unsignedshort",
    b"i": "unsignedint",
    b"l": "long",
    b"d": "double",
    b"f": "float",
    b"T": "timestamp",
    b"D": "decimal",
    b"x": "binary",
}
"""RabbitMQ's names for the types of field values, by type octet."""


def may_state_keys(run: Run) -> bool:
    """Whether a message of the run may have one of the headers. False is certain."""
    if NATIVE_HEADER_KEYS is not None and run.lengths is not None:
        known = NATIVE_HEADER_KEYS(run.raw, run.skip, run.lengths, (CC, BCC))
        if known is not None:
            return known != [(0, run.count, NO_HEADERS)]
    raw = run.raw if isinstance(run.raw, bytes) else bytes(run.raw)
    # The octet of a name's length stands before the name, so that hardly a body has these octets by chance.
    return CC in raw and any(bytes((len(name),)) + name in raw for name in (CC, BCC))


def keys_in(value: bytes) -> list[str]:
    """The routing keys in the encoded value of such a header; empty for anything but an array."""
    if value[:1] != _ARRAY:
        return []
    return [
        each[5:].decode("utf-8", "surrogateescape") for each in split_array(value, 1) if each[:1] == _TEXT
    ]


def read_copies(properties: bytes) -> Copies:
    """The further routing keys in a property list.

    Raises PreconditionFailedError, with RabbitMQ's words, where a header is no array.
    """
    # The cache for all clients must stay small, so long lists, whose length clients choose, are not in it.
    return _remembered(properties) if len(properties) <= REMEMBERED_OCTETS else _read(properties)


def _read(properties: bytes) -> Copies:
    place = property_places(properties).get("headers")
    headers: Headers = {} if place is None else dict(split_table(properties, place[0]))
    keys: list[str] = []
    for name in (CC, BCC):
        value = headers.get(name)
        if value is not None and value[:1] != _ARRAY:
            type_ = _TYPES.get(value[:1], "unknown")
            raise PreconditionFailedError(
                f'invalid message: {{unacceptable_type_in_header,"{name.decode()}",{type_}}}'
            )
        keys += keys_in(value or b"")
    return Copies(tuple(keys), BCC in headers)


@lru_cache(4096)
def _remembered(properties: bytes) -> Copies:
    return _read(properties)


def without_blind_copies(properties: bytes) -> bytes:
    """The property list without the header BCC, for consumers."""

    def edit(headers: Headers) -> Headers:
        headers.pop(BCC, None)
        return headers

    return edit_properties(properties, edit)
