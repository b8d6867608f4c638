"""Where a message's sections stand, for a session that takes the message and for queues that keep it.

The *head* of a message is its octets in front of the body: header, annotations, properties and
application-properties. Nothing else of a message is looked into. `facts_of` refuses what is no message; the
other functions read messages that it has taken. It decodes the header alone. So another section may have a
value of its type with malformed parts, and readers take such a section for one without any.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import repeat
from struct import error as StructError
from typing import Final

from node.message.run import Run
from node.wire.amqp10.decoding import read_value
from node.wire.amqp10.definitions import Header, Properties, SectionCode
from node.wire.amqp10.encoding import encode_amqp, write_encoded_map
from node.wire.amqp10.errors import SectionError, WireError
from node.wire.amqp10.format_codes import OCTETS_4
from node.wire.amqp10.sections import (
    Sections,
    SectionSpan,
    annotations_of,
    application_properties_of,
    body_values,
    header_of,
    properties_of,
    scan_sections,
)
from node.wire.amqp10.values import AmqpValue, Described, PairMap, Symbol, ULong

X_CC: Final = Symbol("x-cc")
X_BOOKMARK: Final = "x-bookmark"
X_LOCKED_UNTIL: Final = "x-locked-until"
X_BCC: Final = Symbol("x-bcc")
DELAY: Final = "x-delay"
DELIVERY_DELAY: Final = Symbol("x-opt-delivery-delay")

X_EXCHANGE: Final = Symbol("x-exchange")
X_ROUTING_KEY: Final = Symbol("x-routing-key")

_ASKING: Final = (b"x-cc", b"x-bcc", b"x-delay", b"x-opt-delivery-delay")
"""Names of annotations that ask something of a queue or of the routes to it."""

_DATA: Final = 0x75
_VALUE: Final = 0x77


class MessageFacts:
    """The facts that a session has to know of an incoming message.

    `durable` is false only where the header says so. `special`: a queue feature may be asked for something
    (`Run.special`). `sections` has positions in the octets that were scanned.
    """

    __slots__ = ("durable", "sections", "special")

    def __init__(self, durable: bool, special: bool, sections: Sections) -> None:
        self.durable: Final = durable
        self.special: Final = special
        self.sections: Final = sections


def facts_of(data: bytes, at: int, end: int) -> MessageFacts:
    """The facts of the message from `at` to `end`. Raises SectionError."""
    sections = scan_sections(data, at, end)
    durable, special = True, False
    if sections.header is not None:
        durable, special = _header_facts(data[sections.header[0] : sections.header[1]])
    if not special:
        special = _asks(data, sections)
    return MessageFacts(durable, special, sections)


@lru_cache(maxsize=256)
def _header_facts(section: bytes) -> tuple[bool, bool]:
    """`durable` and `special` as a header tells them. Few headers differ. Raises SectionError."""
    header = header_in(section)
    return header.durable is not False, header.ttl is not None or header.priority is not None


def _asks(data: bytes, sections: Sections) -> bool:
    """Whether annotations or application-properties may ask for something. False is certain."""
    annotations, application = sections.message_annotations, sections.application_properties
    if annotations is not None:
        first, last = annotations
        if data.find(b"x-", first, last) >= 0 and any(data.find(name, first, last) >= 0 for name in _ASKING):
            return True
    return application is not None and data.find(b"x-delay", application[0], application[1]) >= 0


# -- the messages of a run --------------------------------------------------------------------------


def head_end(data: bytes, at: int, end: int) -> int:
    """The position behind the head of the message from `at` to `end`."""
    place = at
    while place < end:
        if data[place] or data[place + 1] != 0x53:
            return _scanned_head_end(data, at, end)
        if data[place + 2] >= _DATA:
            return place
        code = data[place + 3]
        if code == 0xC0 or code == 0xC1:
            place += 5 + data[place + 4]
        elif code == 0xD0 or code == 0xD1:
            place += 8 + OCTETS_4.unpack_from(data, place + 4)[0]
        elif code == 0x45:
            place += 4
        else:
            return _scanned_head_end(data, at, end)
    return place


def _scanned_head_end(data: bytes, at: int, end: int) -> int:
    """As `head_end`, for descriptors in other encodings than the shortest."""
    sections = scan_sections(data, at, end)
    behind = sections.body or sections.footer
    return end if behind is None else behind[0]


def messages_in(run: Run) -> Iterator[tuple[bytes, int, int, int]]:
    """The octets that have each message, and where it begins, its head ends, and it ends."""
    data = run.raw if isinstance(run.raw, bytes) else bytes(run.raw)
    at, skip = 0, run.skip
    for length in run.lengths if run.lengths is not None else repeat(run.stride, run.count):
        begin, end = at + skip, at + length
        yield data, begin, head_end(data, begin, end), end
        at = end


def heads_in(run: Run) -> Iterator[tuple[int, int, bytes]]:
    """(index of the first message, number of messages, head) for messages in a row with the same head."""
    first, previous = 0, b""
    index = -1
    for index, (data, begin, behind, _) in enumerate(messages_in(run)):
        head = data[begin:behind]
        if head != previous:
            if index > first:
                yield first, index - first, previous
            first, previous = index, head
    if index >= first:
        yield first, index + 1 - first, previous


def octets_of_body(data: bytes, behind: int, end: int) -> int:
    """The octets of the body that stands behind a head: the contents of data sections, or the encoded
    sections of another body.
    """
    if behind + 5 <= end and data[behind + 2] == _DATA and not data[behind] and data[behind + 1] == 0x53:
        code = data[behind + 3]
        if code == 0xA0 and behind + 5 + data[behind + 4] == end:
            return data[behind + 4]
        if code == 0xB0:
            size: int = OCTETS_4.unpack_from(data, behind + 4)[0]
            if behind + 8 + size == end:
                return size
    sections = scan_sections(data, behind, end)
    if sections.body is None:
        return 0
    if sections.body_kind != _DATA:
        return sections.body[1] - sections.body[0]
    return sum(last - first for first, last in data_contents(data, sections))


def data_contents(data: bytes, sections: Sections) -> Iterator[SectionSpan]:
    """Begin and end of the content of each data section."""
    for first, last in body_values(data, sections):
        yield first + (5 if data[first] & 0x10 else 2), last


def sizes_of_bodies(run: Run) -> array[int]:
    """The size in octets of each message's body."""
    return array("Q", [octets_of_body(data, behind, end) for data, _, behind, end in messages_in(run)])


