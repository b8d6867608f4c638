"""JSON that any client can read, and the keys of bindings (F7)."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.admin.api.names import properties_key
from cluster.admin.api.rates import TALLY_NAMES, message_stats
from node.message.json_text import to_json
from node.wire.amqp091.fields import Timestamp


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"a": b"octets"}, {"a": "octets"}),
        ({"a": b"\xff"}, {"a": "\ufffd"}),
        (Decimal("1.25"), 1.25),
        (Timestamp(5), 5),
        ([float("inf"), {"x": float("nan")}], ["inf", {"x": "nan"}]),
        ("\udcff", "\udcff"),
    ],
)
def test_values_without_json_of_their_own_are_written_nevertheless(value: Any, shown: Any) -> None:
    text = to_json(value)
    assert text.isascii()
    assert json.loads(text) == shown


@pytest.mark.parametrize(
    ("key", "properties"),
    [("", "~"), ("a.#", "a.%23"), ("k/e y~%", "k%2Fe+y%7E%25"), ("~", "%7E"), ("zz", "zz"), ("ü", "%C3%BC")],
)
def test_a_binding_without_arguments_has_its_key_as_rabbitmq_quotes_it(key: str, properties: str) -> None:
    assert properties_key(key, {}) == properties


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), min_size=1, max_size=4))
def test_the_order_of_arguments_does_not_matter(arguments: dict[str, Any]) -> None:
    other = dict(reversed(arguments.items()))
    assert properties_key("k", arguments) == properties_key("k", other)
    assert properties_key("k", arguments).startswith("k~")
    assert properties_key("k", arguments) != properties_key("k", {**arguments, "another": 1})


def test_what_was_taken_out_of_queues_is_added_up() -> None:
    stats = message_stats(TALLY_NAMES, (9, 1, 2, 3, 4, 0, 0, 0), (-5.0, 0.5, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0))
    assert (stats["deliver_get"], stats["deliver_get_details"]) == (10, {"rate": 1.5})
    assert stats["publish_details"] == {"rate": 0.0}, "counters of a new owner begin anew"
