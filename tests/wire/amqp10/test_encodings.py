"""Every encoding of every type (part 1, section 1.6), read and written."""

from __future__ import annotations

from decimal import Decimal
from struct import pack
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.wire.amqp10.decoding import MAX_NESTING, MAX_VALUES, decode_value, read_value
from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.errors import Ends, ValueBoundsError, ValueSyntaxError
from node.wire.amqp10.format_codes import FormatCode
from node.wire.amqp10.values import (
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    PairMap,
    Short,
    Symbol,
    TimestampMs,
    TypedArray,
    UByte,
    UInt,
    ULong,
    UShort,
    decimal128_of,
)
from tests.wire.amqp10.strategies import same, values

NUMBER = UUID("00112233-4455-6677-8899-aabbccddeeff")

SHORTEST: list[tuple[bytes, Any]] = [
    (b"\x40", None), (b"\x41", True), (b"\x42", False),
    (b"\x50\xff", UByte(255)), (b"\x60\x01\x02", UShort(258)),
    (b"\x43", UInt(0)), (b"\x52\xff", UInt(255)), (b"\x70\x00\x00\x01\x00", UInt(256)),
    (b"\x44", ULong(0)), (b"\x53\xff", ULong(255)), (b"\x80" + pack(">Q", 256), ULong(256)),
    (b"\x51\x80", Byte(-128)), (b"\x61\xff\xfe", Short(-2)),
    (b"\x54\x80", Int(-128)), (b"\x71\xff\xff\xff\x7f", Int(-129)),
    (b"\x55\x7f", 127), (b"\x81" + pack(">q", 128), 128),
    (b"\x72" + pack(">f", 0.5), Float(0.5)), (b"\x82" + pack(">d", 0.1), 0.1),
    (b"\x74\x32\x80\x00\x07", Decimal32(b"\x32\x80\x00\x07")),
    (b"\x84" + b"12345678", Decimal64(b"12345678")), (b"\x94" + b"1" * 16, Decimal128(b"1" * 16)),
    (b"\x73\x00\x01\xf6\x00", Char("\U0001f600")), (b"\x83" + pack(">q", -1), TimestampMs(-1)),
    (b"\x98" + NUMBER.bytes, NUMBER),
    (b"\xa0\x02\x00\xff", b"\x00\xff"), (b"\xb0\x00\x00\x01\x00" + b"x" * 256, b"x" * 256),
    (b"\xa1\x02\xc3\xa9", "é"), (b"\xb1\x00\x00\x01\x00" + b"x" * 256, "x" * 256),
    (b"\xa3\x01s", Symbol("s")), (b"\xb3\x00\x00\x01\x00" + b"x" * 256, Symbol("x" * 256)),
    (b"\x45", []), (b"\xc0\x03\x02\x40\x41", [None, True]),
    (b"\xd0" + pack(">II", 4 + 256, 256) + b"\x40" * 256, [None] * 256),
    (b"\xc1\x01\x00", {}), (b"\xc1\x05\x02\xa3\x01k\x40", {Symbol("k"): None}),
    (b"\xd1" + pack(">II", 4 + 2 + 257, 2) + b"\xa1\x00\xa0\xff" + b"y" * 255, {"": b"y" * 255}),
    (b"\xe0\x04\x02\x52\x01\x02", TypedArray(FormatCode.UINT, [UInt(1), UInt(2)])),
    (b"\xe0\x02\x00\xa3", TypedArray(FormatCode.SYMBOL_32, [])),
    (b"\xe0\x04\x02\x56\x01\x00", TypedArray(FormatCode.BOOLEAN, [True, False])),
    (b"\xe0\x02\x03\x40", TypedArray(FormatCode.NULL, [None] * 3)),
    (b"\xe0\x07\x01\x00\x53\x24\xa1\x01a", TypedArray(FormatCode.STRING_32, ["a"], (ULong(0x24),))),
    (b"\xe0\x06\x01\xe0\x03\x01\x50\x09",
     TypedArray(FormatCode.ARRAY_32, [TypedArray(FormatCode.UBYTE, [UByte(9)])])),
    (b"\x00\xa3\x01d\x55\x01", Described(Symbol("d"), 1)),
    (b"\x00\x53\x01\x00\x53\x02\x45", Described(ULong(1), Described(ULong(2), []))),
]  # fmt: skip
"""A value in its shortest encoding: that in which it is written."""

