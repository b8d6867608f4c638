"""Native data types of AMQP 0-9-1 (§4.2.5) and the base of the generated methods.

A reading function takes the data and a position, and returns the value and the position behind it. It raises
FieldSyntaxError where the grammar is broken, and struct.error or IndexError where a field of fixed size is
cut short; `codec.decode_method` turns these into FieldSyntaxError.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, ClassVar, Final

from node.wire.amqp091.errors import FieldSyntaxError

OCTET: Final = Struct(">B")
SHORT: Final = Struct(">H")
LONG: Final = Struct(">I")
LONGLONG: Final = Struct(">Q")

MAX_SHORTSTR: Final = 255


class Method:
    """A method of the protocol. `scripts/generate_amqp091.py` generates the subclasses."""

    __slots__ = ()
    __match_args__: tuple[str, ...] = ()
    CLASS_ID: ClassVar[int]
    METHOD_ID: ClassVar[int]

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__match_args__)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
        return f"{type(self).__name__}({arguments})"

    def encode_arguments(self) -> bytes:
        """The octets behind class id and method id in the frame's payload. Raises TypeError for the base
        class.
        """
        raise TypeError(f"{type(self).__name__} is not a method of the protocol")

    @classmethod
    def decode_arguments(cls, data: bytes, at: int) -> tuple[Any, int]:
        """The method whose arguments start at `at`, and the position behind them. Raises TypeError for the
        base class.
        """
        raise TypeError(f"{cls.__name__} is not a method of the protocol")


def method_ids(method: Method) -> tuple[int, int]:
    """Class id and method id, which Close names as the cause."""
    return (method.CLASS_ID, method.METHOD_ID)


def read_shortstr(data: bytes, at: int) -> tuple[str, int]:
    """A short string: up to 255 octets of UTF-8 without NUL (§4.2.5.3). Raises FieldSyntaxError."""
    start = at + 1
    end = start + data[at]
    octets = data[start:end]
    if end > len(data) or b"\0" in octets:
        raise FieldSyntaxError("a short string is cut short or contains NUL")
    try:
        return octets.decode("utf-8"), end
    except UnicodeDecodeError:
        raise FieldSyntaxError("a short string is not UTF-8") from None


def read_longstr(data: bytes, at: int) -> tuple[bytes, int]:
    """A long string, with its length in 4 octets. Raises FieldSyntaxError."""
    (length,) = LONG.unpack_from(data, at)
    end = at + 4 + length
    if end > len(data):
        raise FieldSyntaxError("a long string is cut short")
    return data[at + 4 : end], end


def encode_shortstr(text: str) -> bytes:
    """The short string with its length. Raises ValueError for more than 255 octets."""
    octets = text.encode("utf-8")
    if len(octets) > MAX_SHORTSTR:
        raise ValueError(f"{len(octets)} octets do not fit into a short string")
    return bytes((len(octets),)) + octets


def encode_longstr(octets: bytes) -> bytes:
    return LONG.pack(len(octets)) + octets


def truncated(text: str) -> str:
    """`text` cut to the 255 octets of a short string, never inside a character, with NUL replaced."""
    octets = text.replace("\0", "?").encode("utf-8", "replace")[:MAX_SHORTSTR]
    return octets.decode("utf-8", "ignore")
