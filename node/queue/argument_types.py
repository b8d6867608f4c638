"""Readers for the values of queue arguments, by type and range.

Each `read_…` returns the value, or raises UnacceptableError with RabbitMQ's words. Times are in milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from node.expressions.condition import encoded_condition
from node.expressions.errors import ExpressionError
from node.type_names import type_name

MAX_TIME_MS: Final = 2**32 - 1
"""The longest time-to-live that RabbitMQ takes."""


class UnacceptableError(ValueError):
    """The value of an argument is refused. The text is the reason as RabbitMQ prints it."""


def read_integer(value: object) -> int:
    """An integer, and no boolean. Raises UnacceptableError."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise UnacceptableError(f'"expected integer, got {type_name(value)}"')
    return value


def read_natural(value: object) -> int:
    """An integer from 0 on. Raises UnacceptableError."""
    number = read_integer(value)
    if number < 0:
        raise UnacceptableError(f"{{value_negative,{number}}}")
    return number


def read_time(value: object) -> int:
    """Milliseconds, from 0 to MAX_TIME_MS. Raises UnacceptableError."""
    number = read_natural(value)
    if number > MAX_TIME_MS:
        raise UnacceptableError(f"{{value_too_big,{number}}}")
    return number


def read_positive(value: object) -> int:
    """An integer from 1 on. Raises UnacceptableError."""
    number = read_natural(value)
    if number == 0:
        raise UnacceptableError("{value_zero,0}")
    return number


def read_positive_time(value: object) -> int:
    return read_positive(read_time(value))


def read_boolean(value: object) -> bool:
    """A boolean. Raises UnacceptableError."""
    if not isinstance(value, bool):
        raise UnacceptableError(f"{{unacceptable_type,{type_name(value)}}}")
    return value


def read_expression(value: object) -> bytes:
    """The octets of an expression's tree. Raises UnacceptableError with the column of the error."""
    try:
        return encoded_condition(read_text(value))
    except ExpressionError as error:
        raise UnacceptableError(str(error)) from None


def read_text(value: object) -> str:
    """A text. Raises UnacceptableError."""
    if not isinstance(value, str):
        raise UnacceptableError(f"{{unacceptable_type,{type_name(value)}}}")
    return value


def one_of(values: Mapping[str, Any], refusal: str) -> Callable[[object], Any]:
    """A reader of one of these texts, which stands for the value under it. `refusal` is the error's text."""

    def read(value: object) -> Any:
        try:
            return values[read_text(value)]
        except KeyError:
            raise UnacceptableError(refusal) from None

    return read
