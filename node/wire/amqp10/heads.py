"""The head of a message as fields, and fields as a head.

Fields have encoded values in the shortest encodings, so that equal values are equal octets. `durable` and
`first-acquirer` are no fields: a run states whether its messages are durable, and a delivery whether its
consumer is the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from node.wire.amqp10.crossing import (
    ANNOTATIONS_SECTION,
    APPLICATION_SECTION,
    HEADER_SECTION,
    PROPERTIES_SECTION,
    Fields10,
)
from node.wire.amqp10.definitions import Header, Properties
from node.wire.amqp10.encoding import (
    NULL_OCTET,
    encode_amqp,
    write_binary,
    write_boolean,
    write_described_list,
    write_encoded_map,
    write_message_id,
    write_string,
    write_symbol,
    write_timestamp,
    write_ubyte,
    write_uint,
)
from node.wire.amqp10.errors import SectionError
from node.wire.amqp10.messages import pairs_of
from node.wire.amqp10.sections import (
    Sections,
    annotations_of,
    application_properties_of,
    header_of,
    properties_of,
)

DELIVERY_ANNOTATIONS: Final = 0x71
FOOTER: Final = 0x78

_WRITERS: Final[Mapping[str, Callable[[Any], bytes]]] = {
    "message_id": write_message_id,
    "user_id": write_binary,
    "to": write_string,
    "subject": write_string,
    "reply_to": write_string,
    "correlation_id": write_message_id,
    "content_type": write_symbol,
    "content_encoding": write_symbol,
    "absolute_expiry_time": write_timestamp,
    "creation_time": write_timestamp,
    "group_id": write_string,
    "group_sequence": write_uint,
    "reply_to_group_id": write_string,
}
"""The encodings of the properties, for values of the types that `Properties` has."""


class Head:
    """The fields of a head. `broken` has the sections whose values are malformed, of which there are none."""

    __slots__ = ("broken", "fields")

    def __init__(self) -> None:
        self.fields: Fields10 = {}
        self.broken: set[int] = set()


def split_head(data: bytes, sections: Sections) -> Head:
    """The fields of a head, section by section."""
    head = Head()
    for section, read in _READERS:
        try:
            head.fields |= read(data, sections)
        except SectionError:
            head.broken.add(section)
    return head


def _header(data: bytes, sections: Sections) -> Fields10:
    found: Fields10 = {}
    if sections.header is not None:
        header = header_of(data, sections)
        if header.priority is not None:
            found[HEADER_SECTION, b"priority"] = write_ubyte(header.priority)
        if header.ttl is not None:
            found[HEADER_SECTION, b"ttl"] = write_uint(header.ttl)
        if header.delivery_count:
            found[HEADER_SECTION, b"delivery_count"] = write_uint(header.delivery_count)
    return found


def _annotations(data: bytes, sections: Sections) -> Fields10:
    pairs = pairs_of(annotations_of(data, sections.message_annotations))
    return {(ANNOTATIONS_SECTION, encode_amqp(key)): encode_amqp(value) for key, value in pairs}


def _properties(data: bytes, sections: Sections) -> Fields10:
    found: Fields10 = {}
    if sections.properties is not None:
        properties = properties_of(data, sections)
        for name in Properties.FIELDS:
            value = getattr(properties, name)
            if value is not None:
                found[PROPERTIES_SECTION, name.encode()] = _WRITERS[name](value)
    return found


def _application(data: bytes, sections: Sections) -> Fields10:
    if sections.application_properties is None:
        return {}
    found = application_properties_of(data, sections)
    return {(APPLICATION_SECTION, write_string(name)): encode_amqp(value) for name, value in found.items()}


_READERS: Final[tuple[tuple[int, Callable[[bytes, Sections], Fields10]], ...]] = (
    (HEADER_SECTION, _header),
    (ANNOTATIONS_SECTION, _annotations),
    (PROPERTIES_SECTION, _properties),
    (APPLICATION_SECTION, _application),
)


# -- fields to octets -------------------------------------------------------------------------------


def section_of(fields: Fields10, section: int) -> list[tuple[bytes, bytes]]:
    """The names and values of the fields of a section, in order."""
    return [(name, octets) for (standing_in, name), octets in fields.items() if standing_in == section]


def write_header(fields: Fields10, durable: bool) -> bytes:
    """The header. It states whether the message is durable."""
    values = [fields.get((HEADER_SECTION, name), NULL_OCTET) for name in (b"priority", b"ttl")]
    count = fields.get((HEADER_SECTION, b"delivery_count"), NULL_OCTET)
    return write_described_list(Header.CODE, [write_boolean(durable), *values, NULL_OCTET, count])


def write_properties(fields: Fields10) -> bytes:
    """The properties; no octets for none."""
    found = dict(section_of(fields, PROPERTIES_SECTION))
    if not found:
        return b""
    values = [found.get(name.encode(), NULL_OCTET) for name in Properties.FIELDS]
    return write_described_list(Properties.CODE, values)


def write_map(section: int, fields: list[tuple[bytes, bytes]]) -> bytes:
    """A section of encoded names and values; no octets for none."""
    if not fields:
        return b""
    parts = [part for field in fields for part in field]
    return bytes((0, 0x53, section)) + write_encoded_map(parts)
