"""Reads the fields of composite types (part 1, section 1.4).

A reading function takes the octets and a position, and returns the value and the position behind it. Raises
ValueSyntaxError for another type; struct.error or IndexError where the octets end. A function without a limit
may read beyond the end of its list: the reader of the list compares positions when all fields are read.
`definitions.read_composite` turns all of this into ValueSyntaxError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Final, TypeAlias, TypeVar
from uuid import UUID

from node.wire.amqp10.composite import Composite
from node.wire.amqp10.decoding import ValueReader, read_value
from node.wire.amqp10.errors import FieldChoiceError, ValueSyntaxError
from node.wire.amqp10.format_codes import OCTETS_2, OCTETS_4, OCTETS_8
from node.wire.amqp10.values import AmqpValue, Described, TypedArray, ULong

CompositeReader: TypeAlias = "Callable[[bytes, int, int, int], Composite]"
"""Reads the fields of a list: octets, the first field's position, the list's end, the number of fields."""

CompositeField: TypeAlias = "Composite | Described"
"""A field of a type that others may add to: a composite of the protocol, or an unknown described value."""

MessageId: TypeAlias = "ULong | UUID | bytes | str"
FieldMap: TypeAlias = "dict[str, AmqpValue]"

_Plain = TypeVar("_Plain", int, str)
_Choice = TypeVar("_Choice")

_TIMESTAMP: Final = Struct(">q")


def _other_type(name: str, code: int) -> ValueSyntaxError:
    if code == 0x40:
        return ValueSyntaxError(f"a mandatory {name} is null")
    return ValueSyntaxError(f"a {name} is wanted, not a value of encoding {code:#04x}")


def take_boolean(data: bytes, at: int) -> tuple[bool, int]:
    code = data[at]
    if code == 0x41 or code == 0x42:
        return code == 0x41, at + 1
    if code != 0x56 or data[at + 1] > 1:
        raise _other_type("boolean", code)
    return data[at + 1] == 1, at + 2


def take_ubyte(data: bytes, at: int) -> tuple[int, int]:
    if data[at] != 0x50:
        raise _other_type("ubyte", data[at])
    return data[at + 1], at + 2


def take_ushort(data: bytes, at: int) -> tuple[int, int]:
    if data[at] != 0x60:
        raise _other_type("ushort", data[at])
    return OCTETS_2.unpack_from(data, at + 1)[0], at + 3


def take_uint(data: bytes, at: int) -> tuple[int, int]:
    code = data[at]
    if code == 0x70:
        return OCTETS_4.unpack_from(data, at + 1)[0], at + 5
    if code == 0x52:
        return data[at + 1], at + 2
    if code != 0x43:
        raise _other_type("uint", code)
    return 0, at + 1


def take_ulong(data: bytes, at: int) -> tuple[int, int]:
    code = data[at]
    if code == 0x80:
        return OCTETS_8.unpack_from(data, at + 1)[0], at + 9
    if code == 0x53:
        return data[at + 1], at + 2
    if code != 0x44:
        raise _other_type("ulong", code)
    return 0, at + 1


def take_timestamp(data: bytes, at: int) -> tuple[int, int]:
    if data[at] != 0x83:
        raise _other_type("timestamp", data[at])
    return _TIMESTAMP.unpack_from(data, at + 1)[0], at + 9


def _octets(data: bytes, at: int, code: int, name: str) -> tuple[bytes, int]:
    """The octets behind their length. `code` is that of lengths of one octet."""
    found = data[at]
    if found == code:
        start = at + 2
        end = start + data[at + 1]
    elif found == code | 0x10:
        start = at + 5
        end = start + OCTETS_4.unpack_from(data, at + 1)[0]
    else:
        raise _other_type(name, found)
    if end > len(data):
        raise ValueSyntaxError(f"a {name} is cut short")
    return data[start:end], end


def take_binary(data: bytes, at: int) -> tuple[bytes, int]:
    return _octets(data, at, 0xA0, "binary")


def take_string(data: bytes, at: int) -> tuple[str, int]:
    """A string, and the position behind it. Raises ValueSyntaxError."""
    octets, at = _octets(data, at, 0xA1, "string")
    try:
        return octets.decode("utf-8"), at
    except UnicodeDecodeError:
        raise ValueSyntaxError("a string is not UTF-8") from None


def take_symbol(data: bytes, at: int) -> tuple[str, int]:
    """A symbol, and the position behind it. Raises ValueSyntaxError."""
    octets, at = _octets(data, at, 0xA3, "symbol")
    if not octets.isascii():
        raise ValueSyntaxError("a symbol is not ASCII")
    return octets.decode("ascii"), at


def take_symbols(data: bytes, at: int, end: int) -> tuple[tuple[str, ...], int]:
    """A field with any number of symbols: one symbol, or an array of them."""
    if data[at] | 0x10 == 0xB3:
        symbol, at = take_symbol(data, at)
        return (symbol,), at
    value, after = read_value(data, at, end)
    if not isinstance(value, TypedArray) or value.code != 0xB3 or value.descriptors:
        raise _other_type("symbol or array of symbols", data[at])
    return tuple(map(str, value.items)), after


def take_fields(data: bytes, at: int, end: int) -> tuple[FieldMap, int]:
    """A map whose keys are symbols. Strings are taken too: a name is the same in both types."""
    value, after = read_value(data, at, end)
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise _other_type("map with symbols for keys", data[at])
    return value, after


def take_message_id(data: bytes, at: int, end: int) -> tuple[MessageId, int]:
    """One of the types that provide a message-id (part 3, section 3.2.11 to 3.2.14)."""
    value, after = read_value(data, at, end)
    if isinstance(value, ULong | UUID | bytes) or type(value) is str:
        return value, after
    raise _other_type("message-id", data[at])


def take_choice(choices: Mapping[_Plain, _Choice], value: _Plain) -> _Choice:
    """The choice of a restricted type (section 1.3). Raises FieldChoiceError for another value."""
    found = choices.get(value)
    if found is None:
        raise FieldChoiceError(f"{repr(value)[:40]} is none of {', '.join(map(repr, choices))}")
    return found


# -- composite types --------------------------------------------------------------------------------


def take_descriptor(data: bytes, at: int, names: Mapping[str, int]) -> tuple[int, int]:
    """The code of the descriptor behind the octet 0x00 at `at`, and the position of the value.

    `names` has the codes of symbolic descriptors. The code is -1 for a descriptor that is no ulong and no
    known symbol; the position has no meaning then.
    """
    if data[at]:
        raise _other_type("described value", data[at])
    code = data[at + 1]
    if code == 0x53:
        return data[at + 2], at + 3
    if code == 0x80:
        return take_ulong(data, at + 1)
    if code | 0x10 == 0xB3:
        symbol, after = take_symbol(data, at + 1)
        return names.get(symbol, -1), after
    return -1, at


def take_list_head(data: bytes, at: int, limit: int) -> tuple[int, int, int]:
    """The first value's position, the end and the count of the list whose code stands at `at`. Raises
    ValueSyntaxError.
    """
    code = data[at]
    if code == 0xC0:
        start = at + 3
        end = at + 2 + data[at + 1]
        count = data[at + 2]
    elif code == 0xD0:
        start = at + 9
        end = at + 5 + OCTETS_4.unpack_from(data, at + 1)[0]
        count = OCTETS_4.unpack_from(data, at + 5)[0]
    elif code == 0x45:
        start = end = at + 1
        count = 0
    else:
        raise _other_type("list", code)
    if end > limit or start > end:
        raise ValueSyntaxError("a list is longer than what it stands in, or shorter than its count")
    return start, end, count


def take_one_of(
    data: bytes,
    at: int,
    limit: int,
    readers: Mapping[int, CompositeReader],
    names: Mapping[str, int],
    kind: str,
) -> tuple[CompositeField, int]:
    """A value of one of the composite types in `readers`, or of an unknown type: peers may add types.

    Raises ValueSyntaxError for a known type that is none of `kind`.
    """
    code, value_at = take_descriptor(data, at, names)
    reader = readers.get(code)
    if reader is not None:
        start, end, count = take_list_head(data, value_at, limit)
        return reader(data, start, end, count), end
    if code in names.values():
        raise ValueSyntaxError(f"the type {code:#x} is no {kind}")
    value, after = ValueReader(data).guarded(at, limit)
    if not isinstance(value, Described):
        raise _other_type(kind, data[at])
    return value, after


def take_unsettled(
    data: bytes, at: int, limit: int, readers: Mapping[int, CompositeReader], names: Mapping[str, int]
) -> tuple[dict[bytes, CompositeField | None], int]:
    """The deliveries of a link that is attached again: delivery tags with delivery states, or null."""
    # The parts of all states are counted together, before any of these is read with a count of its own.
    plain, end = read_value(data, at, limit)
    if not isinstance(plain, dict) or not all(isinstance(tag, bytes) for tag in plain):
        raise _other_type("map with binaries for keys", data[at])
    at += 3 if data[at] == 0xC1 else 9
    found: dict[bytes, CompositeField | None] = {}
    for _ in plain:
        tag, at = take_binary(data, at)
        if data[at] == 0x40:
            found[tag] = None
            at += 1
        else:
            found[tag], at = take_one_of(data, at, end, readers, names, "delivery-state")
    return found, end


def list_error(name: str, count: int, least: int, most: int, left: int) -> ValueSyntaxError:
    """Why a list of `count` fields, behind which there are `left` octets, is not the composite `name`."""
    if count > most:
        return ValueSyntaxError(f"{name} has {most} fields, not {count}")
    if count < least:
        return ValueSyntaxError(f"{name} lacks a mandatory field")
    return ValueSyntaxError(f"{name} has {left} octets behind its last field")
