"""AMQPLAIN, a SASL mechanism of AMQP 0-9-1, beside the mechanisms of every protocol
(`node.session.logins`).
"""

from __future__ import annotations

from struct import error as StructError

from node.session.logins import Login, MalformedResponseError, PasswordLogin, parse_login, password_login
from node.wire.amqp091.errors import FieldSyntaxError
from node.wire.amqp091.fields import FieldValue, read_table
from node.wire.amqp091.primitives import LONG

AMQPLAIN = "AMQPLAIN"


def parse_response(mechanism: str, response: bytes, certified_name: str) -> Login:
    """As `parse_login`, also for AMQPLAIN. Raises MalformedResponseError."""
    if mechanism == AMQPLAIN:
        return _amqplain(response)
    return parse_login(mechanism, response, certified_name)


def _amqplain(response: bytes) -> PasswordLogin:
    """The login in a response to AMQPLAIN: a field table without its length, with LOGIN and PASSWORD."""
    try:
        table, _ = read_table(LONG.pack(len(response)) + response, 0)
    except (FieldSyntaxError, StructError, IndexError):
        raise MalformedResponseError("the response is no field table") from None
    user, password = (_octets(table.get(name)) for name in ("LOGIN", "PASSWORD"))
    if user is None or password is None:
        raise MalformedResponseError("the response has no LOGIN or no PASSWORD that is a text")
    return password_login(user, password)


def _octets(value: FieldValue) -> bytes | None:
    return value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else None
