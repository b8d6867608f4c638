"""Qpid Proton's codec of AMQP 1.0 reads what ours writes, and ours what Proton's writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import proton
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.composite import Composite
from node.wire.amqp10.decoding import decode_value
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.format_codes import FormatCode
from node.wire.amqp10.sections import (
    annotations_of,
    application_properties_of,
    header_of,
    properties_of,
    scan_sections,
)
from node.wire.amqp10.values import (
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    PairMap,
    Short,
    Symbol,
    TimestampMs,
    TypedArray,
    UByte,
    UInt,
    ULong,
    UShort,
)
from tests.wire.amqp10.strategies import KINDS, composites, map_of, same, values

pytestmark = pytest.mark.clients

Data = proton.Data

SCALARS: list[tuple[type, int, str, Callable[[Any], Any], Callable[[Any], Any]]] = [
    (bool, Data.BOOL, "bool", bool, bool),
    (UByte, Data.UBYTE, "ubyte", int, UByte),
    (UShort, Data.USHORT, "ushort", int, UShort),
    (UInt, Data.UINT, "uint", int, UInt),
    (ULong, Data.ULONG, "ulong", int, ULong),
    (Byte, Data.BYTE, "byte", int, Byte),
    (Short, Data.SHORT, "short", int, Short),
    (Int, Data.INT, "int", int, Int),
    (int, Data.LONG, "long", int, int),
    (Float, Data.FLOAT, "float", float, Float),
    (float, Data.DOUBLE, "double", float, float),
    (Decimal32, Data.DECIMAL32, "decimal32", lambda one: int.from_bytes(one.octets, "big"),
     lambda one: Decimal32(int(one).to_bytes(4, "big"))),
    (Decimal64, Data.DECIMAL64, "decimal64", lambda one: int.from_bytes(one.octets, "big"),
     lambda one: Decimal64(int(one).to_bytes(8, "big"))),
    (Decimal128, Data.DECIMAL128, "decimal128", lambda one: one.octets, lambda one: Decimal128(bytes(one))),
    (Char, Data.CHAR, "char", str, Char),
    (TimestampMs, Data.TIMESTAMP, "timestamp", int, TimestampMs),
    (Symbol, Data.SYMBOL, "symbol", str, Symbol),
    (str, Data.STRING, "string", str, str),
    (bytes, Data.BINARY, "binary", bytes, bytes),
]  # fmt: skip
"""Our type, Proton's type, the name in Proton's methods, and both conversions."""

BY_TYPE = {one[0]: one for one in SCALARS}
BY_CODE = {one[1]: one for one in SCALARS}
ARRAY_TYPES = {
    FormatCode.NULL: Data.NULL, FormatCode.BOOLEAN: Data.BOOL, FormatCode.UBYTE: Data.UBYTE,
    FormatCode.USHORT: Data.USHORT, FormatCode.UINT: Data.UINT, FormatCode.ULONG: Data.ULONG,
    FormatCode.BYTE: Data.BYTE, FormatCode.SHORT: Data.SHORT, FormatCode.INT: Data.INT,
    FormatCode.LONG: Data.LONG, FormatCode.FLOAT: Data.FLOAT, FormatCode.DOUBLE: Data.DOUBLE,
    FormatCode.DECIMAL_32: Data.DECIMAL32, FormatCode.DECIMAL_64: Data.DECIMAL64,
    FormatCode.DECIMAL_128: Data.DECIMAL128, FormatCode.CHAR: Data.CHAR, FormatCode.TIMESTAMP: Data.TIMESTAMP,
    FormatCode.UUID: Data.UUID, FormatCode.BINARY_32: Data.BINARY, FormatCode.STRING_32: Data.STRING,
    FormatCode.SYMBOL_32: Data.SYMBOL, FormatCode.LIST_32: Data.LIST, FormatCode.MAP_32: Data.MAP,
    FormatCode.ARRAY_32: Data.ARRAY,
}  # fmt: skip


def put(data: Any, value: Any) -> None:
    """Write a value of ours with Proton's cursor."""
    scalar = BY_TYPE.get(type(value))
    if value is None:
        data.put_null()
    elif scalar is not None:
        getattr(data, f"put_{scalar[2]}")(scalar[3](value))
    elif isinstance(value, list):
        data.put_list()
        inside(data, value)
    elif isinstance(value, dict | PairMap):
        data.put_map()
        pairs = value.pairs if isinstance(value, PairMap) else value.items()
        inside(data, [part for pair in pairs for part in pair])
    elif isinstance(value, TypedArray):
        data.put_array(bool(value.descriptors), ARRAY_TYPES[FormatCode(value.code)])
        inside(data, [*value.descriptors, *value.items])
    elif isinstance(value, Described):
        data.put_described()
        inside(data, [value.descriptor, value.value])
    else:
        data.put_uuid(value)


def inside(data: Any, parts: list[Any]) -> None:
    data.enter()
    for part in parts:
        put(data, part)
    data.exit()