def octets_of_first_body(run: Run) -> int:
    """The octets of the first message's body, as `octets_of_body` counts them."""
    data, _, behind, end = next(messages_in(run))
    return octets_of_body(data, behind, end)


def body_of(run: Run) -> AmqpValue:
    """The first message's body: the octets of its data sections, the octets of the text that is its
    amqp-value, or another amqp-value. None for sequences, for no body, and for a malformed one.
    """
    data, _, behind, end = next(messages_in(run))
    try:
        sections = scan_sections(data, behind, end)
        if sections.body_kind == _DATA:
            return b"".join([data[first:last] for first, last in data_contents(data, sections)])
        if sections.body_kind != _VALUE:
            return None
        span, *others = body_values(data, sections)
        value = None if others else read_value(data, *span)[0]
    except (WireError, IndexError, StructError):
        return None
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


# -- the sections of a head -------------------------------------------------------------------------


def sections_in(head: bytes) -> Sections:
    """The sections of a head."""
    return scan_sections(head, 0, len(head))


def properties_of_head(head: bytes) -> Properties:
    """The properties; such without any field where the section is malformed."""
    try:
        return properties_of(head, sections_in(head))
    except SectionError:
        return Properties()


Pairs = list[tuple[AmqpValue, AmqpValue]]


def annotation_pairs(head: bytes, span: SectionSpan | None) -> Pairs:
    """Keys and values of the annotations at `span`; none where the section is malformed."""
    try:
        return pairs_of(annotations_of(head, span))
    except SectionError:
        return []


def application_pairs(head: bytes, sections: Sections) -> list[tuple[str, AmqpValue]]:
    """Names and values of the application-properties; none where the section is malformed."""
    if sections.application_properties is None:
        return []
    try:
        return list(application_properties_of(head, sections).items())
    except SectionError:
        return []


