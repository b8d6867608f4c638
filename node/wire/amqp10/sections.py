"""Finds the sections of a message, and reads those that a broker looks into (part 3, section 3.2).

`scan_sections` looks at the begin of each section and at sizes, so the work for a message does not grow with
the length of its body. Its result has positions and no octets. A message without a body is taken, though the
specification asks for a body: the other sections say all there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import error as StructError
from typing import Any, Final, TypeAlias

from node.wire.amqp10.decoding import KNOWN_CODES, read_value
from node.wire.amqp10.definitions import COMPOSITES, SYMBOLIC, Header, Properties, SectionCode, read_composite
from node.wire.amqp10.errors import SectionBoundsError, SectionError, WireError
from node.wire.amqp10.field_readers import take_descriptor
from node.wire.amqp10.format_codes import FIXED_WIDTHS, OCTETS_4
from node.wire.amqp10.values import AmqpValue, PairMap, TypedArray, ULong

SectionSpan: TypeAlias = "tuple[int, int]"
"""The begin of a section, with its descriptor, and its end."""

MAX_SECTIONS: Final = 1 << 18
"""The largest number of sections in one message: a body may have any number of them, and each costs work."""

_HEADER: Final = 0x70
_DATA: Final = 0x75
_SEQUENCE: Final = 0x76
_VALUE: Final = 0x77

_LISTS: Final = (0x45, 0xC0, 0xD0)
_MAPS: Final = (0xC1, 0xD1)
_FOOTER: Final = 0x78

_NULL: Final = 0x40
_LIST_HEADS: Final = {0x45: 1, 0xC0: 3, 0xD0: 9}
"""The octets of a list in front of its first value."""

_ENCODINGS: Final[dict[int, tuple[int, ...]]] = {
    SectionCode.HEADER: _LISTS,
    SectionCode.DELIVERY_ANNOTATIONS: _MAPS,
    SectionCode.MESSAGE_ANNOTATIONS: _MAPS,
    SectionCode.PROPERTIES: _LISTS,
    SectionCode.APPLICATION_PROPERTIES: _MAPS,
    SectionCode.DATA: (0xA0, 0xB0),
    SectionCode.AMQP_SEQUENCE: _LISTS,
    SectionCode.FOOTER: _MAPS,
}
"""The encodings that the value of a section may have. An amqp-value may have any."""

_FITTING: Final = frozenset(
    section << 8 | encoding for section, encodings in _ENCODINGS.items() for encoding in encodings
)
"""The descriptors with their encodings, as one number each."""


class Sections:
    """Where the sections of a message stand. None stands for a section that the message has not.

    `bare` is the part from properties to the last body section, which intermediaries leave as it is.
    `body_kind` is the descriptor of the body's sections, 0 for none.
    """

    __slots__ = (
        "application_properties",
        "bare",
        "body",
        "body_kind",
        "delivery_annotations",
        "footer",
        "header",
        "message_annotations",
        "properties",
    )

    def __init__(self, spans: list[SectionSpan | None], body_kind: int, end: int) -> None:
        """`spans` has a place for each descriptor from the header's on. The body's place is that of data. The
        message ends at `end`.
        """
        self.header: Final = spans[0]
        self.delivery_annotations: Final = spans[1]
        self.message_annotations: Final = spans[2]
        self.properties: Final = spans[3]
        self.application_properties: Final = spans[4]
        self.body: Final = spans[5]
        self.footer: Final = spans[8]
        self.body_kind: Final = body_kind
        first = spans[3] or spans[4] or spans[5]
        last = spans[5] or spans[4] or spans[3]
        self.bare: Final = (end, end) if first is None or last is None else (first[0], last[1])


def scan_sections(data: bytes, at: int, end: int) -> Sections:
    """The sections of the message from `at` to `end`.

    Raises SectionError for a section that is unknown, out of order, there twice or of another type than its
    descriptor says, for octets that are no value, and for too many sections.
    """
    spans: list[SectionSpan | None] = [None] * 9
    last = body_kind = count = 0
    body_start = body_end = -1
    try:
        while at < end:
            count += 1
            if count > MAX_SECTIONS:
                raise SectionBoundsError(f"a message has more than {MAX_SECTIONS} sections")
            code, value_at = _section(data, at)
            if code <= last and (code != last or code not in (_DATA, _SEQUENCE)):
                raise SectionError(f"section {code:#x} stands behind section {last:#x}")
            after = skip_value(data, value_at, end)
            if _DATA <= code <= _VALUE:
                if body_kind and code != body_kind:
                    raise SectionError(f"a body of section {body_kind:#x} has a section {code:#x}")
                if not body_kind:
                    body_kind, body_start = code, at
                body_end = after
            else:
                spans[code - _HEADER] = (at, after)
            last, at = code, after
    except (IndexError, StructError):
        raise SectionError("a section is cut short") from None
    if body_kind:
        spans[_DATA - _HEADER] = (body_start, body_end)
    return Sections(spans, body_kind, end)


def _section(data: bytes, at: int) -> tuple[int, int]:
    """The descriptor of the section at `at`, and the position of its value, whose encoding fits it."""
    if data[at] == 0 and data[at + 1] == 0x53:
        code, value_at = data[at + 2], at + 3
    else:
        try:
            code, value_at = take_descriptor(data, at, SYMBOLIC)
        except WireError as error:
            raise SectionError(f"a section is no described value: {error}") from None
    if not _HEADER <= code <= _FOOTER:
        raise SectionError(f"there is no section {code:#x}" if code >= 0 else "an unknown section")
    if code != _VALUE and code << 8 | data[value_at] not in _FITTING:
        raise SectionError(f"section {code:#x} has a value of encoding {data[value_at]:#04x}")
    return code, value_at


def sections_in_any_order(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """The descriptor, the position, the position of the value and the end of each section, in the order in
    which they stand. Raises SectionError.
    """
    at = count = 0
    try:
        while at < len(data):
            count += 1
            if count > MAX_SECTIONS:
                raise SectionBoundsError(f"a message has more than {MAX_SECTIONS} sections")
            code, value_at = _section(data, at)
            after = skip_value(data, value_at, len(data))
            yield code, at, value_at, after
            at = after
    except (IndexError, StructError):
        raise SectionError("a section is cut short") from None


def skip_value(data: bytes, at: int, end: int) -> int:
    """The position behind the value at `at`, which is not decoded. Raises SectionError beyond `end`, and for
    an unknown encoding; IndexError and struct.error where `data` ends.
    """
    code = data[at]
    if code == 0xA0 or code == 0xC0 or code == 0xC1:
        after = at + 2 + data[at + 1]
        if after <= end:
            return after
    left = 1
    while left:
        code = data[at]
        at += 1
        kind = code >> 4
        if code == 0:
            # The descriptor is a value, and what it describes another.
            left += 1
            continue
        if code not in KNOWN_CODES:
            raise SectionError(f"there is no encoding {code:#04x}")
        if kind < 10:
            at += FIXED_WIDTHS[kind - 4]
        elif kind & 1:
            at += 4 + OCTETS_4.unpack_from(data, at)[0]
        else:
            at += 1 + data[at]
        if at > end:
            raise SectionError("a section is longer than its message")
        left -= 1
    return at


def body_values(data: bytes, sections: Sections) -> Iterator[SectionSpan]:
    """Begin and end of the value of each section of the body, with its code and without the descriptor."""
    at, end = sections.body or (0, 0)
    while at < end:
        _, value_at = _section(data, at)
        at = skip_value(data, value_at, end)
        yield value_at, at


def body_composite(data: bytes, at: int, end: int) -> object:
    """The composite that is the body of the message from `at` to `end`; None where the body is no amqp-value
    with a composite of the protocol. Raises SectionError.
    """
    sections = scan_sections(data, at, end)
    if sections.body_kind != _VALUE:
        return None
    span, *others = body_values(data, sections)
    return None if others or data[span[0]] else _composite(data, span)


def header_of(data: bytes, sections: Sections) -> Header:
    """The header; one without any field where the message has none. Raises SectionError."""
    found = _composite(data, sections.header)
    return found if isinstance(found, Header) else Header()


def properties_of(data: bytes, sections: Sections) -> Properties:
    """The properties; such without any field where the message has none. Raises SectionError."""
    found = _composite(data, sections.properties)
    return found if isinstance(found, Properties) else Properties()


def names_other_user(data: bytes, sections: Sections, user: bytes) -> bool:
    """Whether a message has a user-id (section 3.2.4) that is not `user`, or one that cannot be read."""
    span = sections.properties
    if span is None:
        return False
    try:
        _, at = _section(data, span[0])
        width = _LIST_HEADS[data[at]]
        if at + width >= span[1]:
            return False
        user_at = skip_value(data, at + width, span[1])
        if user_at >= span[1] or data[user_at] == _NULL:
            return False
        claimed = properties_of(data, sections).user_id
    except (SectionError, IndexError, StructError):
        return True
    return claimed is not None and claimed != user


def _composite(data: bytes, span: SectionSpan | None) -> object:
    if span is None:
        return None
    try:
        return read_composite(data, span[0], span[1], COMPOSITES)[0]
    except WireError as error:
        raise SectionError(str(error)) from None


def annotations_of(data: bytes, span: SectionSpan | None) -> dict[str, AmqpValue] | PairMap:
    """Annotations or footer that stand at `span`, empty for None. Raises SectionError.

    Keys are symbols, or ulongs; with one of these the map is a PairMap.
    """
    found = _map(data, span)
    keys = [key for key, _ in found.pairs] if isinstance(found, PairMap) else list(found)
    if not all(isinstance(key, str | ULong) for key in keys):
        raise SectionError("a key of annotations is neither symbol nor ulong")
    return found


def application_properties_of(data: bytes, sections: Sections) -> dict[str, AmqpValue]:
    """The application-properties: strings with values that are no map, list or array. Raises SectionError."""
    found = _map(data, sections.application_properties)
    if isinstance(found, PairMap) or not all(type(key) is str for key in found):
        raise SectionError("a key of application-properties is no string")
    if any(isinstance(value, dict | list | PairMap | TypedArray) for value in found.values()):
        raise SectionError("a value of application-properties is a map, list or array")
    return found


def _map(data: bytes, span: SectionSpan | None) -> dict[Any, AmqpValue] | PairMap:
    """The map of a section. Its keys are of any type."""
    if span is None:
        return {}
    try:
        _, value_at = _section(data, span[0])
        value, _ = read_value(data, value_at, span[1])
    except SectionError:
        raise
    except WireError as error:
        raise SectionError(str(error)) from None
    if isinstance(value, dict | PairMap):
        return value
    raise SectionError("a section is no map")