LONGER: list[tuple[bytes, Any]] = [
    (b"\x56\x01", True), (b"\x56\x00", False),
    (b"\x52\x00", UInt(0)), (b"\x70\x00\x00\x00\x00", UInt(0)), (b"\x70\x00\x00\x00\x07", UInt(7)),
    (b"\x53\x00", ULong(0)), (b"\x80" + bytes(8), ULong(0)), (b"\x71\xff\xff\xff\xff", Int(-1)),
    (b"\x81" + pack(">q", -1), -1),
    (b"\xb0\x00\x00\x00\x01x", b"x"), (b"\xb1\x00\x00\x00\x01x", "x"),
    (b"\xb3\x00\x00\x00\x01x", Symbol("x")),
    (b"\xc0\x01\x00", []), (b"\xd0\x00\x00\x00\x04\x00\x00\x00\x00", []),
    (b"\xd0\x00\x00\x00\x05\x00\x00\x00\x01\x40", [None]),
    (b"\xd1\x00\x00\x00\x04\x00\x00\x00\x00", {}),
    (b"\xf0\x00\x00\x00\x06\x00\x00\x00\x01\x50\x09", TypedArray(FormatCode.UBYTE, [UByte(9)])),
    (b"\xe0\x02\x03\x43", TypedArray(FormatCode.UINT, [UInt(0)] * 3)),
    (b"\xe0\x02\x02\x41", TypedArray(FormatCode.BOOLEAN, [True, True])),
    (b"\xe0\x02\x02\x45", TypedArray(FormatCode.LIST_32, [[], []])),
    (b"\xe0\x06\x01\x70\x00\x00\x00\x05", TypedArray(FormatCode.UINT, [UInt(5)])),
    (b"\x00\x80" + pack(">Q", 0x24) + b"\x45", Described(ULong(0x24), [])),
]  # fmt: skip
"""Values in another encoding than the shortest."""


@pytest.mark.requirement("E10.1", "E10.2", "E10.3", "E10.4", "E10.5")
@pytest.mark.parametrize(("octets", "value"), SHORTEST, ids=lambda one: repr(one)[:24])
def test_a_value_is_written_in_its_shortest_encoding_and_read_from_it(octets: bytes, value: Any) -> None:
    assert encode_amqp(value) == octets
    assert same(decode_value(octets), value)


@pytest.mark.parametrize(("octets", "value"), LONGER, ids=lambda one: repr(one)[:24])
def test_a_value_is_read_from_each_other_encoding_of_its_type(octets: bytes, value: Any) -> None:
    assert same(decode_value(octets), value)
    assert len(encode_amqp(value)) <= len(octets) or octets[0] == FormatCode.ARRAY_8


def test_the_tables_have_every_encoding() -> None:
    first = {octets[0] for octets, _ in SHORTEST + LONGER}
    assert first == set(FormatCode)


@pytest.mark.sentence("1.0/1.6.23-1")
@given(values)
def test_values_and_their_types_survive_the_wire(value: Any) -> None:
    octets = encode_amqp(value)
    found, at = read_value(b"??" + octets + b"!", 2, 2 + len(octets))
    assert same(found, value) and at == 2 + len(octets)
    assert encode_amqp(found) == octets


@given(values, st.data())
def test_a_value_that_is_cut_short_is_no_value(value: Any, data: st.DataObject) -> None:
    octets = encode_amqp(value)
    cut = data.draw(st.integers(0, len(octets) - 1))
    with pytest.raises(ValueSyntaxError):
        decode_value(octets[:cut])
    with pytest.raises(ValueSyntaxError):
        read_value(octets, 0, cut)


@pytest.mark.sentence("1.0/1.6.23-1", "1.0/1.6.23-2")
@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"\x4f", "no encoding"), (b"\x30", "no encoding"), (b"\xc2\x01\x00", "no encoding"),
        (b"\x56\x02", "boolean"), (b"\xa1\x01\xff", "UTF-8"), (b"\xa3\x01\x80", "ASCII"),
        (b"\x73\x00\x11\x00\x00", "character"), (b"\x73\x00\x00\xd8\x00", "character"),
        (b"\xc1\x02\x01\x40", "no value"), (b"\xc1\x05\x04\x43\x40\x43\x40", "the same"),
        (b"\xc1\x07\x04\x52\x00\x40\x43\x40", "behind|longer|the same"),
        (b"\xc1\x06\x04\x52\x00\x40\x43\x40", "the same"),
        (b"\xc0\x02\x00\x40", "behind the last"), (b"\xc0\x02\x02\x40", "do not fit"),
        (b"\xc0\x00", "do not fit|cut short"), (b"\xe0\x01\x00", "unknown|cut short"),
        (b"\xe0\x03\x01\x50\x01\x01", "behind"), (b"\xe0\x03\x02\x50\x01", "do not fit"),
        (b"\xe0\x03\x01\x4f\x01", "unknown encoding"), (b"\xa0\x05ab", "longer"), (b"\x40\x40", "1 octets"),
        (b"\xf0\x00\x00\x00\x05\x7f\xff\xff\xff\x50", "do not fit"),
        (b"\xd0\x00\x00\x00\x04\xff\xff\xff\xff", "do not fit"), (b"", "cut short"), (b"\x00", "cut short"),
    ],
)  # fmt: skip
def test_octets_that_are_no_value_are_a_decode_error(octets: bytes, reason: str) -> None:
    with pytest.raises(ValueSyntaxError, match=reason) as caught:
        decode_value(octets)
    assert caught.value.condition == "amqp:decode-error" and caught.value.ends is Ends.CONNECTION


