"""Values of every AMQP type, composite types, and a comparison that tells types apart."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID
from xml.etree import ElementTree

from hypothesis import strategies as st

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.composite import Composite
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.field_readers import MessageId
from node.wire.amqp10.format_codes import FormatCode
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
from scripts.generate_amqp10 import TABLES, Definitions, code_of, fields_of


def same(one: Any, other: Any) -> bool:
    """Whether both are the same value of the same type, with all that is in them."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return struct.pack(">d", one) == struct.pack(">d", other)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, PairMap):
        return same(one.pairs, other.pairs)
    if isinstance(one, TypedArray):
        return one.code == other.code and same([one.items, one.descriptors], [other.items, other.descriptors])
    if isinstance(one, Described):
        return same([one.descriptor, one.value], [other.descriptor, other.value])
    if isinstance(one, Composite):
        return all(same(getattr(one, name), getattr(other, name)) for name in one.FIELDS)
    return bool(one == other)


def near(least: int, most: int) -> st.SearchStrategy[int]:
    """Numbers of a range, and often those where an encoding ends."""
    edges = (0, 1, -1, 127, 128, -128, -129, 255, 256, least, most)
    return st.sampled_from([edge for edge in edges if least <= edge <= most]) | st.integers(least, most)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["x" * 255, "x" * 256]
)
symbols = st.text(st.characters(max_codepoint=127), max_size=20).map(Symbol)
singles = st.floats(width=32, allow_nan=False).map(Float)

uints = near(0, 2**32 - 1).map(UInt)
ulongs = near(0, 2**64 - 1).map(ULong)

MEMBERS: dict[int, st.SearchStrategy[Any]] = {
    FormatCode.NULL: st.none(),
    FormatCode.BOOLEAN: st.booleans(),
    FormatCode.UBYTE: near(0, 255).map(UByte),
    FormatCode.USHORT: near(0, 2**16 - 1).map(UShort),
    FormatCode.UINT: uints,
    FormatCode.ULONG: ulongs,
    FormatCode.BYTE: near(-128, 127).map(Byte),
    FormatCode.SHORT: near(-(2**15), 2**15 - 1).map(Short),
    FormatCode.INT: near(-(2**31), 2**31 - 1).map(Int),
    FormatCode.LONG: near(-(2**63), 2**63 - 1),
    FormatCode.FLOAT: singles,
    FormatCode.DOUBLE: st.floats(allow_nan=False),
    FormatCode.DECIMAL_32: st.binary(min_size=4, max_size=4).map(Decimal32),
    FormatCode.DECIMAL_64: st.binary(min_size=8, max_size=8).map(Decimal64),
    FormatCode.DECIMAL_128: st.binary(min_size=16, max_size=16).map(Decimal128),
    FormatCode.CHAR: st.characters(exclude_categories=["Cs"]).map(Char),
    FormatCode.TIMESTAMP: near(-(2**63), 2**63 - 1).map(TimestampMs),
    FormatCode.UUID: st.binary(min_size=16, max_size=16).map(lambda octets: UUID(bytes=octets)),
    FormatCode.BINARY_32: st.binary(max_size=300),
    FormatCode.STRING_32: texts,
    FormatCode.SYMBOL_32: symbols,
}
"""Values of each primitive type without parts, by the code that stands for the type in an array."""

primitives = st.one_of(*MEMBERS.values())


def map_of(pairs: list[tuple[Any, Any]]) -> dict[Any, Any] | PairMap:
    """The map of some pairs, as the decoder makes it. Of keys with one type and value the last counts."""
    kept = {encode_amqp(key): (key, value) for key, value in pairs}
    simple = all(type(key) in (str, Symbol, bytes) for key, _ in kept.values())
    plain = dict(kept.values()) if simple else {}
    return plain if len(plain) == len(kept) else PairMap(list(kept.values()))


def maps(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = texts | symbols | st.binary(max_size=9)
    mixed = keys | values
    return st.lists(st.tuples(keys, values), max_size=4).map(map_of) | st.lists(
        st.tuples(mixed, values), max_size=4
    ).map(map_of)


def arrays(values: st.SearchStrategy[Any]) -> st.SearchStrategy[TypedArray]:
    members: dict[int, st.SearchStrategy[Any]] = {
        **MEMBERS,
        FormatCode.LIST_32: st.lists(values, max_size=3),
        FormatCode.MAP_32: maps(values),
        FormatCode.ARRAY_32: st.deferred(lambda: arrays(primitives)),
    }
    descriptors = st.lists(ulongs | symbols, max_size=2).map(tuple)
    return st.sampled_from(sorted(members)).flatmap(
        lambda code: st.builds(TypedArray, st.just(code), st.lists(members[code], max_size=4), descriptors)
    )


values: st.SearchStrategy[Any] = st.recursive(
    primitives,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        maps(inner),
        arrays(inner),
        st.builds(Described, ulongs | symbols, inner),
    ),
    max_leaves=8,
)
"""Values of every type."""