def pairs_of(found: dict[str, AmqpValue] | PairMap) -> Pairs:
    """Keys and values of a map that was read."""
    return found.pairs if isinstance(found, PairMap) else [(key, value) for key, value in found.items()]


def annotation(head: bytes, name: str) -> AmqpValue:
    """The value of a message annotation; None without it."""
    # Most messages have no annotation with the name, and a search costs less than decoding the others.
    if name.encode() not in head:
        return None
    for key, value in annotation_pairs(head, sections_in(head).message_annotations):
        if isinstance(key, str) and key == name:
            return value
    return None


def header_in(head: bytes) -> Header:
    """The header; one without any field where the head has none."""
    return header_of(head, sections_in(head))


def whole_number(value: AmqpValue) -> int | None:
    """The value, where it is an integer of any type."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# -- other heads made of one ------------------------------------------------------------------------


def annotations_section(pairs: Pairs) -> bytes:
    """A section of message annotations; no octets for none. Raises ValueError for values that have no
    encoding.
    """
    if not pairs:
        return b""
    return b"\x00\x53\x72" + write_encoded_map([encode_amqp(part) for pair in pairs for part in pair])


def edited(head: bytes, header: Header | None, pairs: Pairs | None) -> bytes:
    """The head with another header, and with other message annotations; None keeps what is there.

    The bare message keeps its octets (part 3, section 3.2).
    """
    sections = sections_in(head)
    parts = [
        _cut(head, sections.header) if header is None else header.encode(),
        _cut(head, sections.delivery_annotations),
        _cut(head, sections.message_annotations) if pairs is None else annotations_section(pairs),
        _cut(head, sections.properties),
        _cut(head, sections.application_properties),
    ]
    return b"".join(parts)


def _cut(head: bytes, span: SectionSpan | None) -> bytes:
    return b"" if span is None else head[span[0] : span[1]]


def with_heads(run: Run, change: Callable[[bytes], bytes]) -> Run:
    """The run with each message's head replaced by `change` of it, which must ask something of queues for all
    messages or for none.
    """
    remember = lru_cache(maxsize=64)(change)
    pieces: list[bytes] = []
    lengths = array("I")
    first = b""
    for data, begin, behind, end in messages_in(run):
        head = remember(data[begin:behind])
        if not lengths:
            first = head
        pieces += (head, data[behind:end])
        lengths.append(len(head) + end - behind)
    facts = facts_of(first, 0, len(first))
    return replace(
        run,
        special=facts.special,
        skip=0,
        stride=0,
        lengths=lengths,
        largest_frame=max(lengths),
        raw=b"".join(pieces),
    )


def with_body(run: Run, body: bytes) -> Run:
    """The one message of a run, with one data section as its body, and its own head."""
    ((data, begin, behind, _),) = messages_in(run)
    raw = data[begin:behind] + encode_amqp(Described(ULong(SectionCode.DATA), body))
    return replace(run, skip=0, stride=len(raw), lengths=None, largest_frame=len(raw), raw=raw)


def with_place(run: Run) -> Run:
    """The messages of one routing key with the exchange and the key of their publish, as RabbitMQ annotates
    them.
    """
    place = {X_EXCHANGE: run.exchange, X_ROUTING_KEY: run.routing_key or ""}

    def placed(head: bytes) -> bytes:
        pairs = annotation_pairs(head, sections_in(head).message_annotations)
        others = [pair for pair in pairs if pair[0] not in place]
        return edited(head, None, [*others, *place.items()])

    return with_heads(run, placed)


def acquired_before(run: Run) -> Run:
    """The messages as they are delivered again: none says that its link is the first to acquire it (part 3,
    section 3.2.1).
    """
    if any(header_in(head).first_acquirer for _, _, head in heads_in(run)):
        return with_heads(run, _not_first)
    return run


def _not_first(head: bytes) -> bytes:
    header = header_in(head)
    if not header.first_acquirer:
        return head
    header.first_acquirer = False
    return edited(head, header, None)
