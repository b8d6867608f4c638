"""All arguments that a client can put into a declaration can be replicated."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.peers.packing import pack, unpack
from node.wire.amqp091.fields import Timestamp

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False)
    | st.binary(max_size=20)
    | st.binary(max_size=20).map(lambda octets: octets.decode("utf-8", "surrogateescape"))
    | st.decimals(allow_nan=False, allow_infinity=False, places=3)
    | st.integers(0, 1 << 40).map(Timestamp)
)


def _within(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)


TABLES = st.dictionaries(
    st.text(max_size=8),
    st.recursive(SCALARS, _within),
    max_size=4,
)


@given(TABLES)
def test_field_tables_come_back_as_they_were(table: dict[str, Any]) -> None:
    assert unpack(pack(table)) == table


def test_a_decimal_keeps_its_scale() -> None:
    assert str(unpack(pack(Decimal("1.50")))) == "1.50"


def test_what_is_no_field_value_is_refused() -> None:
    with pytest.raises(TypeError, match="object has no place"):
        pack({"a": object()})