def get(data: Any) -> Any:
    """The value of ours at Proton's cursor."""
    kind = data.type()
    scalar = BY_CODE.get(kind)
    if kind == Data.NULL:
        return None
    if scalar is not None:
        return scalar[4](getattr(data, f"get_{scalar[2]}")())
    if kind == Data.UUID:
        return data.get_uuid()
    if kind == Data.LIST:
        return parts(data)
    if kind == Data.MAP:
        flat = parts(data)
        return map_of(list(zip(flat[::2], flat[1::2], strict=True)))
    if kind == Data.ARRAY:
        _, described, element = data.get_array()
        items = parts(data)
        descriptors = tuple(items[:1]) if described else ()
        code = next(code for code, each in ARRAY_TYPES.items() if each == element)
        return TypedArray(code, items[1:] if described else items, descriptors)
    assert kind == Data.DESCRIBED
    return Described(*parts(data))


def parts(data: Any) -> list[Any]:
    found = []
    data.enter()
    while data.next() is not None:
        found.append(get(data))
    data.exit()
    return found


def beyond_proton(value: Any) -> bool:
    """Whether a value has something that Proton 0.40 reads or writes wrongly.

    The second descriptor of an array counts as the first item there. A value behind a described value that
    describes another described value counts as a part of the first.
    """
    match value:
        case TypedArray():
            return len(value.descriptors) > 1 or any(map(beyond_proton, value.items))
        case Described():
            return isinstance(value.value, Described) or beyond_proton([value.descriptor, value.value])
        case PairMap():
            return any(beyond_proton(part) for pair in value.pairs for part in pair)
        case dict():
            return any(map(beyond_proton, value.values()))
        case list():
            return any(map(beyond_proton, value))
        case _:
            return False


known_to_proton = values.filter(lambda value: not beyond_proton(value))


def proton_reads(octets: bytes) -> Any:
    data = Data()
    assert data.decode(octets) == len(octets)
    data.rewind()
    data.next()
    return get(data)


def proton_writes(value: Any) -> bytes:
    data = Data()
    put(data, value)
    return bytes(data.encode())


@given(known_to_proton)
def test_proton_reads_what_ours_writes(value: Any) -> None:
    assert same(proton_reads(encode_amqp(value)), value)


@given(known_to_proton)
def test_ours_reads_what_proton_writes(value: Any) -> None:
    octets = proton_writes(value)
    assert same(decode_value(octets), value)
    assert len(encode_amqp(value)) <= len(octets)


@given(st.sampled_from(KINDS).flatmap(composites))
def test_proton_reads_composite_types_of_ours_and_ours_those_of_proton(composite: Composite) -> None:
    described = proton_reads(composite.encode())
    assert isinstance(described, Described) and described.descriptor == composite.CODE
    octets = proton_writes(described)
    found, at = d.read_composite(octets, 0, len(octets), d.COMPOSITES)
    assert at == len(octets) and same(found, composite)


def test_a_message_of_proton() -> None:
    message = proton.Message(
        body={"k": [1, 2]}, id=proton.ulong(7), address="q", subject="s", durable=True, priority=9, ttl=1.5,
        correlation_id="c", content_type="text/plain", creation_time=12.0, group_id="g", group_sequence=3,
    )  # fmt: skip
    message.annotations = {"x-opt-a": proton.uint(1)}
    message.properties = {"n": proton.int32(1), "t": "x"}
    octets = message.encode()
    found = scan_sections(octets, 0, len(octets))
    header = header_of(octets, found)
    assert (header.durable, header.priority, header.ttl) == (True, 9, 1500)
    properties = properties_of(octets, found)
    assert same(properties.message_id, ULong(7)) and properties.to == "q" and properties.subject == "s"
    assert (properties.correlation_id, properties.content_type) == ("c", "text/plain")
    assert (properties.creation_time, properties.group_id, properties.group_sequence) == (12000, "g", 3)
    assert same(annotations_of(octets, found.message_annotations), {Symbol("x-opt-a"): UInt(1)})
    assert same(application_properties_of(octets, found), {"n": Int(1), "t": "x"})
    assert found.body_kind == d.SectionCode.AMQP_VALUE


def test_proton_takes_a_message_of_ours() -> None:
    octets = b"".join(
        [
            d.Header(durable=True, priority=9, ttl=1500).encode(),
            encode_amqp(Described(ULong(d.SectionCode.MESSAGE_ANNOTATIONS), {Symbol("x-opt-a"): UInt(1)})),
            d.Properties(
                message_id=ULong(7), to="q", content_type="text/plain", creation_time=12000
            ).encode(),
            encode_amqp(Described(ULong(d.SectionCode.APPLICATION_PROPERTIES), {"n": Int(1)})),
            encode_amqp(Described(ULong(d.SectionCode.DATA), b"octets")),
        ]
    )
    message = proton.Message()
    message.decode(octets)
    assert (message.durable, message.priority, message.ttl, message.body) == (True, 9, 1.5, b"octets")
    assert (message.id, message.address, message.content_type) == (7, "q", "text/plain")
    assert (message.creation_time, message.annotations, message.properties) == (
        12.0,
        {"x-opt-a": 1},
        {"n": 1},
    )
