"""Contents of AMQP 0-9-1: a content header frame and content body frames (sections 2.3.5 and 4.2.6)."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from struct import Struct
from typing import Any, Final

from pipeline.message.content import MAX_DEPTH, Content, Timestamp
from pipeline.message.text import shown_text
from pipeline.octets.cursor import Cursor, MalformedError

_FRAME: Final = Struct(">BHI")
_HEADER: Final = Struct(">HHQ")
_DECIMAL: Final = Struct(">Bi")
_METHOD, _HEADER_FRAME, _BODY_FRAME, _END = 1, 2, 3, 0xCE
_OVERHEAD: Final = 8
"""The octets of a frame around its payload."""

_LEAST: Final = _OVERHEAD + 14
"""The octets of a header frame without properties."""

_MORE: Final = 1
_NONE: Final[dict[str, Any]] = {}
_REMEMBERED: Final = 1024
_REMEMBERED_OCTETS: Final = 512
"""So many property lists of at most so many octets are not decoded again."""

PROPERTIES: Final = (
    ("content_type", "text"), ("content_encoding", "text"), ("headers", "table"), ("delivery_mode", "octet"),
    ("priority", "octet"), ("correlation_id", "text"), ("reply_to", "text"), ("expiration", "text"),
    ("message_id", "text"), ("timestamp", "time"), ("type", "text"), ("user_id", "text"), ("app_id", "text"),
    ("cluster_id", "text"),
)  # fmt: skip
"""The properties in the order of a list, with the readers of their values."""

_NUMBERS: Final = {
    ord(code): Struct(f">{form}") for code, form in zip("bBsUuIiLlfd", "bBhhHiIqqfd", strict=True)
}
"""The numbers of field tables, with the codes that clients use."""


def content_of(data: bytes) -> Content:
    """Decode the content frames of a message. Raises MalformedError. Messages with the same properties may
    share dictionaries: they are not to be changed.
    """
    cursor = Cursor(data)
    size, properties, headers = 0, _NONE, _NONE
    parts: list[bytes] = []
    while cursor.left:
        at = cursor.at
        kind, _, length = cursor.fields(_FRAME)
        start = cursor.skip(length)
        if cursor.u8() != _END or kind not in (_HEADER_FRAME, _BODY_FRAME):
            raise MalformedError(at, f"a frame of type {kind} in a content, or one without its end")
        if kind == _BODY_FRAME:
            parts.append(data[start : start + length])
        else:
            header = Cursor(data, start, start + length)
            size = int(header.fields(_HEADER)[2])
            properties, headers = _properties(header)
    body = b"".join(parts)
    if len(body) != size:
        raise MalformedError(0, f"a body of {len(body)} octets, whose header says {size}")
    return Content(properties, headers, body)


def only_body(data: bytes) -> bytes | None:
    """The body of a message with one body frame or none, without a look at its properties; None where the
    frames are others.
    """
    behind = _OVERHEAD + int.from_bytes(data[3:7], "big")
    if data[:1] != b"\x02" or data[behind - 1 : behind] != b"\xce" or behind < _LEAST:
        return None
    size = int.from_bytes(data[11:19], "big")
    if len(data) == behind and not size:
        return b""
    if data[behind : behind + 1] != b"\x03" or len(data) != behind + _OVERHEAD + size or data[-1] != _END:
        return None
    return data[behind + 7 : -1] if int.from_bytes(data[behind + 3 : behind + 7], "big") == size else None


def properties_of(octets: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The properties and headers of a property list. Raises MalformedError. Lists may share dictionaries."""
    return _properties(Cursor(octets))


def _properties(cursor: Cursor) -> tuple[dict[str, Any], dict[str, Any]]:
    """The properties and headers that stand next: publishers mostly repeat them."""
    if cursor.left > _REMEMBERED_OCTETS:
        return _decoded(cursor)
    at, octets = cursor.at, cursor.octets(cursor.left)
    try:
        return _remembered(octets)
    except MalformedError as error:
        raise MalformedError(at + error.at, error.what) from error


@lru_cache(_REMEMBERED)
def _remembered(octets: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    return _decoded(Cursor(octets))


def own_key(data: bytes) -> tuple[bytes, int]:
    """The routing key in the basic.publish frame with which a message begins, and the octets of that frame.
    Raises MalformedError.
    """
    cursor = Cursor(data)
    kind, _, length = cursor.fields(_FRAME)
    method = Cursor(cursor.octets(length))
    if kind != _METHOD or cursor.u8() != _END:
        raise MalformedError(0, "a message without its method frame")
    method.skip(6)
    method.skip(method.u8())
    return method.octets(method.u8()), cursor.at


def _decoded(cursor: Cursor) -> tuple[dict[str, Any], dict[str, Any]]:
    found: dict[str, Any] = {}
    words = [_u16(cursor)]
    while words[-1] & _MORE:
        words.append(_u16(cursor))
    for number, (name, kind) in enumerate(PROPERTIES):
        if words[0] & 1 << (15 - number):
            found[name] = _PROPERTY_READERS[kind](cursor)
    return found, found.pop("headers", {})


def _u16(cursor: Cursor) -> int:
    return int.from_bytes(cursor.octets(2), "big")


def _u32(cursor: Cursor) -> int:
    return int.from_bytes(cursor.octets(4), "big")


def _table(cursor: Cursor, depth: int = MAX_DEPTH) -> dict[str, Any]:
    inner = _inner(cursor, depth)
    found: dict[str, Any] = {}
    while inner.left:
        name = shown_text(inner.octets(inner.u8()))
        found[name] = _value(inner, depth - 1)
    return found


def _array(cursor: Cursor, depth: int) -> list[Any]:
    inner = _inner(cursor, depth)
    found = []
    while inner.left:
        found.append(_value(inner, depth - 1))
    return found


def _inner(cursor: Cursor, depth: int) -> Cursor:
    """The octets whose length stands next."""
    if depth <= 0:
        raise MalformedError(cursor.at, f"values nested deeper than {MAX_DEPTH}")
    start = cursor.skip(_u32(cursor))
    return Cursor(cursor.data, start, cursor.at)


def _value(cursor: Cursor, depth: int) -> Any:
    at, code = cursor.at, cursor.u8()
    if code in _NUMBERS:
        return cursor.fields(_NUMBERS[code])[0]
    match chr(code):
        case "t":
            return cursor.u8() != 0
        case "S":
            octets = cursor.octets(_u32(cursor))
            return shown_text(octets)
        case "x":
            return cursor.octets(_u32(cursor))
        case "T":
            return Timestamp(int.from_bytes(cursor.octets(8), "big"))
        case "D":
            places, unscaled = cursor.fields(_DECIMAL)
            return Decimal(unscaled).scaleb(-places)
        case "F":
            return _table(cursor, depth)
        case "A":
            return _array(cursor, depth)
        case "V":
            return None
    raise MalformedError(at, f"a field of unknown type {code}")


_PROPERTY_READERS: Final[dict[str, Callable[[Cursor], Any]]] = {
    "text": lambda cursor: shown_text(cursor.octets(cursor.u8())),
    "table": _table,
    "octet": Cursor.u8,
    "time": lambda cursor: Timestamp(int.from_bytes(cursor.octets(8), "big")),
}
