"""What RabbitMQ calls the types of field values (§4.2.5.5), for the texts of refusals."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from node.wire.amqp091.fields import Timestamp

_TYPES: Final[dict[type, str]] = {
    bool: "bool", float: "double", Decimal: "decimal", str: "longstr", bytes: "binary",
    list: "array", dict: "table", type(None): "void", Timestamp: "timestamp",
}  # fmt: skip
_LONG: Final = 2**31


def type_name(value: object) -> str:
    """What RabbitMQ calls the field type of a value; that of an integer is judged by its size."""
    if type(value) is int:
        return "signedint" if -_LONG <= value < _LONG else "long"
    return _TYPES.get(type(value), "unknown")
