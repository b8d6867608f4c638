"""Properties by name, in and out (A7, A21)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.wire.amqp091.errors import FieldSyntaxError
from node.wire.amqp091.fields import Timestamp
from node.wire.amqp091.methods import BASIC_PROPERTIES
from node.wire.amqp091.properties import check_properties
from node.wire.amqp091.property_values import encode_properties, read_properties

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "shortstr": st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    "octet": st.integers(0, 255),
    "timestamp": st.integers(0, 2**64 - 1).map(Timestamp),
    "table": st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=9),
        st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.none() | st.just("text"),
        max_size=4,
    ),
}


@given(
    st.fixed_dictionaries(
        {}, optional={name: VALUES[kind] for name, kind in BASIC_PROPERTIES if name != "expiration"}
    )
)
def test_what_is_encoded_is_read_again_and_good_to_any_client(values: dict[str, Any]) -> None:
    encoded = encode_properties(values)
    check_properties(encoded)
    assert read_properties(encoded) == values


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"priority": 256}, "priority is no octet"),
        ({"priority": "1"}, "priority is no octet"),
        ({"timestamp": -1}, "timestamp is no timestamp"),
        ({"type": "x" * 256}, "type is no shortstr"),
        ({"type": 5}, "type is no shortstr"),
        ({"headers": [1]}, "headers is no table"),
        ({"headers": {"x" * 256: 1}}, "headers is no table"),
        ({"headers": {"x": 2**64}}, "headers is no table"),
    ],
)
def test_what_a_property_cannot_hold_is_named(values: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        encode_properties(values)


@given(st.binary(max_size=60))
def test_any_octets_are_properties_or_refused(data: bytes) -> None:
    try:
        values = read_properties(data)
    except FieldSyntaxError:
        return
    assert set(values) <= {name for name, _ in BASIC_PROPERTIES}
