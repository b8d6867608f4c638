"""Writes values of any type, each in its shortest encoding (part 1, section 1.6).

The values of an array share one encoding: the shortest that holds all of them and takes an octet or more for
each. The encodings without octets are not used there, because decoders bound how many such values they take.
Every function raises ValueError for a value that its type cannot hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from struct import Struct
from struct import error as StructError
from typing import Any, Final
from uuid import UUID

from node.wire.amqp10.composite import Composite
from node.wire.amqp10.format_codes import OCTETS_4, FormatCode
from node.wire.amqp10.values import (
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

NULL_OCTET: Final = b"\x40"

_CODE_AND_SIZE: Final = Struct(">BI")
_CODE_SIZE_COUNT: Final = Struct(">BII")

# The values below 256 that messages are full of are looked up.
_SMALL_UINTS: Final = [b"\x43", *[bytes((0x52, number)) for number in range(1, 256)]]
_SMALL_ULONGS: Final = [b"\x44", *[bytes((0x53, number)) for number in range(1, 256)]]
_UBYTES: Final = [bytes((0x50, number)) for number in range(256)]
_UINT: Final = Struct(">BI")
_ULONG: Final = Struct(">BQ")
_USHORT: Final = Struct(">BH")
_TIMESTAMP: Final = Struct(">Bq")


def write_boolean(value: bool) -> bytes:
    return b"\x41" if value else b"\x42"


def write_ubyte(value: int) -> bytes:
    """An integer from 0 to 255, without a sign. Raises ValueError."""
    if not 0 <= value < 256:
        raise ValueError(f"{value} does not fit into a ubyte")
    return _UBYTES[value]


def write_ushort(value: int) -> bytes:
    """An integer of up to 2 octets, without a sign. Raises ValueError."""
    if not 0 <= value < 1 << 16:
        raise ValueError(f"{value} does not fit into a ushort")
    return _USHORT.pack(FormatCode.USHORT, value)


def write_uint(value: int) -> bytes:
    """An integer of up to 4 octets, without a sign. Raises ValueError."""
    if 0 <= value < 256:
        return _SMALL_UINTS[value]
    if not 0 <= value < 1 << 32:
        raise ValueError(f"{value} does not fit into a uint")
    return _UINT.pack(0x70, value)


def write_ulong(value: int) -> bytes:
    """An integer of up to 8 octets, without a sign. Raises ValueError."""
    if 0 <= value < 256:
        return _SMALL_ULONGS[value]
    if not 0 <= value < 1 << 64:
        raise ValueError(f"{value} does not fit into a ulong")
    return _ULONG.pack(0x80, value)


def write_timestamp(value: int) -> bytes:
    """Milliseconds since the epoch, in 8 octets with a sign. Raises ValueError."""
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{value} does not fit into a timestamp")
    return _TIMESTAMP.pack(FormatCode.TIMESTAMP, value)


def write_binary(value: bytes) -> bytes:
    return _sized(0xA0, value)


def write_string(value: str) -> bytes:
    return _sized(0xA1, value.encode("utf-8"))


def write_symbol(value: str) -> bytes:
    return _sized(0xA3, value.encode("ascii"))


def write_symbols(values: Iterable[str], mandatory: bool) -> bytes:
    """A field with any number of symbols: null for none, unless the field is mandatory. One symbol is written
    as an array as well, so that a reader meets an array or null.
    """
    found: list[AmqpValue] = list(values)
    return _write_array(TypedArray(FormatCode.SYMBOL_32, found)) if found or mandatory else NULL_OCTET


def write_message_id(value: int | UUID | bytes | str) -> bytes:
    """A message-id. An int of Python is written as a ulong, the only integer that a message-id may be."""
    return write_ulong(value) if isinstance(value, int) else encode_amqp(value)


def write_fields(fields: Mapping[Any, AmqpValue]) -> bytes:
    """A map of the restricted type `fields`, whose keys are symbols: strings are written as such."""
    parts: list[bytes] = []
    for key, value in fields.items():
        parts.append(write_symbol(key) if isinstance(key, str) else encode_amqp(key))
        parts.append(encode_amqp(value))
    return _compound(0xC1, len(parts), parts)


def write_encoded_map(parts: list[bytes]) -> bytes:
    """A map of keys and values in turn, each encoded."""
    return _compound(0xC1, len(parts), parts)


def write_described_list(code: int, fields: list[bytes]) -> bytes:
    """The composite type with the descriptor `code`, at most 255, of encoded fields."""
    body = b"".join(fields)
    size = len(body)
    if not fields:
        return bytes((0, 0x53, code, 0x45))
    if size < 255:
        return bytes((0, 0x53, code, 0xC0, size + 1, len(fields))) + body
    return bytes((0, 0x53, code)) + _CODE_SIZE_COUNT.pack(0xD0, size + 4, len(fields)) + body


def _sized(code: int, octets: bytes) -> bytes:
    """The octets behind their length. `code` is that of lengths of one octet."""
    size = len(octets)
    if size < 256:
        return bytes((code, size)) + octets
    if size >= 1 << 32:
        raise ValueError(f"{size} octets do not fit into a value")
    return _CODE_AND_SIZE.pack(code | 0x10, size) + octets


def _compound(code: int, count: int, parts: list[bytes]) -> bytes:
    """The list, map or array of encoded parts. `code` is that of sizes of one octet."""
    body = b"".join(parts)
    size = len(body)
    if size < 255 and count < 256:
        return bytes((code, size + 1, count)) + body
    if size >= (1 << 32) - 4:
        raise ValueError(f"{size} octets do not fit into a value")
    return _CODE_SIZE_COUNT.pack(code | 0x10, size + 4, count) + body


# -- any value --------------------------------------------------------------------------------------


def encode_amqp(value: AmqpValue) -> bytes:
    """The value in its shortest encoding. Raises ValueError, and TypeError for what is no value of AMQP."""
    writer = _WRITERS.get(type(value))
    if writer is not None:
        return writer(value)
    if isinstance(value, Composite):
        return value.encode()
    for kind in (bool, int, float, str, bytes, list, dict):
        # Classes that derive from these, such as those of enums, have no type of AMQP of their own.
        if isinstance(value, kind):
            return _WRITERS[kind](value)
    if isinstance(value, bytearray | memoryview):
        return write_binary(bytes(value))
    if isinstance(value, tuple):
        return _write_list(value)
    raise TypeError(f"{type(value).__name__} is no type of AMQP")


def _packer(struct: Struct, code: int) -> Callable[[Any], bytes]:
    def write(value: Any) -> bytes:
        try:
            return bytes((code,)) + struct.pack(value)
        except (StructError, OverflowError):
            raise ValueError(f"{value} does not fit into its type") from None

    return write


_write_byte: Final = _packer(Struct(">b"), FormatCode.BYTE)
_write_short: Final = _packer(Struct(">h"), FormatCode.SHORT)
_write_wide_int: Final = _packer(Struct(">i"), FormatCode.INT)
_write_wide_long: Final = _packer(Struct(">q"), FormatCode.LONG)
_write_small_int: Final = _packer(Struct(">b"), FormatCode.SMALL_INT)
_write_small_long: Final = _packer(Struct(">b"), FormatCode.SMALL_LONG)
_write_float: Final = _packer(Struct(">f"), FormatCode.FLOAT)
_write_double: Final = _packer(Struct(">d"), FormatCode.DOUBLE)


def _write_int(value: int) -> bytes:
    return _write_small_int(value) if -128 <= value < 128 else _write_wide_int(value)


def _write_long(value: int) -> bytes:
    return _write_small_long(value) if -128 <= value < 128 else _write_wide_long(value)


def _write_char(value: str) -> bytes:
    if len(value) != 1 or 0xD800 <= ord(value) <= 0xDFFF:
        raise ValueError(f"{value!r} is not one Unicode character")
    return bytes((FormatCode.CHAR,)) + OCTETS_4.pack(ord(value))


def _octets(code: int, octets: bytes, width: int) -> bytes:
    if len(octets) != width:
        raise ValueError(f"{len(octets)} octets, and {width} are wanted")
    return bytes((code,)) + octets


def _write_list(values: Iterable[AmqpValue]) -> bytes:
    parts = [encode_amqp(value) for value in values]
    return _compound(0xC0, len(parts), parts) if parts else b"\x45"


def _write_pairs(pairs: Iterable[tuple[AmqpValue, AmqpValue]]) -> bytes:
    parts = [encode_amqp(part) for pair in pairs for part in pair]
    return _compound(0xC1, len(parts), parts)


def _write_array(array: TypedArray) -> bytes:
    code, items = _array_items(array.code, array.items)
    constructor = b"".join([b"\x00" + encode_amqp(descriptor) for descriptor in array.descriptors])
    return _compound(0xE0, len(items), [constructor, bytes((code,)), *items])


_WRITERS: Final[dict[type, Callable[[Any], bytes]]] = {
    type(None): lambda value: NULL_OCTET,
    bool: write_boolean,
    UByte: write_ubyte,
    UShort: write_ushort,
    UInt: write_uint,
    ULong: write_ulong,
    Byte: _write_byte,
    Short: _write_short,
    Int: _write_int,
    int: _write_long,
    Float: _write_float,
    float: _write_double,
    Decimal32: lambda value: _octets(FormatCode.DECIMAL_32, value.octets, 4),
    Decimal64: lambda value: _octets(FormatCode.DECIMAL_64, value.octets, 8),
    Decimal128: lambda value: _octets(FormatCode.DECIMAL_128, value.octets, 16),
    Char: _write_char,
    TimestampMs: write_timestamp,
    UUID: lambda value: _octets(FormatCode.UUID, value.bytes, 16),
    bytes: write_binary,
    str: write_string,
    Symbol: write_symbol,
    list: _write_list,
    dict: lambda value: _write_pairs(value.items()),
    PairMap: lambda value: _write_pairs(value.pairs),
    TypedArray: _write_array,
    Described: lambda value: b"\x00" + encode_amqp(value.descriptor) + encode_amqp(value.value),
}


# -- the values of an array -------------------------------------------------------------------------

_WIDE: Final[dict[int, Struct]] = {
    FormatCode.UINT: OCTETS_4,
    FormatCode.ULONG: Struct(">Q"),
    FormatCode.INT: Struct(">i"),
    FormatCode.LONG: Struct(">q"),
}
"""Encodings of integers that have a twin of one octet."""

_NARROW: Final[dict[int, tuple[int, Struct]]] = {
    FormatCode.UINT: (FormatCode.SMALL_UINT, Struct(">B")),
    FormatCode.ULONG: (FormatCode.SMALL_ULONG, Struct(">B")),
    FormatCode.INT: (FormatCode.SMALL_INT, Struct(">b")),
    FormatCode.LONG: (FormatCode.SMALL_LONG, Struct(">b")),
}

_MEMBERS: Final[dict[int, type]] = {
    FormatCode.NULL: type(None),
    FormatCode.UBYTE: UByte,
    FormatCode.USHORT: UShort,
    FormatCode.BYTE: Byte,
    FormatCode.SHORT: Short,
    FormatCode.FLOAT: Float,
    FormatCode.DOUBLE: float,
    FormatCode.DECIMAL_32: Decimal32,
    FormatCode.DECIMAL_64: Decimal64,
    FormatCode.DECIMAL_128: Decimal128,
    FormatCode.CHAR: Char,
    FormatCode.TIMESTAMP: TimestampMs,
    FormatCode.UUID: UUID,
}
"""Types of one encoding, which their writers put behind its code."""

_SIZED: Final[dict[int, Callable[[Any], bytes]]] = {
    FormatCode.BINARY_32: write_binary,
    FormatCode.STRING_32: write_string,
    FormatCode.SYMBOL_32: write_symbol,
    FormatCode.LIST_32: lambda value: _compound(0xC0, len(value), [encode_amqp(part) for part in value]),
    FormatCode.MAP_32: encode_amqp,
    FormatCode.ARRAY_32: encode_amqp,
}
"""Types whose encodings state a size. Bit 4 of the code that their writers put in front says that the size is
wide.
"""


def _array_items(code: int, items: list[AmqpValue]) -> tuple[int, list[bytes]]:
    """The encoding that the items share, and the octets of each behind the code."""
    if code in _WIDE:
        return _integers(code, items)
    if code in _SIZED:
        return _sized_items(code, items)
    if code == FormatCode.BOOLEAN:
        return code, [b"\x01" if item else b"\x00" for item in items]
    member = _MEMBERS.get(code)
    if member is None:
        raise ValueError(f"{code:#04x} is no type of an array's values")
    writer = _WRITERS[member]
    return code, [writer(item)[1:] for item in items]


def _integers(code: int, items: list[Any]) -> tuple[int, list[bytes]]:
    narrow, struct = _NARROW[code]
    try:
        return narrow, [struct.pack(item) for item in items]
    except StructError:
        struct = _WIDE[code]
    try:
        return code, [struct.pack(item) for item in items]
    except StructError:
        raise ValueError(f"an integer does not fit into an array of {code:#04x}") from None


def _sized_items(code: int, items: list[AmqpValue]) -> tuple[int, list[bytes]]:
    writer = _SIZED[code]
    written = [writer(item) for item in items]
    if any(octets[0] & 0x10 for octets in written):
        return code, [_widened(octets) for octets in written]
    return code & ~0x10, [octets[1:] for octets in written]


def _widened(octets: bytes) -> bytes:
    """The value behind its code, with the size, and the count where there is one, in four octets."""
    if octets[0] & 0x10:
        return octets[1:]
    if octets[0] < FormatCode.LIST_8:
        return OCTETS_4.pack(octets[1]) + octets[2:]
    return OCTETS_4.pack(octets[1] + 3) + OCTETS_4.pack(octets[2]) + octets[3:]
