"""Messages of AMQP 1.0 as messages of AMQP 0-9-1."""

from __future__ import annotations

from array import array
from functools import lru_cache, partial
from itertools import repeat
from typing import Final

from node.message.run import Run
from node.wire.amqp091.codec import encode_frame
from node.wire.amqp091.composing import FRAME_BODY_OCTETS
from node.wire.amqp091.errors import ExpirationError, FieldSyntaxError
from node.wire.amqp091.fields import join_table
from node.wire.amqp091.header_tables import ANY_NUMBER
from node.wire.amqp091.methods import FRAME_BODY, FRAME_HEADER
from node.wire.amqp091.primitives import LONG, SHORT
from node.wire.amqp091.properties import PERSISTENT, PROPERTY_FLAGS, check_properties
from node.wire.amqp091.property_values import encode_header
from node.wire.amqp10.crossing import (
    ANNOTATIONS_SECTION,
    APPLICATION_SECTION,
    CARRIED_FIELDS,
    CARRIED_SECTIONS,
    PROPERTIES_SECTION,
    Fields091,
    Fields10,
    both_ways,
    restored,
)
from node.wire.amqp10.decoding import decode_value
from node.wire.amqp10.encoding import write_symbol
from node.wire.amqp10.heads import (
    DELIVERY_ANNOTATIONS,
    FOOTER,
    Head,
    section_of,
    split_head,
    write_map,
)
from node.wire.amqp10.messages import data_contents
from node.wire.amqp10.sections import Sections, SectionSpan, scan_sections

CONTENT_CHANNEL: Final = 1

SECTION_NAMES: Final = {
    DELIVERY_ANNOTATIONS: CARRIED_SECTIONS + b"delivery-annotations",
    ANNOTATIONS_SECTION: CARRIED_SECTIONS + b"message-annotations",
    PROPERTIES_SECTION: CARRIED_SECTIONS + b"properties",
    APPLICATION_SECTION: CARRIED_SECTIONS + b"app-properties",
    FOOTER: CARRIED_SECTIONS + b"footer",
}
"""The headers that carry sections. RabbitMQ has those of the message annotations, the properties, the
application-properties and the footer.
"""

CARRIED_KEY: Final = (ANNOTATIONS_SECTION, write_symbol(CARRIED_FIELDS.decode()))

_MAPS: Final = (ANNOTATIONS_SECTION, APPLICATION_SECTION)
_MAX_LIST: Final = FRAME_BODY_OCTETS - 16
"""The largest property list. A content header is one frame (§4.2.6.1), and most clients take such frames."""

_DATA: Final = 0x75
_OCTETS: Final = frozenset(("priority", "delivery_mode", "timestamp"))
_SHORT: Final = range(256)
_SIZES: Final = {
    "priority": range(1, 2),
    "delivery_mode": range(1, 2),
    "timestamp": range(8, 9),
    "headers": range(1, _MAX_LIST),
}
"""The octets of a property's value; a short string where there is no entry."""


def run_to_amqp091(run: Run) -> Run:
    """The messages as content frames of channel 1, with body frames of at most 128 KiB."""
    return _converted(run, carrying=True)


def shown_contents(run: Run) -> Run:
    """As `run_to_amqp091`, without what is carried for the way back."""
    return _converted(run, carrying=False)


def _converted(run: Run, *, carrying: bool) -> Run:
    data = run.raw if isinstance(run.raw, bytes) else bytes(run.raw)
    listed = lru_cache(maxsize=64)(partial(_property_list, run.persistent, carrying))
    pieces: list[bytes] = []
    lengths = array("I")
    at = largest = 0
    for length in run.lengths if run.lengths is not None else repeat(run.stride, run.count):
        begin, end = at + run.skip, at + length
        sections = scan_sections(data, begin, end)
        body, encoded = _body(data, sections)
        footer = sections.footer or (end, end)
        behind = (sections.body or footer)[0]
        properties = listed(data[begin:behind], data[footer[0] : footer[1]], encoded)
        frames = [encode_frame(FRAME_HEADER, CONTENT_CHANNEL, encode_header(len(body), properties))]
        for first in range(0, len(body), FRAME_BODY_OCTETS):
            frames.append(encode_frame(FRAME_BODY, CONTENT_CHANNEL, body[first : first + FRAME_BODY_OCTETS]))
        sizes = list(map(len, frames))
        lengths.append(sum(sizes))
        largest = max(largest, *sizes)
        pieces += frames
        at = end
    return Run(
        run.exchange,
        run.routing_key,
        CONTENT_CHANNEL,
        run.persistent,
        run.count,
        0,
        0,
        lengths,
        largest,
        b"".join(pieces),
        run.special,
    )


def _body(data: bytes, sections: Sections) -> tuple[bytes, bool]:
    """The body for AMQP 0-9-1, and whether it has the encoded sections: those of all but one data section."""
    if sections.body_kind == _DATA:
        contents = list(data_contents(data, sections))
        if len(contents) == 1:
            return data[contents[0][0] : contents[0][1]], False
    first, last = sections.body or (0, 0)
    return data[first:last], True


