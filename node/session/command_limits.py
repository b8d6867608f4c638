"""What names and arguments may be, whatever a command came by: every client must be able to name them.

The narrowest are AMQP 0-9-1's short strings and field tables (§4.2.5). A client of that protocol cannot ask
for more; other ways of asking check it here.
"""

from __future__ import annotations

from typing import Any, Final

from node.session.commands import (
    Bind,
    Cancel,
    Command,
    Consume,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    FindExchange,
    FindQueue,
    Get,
    PurgeQueue,
    Unbind,
)
from node.wire.amqp091.errors import FieldSyntaxError
from node.wire.amqp091.fields import encode_table, read_table
from node.wire.amqp091.primitives import encode_shortstr, read_shortstr


class CommandLimitError(Exception):
    """A name is too long or has a zero octet, or an argument has no place in a table."""


def check_command(command: Command) -> None:
    """Raises CommandLimitError."""
    names, arguments = _parts(command)
    called = _called(command)
    for name in names:
        check_name(name, called)
    try:
        encoded = encode_table(arguments)
    except (ValueError, TypeError) as error:
        raise CommandLimitError(str(error)) from None
    try:
        read_table(encoded, 0)
    except FieldSyntaxError as error:
        raise CommandLimitError(f"{called}: {error}") from None


def check_name(name: str, called: str) -> None:
    """Raises CommandLimitError for more than 255 octets of UTF-8, and for a zero octet among them.

    `called` is what RabbitMQ calls that which has the name in it.
    """
    try:
        encoded = encode_shortstr(name)
    except ValueError as error:
        raise CommandLimitError(str(error)) from None
    try:
        read_shortstr(encoded, 0)
    except FieldSyntaxError as error:
        raise CommandLimitError(f"{called}: {error}") from None


def _called(command: Command) -> str:
    """What RabbitMQ calls it, for the texts of refusals."""
    if isinstance(command, Bind | Unbind):
        return f"{command.destination.kind.value}.{'bind' if isinstance(command, Bind) else 'unbind'}"
    return _CALLED[type(command)]


_CALLED: Final[dict[type[Any], str]] = {
    DeclareExchange: "exchange.declare",
    FindExchange: "exchange.declare",
    DeleteExchange: "exchange.delete",
    DeclareQueue: "queue.declare",
    FindQueue: "queue.declare",
    DeleteQueue: "queue.delete",
    PurgeQueue: "queue.purge",
    Consume: "basic.consume",
    Cancel: "basic.cancel",
    Get: "basic.get",
}


def _parts(command: Command) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The names in a command, and its arguments."""
    if isinstance(command, DeclareQueue):
        return (command.declaration.name,), command.declaration.arguments
    if isinstance(command, DeclareExchange):
        return (command.name, command.kind), command.arguments
    if isinstance(command, Bind | Unbind):
        return (command.destination.name, command.source, command.key), command.arguments
    if isinstance(command, Consume):
        return (command.queue,), command.arguments
    if isinstance(command, PurgeQueue | Get):
        return (command.queue,), {}
    if isinstance(command, Cancel):
        return (), {}
    return (command.name,), {}
