"""Messages of AMQP 1.0 for tests: their sections, runs of them, and a strategy for any message."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import SectionCode
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.values import Described, Symbol, ULong
from tests.wire.amqp10.strategies import composites, map_of, primitives, symbols, texts, ulongs, values


def section(code: int, value: Any) -> bytes:
    return encode_amqp(Described(ULong(code), value))


def data(octets: bytes) -> bytes:
    return section(SectionCode.DATA, octets)


def annotated(**named: Any) -> bytes:
    """A section of message annotations. An underscore of a name stands for a hyphen."""
    pairs = {Symbol(name.replace("_", "-")): value for name, value in named.items()}
    return section(SectionCode.MESSAGE_ANNOTATIONS, pairs)


def application(**named: Any) -> bytes:
    return section(SectionCode.APPLICATION_PROPERTIES, named)


def message(*sections: bytes, body: bytes = b"body") -> bytes:
    """The sections, and behind them a data section."""
    return b"".join(sections) + data(body)


# -- any message ------------------------------------------------------------------------------------

_NAMES = [
    "x-cc", "x-bcc", "x-opt-deaths", "x-basic-type", "x-delay", "x-opt-delivery-delay", "x-delivery-count",
    "x-message-id", "x-death", "x-first-death-queue", "x-opt-amqp-0-9-1", "x-amqp-1.0-properties", "x-other",
    "CC", "n", "",
]  # fmt: skip
"""Names that a conversion treats in a way of its own, and others."""

_keys = st.sampled_from(_NAMES)


def _pairs(keys: st.SearchStrategy[Any], held: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(st.tuples(keys, held), max_size=4).map(map_of)


_annotations = _pairs(_keys.map(Symbol) | symbols | ulongs, values)
_application = st.dictionaries(_keys | texts, primitives, max_size=4)
_bodies = st.one_of(
    st.binary(max_size=30).map(data),
    st.lists(st.binary(max_size=9).map(data), max_size=3).map(b"".join),
    values.map(lambda value: section(SectionCode.AMQP_VALUE, value)),
    st.lists(
        st.lists(primitives, max_size=3).map(lambda value: section(SectionCode.AMQP_SEQUENCE, value)),
        max_size=3,
    ).map(b"".join),
)


def _optional(octets: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.just(b"") | octets


messages = st.tuples(
    _optional(composites(d.Header).map(d.Header.encode)),
    _optional(_annotations.map(lambda found: section(SectionCode.DELIVERY_ANNOTATIONS, found))),
    _optional(_annotations.map(lambda found: section(SectionCode.MESSAGE_ANNOTATIONS, found))),
    _optional(composites(d.Properties).map(d.Properties.encode)),
    _optional(_application.map(lambda found: section(SectionCode.APPLICATION_PROPERTIES, found))),
    _bodies,
    _optional(_annotations.map(lambda found: section(SectionCode.FOOTER, found))),
).map(b"".join)
"""Any message."""
