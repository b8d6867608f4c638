"""Arguments as values of AMQP 1.0, and as field values of AMQP 0-9-1."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from node.wire.amqp091.fields import Timestamp
from node.wire.amqp10.argument_values import ArgumentError, amqp_map, field_table
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.values import (
    Char,
    Decimal64,
    Float,
    TimestampMs,
    TypedArray,
    UInt,
    decimal128_of,
)
from tests.wire.amqp10.strategies import same, values

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63) + 1, 2**63 - 1), st.floats(allow_nan=False), st.text(),
    st.binary(max_size=9), st.integers(0, 2**40).map(Timestamp),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-9, max_value=9),
)  # fmt: skip
fields = st.recursive(
    scalars, lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text(), one, max_size=3)
)


@given(st.dictionaries(st.text(), fields, max_size=4))
def test_arguments_come_back_as_they_were(arguments: dict[str, Any]) -> None:
    shown = amqp_map(arguments)
    encode_amqp(shown)
    assert same(field_table(shown), arguments)


@example(TimestampMs(-(2**63)))
@given(values)
def test_any_value_is_an_argument_or_refused(value: Any) -> None:
    try:
        found = field_table({"name": value})
    except ArgumentError:
        return
    encode_amqp(amqp_map(found))


def test_values_have_the_types_of_python() -> None:
    table = field_table(
        {"uint": UInt(1), "float": Float(0.5), "char": Char("c"), "time": TimestampMs(90_500)}
    )
    assert table == {"uint": 1, "float": 0.5, "char": "c", "time": 90}
    assert [type(one) for one in table.values()] == [int, float, str, Timestamp]


def test_a_decimal_is_a_number() -> None:
    assert field_table({"d": decimal128_of(Decimal("1.5"))}) == {"d": Decimal("1.5")}
    with pytest.raises(ArgumentError, match="argument 'd': the decimal is not finite"):
        field_table({"d": Decimal64(b"\x78" + b"\0" * 7)})


@pytest.mark.parametrize("value", [TypedArray(0xB1, ["a"], ("b",)), {b"octets": 1}, [{b"octets": 1}]])
def test_what_no_field_table_holds_is_refused(value: Any) -> None:
    with pytest.raises(ArgumentError):
        field_table({"name": value})
    with pytest.raises(ArgumentError):
        field_table(value)


def test_what_amqp_1_0_has_no_value_for_is_told_as_text() -> None:
    assert amqp_map({"large": 2**70, "digits": Decimal(10**40), "octet \udcff": "\udcff"}) == {
        "large": str(2**70), "digits": str(Decimal(10**40)), "octet ?": "?",
    }  # fmt: skip
