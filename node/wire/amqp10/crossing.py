"""The fields of a message in AMQP 0-9-1 and in AMQP 1.0, and the tables by which each stands for the other.

The tables are RabbitMQ's (https://www.rabbitmq.com/docs/conversions). `shown_fields` and `plain_fields`
follow them, and both leave out a field that the other protocol has no place for. A field that does not come
back from there is *carried* beside the others, in the form that it had. `restored` puts a carried field in
its place again, as long as the client has not changed the field that stands for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias, TypeVar
from uuid import UUID

from node.wire.amqp091.errors import ExpirationError
from node.wire.amqp091.properties import parse_expiration
from node.wire.amqp10.death_tables import deaths_of, tables_of
from node.wire.amqp10.definitions import SectionCode
from node.wire.amqp10.encoding import (
    encode_amqp,
    write_binary,
    write_string,
    write_symbol,
    write_timestamp,
    write_ubyte,
    write_uint,
)
from node.wire.amqp10.field_values import field_of, value_of
from node.wire.amqp10.format_codes import OCTETS_4, OCTETS_8

HEADER_SECTION: Final = int(SectionCode.HEADER)
ANNOTATIONS_SECTION: Final = int(SectionCode.MESSAGE_ANNOTATIONS)
PROPERTIES_SECTION: Final = int(SectionCode.PROPERTIES)
APPLICATION_SECTION: Final = int(SectionCode.APPLICATION_PROPERTIES)

Fields10: TypeAlias = "dict[tuple[int, bytes], bytes]"
"""Encoded values by section and name. In maps the name is the encoded key."""

Fields091: TypeAlias = "dict[tuple[str, bytes], bytes]"
"""Values by property, and by header for the property `headers`. A short string is without its length, and the
value of a header begins with its type octet.
"""

ENCODED_BODY: Final = b"amqp-1.0"
"""The type of a message of AMQP 0-9-1 whose body is encoded sections (RabbitMQ's)."""

CARRIED_FIELDS: Final = b"x-opt-amqp-0-9-1"
"""The annotation that carries fields of AMQP 0-9-1."""

CARRIED_SECTIONS: Final = b"x-amqp-1.0-"
"""The begin of the names of headers that carry sections of AMQP 1.0. Some are RabbitMQ's."""

COUNT_HEADER: Final = b"x-delivery-count"

_MAX_SHORT: Final = 255

# Both ways the value is a text that stays as it is.
_TEXTS: Final = {b"reply_to": "reply_to", b"group_id": "app_id"}
_SYMBOLS: Final = {b"content_type": "content_type", b"content_encoding": "content_encoding"}
_IDS: Final = {b"message_id": "message_id", b"correlation_id": "correlation_id"}
_URN: Final = b"urn:uuid:"

_X_CC: Final = b"x-cc"
_KEYS: Final = {_X_CC: b"CC", b"x-bcc": b"BCC"}
_KEY_HEADERS: Final = {header: name for name, header in _KEYS.items()}
_DEATHS: Final = b"x-opt-deaths"
_X_DEATH: Final = b"x-death"
_TYPE: Final = b"x-basic-type"
_DELIVERY_DELAY: Final = b"x-opt-delivery-delay"
_COUNT: Final = b"l"


def content_of(octets: bytes) -> bytes:
    """The octets of an encoded string, symbol or binary, behind their length."""
    return octets[5:] if octets[0] & 0x10 else octets[2:]


# -- AMQP 1.0 to AMQP 0-9-1 -------------------------------------------------------------------------


def shown_fields(fields: Fields10, encoded_body: bool) -> Fields091:
    """What AMQP 0-9-1 shows of the fields of AMQP 1.0. `encoded_body`: its body has the encoded sections."""
    found: Fields091 = {}
    if encoded_body:
        found["type", b""] = ENCODED_BODY
    # Where two fields have one name in AMQP 0-9-1, the annotation comes first.
    for section in (HEADER_SECTION, ANNOTATIONS_SECTION, PROPERTIES_SECTION, APPLICATION_SECTION):
        show = _SHOWING[section]
        for (standing_in, name), octets in fields.items():
            if standing_in == section:
                show(found, name, octets, encoded_body)
    return found


def _show_header(found: Fields091, name: bytes, octets: bytes, encoded_body: bool) -> None:
    if name == b"priority":
        found["priority", b""] = octets[1:]
    elif name == b"ttl":
        found["expiration", b""] = b"%d" % _unsigned(octets)
    elif name == b"delivery_count" and _unsigned(octets):
        found["headers", COUNT_HEADER] = _COUNT + OCTETS_8.pack(_unsigned(octets))


def _show_property(found: Fields091, name: bytes, octets: bytes, encoded_body: bool) -> None:
    if name in _IDS:
        _show_id(found, _IDS[name], octets)
    elif name in _TEXTS or name in _SYMBOLS:
        _show_short(found, _TEXTS.get(name) or _SYMBOLS[name], content_of(octets))
    elif name == b"user_id":
        _show_short(found, "user_id", content_of(octets))
    elif name == b"creation_time":
        (milliseconds,) = OCTETS_8.unpack_from(octets, 1)
        if milliseconds < 1 << 63:
            found["timestamp", b""] = OCTETS_8.pack(milliseconds // 1000)


def _show_short(found: Fields091, name: str, text: bytes) -> bool:
    """Show a text as a short string, if it is one: 255 octets of UTF-8 without NUL."""
    if len(text) > _MAX_SHORT or b"\0" in text or not _is_text(text):
        return False
    found[name, b""] = text
    return True


def _show_id(found: Fields091, name: str, octets: bytes) -> None:
    code = octets[0]
    if code == 0x98:
        found[name, b""] = UUID(bytes=octets[1:]).urn.encode()
    elif code in (0x44, 0x53, 0x80):
        found[name, b""] = b"%d" % _unsigned(octets)
    elif code | 0x10 == 0xB0 or not _show_short(found, name, content_of(octets)):
        _show_value(found, b"x-%b" % name.replace("_", "-").encode(), octets)


def _show_annotation(found: Fields091, name: bytes, octets: bytes, encoded_body: bool) -> None:
    if name[0] | 0x10 != 0xB3:
        return
    symbol = content_of(name)
    if symbol in _KEYS:
        _show_value(found, _KEYS[symbol], octets)
    elif symbol == _DEATHS:
        tables = tables_of(octets)
        if tables is not None:
            found.setdefault(("headers", _X_DEATH), tables)
    elif symbol == _TYPE:
        text = content_of(octets) if octets[0] | 0x10 == 0xB1 else ENCODED_BODY
        if not encoded_body and text != ENCODED_BODY:
            _show_short(found, "type", text)
    elif symbol == _DELIVERY_DELAY:
        _show_value(found, b"x-delay", octets)
    elif symbol.startswith(b"x-"):
        _show_value(found, symbol, octets)


def _show_application(found: Fields091, name: bytes, octets: bytes, encoded_body: bool) -> None:
    _show_value(found, content_of(name), octets)


def _show_value(found: Fields091, name: bytes, octets: bytes) -> None:
    if len(name) <= _MAX_SHORT and not name.startswith(CARRIED_SECTIONS) and name != CARRIED_FIELDS:
        field = field_of(octets)
        if field is not None:
            found.setdefault(("headers", name), field)


_SHOWING: Final[dict[int, Callable[[Fields091, bytes, bytes, bool], None]]] = {
    HEADER_SECTION: _show_header,
    ANNOTATIONS_SECTION: _show_annotation,
    PROPERTIES_SECTION: _show_property,
    APPLICATION_SECTION: _show_application,
}


def _unsigned(octets: bytes) -> int:
    """The number in an encoded uint or ulong."""
    return int.from_bytes(octets[1:], "big")


def _is_text(octets: bytes) -> bool:
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True


# -- AMQP 0-9-1 to AMQP 1.0 -------------------------------------------------------------------------


def plain_fields(fields: Fields091, encoded_body: bool) -> Fields10:
    """The fields of AMQP 1.0 that stand for those of AMQP 0-9-1."""
    found: Fields10 = {}
    for (name, header), octets in fields.items():
        if name == "headers":
            _take_header(found, header, octets)
        elif name == "type" and not encoded_body:
            if _is_text(octets):
                found[ANNOTATIONS_SECTION, write_symbol("x-basic-type")] = write_string(octets.decode())
        elif name in _TAKING:
            section, field, take = _TAKING[name]
            value = take(octets)
            if value is not None:
                found[section, field] = value
    return found


def _take_text(octets: bytes) -> bytes | None:
    return write_string(octets.decode()) if _is_text(octets) else None


def _take_symbol(octets: bytes) -> bytes | None:
    return write_symbol(octets.decode()) if octets.isascii() else None


def _take_id(octets: bytes) -> bytes | None:
    if octets.startswith(_URN) and len(octets) == len(_URN) + 36:
        try:
            return encode_amqp(UUID(octets[len(_URN) :].decode()))
        except ValueError:
            pass
    return _take_text(octets)


def _take_expiration(octets: bytes) -> bytes | None:
    try:
        return write_uint(parse_expiration(octets))
    except ExpirationError:
        return None


def _take_time(octets: bytes) -> bytes | None:
    milliseconds = int.from_bytes(octets, "big") * 1000
    return write_timestamp(milliseconds) if milliseconds < 1 << 63 else None


_TAKING: Final[dict[str, tuple[int, bytes, Callable[[bytes], bytes | None]]]] = {
    "content_type": (PROPERTIES_SECTION, b"content_type", _take_symbol),
    "content_encoding": (PROPERTIES_SECTION, b"content_encoding", _take_symbol),
    "priority": (HEADER_SECTION, b"priority", lambda octets: write_ubyte(octets[0])),
    "correlation_id": (PROPERTIES_SECTION, b"correlation_id", _take_id),
    "reply_to": (PROPERTIES_SECTION, b"reply_to", _take_text),
    "expiration": (HEADER_SECTION, b"ttl", _take_expiration),
    "message_id": (PROPERTIES_SECTION, b"message_id", _take_id),
    "timestamp": (PROPERTIES_SECTION, b"creation_time", _take_time),
    "user_id": (PROPERTIES_SECTION, b"user_id", write_binary),
    "app_id": (PROPERTIES_SECTION, b"group_id", _take_text),
}


def _take_header(found: Fields10, name: bytes, field: bytes) -> None:
    if name == COUNT_HEADER and field[:1] == _COUNT and 0 < int.from_bytes(field[1:], "big") < 1 << 32:
        found[HEADER_SECTION, b"delivery_count"] = write_uint(OCTETS_4.unpack_from(field, 5)[0])
        return
    if name == CARRIED_FIELDS:
        return
    symbol, octets = name, b""
    if name in _KEY_HEADERS and field[:1] == b"A":
        symbol = _KEY_HEADERS[name]
    elif name == _X_DEATH:
        deaths = deaths_of(field)
        if deaths is not None:
            symbol, octets = _DEATHS, deaths
    value = octets or value_of(field)
    if value is None:
        return
    if symbol.startswith(b"x-"):
        if symbol.isascii():
            found.setdefault((ANNOTATIONS_SECTION, write_symbol(symbol.decode())), value)
    elif value[0] not in _NOT_SIMPLE:
        found[APPLICATION_SECTION, write_string(symbol.decode())] = value


_NOT_SIMPLE: Final = frozenset((0x45, 0xC0, 0xC1, 0xD0, 0xD1, 0xE0, 0xF0))
"""Lists, maps and arrays, which application-properties must not have (section 3.2.5)."""


# -- and back ---------------------------------------------------------------------------------------


def both_ways(
    encoded_body: bool,
) -> tuple[Callable[[Fields10], Fields091], Callable[[Fields091], Fields10]]:
    """`shown_fields` and `plain_fields` for a message whose body has the encoded sections, or has not."""
    return (
        partial(shown_fields, encoded_body=encoded_body),
        partial(plain_fields, encoded_body=encoded_body),
    )


_Seen = TypeVar("_Seen")
_Carried = TypeVar("_Carried")


def restored(
    seen: dict[_Seen, bytes],
    carried: dict[_Carried, bytes],
    show: Callable[[dict[_Carried, bytes]], dict[_Seen, bytes]],
    take: Callable[[dict[_Seen, bytes]], dict[_Carried, bytes]],
) -> dict[_Carried, bytes]:
    """The fields, in the protocol of the carried ones, of a message that came with `seen` and `carried`.

    `show` converts from the protocol of `carried`, and `take` back. A carried field whose conversion is not
    among those that came was changed by the client, and is left out.
    """
    found = carried | take(_without(seen, show(carried)))
    if show(found) == seen:
        return found
    kept: dict[_Carried, bytes] = {}
    for place, octets in carried.items():
        if show({place: octets}).items() <= seen.items():
            kept[place] = octets
    return kept | take(_without(seen, show(kept)))


def _without(seen: dict[_Seen, bytes], accounted: dict[_Seen, bytes]) -> dict[_Seen, bytes]:
    return {place: octets for place, octets in seen.items() if accounted.get(place) != octets}
