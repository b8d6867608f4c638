"""Messages of AMQP 0-9-1 as messages of AMQP 1.0."""

from __future__ import annotations

from array import array
from functools import lru_cache, partial
from typing import Final

from node.message.run import Run
from node.wire.amqp091.codec import END, FRAME
from node.wire.amqp091.fields import split_table
from node.wire.amqp091.properties import HEADER_FIXED, PERSISTENT, property_places
from node.wire.amqp10.crossing import (
    ANNOTATIONS_SECTION,
    APPLICATION_SECTION,
    CARRIED_SECTIONS,
    ENCODED_BODY,
    PROPERTIES_SECTION,
    Fields091,
    Fields10,
    both_ways,
    restored,
)
from node.wire.amqp10.encoding import encode_amqp, write_binary
from node.wire.amqp10.errors import SectionError
from node.wire.amqp10.heads import (
    DELIVERY_ANNOTATIONS,
    FOOTER,
    section_of,
    split_head,
    write_header,
    write_map,
    write_properties,
)
from node.wire.amqp10.sections import Sections, body_values, scan_sections
from node.wire.amqp10.to_amqp091 import CARRIED_KEY, SECTION_NAMES

_SECTIONS: Final = {name: section for section, name in SECTION_NAMES.items()}
_DATA: Final = 0x75
_LENGTH: Final = 5
"""The octets of a text or of octets in a field table before the content: its type and its length."""

_FIXED: Final = frozenset(("priority", "delivery_mode", "timestamp"))


class Carried:
    """The sections that a message of AMQP 0-9-1 carries: their octets, and the fields in them."""

    __slots__ = ("fields", "octets")

    def __init__(self) -> None:
        self.octets: dict[int, bytes] = {}
        self.fields: Fields10 = {}


def run_from_amqp091(run: Run) -> Run:
    """The messages as sections. `run` states its routing key. Raises SectionError, FieldSyntaxError."""
    assert run.routing_key is not None
    written = lru_cache(maxsize=64)(partial(_head_and_footer, run.persistent))
    pieces: list[bytes] = []
    lengths = array("I")
    for content in run.contents():
        properties, body = _parts(content)
        encoded = b"amqp-1.0" in properties and _has_sections(properties, body)
        head, footer = written(properties, encoded)
        if not encoded:
            body = bytes((0, 0x53, _DATA)) + write_binary(body)
        pieces += (head, body, footer)
        lengths.append(len(head) + len(body) + len(footer))
    return Run(
        run.exchange,
        run.routing_key,
        0,
        run.persistent,
        run.count,
        0,
        0,
        lengths,
        max(lengths),
        b"".join(pieces),
        run.special,
        _AMQP_1_0,
    )


_AMQP_1_0: Final = 1
"""`node.wire.formats.AMQP_1_0`, whose module imports this one."""


def _parts(content: bytes) -> tuple[bytes, bytes]:
    """The property list and the body in content frames."""
    (_, _, size) = FRAME.unpack_from(content)
    at = FRAME.size + size + len(END)
    properties = content[FRAME.size + HEADER_FIXED : at - len(END)]
    body: list[bytes] = []
    while at < len(content):
        (_, _, size) = FRAME.unpack_from(content, at)
        body.append(content[at + FRAME.size : at + FRAME.size + size])
        at += FRAME.size + size + len(END)
    return properties, b"".join(body)


def _has_sections(properties: bytes, body: bytes) -> bool:
    """Whether the body has the encoded sections of a body, as its type says."""
    place = property_places(properties).get("type")
    if place is None or properties[place[0] + 1 : place[1]] != ENCODED_BODY:
        return False
    try:
        found = scan_sections(body, 0, len(body))
    except SectionError:
        return False
    if (found.body or (0, 0)) != (0, len(body)):
        return False
    return found.body_kind != _DATA or len(list(body_values(body, found))) > 1


