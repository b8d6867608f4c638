"""RabbitMQ's names for the types of values in arguments and headers, for the texts of refusals."""

from __future__ import annotations

from typing import Final

_TYPES: Final[dict[str, str]] = {
    "bool": "bool",
    "float": "double",
    "Decimal": "decimal",
    "str": "longstr",
    "bytes": "binary",
    "list": "array",
    "dict": "table",
    "NoneType": "void",
    "Timestamp": "timestamp",
}
"""RabbitMQ's names by the name of the Python class: each wire format has classes of its own."""

_LONG: Final = 2**31


def type_name(value: object) -> str:
    """RabbitMQ's name for the type of a value; for an integer it depends on the size of the number."""
    if type(value) is int:
        return "signedint" if -_LONG <= value < _LONG else "long"
    return _TYPES.get(type(value).__name__, "unknown")
