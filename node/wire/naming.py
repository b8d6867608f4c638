"""Checks that names and arguments can be expressed in every protocol.

The short strings and field tables of AMQP 0-9-1 (§4.2.5) are the narrowest. A client of AMQP 0-9-1 cannot
exceed them; commands of other clients are checked here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from node.wire.amqp091.errors import FieldSyntaxError
from node.wire.amqp091.fields import MAX_DEPTH, encode_table, read_table
from node.wire.amqp091.primitives import encode_shortstr, read_shortstr


class NamingError(ValueError):
    """A name is too long, or a field table cannot hold an argument."""


class IllFormedError(NamingError):
    """A name has a zero octet, or an argument is ill-formed. The text of a refusal names the
    command first.
    """


def check_text(name: str) -> None:
    """Raises NamingError for more than 255 octets of UTF-8, IllFormedError for a zero octet among them."""
    try:
        encoded = encode_shortstr(name)
    except ValueError as error:
        raise NamingError(str(error)) from None
    try:
        read_shortstr(encoded, 0)
    except FieldSyntaxError as broken:
        raise IllFormedError(str(broken)) from None


def check_field_values(arguments: Mapping[str, Any]) -> None:
    """Raises NamingError for a value that field tables have no type for, and IllFormedError for a malformed
    one.
    """
    _check_depth(arguments)
    try:
        encoded = encode_table(dict(arguments))
    except (ValueError, TypeError) as error:
        raise NamingError(str(error)) from None
    try:
        read_table(encoded, 0)
    except FieldSyntaxError as broken:
        raise IllFormedError(str(broken)) from None


def _check_depth(arguments: Mapping[str, Any]) -> None:
    """Raises IllFormedError. Writing and reading a table call themselves for each level: texts of JSON have
    more levels than the stack has room for.
    """
    level: list[Any] = [arguments]
    for _ in range(MAX_DEPTH):
        level = [one for container in level for one in _members(container) if isinstance(one, list | dict)]
        if not level:
            return
    raise IllFormedError(f"tables are nested more than {MAX_DEPTH} deep")


def _members(container: Any) -> Iterable[Any]:
    return container if isinstance(container, list) else container.values()
