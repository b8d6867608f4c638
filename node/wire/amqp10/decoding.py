"""Reads values of any type, in every encoding that a type has (part 1, section 1.6).

The work and the memory for a value are bounded: a count is compared with the octets that are there before a
value is read, and each value counts, because an array may state four billion values that take no octets.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import Any, Final
from uuid import UUID

from node.wire.amqp10.encoding import encode_amqp
from node.wire.amqp10.errors import ValueBoundsError, ValueSyntaxError
from node.wire.amqp10.format_codes import FIXED_WIDTHS, OCTETS_2, OCTETS_4, OCTETS_8, FormatCode
from node.wire.amqp10.values import (
    DICT_KEYS,
    AmqpValue,
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
)

MAX_NESTING: Final = 64
"""The largest depth of nested lists, maps, arrays and described values: deeper ones could overflow the
stack.
"""

MAX_VALUES: Final = 65_536
"""The largest number of values in one value, with those of nested ones: some take memory and no octets."""

_SIGNED_8: Final = Struct(">b")
_SIGNED_16: Final = Struct(">h")
_SIGNED_32: Final = Struct(">i")
_SIGNED_64: Final = Struct(">q")
_FLOAT: Final = Struct(">f")
_DOUBLE: Final = Struct(">d")


def _boolean(data: bytes, at: int) -> AmqpValue:
    octet = data[at]
    if octet > 1:
        raise ValueSyntaxError(f"a boolean is {octet:#04x}")
    return octet == 1


def _char(data: bytes, at: int) -> AmqpValue:
    (number,) = OCTETS_4.unpack_from(data, at)
    if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
        raise ValueSyntaxError(f"{number:#x} is no Unicode character")
    return Char(chr(number))


_FIXED: Final[dict[int, Callable[[bytes, int], AmqpValue]]] = {
    FormatCode.NULL: lambda data, at: None,
    FormatCode.TRUE: lambda data, at: True,
    FormatCode.FALSE: lambda data, at: False,
    FormatCode.UINT_0: lambda data, at: UInt(0),
    FormatCode.ULONG_0: lambda data, at: ULong(0),
    FormatCode.LIST_0: lambda data, at: [],
    FormatCode.UBYTE: lambda data, at: UByte(data[at]),
    FormatCode.BYTE: lambda data, at: Byte(_SIGNED_8.unpack_from(data, at)[0]),
    FormatCode.SMALL_UINT: lambda data, at: UInt(data[at]),
    FormatCode.SMALL_ULONG: lambda data, at: ULong(data[at]),
    FormatCode.SMALL_INT: lambda data, at: Int(_SIGNED_8.unpack_from(data, at)[0]),
    FormatCode.SMALL_LONG: lambda data, at: int(_SIGNED_8.unpack_from(data, at)[0]),
    FormatCode.BOOLEAN: _boolean,
    FormatCode.USHORT: lambda data, at: UShort(OCTETS_2.unpack_from(data, at)[0]),
    FormatCode.SHORT: lambda data, at: Short(_SIGNED_16.unpack_from(data, at)[0]),
    FormatCode.UINT: lambda data, at: UInt(OCTETS_4.unpack_from(data, at)[0]),
    FormatCode.INT: lambda data, at: Int(_SIGNED_32.unpack_from(data, at)[0]),
    FormatCode.FLOAT: lambda data, at: Float(_FLOAT.unpack_from(data, at)[0]),
    FormatCode.CHAR: _char,
    FormatCode.DECIMAL_32: lambda data, at: Decimal32(data[at : at + 4]),
    FormatCode.ULONG: lambda data, at: ULong(OCTETS_8.unpack_from(data, at)[0]),
    FormatCode.LONG: lambda data, at: int(_SIGNED_64.unpack_from(data, at)[0]),
    FormatCode.DOUBLE: lambda data, at: float(_DOUBLE.unpack_from(data, at)[0]),
    FormatCode.TIMESTAMP: lambda data, at: TimestampMs(_SIGNED_64.unpack_from(data, at)[0]),
    FormatCode.DECIMAL_64: lambda data, at: Decimal64(data[at : at + 8]),
    FormatCode.DECIMAL_128: lambda data, at: Decimal128(data[at : at + 16]),
    FormatCode.UUID: lambda data, at: UUID(bytes=data[at : at + 16]),
}
"""Readers of values of a fixed width. The caller has seen that the octets are there."""


def _text(octets: bytes) -> AmqpValue:
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueSyntaxError("a string is not UTF-8") from None


def _symbol(octets: bytes) -> AmqpValue:
    if not octets.isascii():
        raise ValueSyntaxError("a symbol is not ASCII")
    return Symbol(octets.decode("ascii"))


_VARIABLE: Final[dict[int, Callable[[bytes], AmqpValue]]] = {
    FormatCode.BINARY_8: lambda octets: octets,
    FormatCode.BINARY_32: lambda octets: octets,
    FormatCode.STRING_8: _text,
    FormatCode.STRING_32: _text,
    FormatCode.SYMBOL_8: _symbol,
    FormatCode.SYMBOL_32: _symbol,
}

_WIDEST: Final[dict[int, int]] = {
    FormatCode.TRUE: FormatCode.BOOLEAN,
    FormatCode.FALSE: FormatCode.BOOLEAN,
    FormatCode.UINT_0: FormatCode.UINT,
    FormatCode.SMALL_UINT: FormatCode.UINT,
    FormatCode.ULONG_0: FormatCode.ULONG,
    FormatCode.SMALL_ULONG: FormatCode.ULONG,
    FormatCode.SMALL_INT: FormatCode.INT,
    FormatCode.SMALL_LONG: FormatCode.LONG,
    FormatCode.BINARY_8: FormatCode.BINARY_32,
    FormatCode.STRING_8: FormatCode.STRING_32,
    FormatCode.SYMBOL_8: FormatCode.SYMBOL_32,
    FormatCode.LIST_0: FormatCode.LIST_32,
    FormatCode.LIST_8: FormatCode.LIST_32,
    FormatCode.MAP_8: FormatCode.MAP_32,
    FormatCode.ARRAY_8: FormatCode.ARRAY_32,
}
"""The code that stands for a type in a `TypedArray`, where the type has several encodings."""

_CONTAINERS: Final = frozenset(
    map(
        int,
        (
            FormatCode.LIST_8,
            FormatCode.LIST_32,
            FormatCode.MAP_8,
            FormatCode.MAP_32,
            FormatCode.ARRAY_8,
            FormatCode.ARRAY_32,
        ),
    )
)

KNOWN_CODES: Final = frozenset(map(int, (*_FIXED, *_VARIABLE, *_CONTAINERS)))
"""The code of every encoding but that of described values."""


def read_value(data: bytes, at: int, limit: int) -> tuple[AmqpValue, int]:
    """The value at `at`, and the position behind it, at most `limit`.

    Raises ValueSyntaxError, and ValueBoundsError for a value that is too deep or has too many parts.
    """
    return ValueReader(data).guarded(at, limit)


def decode_value(data: bytes) -> AmqpValue:
    """The value that takes all of the octets. Raises as `read_value`."""
    value, at = read_value(data, 0, len(data))
    if at != len(data):
        raise ValueSyntaxError(f"{len(data) - at} octets behind a value")
    return value


class ValueReader:
    """Reads one value with all that is nested in it."""

    __slots__ = ("_data", "_left", "_left_in_keys")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = MAX_VALUES
        self._left_in_keys = MAX_VALUES

    def guarded(self, at: int, limit: int) -> tuple[AmqpValue, int]:
        """The value at `at`, and the position behind it. Raises ValueSyntaxError."""
        try:
            return self._value(at, limit, MAX_NESTING)
        except (IndexError, StructError):
            raise ValueSyntaxError("a value is cut short") from None

    def _value(self, at: int, limit: int, depth: int) -> tuple[AmqpValue, int]:
        """The value whose code, or descriptor, stands at `at`."""
        self._spend(1)
        if at >= limit:
            raise ValueSyntaxError("a value is cut short")
        code = self._data[at]
        if code:
            return self._undescribed(code, at + 1, limit, depth)
        self._deeper(depth)
        descriptor, at = self._value(at + 1, limit, depth - 1)
        value, at = self._value(at, limit, depth - 1)
        return Described(descriptor, value), at

    def _spend(self, values: int) -> None:
        self._left -= values
        if self._left < 0:
            raise ValueBoundsError(f"a value has more than {MAX_VALUES} parts")

    def _deeper(self, depth: int) -> None:
        if not depth:
            raise ValueBoundsError(f"values are nested more than {MAX_NESTING} deep")

    def _undescribed(self, code: int, at: int, limit: int, depth: int) -> tuple[AmqpValue, int]:
        """The value of an encoding, whose octets behind the code stand at `at`."""
        fixed = _FIXED.get(code)
        if fixed is not None:
            end = at + FIXED_WIDTHS[(code >> 4) - 4]
            if end > limit:
                raise ValueSyntaxError("a value is cut short")
            return fixed(self._data, at), end
        if code not in KNOWN_CODES:
            raise ValueSyntaxError(f"there is no encoding {code:#04x}")
        at, end = self._extent(code, at, limit)
        variable = _VARIABLE.get(code)
        if variable is not None:
            return variable(self._data[at:end]), end
        self._deeper(depth)
        return self._container(code, at, end, depth - 1), end

    def _extent(self, code: int, at: int, limit: int) -> tuple[int, int]:
        """The begin and the end of the octets behind the size that stands at `at`."""
        if code & 0x10:
            (size,) = OCTETS_4.unpack_from(self._data, at)
            at += 4
        else:
            size = self._data[at]
            at += 1
        end: int = at + size
        if end > limit:
            raise ValueSyntaxError("a value is longer than the value or frame around it")
        return at, end

    def _container(self, code: int, at: int, end: int, depth: int) -> AmqpValue:
        """The list, map or array whose count stands at `at`."""
        if code & 0x10:
            (count,) = OCTETS_4.unpack_from(self._data, at)
            at += 4
        else:
            count = self._data[at]
            at += 1
        kind = code & 0xE0
        if at > end or (kind == 0xC0 and count > end - at):
            raise ValueSyntaxError(f"{count} values do not fit into the octets that are there")
        if kind == 0xE0:
            return self._array(count, at, end, depth)
        is_map = bool(code & 1)
        values: list[AmqpValue] = []
        for number in range(count):
            left = self._left
            value, at = self._value(at, end, depth)
            values.append(value)
            if is_map and not number & 1:
                self._spend_on_key(left - self._left)
        _ended(at, end)
        return _map_of(values) if is_map else values

    def _spend_on_key(self, values: int) -> None:
        """The values of a key are written again to find keys that are the same: once for each map whose key
        has them.
        """
        self._left_in_keys -= values
        if self._left_in_keys < 0:
            raise ValueBoundsError(f"the keys of maps have more than {MAX_VALUES} parts")

    def _array(self, count: int, at: int, end: int, depth: int) -> AmqpValue:
        """The array of `count` values whose constructor stands at `at`: descriptors and a code."""
        descriptors: list[AmqpValue] = []
        while self._data[at] == FormatCode.DESCRIBED:
            self._deeper(depth)
            depth -= 1
            descriptor, at = self._value(at + 1, end, depth)
            descriptors.append(descriptor)
        code = self._data[at]
        at += 1
        if at > end or code not in KNOWN_CODES:
            raise ValueSyntaxError(f"an array has values of the unknown encoding {code:#04x}")
        # The shortest value of an encoding with a size is an octet for the size, or four.
        width = FIXED_WIDTHS[(code >> 4) - 4] if code in _FIXED else 4 if code & 0x10 else 1
        if count * width > end - at:
            raise ValueSyntaxError(f"{count} values do not fit into the octets that are there")
        self._spend(count)
        items: list[AmqpValue] = []
        for _ in range(count):
            item, at = self._undescribed(code, at, end, depth)
            items.append(item)
        _ended(at, end)
        return TypedArray(_WIDEST.get(code, code), items, tuple(descriptors))


def _ended(at: int, end: int) -> None:
    if at != end:
        raise ValueSyntaxError(f"{end - at} octets behind the last value of a list, map or array")


def _map_of(values: list[AmqpValue]) -> AmqpValue:
    """The map of keys and values in turn. Raises ValueSyntaxError for a key without value, or a key that is
    there twice.
    """
    if len(values) % 2:
        raise ValueSyntaxError("the last key of a map has no value")
    keys = values[::2]
    if all(type(key) in DICT_KEYS for key in keys):
        found: dict[Any, AmqpValue] = dict(zip(keys, values[1::2], strict=True))
        if len(found) == len(keys):
            return found
    # One type and value has one shortest encoding.
    if len({encode_amqp(key) for key in keys}) < len(keys):
        raise ValueSyntaxError("two keys of a map are the same")
    return PairMap(list(zip(keys, values[1::2], strict=True)))