# -- composite types --------------------------------------------------------------------------------

_DEFINITIONS = Definitions([ElementTree.parse(table).getroot() for table in TABLES])
FIELD_TYPES = {
    code_of(one): {field.name: field.optional_type for field in fields_of(one, _DEFINITIONS)}
    for one in _DEFINITIONS.composites()
}
"""The Python type of each field, by descriptor and name. Compiled code does not have annotations."""

sequence_numbers = near(0, 2**32 - 1)
names = st.text(st.characters(max_codepoint=127), max_size=9)
name_lists = st.lists(names, max_size=3).map(tuple)
fields = st.dictionaries(symbols, primitives, max_size=3)
errors = st.builds(d.Error, names, st.none() | texts, st.none() | fields)
outcomes: st.SearchStrategy[Composite] = st.one_of(
    st.builds(d.Accepted),
    st.builds(d.Released),
    st.builds(d.Rejected, st.none() | errors),
    st.builds(d.Modified, st.none() | st.booleans(), st.none() | st.booleans(), st.none() | fields),
    st.builds(d.Declared, st.binary(max_size=9)),
)
states: st.SearchStrategy[Any] = st.one_of(
    outcomes,
    st.builds(d.Received, sequence_numbers, near(0, 2**64 - 1)),
    st.builds(d.TransactionalState, st.binary(max_size=9), st.none() | outcomes),
    st.builds(Described, st.just(Symbol("x:state")), st.just([])),
)
message_ids: st.SearchStrategy[MessageId] = ulongs | texts | st.binary(max_size=9) | MEMBERS[FormatCode.UUID]


def _parameter(kind: type[Composite], name: str) -> st.SearchStrategy[Any]:
    """Values for a field, by its name where the annotation does not say all."""
    annotation = FIELD_TYPES[kind.CODE][name]
    special = {
        "state": states, "outcome": outcomes, "default_outcome": outcomes, "global_id": primitives,
        "max_message_size": near(0, 2**64 - 1), "absolute_expiry_time": near(-(2**63), 2**63 - 1),
        "creation_time": near(-(2**63), 2**63 - 1), "section_offset": near(0, 2**64 - 1),
        "channel_max": near(0, 65535), "remote_channel": near(0, 65535), "priority": near(0, 255),
        "filter": st.dictionaries(symbols, st.builds(Described, symbols | ulongs, primitives), max_size=2),
    }  # fmt: skip
    text_fields = ("container_id", "hostname", "name", "description", "address", "to", "reply_to", "subject")
    base = annotation.removesuffix(" | None")
    choice = getattr(d, base, None)
    plain: dict[str, st.SearchStrategy[Any]] = {
        "int": sequence_numbers, "bool": st.booleans(), "bytes": st.binary(max_size=300), "str": names,
        "tuple[str, ...]": name_lists, "FieldMap": fields, "MessageId": message_ids, "Error": errors,
        "dict[bytes, CompositeField | None]": st.dictionaries(
            st.binary(max_size=9), st.none() | states, max_size=2
        ),
    }  # fmt: skip
    if base == "CompositeField" and name in ("source", "target"):
        found: st.SearchStrategy[Any] = composites(d.Source if name == "source" else d.Target)
    elif name in special:
        found = special[name]
    elif isinstance(choice, type) and not issubclass(choice, Composite):
        found = st.sampled_from(list(choice))  # type: ignore[call-overload]  # an enum
    else:
        found = texts if name in text_fields and base == "str" else plain[base]
    return st.none() | found if annotation.endswith(" | None") else found


def composites(kind: type[Composite]) -> st.SearchStrategy[Any]:
    """A composite type with any fields."""
    return st.builds(kind, **{name: _parameter(kind, name) for name in kind.FIELDS})


KINDS: list[type[Composite]] = [
    kind for kind in vars(d).values() if isinstance(kind, type) and issubclass(kind, Composite) and kind.CODE
]
"""Every composite type."""
