"""The generated module and its codec against the protocol table."""

from __future__ import annotations

import json
from dataclasses import fields as attributes
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.wire.amqp091 import errors
from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import decode_method, encode_method
from node.wire.amqp091.errors import FieldSyntaxError, ProtocolException, UnsupportedError
from node.wire.amqp091.primitives import Method
from scripts.generate_amqp091 import MODULE, TABLE, current
from tests.wire.strategies import methods

PLAIN = json.loads(TABLE.read_text(encoding="utf-8"))


def test_the_module_is_up_to_date() -> None:
    assert MODULE.read_text(encoding="utf-8") == current(), "run python -m scripts.generate_amqp091"


def test_every_method_of_the_table_is_there() -> None:
    listed = {plain["id"] << 16 | one["id"] for plain in PLAIN["classes"] for one in plain["methods"]}
    assert listed == m.METHODS.keys()


@pytest.mark.requirement("A10.1", "A10.2")
def test_exceptions_end_what_the_table_says() -> None:
    """A soft error closes the channel, a hard error the connection (§4.8.1); 403 at login is our own."""
    hard = {plain["value"]: plain.get("class") == "hard-error" for plain in PLAIN["constants"]}
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, ProtocolException) and hasattr(kind, "code")
    ]
    assert {kind.code for kind in kinds} >= {311, 320, 404, 406, 501, 502, 503, 504, 505, 506, 530, 540}
    for kind in kinds:
        assert hard[kind.code] == kind.ends_connection or kind is errors.LoginRefusedError


@given(methods())
def test_methods_survive_the_wire(method: Method) -> None:
    frame = encode_method(3, method)
    assert frame[0] == m.FRAME_METHOD and frame[-1] == m.FRAME_END
    assert decode_method(frame[7:-1]) == method


@given(methods(), st.data())
def test_methods_that_are_cut_short_are_syntax_errors(method: Method, data: Any) -> None:
    payload = encode_method(1, method)[7:-1]
    cut = data.draw(st.integers(0, len(payload) - 1))
    with pytest.raises(FieldSyntaxError):
        decode_method(payload[:cut])


@given(methods(), st.binary(min_size=1, max_size=5))
def test_octets_behind_the_arguments_are_syntax_errors(method: Method, rest: bytes) -> None:
    with pytest.raises(FieldSyntaxError):
        decode_method(encode_method(1, method)[7:-1] + rest)


def test_unknown_methods_are_not_implemented() -> None:
    with pytest.raises(UnsupportedError) as caught:
        decode_method(b"\x00\x3c\x03\xe7")
    assert caught.value.method == (60, 999)


def test_bits_are_packed_from_the_lowest_on() -> None:
    frame = encode_method(1, m.QueueDeclare("q", durable=True, auto_delete=True))
    assert frame[7:-1] == b"\x00\x32\x00\x0a" + b"\0\0" + b"\x01q" + bytes((0b01010,)) + bytes(4)


def test_reserved_arguments_have_no_attribute() -> None:
    assert "ticket" not in {one.name for one in attributes(m.QueueDeclare)}
    assert "ticket" in {one.name for one in attributes(m.AccessRequestOk)}
