"""Paths of queue expressions into the bodies of messages of both protocols."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.expressions.names import Dialect
from node.expressions.nodes import encode_tree, names_of, path_of
from node.expressions.parsing import parse_expression
from node.expressions.selector import Selector
from node.message.json_body import MAX_DOCUMENT
from node.message.run import Run
from node.wire.amqp10.definitions import Properties
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.values import Symbol, UByte
from tests.expressions.test_facts import facts
from tests.messages import content, run_of

ORDER = {
    "price": 2.5,
    "qty": 4,
    "paid": True,
    "note": None,
    "who": {"name": "Ann", "first/last": "a~b", "x-y": 1, "a.b": 2, 'say "hi"': 3, "": 4},
    "items": [{"sku": "a1"}, {"sku": "b2"}],
    "large": 1 << 70,
    "larger": 10**400,
}
BODY = json.dumps({"order": ORDER}).encode()


def sections(body: bytes, content_type: str | None = None) -> Run:
    """A message of AMQP 1.0 with these sections as its body."""
    properties = b"" if content_type is None else Properties(content_type=Symbol(content_type)).encode()
    raw = properties + body
    return Run("e", "k", 0, True, 1, 0, len(raw), None, len(raw), raw, False, 1)


def data(octets: bytes) -> bytes:
    return b"\x00\x53\x75" + encode_amqp(octets)


def value(body: Any) -> bytes:
    return b"\x00\x53\x77" + encode_amqp(body)


def octets091(body: bytes, **properties: Any) -> Run:
    return run_of([content(body, **properties)], exchange="e", key="k")


def takes(text: str, run: Run) -> bool:
    return Selector(encode_tree(parse_expression(text, Dialect.QUEUE))).takes(facts(run))


FORMS = [
    octets091(BODY),
    octets091(BODY, content_type="application/json; charset=utf-8"),
    octets091(BODY, content_type="application/vnd.acme+JSON"),
    sections(data(BODY)),
    sections(data(BODY[:30]) + data(BODY[30:]), "application/json"),
    sections(value(BODY.decode())),
]

TRUE = [
    "/order/price * /order/qty = 10",
    "/order/price*/order/qty>9.5",
    "/order/qty / 8 = 0.5",
    "/order/paid",
    "/order/paid = TRUE AND NOT /order/qty = 5",
    "/order/note IS NULL",
    "/nothing IS NULL",
    "/order/qty/deeper IS NULL",
    "/order/items/0/sku = 'a1'",
    "/order/items/1/sku LIKE 'b_'",
    "/order/items/2/sku IS NULL",
    "/order/items/00/sku IS NULL",
    "/order/items/-1 IS NULL OR TRUE",
    "/order/items IS NOT NULL",
    "/order/who/name BETWEEN 'A' AND 'B'",
    "/order/who/[x-y] = 1",
    '/order/who/"x-y" = 1',
    "/order/who/[first/last] = 'a~b'",
    '/order/who/"a.b" = 2',
    '/order/who/"say ""hi""" = 3',
    '/order/who/"" = 4',
    "/order/large > 1e21",
    "/order/larger IS NOT NULL",
    "x_exchange = 'e' AND /order/qty IN (3, 4)",
]


@pytest.mark.requirement("D9.1")
@pytest.mark.parametrize("text", TRUE)
def test_a_path_leads_to_a_value_in_the_body(text: str) -> None:
    assert [takes(text, run) for run in FORMS] == [True] * len(FORMS)


@pytest.mark.parametrize(
    "text",
    [
        "/order = 1",
        "/order/items = 'a1'",
        "/order/larger > 0",
        "/nothing = 1",
        "NOT /nothing = 1",
        "/order/note",
        "/order/price LIKE '2%'",
    ],
)
def test_objects_and_arrays_are_not_comparable_and_unknown_members_take_nothing(text: str) -> None:
    assert [takes(text, run) for run in FORMS] == [False] * len(FORMS)


def test_the_amqp_value_may_be_a_map() -> None:
    run = sections(value({"order": {"qty": UByte(4), "items": ["a", {"b": "c"}]}}))
    assert takes("/order/qty = 4 AND /order/items/0 = 'a' AND /order/items/1/b = 'c'", run)
    assert takes("/order IS NOT NULL AND /order/none IS NULL", run)
    assert not facts(run).unreadable


@pytest.mark.parametrize(
    "run",
    [
        octets091(b"no JSON"),
        octets091(b""),
        octets091(b"[NaN]"),
        octets091(b'{"a": 1} '.decode().encode("utf-16")),
        octets091(b"[" * 60_000),
        octets091(b'{"a": "' + b"x" * MAX_DOCUMENT + b'"}'),
        octets091(b"1" * 5000),
        octets091(b'{"a": 1}', content_type="text/plain"),
        sections(data(b'{"a": 1}'), "application/octet-stream"),
        sections(data(b"\xff")),
        sections(value(5)),
        sections(value("{")),
        # A map with a key and no value.
        sections(b"\x00\x53\x77\xc1\x04\x01\xa1\x01a"),
        sections(b"\x00\x53\x76" + encode_amqp(["a"])),
        sections(b""),
    ],
)
def test_a_body_that_cannot_be_read_makes_every_path_unknown(run: Run) -> None:
    assert takes("/a IS NULL AND /b/c IS NULL", run)
    assert not takes("/a = 1 OR NOT /a = 1", run)
    found = facts(run)
    assert not found.unreadable
    assert found.in_body(("a",)) is None
    assert found.unreadable


NAMES = st.text(max_size=5)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
DOCUMENTS = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=5),
    ),
    lambda parts: st.one_of(st.lists(parts, max_size=4), st.dictionaries(NAMES, parts, max_size=4)),
    max_leaves=12,
)


def places(document: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """All paths of a document with their values."""
    found = [(path, document)] if path else []
    pairs: Any = document.items() if isinstance(document, dict) else ()
    for name, part in enumerate(document) if isinstance(document, list) else pairs:
        found += places(part, (*path, str(name)))
    return found


@settings(max_examples=200)
@given(document=st.one_of(st.lists(DOCUMENTS, max_size=4), st.dictionaries(NAMES, DOCUMENTS, max_size=4)))
def test_each_place_of_a_document_has_its_path(document: Any) -> None:
    body = json.dumps(document).encode()
    found = [facts(run) for run in (octets091(body), sections(data(body)))]
    for path, expected in places(document):
        text = "".join('/"' + name.replace('"', '""') + '"' for name in path)
        tree = parse_expression(text, Dialect.QUEUE)
        assert names_of(str(tree.value)) == path and path_of(path) == tree.value
        for each in found:
            got = each.in_body(path)
            if isinstance(expected, dict | list):
                assert got == ()
            elif isinstance(expected, int) and not -(1 << 63) <= expected < 1 << 63:
                assert got == float(expected)
            else:
                assert got == expected and type(got) is type(expected)


@settings(max_examples=200)
@given(
    body=st.one_of(
        st.binary(max_size=40), st.text('[]{}",:0123456789.eE-ntfu\\ ', max_size=40).map(str.encode)
    )
)
def test_any_octets_are_a_body(body: bytes) -> None:
    for run in (octets091(body), sections(data(body))):
        found = facts(run)
        assert isinstance(found.in_body(("0",)), bool | int | float | str | tuple | None)
        assert isinstance(found.in_body(("a", "b")), bool | int | float | str | tuple | None)
