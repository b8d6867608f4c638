"""The JSON bodies that clients may send, and the answers to invalid ones (F7)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.admin.api.errors import ApiError
from cluster.admin.api.fields import Fields


def reason_of(body: bytes) -> Any:
    with pytest.raises(ApiError) as caught:
        Fields.parse(body)
    assert (caught.value.status, caught.value.error) == (400, "bad_request")
    return caught.value.reason


@pytest.mark.parametrize(
    "body",
    [b"{", b"[1]", b"5", b"null", b'{"a":NaN}', b"\xff", b'{"a":' + b"9" * 5000 + b"}", b"[" * 100_000],
)
def test_what_is_no_object_is_not_json(body: bytes) -> None:
    assert reason_of(body) == "not_json"


def test_json_within_json_is_recognised() -> None:
    assert "doubly-JSON-encoded" in reason_of(b'"{}"')


@given(st.binary(max_size=200))
def test_any_octets_are_an_object_or_refused(body: bytes) -> None:
    try:
        assert isinstance(Fields.parse(body).values, dict)
    except ApiError as error:
        assert error.status == 400


def test_no_body_is_an_empty_object() -> None:
    assert Fields.parse(b" \n").values == {}


def test_all_that_is_missing_is_named() -> None:
    with pytest.raises(ApiError) as caught:
        Fields({"payload": ""}).require("properties", "payload", "payload_encoding")
    assert caught.value.reason == "[{key_missing,properties},{key_missing,payload_encoding}]"


@pytest.mark.parametrize(("value", "read"), [(True, True), ("true", True), (False, False), ("false", False)])
def test_flags_may_be_text(value: Any, read: bool) -> None:
    assert Fields({"durable": value}).flag("durable") is read


@pytest.mark.parametrize("value", ["maybe", "True", 1, None, [], 0])
def test_other_flags_are_refused(value: Any) -> None:
    with pytest.raises(ApiError) as caught:
        Fields({"durable": value}).flag("durable")
    assert caught.value.reason == ["not_boolean", value]


@pytest.mark.parametrize(("value", "read"), [(5, 5), ("5", 5), (-1, -1)])
def test_integers_may_be_text(value: Any, read: int) -> None:
    assert Fields({"count": value}).integer("count") == read


@pytest.mark.parametrize("value", ["x", True, None, 1.5, [1]])
def test_other_integers_are_refused(value: Any) -> None:
    with pytest.raises(ApiError) as caught:
        Fields({"count": value}).integer("count")
    assert caught.value.reason == ["not_integer", value]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"a": None}, "null_not_allowed"),
        ({"a": [1, {"b": None}]}, "null_not_allowed"),
        ({"a": 2**63}, "an integer has more than 64 bits"),
        ({"": 1}, "a field name has 1 to 255 octets"),
        ({"é" * 200: 1}, "a field name has 1 to 255 octets"),
        ("x", "arguments_not_object"),
        ([1], "arguments_not_object"),
    ],
)
def test_arguments_that_no_field_table_holds_are_refused(arguments: Any, reason: str) -> None:
    with pytest.raises(ApiError) as caught:
        Fields({"arguments": arguments}).table("arguments")
    assert caught.value.reason == reason


def test_arguments_nested_too_deep_are_refused() -> None:
    deep: Any = 1
    for _ in range(100):
        deep = {"a": deep}
    with pytest.raises(ApiError):
        Fields({"arguments": deep}).table("arguments")


def test_an_empty_list_is_taken_for_empty_arguments() -> None:
    assert Fields({"arguments": []}).table("arguments") == {}
    assert Fields({}).table("arguments") == {}
