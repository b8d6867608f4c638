"""The parts of a message, and their values as plain Python."""

from __future__ import annotations

from typing import Any, Final, NamedTuple


class Content(NamedTuple):
    """The parts of a message. `properties` and `headers` have the names that AMQP 0-9-1 gives them, as far as
    the message's protocol has the same ones.

    `body`: of AMQP 1.0 the octets of data sections, or of one binary or string; the octets of all body
    sections as they stand where the body is of another type.
    """

    properties: dict[str, Any]
    headers: dict[str, Any]
    body: bytes


MAX_DEPTH: Final = 64
"""The deepest nesting of values that is read."""


class Timestamp(int):
    """A time, in seconds since the epoch (AMQP 0-9-1), or in milliseconds (AMQP 1.0)."""


def plain(value: Any) -> Any:
    """A value as JSON knows it: octets as hexadecimal digits, everything else that is strange as text."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return value.hex()
        case dict():
            return {str(plain(key)): plain(one) for key, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
    return str(value)
