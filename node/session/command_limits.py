"""Checks the names and arguments of a command against the limits of AMQP 0-9-1.

The HTTP API is bound by them too: a client of AMQP 0-9-1 must be able to use every name.
"""

from __future__ import annotations

from typing import Any, Final

from node.delivery.deeds import ReplayTarget
from node.session.commands import (
    Bind,
    Cancel,
    Command,
    Consume,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DescribeQueue,
    FindExchange,
    FindQueue,
    Get,
    ListBindings,
    PurgeQueue,
    ReadView,
    RenewLeases,
    SettleMessages,
    Unbind,
)
from node.wire.naming import IllFormedError, NamingError, check_field_values, check_text


class CommandLimitError(Exception):
    """A name is too long or has a zero octet, or a field table cannot hold an argument."""


def check_command(command: Command) -> None:
    """Raises CommandLimitError for the first name or argument that AMQP 0-9-1 cannot express."""
    names, arguments = _parts(command)
    called = _called(command)
    for name in names:
        check_name(name, called)
    try:
        check_field_values(arguments)
    except IllFormedError as error:
        raise CommandLimitError(f"{called}: {error}") from None
    except NamingError as unfit:
        raise CommandLimitError(str(unfit)) from None


def check_name(name: str, called: str) -> None:
    """Raises CommandLimitError for more than 255 octets of UTF-8, and for a zero octet among them.

    `called` is RabbitMQ's word for the command that has the name in it.
    """
    try:
        check_text(name)
    except IllFormedError as error:
        raise CommandLimitError(f"{called}: {error}") from None
    except NamingError as unfit:
        raise CommandLimitError(str(unfit)) from None


def _called(command: Command) -> str:
    """RabbitMQ's word for the command, for the texts of refusals."""
    if isinstance(command, Bind | Unbind):
        return f"{command.destination.kind.value}.{'bind' if isinstance(command, Bind) else 'unbind'}"
    return _CALLED[type(command)]


_CALLED: Final[dict[type[Any], str]] = {
    DeclareExchange: "exchange.declare",
    FindExchange: "exchange.declare",
    DeleteExchange: "exchange.delete",
    DeclareQueue: "queue.declare",
    FindQueue: "queue.declare",
    DescribeQueue: "queue.declare",
    ListBindings: "queue.bind",
    DeleteQueue: "queue.delete",
    PurgeQueue: "queue.purge",
    Consume: "basic.consume",
    Cancel: "basic.cancel",
    Get: "basic.get",
    RenewLeases: "lease renewal",
    SettleMessages: "settlement",
    ReadView: "view",
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
    if isinstance(command, ListBindings):
        return (command.destination.name, command.source), {}
    if isinstance(command, SettleMessages) and isinstance(command.target, ReplayTarget):
        return (command.queue, *(name for name in command.target if name is not None)), {}
    if isinstance(command, PurgeQueue | Get | RenewLeases | SettleMessages):
        return (command.queue,), {}
    if isinstance(command, ReadView):
        return (command.view,), {}
    if isinstance(command, Cancel):
        return (), {}
    return (command.name,), {}
