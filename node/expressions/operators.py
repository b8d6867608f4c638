"""The operators of expressions on values. Unknown, which SQL-92 writes NULL, is None.

Exact numbers are longs and approximate numbers are doubles, as in Java (JMS 2.0, section 3.8.1.3): a long in
an operation with a double becomes a double, and longs that grow too large wrap around.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

LONG_LEAST: Final = -(1 << 63)
LONG_MOST: Final = (1 << 63) - 1
"""The range of exact numbers: the longs of Java."""

DIVIDED: Final = "div"
"""The division of longs that truncates. The operator `/` has a fraction."""

_WRAP: Final = 1 << 64
_HALF: Final = 1 << 63


def is_number(value: object) -> bool:
    """Whether the value is an exact or an approximate number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


# -- comparisons ------------------------------------------------------------------------------------


def _like_typed(left: object, right: object) -> tuple[object, object] | None:
    """The operands of a comparison, with numbers of two types as doubles; None where they are not of like
    types.
    """
    if isinstance(left, bool) or isinstance(right, bool):
        return (left, right) if isinstance(left, bool) and isinstance(right, bool) else None
    if isinstance(left, str):
        return (left, right) if isinstance(right, str) else None
    if isinstance(left, int):
        if isinstance(right, int):
            return left, right
        return (float(left), right) if isinstance(right, float) else None
    if isinstance(left, float):
        if isinstance(right, int):
            return left, float(right)
        return (left, right) if isinstance(right, float) else None
    return (left, right) if isinstance(left, bytes) and isinstance(right, bytes) else None


def equal(left: object, right: object) -> bool | None:
    """`left = right`. Values of unlike types are not equal."""
    if left is None or right is None:
        return None
    pair = _like_typed(left, right)
    return pair is not None and pair[0] == pair[1]


def unequal(left: object, right: object) -> bool | None:
    """`left <> right`. False for values of unlike types, as JMS has it."""
    if left is None or right is None:
        return None
    pair = _like_typed(left, right)
    return pair is not None and pair[0] != pair[1]


def _ordered(left: object, right: object) -> int | None:
    """-1, 0 or 1 for the order of two values that have one; 2 for all others, and None for unknown."""
    if left is None or right is None:
        return None
    pair = None if isinstance(left, bool) else _like_typed(left, right)
    if pair is None:
        return 2
    one, other = pair
    if isinstance(one, str) and isinstance(other, str):
        return -1 if one < other else 1 if one > other else 0
    if isinstance(one, bytes) and isinstance(other, bytes):
        return -1 if one < other else 1 if one > other else 0
    if isinstance(one, int | float) and isinstance(other, int | float):
        return -1 if one < other else 1 if one > other else 0 if one == other else 2
    return 2


def less(left: object, right: object) -> bool | None:
    """`left < right`."""
    found = _ordered(left, right)
    return None if found is None else found == -1


def at_most(left: object, right: object) -> bool | None:
    """`left <= right`."""
    found = _ordered(left, right)
    return None if found is None else found in (-1, 0)


def greater(left: object, right: object) -> bool | None:
    """`left > right`."""
    found = _ordered(left, right)
    return None if found is None else found == 1


def at_least(left: object, right: object) -> bool | None:
    """`left >= right`."""
    found = _ordered(left, right)
    return None if found is None else found in (0, 1)


COMPARING: Final[dict[str, Callable[[object, object], bool | None]]] = {
    "=": equal,
    "<>": unequal,
    "<": less,
    "<=": at_most,
    ">": greater,
    ">=": at_least,
}


# -- arithmetic -------------------------------------------------------------------------------------


def wrapped(number: int) -> int:
    """A long: 64 bits, signed."""
    if -_HALF <= number < _HALF:
        return number
    return (number + _HALF) % _WRAP - _HALF


def calculated(operator: str, left: object, right: object) -> int | float | None:
    """The result of an arithmetic operator; None where an operand is no number, and for a division of longs
    by zero.
    """
    if isinstance(left, bool) or isinstance(right, bool):
        return None
    if isinstance(left, int) and isinstance(right, int):
        return _of_longs(operator, int(left), int(right))
    if isinstance(left, int | float) and isinstance(right, int | float):
        return _of_doubles(operator, float(left), float(right))
    return None


def _of_longs(operator: str, left: int, right: int) -> int | float | None:
    if operator == "+":
        return wrapped(left + right)
    if operator == "-":
        return wrapped(left - right)
    if operator == "*":
        return wrapped(left * right)
    if right == 0:
        return None
    if operator == "/":
        # The division of OASIS has a fraction where there is one.
        return wrapped(left // right) if left % right == 0 else float(left) / float(right)
    quotient = abs(left) // abs(right)
    if (left < 0) != (right < 0):
        quotient = -quotient
    return wrapped(quotient) if operator == DIVIDED else left - quotient * right


def _of_doubles(operator: str, left: float, right: float) -> float:
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    if operator == "%":
        if right == 0.0 or math.isinf(left) or math.isnan(left) or math.isnan(right):
            return math.nan
        return math.fmod(left, right)
    if right == 0.0:
        if left == 0.0 or math.isnan(left):
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1.0, right)
    return left / right


def negated(value: object) -> int | float | None:
    """The number with the other sign; None for what is no number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return wrapped(-int(value))
    return -value if isinstance(value, float) else None
