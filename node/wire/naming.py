"""Names and arguments that clients of every protocol can say.

The narrowest are the short strings and field tables of AMQP 0-9-1 (§4.2.5): a client of that protocol cannot
ask for more, and other ways of asking check it here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from node.wire.amqp091.errors import FieldSyntaxError
from node.wire.amqp091.fields import encode_table, read_table
from node.wire.amqp091.primitives import encode_shortstr, read_shortstr


class NamingError(ValueError):
    """A name is too long, or an argument has no place in a table."""


class IllFormedError(NamingError):
    """A name has a zero octet, or an argument is ill-formed; a refusal states the command before that."""


def check_text(name: str) -> None:
    """Raises NamingError for more than 255 octets of UTF-8, IllFormedError for a zero octet among them."""
    try:
        encoded = encode_shortstr(name)
    except ValueError as error:
        raise NamingError(str(error)) from None
    try:
        read_shortstr(encoded, 0)
    except FieldSyntaxError as error:
        raise IllFormedError(str(error)) from None


def check_field_values(arguments: Mapping[str, Any]) -> None:
    """Raises NamingError for a value that tables have no type for, and IllFormedError."""
    try:
        encoded = encode_table(dict(arguments))
    except (ValueError, TypeError) as error:
        raise NamingError(str(error)) from None
    try:
        read_table(encoded, 0)
    except FieldSyntaxError as error:
        raise IllFormedError(str(error)) from None