def fields_of(properties: bytes, durable: bool) -> Fields091:
    """The fields of a property list. Of `delivery_mode` only a value counts that `durable` does not tell; no
    octets stand for none.
    """
    found: Fields091 = {}
    mode = b""
    for name, (first, last) in property_places(properties).items():
        if name == "headers":
            for header, field in split_table(properties, first):
                found["headers", header] = field
        elif name == "delivery_mode":
            mode = properties[first:last]
        else:
            found[name, b""] = properties[first if name in _FIXED else first + 1 : last]
    if mode != bytes((PERSISTENT if durable else 1,)):
        found["delivery_mode", b""] = mode
    return found


def _head_and_footer(durable: bool, properties: bytes, encoded_body: bool) -> tuple[bytes, bytes]:
    """The head and the footer of a message with this property list."""
    fields = fields_of(properties, durable)
    carried = _take_carried(fields)
    show, take = both_ways(encoded_body)
    found = restored(fields, carried.fields, show, take)
    lost = _lost(fields, found, encoded_body)
    parts = [
        write_header(found, durable),
        carried.octets.get(DELIVERY_ANNOTATIONS, b""),
        _annotations(found, lost, carried),
    ]
    for section in (PROPERTIES_SECTION, APPLICATION_SECTION):
        parts.append(_section(found, section, carried))
    return b"".join(parts), carried.octets.get(FOOTER, b"")


def _take_carried(fields: Fields091) -> Carried:
    """Take the headers that carry sections out of the fields. Headers that do not stay."""
    carried = Carried()
    for place in [place for place in fields if place[1].startswith(CARRIED_SECTIONS)]:
        section, field = _SECTIONS.get(place[1]), fields[place]
        if section is None or field[:1] not in (b"x", b"S"):
            continue
        octets = field[_LENGTH:]
        try:
            found = scan_sections(octets, 0, len(octets))
        except SectionError:
            continue
        if _only(found, section) != (0, len(octets)):
            continue
        split = split_head(octets, found)
        carried.octets[section] = octets
        carried.fields |= split.fields
        del fields[place]
    return carried


def _only(sections: Sections, section: int) -> tuple[int, int] | None:
    """Where the section stands."""
    return {
        DELIVERY_ANNOTATIONS: sections.delivery_annotations,
        ANNOTATIONS_SECTION: sections.message_annotations,
        PROPERTIES_SECTION: sections.properties,
        APPLICATION_SECTION: sections.application_properties,
        FOOTER: sections.footer,
    }[section]


def _lost(fields: Fields091, found: Fields10, encoded_body: bool) -> Fields091:
    """The fields that do not come back from the fields of AMQP 1.0."""
    show, take = both_ways(encoded_body)
    back = show(found)
    lost = {place: octets for place, octets in fields.items() if back.get(place) != octets}
    if restored(found, lost, take, show) != fields:
        return fields if restored(found, fields, take, show) == fields else lost
    return lost


def _annotations(found: Fields10, lost: Fields091, carried: Carried) -> bytes:
    if not lost:
        return _section(found, ANNOTATIONS_SECTION, carried)
    value: dict[str, bytes | None] = {}
    for (name, header), octets in lost.items():
        key = f"{name}/{header.decode()}" if name == "headers" else name
        value[key] = octets if octets or name != "delivery_mode" else None
    pairs = [pair for pair in section_of(found, ANNOTATIONS_SECTION) if pair[0] != CARRIED_KEY[1]]
    pairs.append((CARRIED_KEY[1], encode_amqp(value)))
    return write_map(ANNOTATIONS_SECTION, pairs)


def _section(found: Fields10, section: int, carried: Carried) -> bytes:
    """A section of the head: as it was carried, where its fields are still those."""
    fields = section_of(found, section)
    octets = carried.octets.get(section)
    if octets is not None and fields == section_of(carried.fields, section):
        return octets
    return write_properties(found) if section == PROPERTIES_SECTION else write_map(section, fields)
