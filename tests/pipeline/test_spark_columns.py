"""Columns as Arrow has them, with pyarrow alone (F8)."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.arrow.columns import PROPERTIES_COLUMN, record_batch

pytestmark = [pytest.mark.spark, pytest.mark.requirement("F8.1")]

KINDS = {"sequence": "long", PROPERTIES_COLUMN: "map", "headers": "map"}


def column(name: str, values: list[Any]) -> list[Any]:
    found: list[Any] = record_batch(KINDS, {name: values}).column(0).to_pylist()
    return found


@pytest.mark.parametrize("shared", [True, False])
def test_properties_are_those_of_the_messages_whether_or_not_they_share_them(shared: bool) -> None:
    kinds: list[dict[str, Any] | None] = [
        {"message_id": "x", "priority": (1 << 64) - 1, "durable": 1}, {}, None,
        {"message_id": b"\x00\xff", "timestamp": 7, "ttl": "no number", "unknown": 1},
        {"to": {"a": [1]}, "first_acquirer": False},
    ]  # fmt: skip
    values = [one if shared or one is None else dict(one) for _ in range(5) for one in kinds]
    found = column(PROPERTIES_COLUMN, values)
    assert found[5:] == found[:5] * 4
    told = [one and {name: value for name, value in one.items() if value is not None} for one in found[:5]]
    assert told == [
        {"message_id": "x", "priority": -1, "durable": True}, {}, None,
        {"message_id": "00ff", "timestamp": 7}, {"to": '{"a": [1]}', "first_acquirer": False},
    ]  # fmt: skip


def test_headers_are_texts_and_numbers_of_64_bits_are_signed() -> None:
    headers = {"a": "x", "b": {"c": [1, None]}, "d": None}
    pairs = [("a", "x"), ("b", '{"c": [1, null]}'), ("d", None)]
    assert column("headers", [headers, headers, headers, None]) == [pairs, pairs, pairs, None]
    assert column("sequence", [1, None, (1 << 64) - 1]) == [1, None, -1]