@pytest.mark.parametrize(
    "value",
    [
        UByte(256), UByte(-1), UShort(65536), UInt(2**32), UInt(-1), ULong(2**64), Byte(128), Short(2**15),
        Int(2**31), 2**63, -(2**63) - 1, TimestampMs(2**63), Float(1e300), Char(""), Char("ab"),
        Char("\ud800"), "\ud800", Symbol("é"), Decimal64(b"x"), TypedArray(FormatCode.UINT, [UInt(2**32)]),
        TypedArray(FormatCode.UBYTE, [UByte(300)]), TypedArray(0x01, []), [UInt(2**32)],
    ],
)  # fmt: skip
def test_a_value_that_its_type_cannot_hold_is_not_written(value: Any) -> None:
    with pytest.raises(ValueError):
        encode_amqp(value)


def test_python_values_without_a_type_of_their_own() -> None:
    assert encode_amqp(bytearray(b"x")) == encode_amqp(memoryview(b"x")) == encode_amqp(b"x")  # type: ignore[arg-type]
    assert encode_amqp((1, 2)) == encode_amqp([1, 2])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="object is no type of AMQP"):
        encode_amqp(object())  # type: ignore[arg-type]


# -- maps -------------------------------------------------------------------------------------------


@pytest.mark.sentence("1.0/1.6.23-3")
def test_keys_that_python_cannot_tell_apart_stay_apart() -> None:
    pairs: list[tuple[Any, Any]] = [
        (UInt(1), "uint"), (ULong(1), "ulong"), (1, "long"), (True, "boolean"), (1.0, "double"),
        ("s", "string"), (Symbol("s"), "symbol"), ([1], "list"), ({"k": 1}, "map"), (None, "null"),
    ]  # fmt: skip
    found = decode_value(encode_amqp(PairMap(pairs)))
    assert same(found, PairMap(pairs))


@pytest.mark.sentence("1.0/1.6.23-3")
def test_a_map_is_a_dict_where_python_tells_its_keys_apart() -> None:
    for keys in ((Symbol("a"), Symbol("b")), ("a", "b"), (b"a", b"b"), (Symbol("a"), "b", b"c")):
        found = decode_value(encode_amqp(PairMap([(key, None) for key in keys])))
        assert isinstance(found, dict) and same(list(found), list(keys))
    found = decode_value(encode_amqp({Symbol("a"): UInt(1)}))
    assert isinstance(found, dict) and found["a"] == 1


# -- decimals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "number"),
    [
        (Decimal32(pack(">I", 101 << 23 | 7)), "7"),
        (Decimal32(pack(">I", 1 << 31 | 99 << 23 | 1234567)), "-12345.67"),
        (Decimal32(pack(">I", 3 << 29 | 101 << 21 | (9999999 - (1 << 23)))), "9999999"),
        (Decimal32(pack(">I", 3 << 29 | 101 << 21 | 0x1FFFFF)), "0"),
        (Decimal64(pack(">Q", 396 << 53 | 314)), "3.14"), (Decimal64(pack(">Q", 0)), "0E-398"),
        (Decimal64(pack(">Q", 3 << 61 | 398 << 51 | (9999999999999999 - (1 << 53)))), "9999999999999999"),
        (Decimal128(((6176 - 2) << 113 | 314).to_bytes(16, "big")), "3.14"),
        (Decimal128((1 << 127 | 6176 << 113 | 10**34 - 1).to_bytes(16, "big")), "-" + "9" * 34),
        (Decimal128((6176 << 113 | 10**34).to_bytes(16, "big")), "0"),
    ],
)  # fmt: skip
def test_the_number_of_a_decimal(found: Any, number: str) -> None:
    assert found.number().as_tuple() == Decimal(number).as_tuple()


