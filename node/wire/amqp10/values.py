"""The AMQP types that Python has no type of its own for (part 1, section 1.6).

    AMQP                                    Python
    null, boolean                           None, bool
    ubyte ushort uint ulong byte short int  UByte UShort UInt ULong Byte Short Int
    long                                    int
    float, double                           Float, float
    decimal32 decimal64 decimal128          Decimal32 Decimal64 Decimal128
    char, timestamp, uuid                   Char, TimestampMs, UUID
    binary, string, symbol                  bytes, str, Symbol
    list                                    list
    map                                     dict, or PairMap (see there)
    array                                   TypedArray
    a described value                       Described

A number compares as its value does and a symbol as its text does, so `Symbol("x")` finds the key `"x"`. The
class alone has the AMQP type. The codec writes a value by its class, so that a value which is read and
written again keeps its type.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar, Final, TypeAlias
from uuid import UUID

from node.wire.amqp10.composite import Composite


class UByte(int):
    """Eight bits, unsigned."""

    __slots__ = ()


class UShort(int):
    """16 bits, unsigned."""

    __slots__ = ()


class UInt(int):
    """32 bits, unsigned."""

    __slots__ = ()


class ULong(int):
    """64 bits, unsigned."""

    __slots__ = ()


class Byte(int):
    """Eight bits, signed."""

    __slots__ = ()


class Short(int):
    """16 bits, signed."""

    __slots__ = ()


class Int(int):
    """32 bits, signed."""

    __slots__ = ()


class TimestampMs(int):
    """Milliseconds since 1970, signed."""

    __slots__ = ()


class Float(float):
    """A number of 32 bits. Python keeps it in 64, which changes none of its values."""

    __slots__ = ()


class Char(str):
    """One Unicode character."""

    __slots__ = ()


class Symbol(str):
    """A text of ASCII characters that names something."""

    __slots__ = ()


class DecimalOctets:
    """A decimal number as it is on the wire: IEEE 754 in the binary integer encoding.

    The octets are kept as they are, because several sequences of octets have one value.
    """

    __slots__ = ("octets",)
    EXPONENT_BITS: ClassVar[int]
    DIGITS: ClassVar[int]
    BIAS: ClassVar[int]

    def __init__(self, octets: bytes) -> None:
        self.octets = octets

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.octets == other.octets

    def __hash__(self) -> int:
        return hash(self.octets)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.octets!r})"

    def number(self) -> Decimal:
        """The number. Raises ValueError for infinity and for what is no number."""
        bits = int.from_bytes(self.octets, "big")
        size = len(self.octets) * 8
        sign, combination = bits >> (size - 1), bits >> (size - 5) & 0xF
        if combination == 0xF:
            raise ValueError("the decimal is not finite")
        long = combination >> 2 != 3
        # Where the two bits behind the sign are set the exponent starts behind them, and the digits with 100.
        width = size - 1 - self.EXPONENT_BITS - (0 if long else 2)
        digits = bits & ((1 << width) - 1)
        if not long:
            digits |= 1 << (width + 2)
        if digits >= 10**self.DIGITS:
            digits = 0
        exponent = (bits >> width & ((1 << self.EXPONENT_BITS) - 1)) - self.BIAS
        return Decimal((sign, tuple(map(int, str(digits))), exponent))


class Decimal32(DecimalOctets):
    """Seven digits."""

    __slots__ = ()
    EXPONENT_BITS: ClassVar[int] = 8
    DIGITS: ClassVar[int] = 7
    BIAS: ClassVar[int] = 101


class Decimal64(DecimalOctets):
    """16 digits."""

    __slots__ = ()
    EXPONENT_BITS: ClassVar[int] = 10
    DIGITS: ClassVar[int] = 16
    BIAS: ClassVar[int] = 398


class Decimal128(DecimalOctets):
    """34 digits."""

    __slots__ = ()
    EXPONENT_BITS: ClassVar[int] = 14
    DIGITS: ClassVar[int] = 34
    BIAS: ClassVar[int] = 6176


def decimal128_of(number: Decimal) -> Decimal128:
    """The decimal of 128 bits with the digits and the exponent of `number`.

    Raises ValueError for a number that is not finite, has more than 34 digits, or an exponent out of range.
    """
    sign, digits, exponent = number.as_tuple()
    biased = exponent + Decimal128.BIAS if isinstance(exponent, int) else -1
    if len(digits) > Decimal128.DIGITS or not 0 <= biased < 3 << (Decimal128.EXPONENT_BITS - 2):
        raise ValueError(f"{number} does not fit into a decimal128")
    # 34 digits take 113 bits, which the encoding for short exponents has.
    bits = sign << 127 | biased << 113 | int("".join(map(str, digits)))
    return Decimal128(bits.to_bytes(16, "big"))


class Described:
    """A value with the descriptor that says what the value means."""

    __slots__ = ("descriptor", "value")

    def __init__(self, descriptor: AmqpValue, value: AmqpValue) -> None:
        self.descriptor = descriptor
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Described):
            return NotImplemented
        return self.descriptor == other.descriptor and self.value == other.value

    __hash__ = None  # type: ignore[assignment]  # the value may be a list

    def __repr__(self) -> str:
        return f"Described({self.descriptor!r}, {self.value!r})"


class TypedArray:
    """Values of one type. `code` is the code of the type's widest encoding (`format_codes`).

    Where the array's values are described, `items` are the values without descriptors, and `descriptors` are
    the descriptors that all of them share, the outermost first.
    """

    __slots__ = ("code", "descriptors", "items")

    def __init__(self, code: int, items: list[AmqpValue], descriptors: tuple[AmqpValue, ...] = ()) -> None:
        self.code = code
        self.items = items
        self.descriptors = descriptors

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TypedArray):
            return NotImplemented
        same = self.code == other.code and self.descriptors == other.descriptors
        return same and self.items == other.items

    __hash__ = None  # type: ignore[assignment]  # the items are a list

    def __repr__(self) -> str:
        return f"TypedArray({self.code:#04x}, {self.items!r}, {self.descriptors!r})"


class PairMap:
    """A map whose keys a dict cannot keep apart, or cannot keep safely.

    Python has no hash for lists and maps, compares the uint 1 and the ulong 1 as equal, and hashes numbers
    in a way that a peer can foresee. So a map is a dict only where each key is a string, a symbol or a
    binary, and no two keys are equal in Python. No two keys have the same AMQP type and value.
    """

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[AmqpValue, AmqpValue]]) -> None:
        self.pairs = pairs

    def __eq__(self, other: object) -> bool:
        return self.pairs == other.pairs if isinstance(other, PairMap) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # the pairs are a list

    def __repr__(self) -> str:
        return f"PairMap({self.pairs!r})"


AmqpValue: TypeAlias = (
    "bool | int | float | str | bytes | UUID | DecimalOctets | Described | TypedArray | Composite"
    " | PairMap | list[AmqpValue] | Mapping[Any, AmqpValue] | None"
)

DICT_KEYS: Final = frozenset((str, Symbol, bytes))
"""The types of keys that Python hashes with a secret."""
