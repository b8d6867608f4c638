"""Messages of AMQP 1.0: sections (part 3, section 3.2), and the values in them (part 1, section 1.6)."""

from __future__ import annotations

from struct import Struct
from typing import Any, Final
from uuid import UUID

from pipeline.message.content import MAX_DEPTH, Content, Timestamp
from pipeline.octets.cursor import Cursor, MalformedError

_HEADER, _DELIVERY, _ANNOTATIONS, _PROPERTIES, _APPLICATION = 0x70, 0x71, 0x72, 0x73, 0x74
_DATA, _SEQUENCE, _VALUE, _FOOTER = 0x75, 0x76, 0x77, 0x78

_SECTIONS: Final = {
    f"amqp:{name}:{kind}": _HEADER + number
    for number, (name, kind) in enumerate(
        (("header", "list"), ("delivery-annotations", "map"), ("message-annotations", "map"),
         ("properties", "list"), ("application-properties", "map"), ("data", "binary"),
         ("amqp-sequence", "list"), ("amqp-value", "*"), ("footer", "map"))
    )
}  # fmt: skip
"""The sections by the names that may stand in place of their numbers."""

_OF_HEADER: Final = ("durable", "priority", "ttl", "first_acquirer", "delivery_count")
_OF_PROPERTIES: Final = (
    "message_id", "user_id", "to", "subject", "reply_to", "correlation_id", "content_type",
    "content_encoding", "absolute_expiry_time", "creation_time", "group_id", "group_sequence",
    "reply_to_group_id",
)  # fmt: skip

_MOST_ZEROS: Final = 64
"""The most elements of an array whose elements have no octets."""

_NUMBERS: Final = {
    0x50: ">B", 0x60: ">H", 0x70: ">I", 0x52: ">B", 0x80: ">Q", 0x53: ">B", 0x51: ">b", 0x61: ">h",
    0x71: ">i", 0x54: ">b", 0x81: ">q", 0x55: ">b", 0x72: ">f", 0x82: ">d",
}  # fmt: skip
_FORMS: Final = {code: Struct(form) for code, form in _NUMBERS.items()}
_CONSTANTS: Final[dict[int, Any]] = {0x40: None, 0x41: True, 0x42: False, 0x43: 0, 0x44: 0}


def content_of(data: bytes) -> Content:
    """Decode the sections of a message. Raises MalformedError."""
    cursor = Cursor(data)
    properties: dict[str, Any] = {}
    headers: dict[str, Any] = {}
    bodies: list[tuple[int, Any]] = []
    first = last = 0
    while cursor.left:
        at = cursor.at
        section, value = _section(cursor)
        if section in (_HEADER, _PROPERTIES):
            names = _OF_HEADER if section == _HEADER else _OF_PROPERTIES
            properties.update(_fields(value, names, at))
        elif section in (_ANNOTATIONS, _APPLICATION):
            headers.update(_named(value, at))
        elif section in (_DATA, _SEQUENCE, _VALUE):
            first, last = (first if bodies else at), cursor.at
            bodies.append((section, value))
    return Content(properties, headers, _body(bodies, data[first:last]))


def _section(cursor: Cursor) -> tuple[int, Any]:
    at = cursor.at
    if cursor.u8() != 0:
        raise MalformedError(at, "a section without a descriptor")
    descriptor = _value(cursor, MAX_DEPTH)
    section = _SECTIONS.get(descriptor) if isinstance(descriptor, str) else descriptor
    if not isinstance(section, int) or section not in _SECTIONS.values():
        raise MalformedError(at, f"a section with the descriptor {descriptor!r}")
    return section, _value(cursor, MAX_DEPTH)


def _fields(value: Any, names: tuple[str, ...], at: int) -> dict[str, Any]:
    if not isinstance(value, list):
        raise MalformedError(at, "a section that is no list")
    return {name: one for name, one in zip(names, value, strict=False) if one is not None}


def _named(value: Any, at: int) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedError(at, "a section that is no map")
    return {str(name): one for name, one in value.items()}


def _body(bodies: list[tuple[int, Any]], octets: bytes) -> bytes:
    if bodies and all(section == _DATA and isinstance(value, bytes) for section, value in bodies):
        return b"".join(value for _, value in bodies)
    if len(bodies) == 1 and bodies[0][0] == _VALUE:
        value = bodies[0][1]
        if isinstance(value, bytes):
            return value
        if isinstance(value, str):
            return value.encode("utf-8", "surrogatepass")
    return octets


def _value(cursor: Cursor, depth: int) -> Any:
    at, code = cursor.at, cursor.u8()
    if depth <= 0:
        raise MalformedError(at, f"values nested deeper than {MAX_DEPTH}")
    if code == 0:
        _value(cursor, depth - 1)
        return _value(cursor, depth - 1)
    return _of_code(cursor, code, at, depth)


def _of_code(cursor: Cursor, code: int, at: int, depth: int) -> Any:
    """The value whose code is read already."""
    if code in _FORMS:
        return cursor.fields(_FORMS[code])[0]
    if code in _CONSTANTS:
        return _CONSTANTS[code]
    match code:
        case 0x56:
            return cursor.u8() != 0
        case 0x83:
            return Timestamp(int.from_bytes(cursor.octets(8), "big", signed=True))
        case 0x73:
            return cursor.octets(4).decode("utf-32-be", "replace")
        case 0x98:
            return UUID(bytes=cursor.octets(16))
        case 0x74 | 0x84 | 0x94:
            return cursor.octets({0x74: 4, 0x84: 8, 0x94: 16}[code])
        case 0xA0 | 0xB0:
            return cursor.octets(_size(cursor, code))
        case 0xA1 | 0xB1 | 0xA3 | 0xB3:
            return cursor.octets(_size(cursor, code)).decode("utf-8", "backslashreplace")
        case 0x45:
            return []
        case 0xC0 | 0xD0:
            return _list(*_compound(cursor, code), depth)
        case 0xC1 | 0xD1:
            values = _list(*_compound(cursor, code), depth)
            return {_key(key): one for key, one in zip(values[::2], values[1::2], strict=False)}
        case 0xE0 | 0xF0:
            return _array(*_compound(cursor, code), depth)
    raise MalformedError(at, f"a value of unknown code {code:#x}")


def _key(value: Any) -> Any:
    return str(value) if isinstance(value, list | dict) else value


def _size(cursor: Cursor, code: int) -> int:
    """A size of one octet, or of four behind codes whose lower nibble group is odd."""
    return cursor.u8() if code & 0x10 == 0 else int.from_bytes(cursor.octets(4), "big")


def _compound(cursor: Cursor, code: int) -> tuple[Cursor, int]:
    """The octets of a list, map or array behind its count, and the count."""
    start = cursor.skip(_size(cursor, code))
    inner = Cursor(cursor.data, start, cursor.at)
    return inner, _size(inner, code)


def _list(inner: Cursor, count: int, depth: int) -> list[Any]:
    if count > inner.left:
        raise MalformedError(inner.at, f"{count} values are wanted, {inner.left} octets are left")
    return [_value(inner, depth - 1) for _ in range(count)]


def _array(inner: Cursor, count: int, depth: int) -> list[Any]:
    if depth <= 1:
        raise MalformedError(inner.at, f"values nested deeper than {MAX_DEPTH}")
    at, code = inner.at, inner.u8()
    while code == 0:
        _value(inner, depth - 1)
        code = inner.u8()
    if count > max(inner.left, _MOST_ZEROS):
        raise MalformedError(at, f"{count} values are wanted, {inner.left} octets are left")
    return [_of_code(inner, code, at, depth - 1) for _ in range(count)]
