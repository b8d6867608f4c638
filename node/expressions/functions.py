"""The functions of queue expressions. Unknown, which SQL-92 writes NULL, is None.

Texts of more than LONGEST_TEXT characters are neither taken nor made: the result is unknown instead. So the
work for a message is bounded, whatever its texts and however functions are nested.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from node.expressions.operators import LONG_LEAST, LONG_MOST, wrapped

LONGEST_TEXT: Final = 1024
"""The largest text that a function takes or makes, in characters. LENGTH and SUBSTR take longer ones."""


def _changed(change: Callable[[str], str], value: object) -> str | None:
    return _short(change(value)) if isinstance(value, str) and len(value) <= LONGEST_TEXT else None


def _short(text: str) -> str | None:
    return text if len(text) <= LONGEST_TEXT else None


def _upper(values: list[object]) -> object:
    return _changed(str.upper, values[0])


def _lower(values: list[object]) -> object:
    return _changed(str.lower, values[0])


def _without_spaces(text: str) -> str:
    return text.strip(" ")


def _trim(values: list[object]) -> object:
    return _changed(_without_spaces, values[0])


def _length(values: list[object]) -> object:
    text = values[0]
    return len(text) if isinstance(text, str) else None


def _substr(values: list[object]) -> object:
    """The characters from a place on, which counts from 1. Places in front of the text are empty (SQL-92)."""
    text, start = values[0], _exact(values[1])
    if not isinstance(text, str) or start is None:
        return None
    end = len(text)
    if len(values) == 3:
        count = _exact(values[2])
        if count is None or count < 0:
            return None
        end = min(end, start - 1 + count)
    begin = min(max(start - 1, 0), len(text))
    return _short(text[begin:end]) if begin < end else ""


def _concat(values: list[object]) -> object:
    texts = [value for value in values if isinstance(value, str)]
    return "".join(texts) if len(texts) == len(values) and sum(map(len, texts)) <= LONGEST_TEXT else None


def _abs(values: list[object]) -> object:
    number = values[0]
    if isinstance(number, float):
        return abs(number)
    exact = _exact(number)
    return None if exact is None else wrapped(abs(exact))


def _round(values: list[object]) -> object:
    """The nearest whole number as a long, the one away from zero of two. A double that is no long stays."""
    number = values[0]
    if not isinstance(number, float):
        return _exact(number)
    if math.isnan(number) or math.isinf(number) or not LONG_LEAST < number < LONG_MOST:
        return number
    whole = math.trunc(number)
    if abs(number - whole) < 0.5:
        return whole
    return whole + 1 if number > 0 else whole - 1


def _coalesce(values: list[object]) -> object:
    for value in values:
        if value is not None:
            return value
    return None


def _exact(value: object) -> int | None:
    """The value where it is a long."""
    # Compiled code takes a boolean for a number once it has taken it for an int.
    if isinstance(value, bool):
        return None
    return int(value) if isinstance(value, int) else None


class Function:
    """A function: `compute` takes from `least` to `most` values; 0 for no largest number."""

    __slots__ = ("compute", "least", "most")

    def __init__(self, compute: Callable[[list[object]], object], least: int, most: int) -> None:
        self.compute = compute
        self.least = least
        self.most = most


FUNCTIONS: Final[dict[str, Function]] = {
    "upper": Function(_upper, 1, 1),
    "lower": Function(_lower, 1, 1),
    "trim": Function(_trim, 1, 1),
    "length": Function(_length, 1, 1),
    "substr": Function(_substr, 2, 3),
    "concat": Function(_concat, 2, 0),
    "abs": Function(_abs, 1, 1),
    "round": Function(_round, 1, 1),
    "coalesce": Function(_coalesce, 2, 0),
}
"""By name in lower case, which is their operator in a tree."""