def _property_list(durable: bool, carrying: bool, head: bytes, footer: bytes, encoded_body: bool) -> bytes:
    """The property list of a message with this head."""
    sections = scan_sections(head, 0, len(head))
    split = split_head(head, sections)
    fields = split.fields
    there = carried_fields(fields.get(CARRIED_KEY, b""))
    if there:
        del fields[CARRIED_KEY]
    show, take = both_ways(encoded_body)
    found = restored(fields, there, take, show)
    if there and not _sound(found, durable):
        found = show(fields)
    if not carrying:
        return _written(found, durable, [])
    # The maps of a message that came from AMQP 0-9-1 were a table, which has no order.
    carried = _carried(head, sections, split, found, encoded_body, ordered=not there)
    if footer:
        carried.append((SECTION_NAMES[FOOTER], footer))
    return _written(found, durable, carried)


def _sound(found: Fields091, durable: bool) -> bool:
    """Whether the fields, some of which a client may have made up, are those of a message."""
    try:
        check_properties(_written(found, durable, []), ANY_NUMBER)
    except (FieldSyntaxError, ExpirationError, ValueError):
        return False
    return True


def carried_fields(octets: bytes) -> Fields091:
    """The fields in the annotation that carries them. Other octets have none."""
    value = decode_value(octets) if octets else {}
    found: Fields091 = {}
    for key, field in value.items() if isinstance(value, dict) else ():
        name, slash, header = key.partition("/") if isinstance(key, str) else ("", "", "")
        if name in PROPERTY_FLAGS and bool(slash) is (name == "headers"):
            if isinstance(field, bytes) and len(field) in _SIZES.get(name, _SHORT):
                found[name, header.encode()] = field
            elif field is None and name == "delivery_mode":
                found[name, b""] = b""
    return found


def _carried(
    head: bytes, sections: Sections, split: Head, found: Fields091, encoded_body: bool, *, ordered: bool
) -> list[tuple[bytes, bytes]]:
    """The names and octets of the sections that do not come back from what AMQP 0-9-1 shows."""
    _, take = both_ways(encoded_body)
    back = take(found)
    spans: dict[int, SectionSpan | None] = {
        ANNOTATIONS_SECTION: sections.message_annotations,
        PROPERTIES_SECTION: sections.properties,
        APPLICATION_SECTION: sections.application_properties,
    }
    lost = split.broken | {section for section in spans if not _same(split.fields, back, section, ordered)}
    if lost and not _comes_back(split.fields, found, lost, encoded_body, ordered):
        lost = set(spans)
    octets: dict[int, bytes] = {}
    if sections.delivery_annotations is not None:
        octets[DELIVERY_ANNOTATIONS] = _cut(head, sections.delivery_annotations)
    for section in sorted(lost):
        span = spans.get(section)
        if section == ANNOTATIONS_SECTION and section not in split.broken:
            octets[section] = write_map(section, section_of(split.fields, section))
        elif span is not None:
            octets[section] = _cut(head, span)
    return [(SECTION_NAMES[section], one) for section, one in octets.items() if one]


def _same(fields: Fields10, others: Fields10, section: int, ordered: bool) -> bool:
    """Whether both have the same fields in a section. Maps have an order (part 1, section 1.6.23)."""
    one, other = section_of(fields, section), section_of(others, section)
    return one == other if ordered and section in _MAPS else dict(one) == dict(other)


def _comes_back(
    fields: Fields10, found: Fields091, lost: set[int], encoded_body: bool, ordered: bool
) -> bool:
    carried = {place: octets for place, octets in fields.items() if place[0] in lost}
    show, take = both_ways(encoded_body)
    back = restored(found, carried, show, take)
    return all(_same(fields, back, section, ordered) for section in SECTION_NAMES)


def _cut(head: bytes, span: SectionSpan) -> bytes:
    return head[span[0] : span[1]]


def _written(found: Fields091, durable: bool, carried: list[tuple[bytes, bytes]]) -> bytes:
    """The property list, at most as large as a frame may be: otherwise what is carried stays behind, and as
    many headers as are too many.
    """
    headers = [(name, field) for (place, name), field in found.items() if place == "headers"]
    whole = [*headers, *((name, b"x" + LONG.pack(len(octets)) + octets) for name, octets in carried)]
    written = _with_headers(found, durable, whole)
    if len(written) > _MAX_LIST:
        written = _with_headers(found, durable, headers)
    while len(written) > _MAX_LIST and headers:
        headers = headers[: len(headers) // 2]
        written = _with_headers(found, durable, headers)
    return written


def _with_headers(found: Fields091, durable: bool, headers: list[tuple[bytes, bytes]]) -> bytes:
    values: dict[str, bytes] = {}
    for (name, _), octets in found.items():
        if name in _OCTETS:
            values[name] = octets
        elif name != "headers":
            values[name] = bytes((len(octets),)) + octets
    mode = values.pop("delivery_mode", None)
    if durable or mode is None or mode[:1] == bytes((PERSISTENT,)):
        mode = bytes((PERSISTENT if durable else 1,))
    if mode:
        values["delivery_mode"] = mode
    if headers:
        values["headers"] = join_table(headers)
    flags = sum(PROPERTY_FLAGS[name] for name in values)
    return SHORT.pack(flags) + b"".join([values[name] for name in PROPERTY_FLAGS if name in values])
