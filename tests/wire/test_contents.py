"""Headers are found in contents as clients send them."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pika import BasicProperties
from pika.frame import Body, Header

from node.message.run import Run
from node.wire.amqp091.contents import read_headers_property
from node.wire.amqp091.errors import FieldSyntaxError
from node.wire.formats import format_of


def run_of(*contents: BasicProperties) -> Run:
    frames = [Header(3, 4, properties).marshal() + Body(3, b"body").marshal() for properties in contents]
    lengths = array("I", map(len, frames))
    return Run("e", "k", 3, False, len(frames), 0, 0, lengths, max(lengths), b"".join(frames))


def test_headers_are_read_once_for_messages_that_share_them() -> None:
    headers = {"a": 1, "b": "text", "c": None, "d": True, "e": {"f": [1, 2]}}
    plain = BasicProperties(content_type="text/plain", delivery_mode=2)
    full = BasicProperties("text/plain", "gzip", headers, 2, correlation_id="x")
    run = run_of(plain, full, full, BasicProperties(headers={"a": 2}), plain)
    messages = format_of(run)
    found = [(first, count, messages.headers(values)) for first, count, values in messages.properties_in(run)]
    assert found == [(0, 1, {}), (1, 2, headers), (3, 1, {"a": 2}), (4, 1, {})]


@pytest.mark.requirement("A7.1")
def test_continued_property_flags_are_stepped_over() -> None:
    table = b"\0\0\0\4\1at\1"
    assert read_headers_property(b"\x20\x01\0\x01\0\0" + table) == {"a": True}


def test_texts_before_the_headers_may_hold_any_octets() -> None:
    table = b"\0\0\0\4\1at\1"
    assert read_headers_property(b"\xe0\x00\2\0\xff\1\0" + table) == {"a": True}


@given(st.binary(max_size=40))
def test_any_properties_are_read_or_refused(properties: bytes) -> None:
    try:
        read_headers_property(properties)
    except FieldSyntaxError as error:
        assert (error.code, error.ends_connection) == (502, True)