@pytest.mark.parametrize("first", [0x78, 0x7C, 0x7E, 0xF8, 0xFC])
def test_infinity_and_no_number_have_no_number(first: int) -> None:
    for kind, width in ((Decimal32, 4), (Decimal64, 8), (Decimal128, 16)):
        octets = bytes((first,)) + bytes(width - 1)
        assert encode_amqp(decode_value(encode_amqp(kind(octets))))[1:] == octets
        with pytest.raises(ValueError, match="not finite"):
            kind(octets).number()


@given(st.integers(0, 10**34 - 1), st.integers(-6176, 6111), st.booleans())
def test_a_number_becomes_a_decimal_and_a_number_again(digits: int, exponent: int, negative: bool) -> None:
    number = Decimal((int(negative), tuple(map(int, str(digits))), exponent))
    assert decimal128_of(number).number().as_tuple() == number.as_tuple()


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1E+6112", "1E-6177", "1" * 35])
def test_a_number_that_fits_no_decimal(number: str) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        decimal128_of(Decimal(number))


# -- bounded work -----------------------------------------------------------------------------------


def nested(wrap: Any, depth: int) -> bytes:
    octets = b"\x40"
    for _ in range(depth):
        octets = wrap(octets)
    return octets


def in_list(octets: bytes) -> bytes:
    return b"\xd0" + pack(">II", len(octets) + 4, 1) + octets


def in_map(octets: bytes) -> bytes:
    return b"\xd1" + pack(">II", len(octets) + 5, 2) + b"\x40" + octets


def as_key(octets: bytes) -> bytes:
    return b"\xd1" + pack(">II", len(octets) + 5, 2) + octets + b"\x40"


def described(octets: bytes) -> bytes:
    return b"\x00\x43" + octets


def as_descriptor(octets: bytes) -> bytes:
    return b"\x00" + octets + b"\x43"


def in_array(octets: bytes) -> bytes:
    """An array of one array: only the innermost octets are no array."""
    inner = b"\xe0\x02\x01\x40" if octets == b"\x40" else octets
    return b"\xf0" + pack(">II", len(inner) + 4, 1) + (b"\xf0" if inner[0] == 0xF0 else b"\xe0") + inner[1:]


@pytest.mark.parametrize("wrap", [in_list, in_map, as_key, described, as_descriptor])
def test_nesting_is_bounded(wrap: Any) -> None:
    decode_value(nested(wrap, MAX_NESTING))
    with pytest.raises(ValueBoundsError, match="nested") as caught:
        decode_value(nested(wrap, MAX_NESTING + 1))
    assert caught.value.condition == "amqp:resource-limit-exceeded"


def test_nesting_of_arrays_and_of_their_descriptors_is_bounded() -> None:
    decode_value(nested(in_array, MAX_NESTING - 1))
    with pytest.raises(ValueBoundsError, match="nested"):
        decode_value(nested(in_array, MAX_NESTING))
    stacked = b"\x00\x43" * (MAX_NESTING + 1) + b"\x40"
    with pytest.raises(ValueBoundsError, match="nested"):
        decode_value(b"\xf0" + pack(">II", len(stacked) + 4, 0) + stacked)


@pytest.mark.parametrize("code", [0x40, 0x41, 0x42, 0x43, 0x44, 0x45])
def test_values_without_octets_are_counted_before_they_are_made(code: int) -> None:
    def array(count: int) -> bytes:
        return b"\xf0" + pack(">IIB", 5, count, code)

    found = decode_value(array(MAX_VALUES - 1))
    assert isinstance(found, TypedArray) and len(found.items) == MAX_VALUES - 1
    for octets in (array(MAX_VALUES), array(2**32 - 1), in_list(array(MAX_VALUES - 1))):
        with pytest.raises(ValueBoundsError, match="more than"):
            decode_value(octets)


def test_the_values_of_keys_are_counted_for_each_map_that_compares_them() -> None:
    """Each of the maps writes its key, with all that is in the key, to compare it."""
    wide = encode_amqp([[]] * (MAX_VALUES // 32))
    for depth in (16, 48):
        octets = wide
        for _ in range(depth):
            octets = as_key(octets)
        if depth == 16:
            decode_value(octets)
        else:
            with pytest.raises(ValueBoundsError, match="keys of maps"):
                decode_value(octets)


def test_values_are_counted_wherever_they_stand() -> None:
    arrays = (b"\xe0\x02\xff\x40") * 300
    with pytest.raises(ValueBoundsError, match="more than"):
        decode_value(b"\xd0" + pack(">II", len(arrays) + 4, 300) + arrays)
