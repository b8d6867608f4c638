"""What RabbitMQ calls the types of values in arguments and headers, for the texts of refusals."""

from __future__ import annotations

from typing import Final

_TYPES: Final[dict[str, str]] = {
    "bool": "bool", "float": "double", "Decimal": "decimal", "str": "longstr", "bytes": "binary",
    "list": "array", "dict": "table", "NoneType": "void", "Timestamp": "timestamp",
}  # fmt: skip
"""By the name of the type in Python: each wire format has classes of its own."""

_LONG: Final = 2**31


def type_name(value: object) -> str:
    """What RabbitMQ calls the type of a value; that of an integer is judged by its size."""
    if type(value) is int:
        return "signedint" if -_LONG <= value < _LONG else "long"
    return _TYPES.get(type(value).__name__, "unknown")
