"""Connections of the commands to a node, and the explanation of its refusals to the user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import pika
from pika import exceptions

from cluster.cli.commands.errors import CommandError, WrongUsageError
from cluster.cli.commands.password_file import first_line

DEFAULT_AMQP_URL = "amqp://guest:guest@127.0.0.1:5672/"


def parameters(url: str, password_file: Path | None = None) -> pika.URLParameters:
    """Connection parameters of an AMQP URL, for one attempt to connect. Raises `WrongUsageError`.

    The first line of `password_file`, if there is one, counts instead of a password in the URL.
    """
    try:
        if not url.startswith(("amqp://", "amqps://")):
            raise ValueError("must begin with amqp://")
        if password_file is not None:
            url = _with_password(url, first_line(password_file))
        found = pika.URLParameters(url)
    except (ValueError, TypeError, KeyError) as error:
        raise WrongUsageError(f"--url: {error}; write it as amqp://user:password@host:port/vhost") from None
    found.connection_attempts = 1
    found.socket_timeout = found.stack_timeout = 10
    return found


def _with_password(url: str, password: str) -> str:
    parts = urlsplit(url)
    user, _, place = parts.netloc.rpartition("@")
    if not user:
        raise ValueError("no user for the password of --password-file")
    netloc = f"{user.partition(':')[0]}:{quote(password, safe='')}@{place}"
    return urlunsplit(parts._replace(netloc=netloc))


@contextmanager
def explained(where: pika.URLParameters) -> Iterator[None]:
    """Raises CommandError with the node, the error and the remedy for an exception of pika."""
    try:
        yield
    except exceptions.AMQPError as error:
        raise CommandError(explain(where, error)) from error
    except OSError as error:
        raise CommandError(f"{node_and_vhost(where)}: {error}") from error


def node_and_vhost(where: pika.URLParameters) -> str:
    """The node and vhost of a connection, without its password."""
    return f"amqp://{where.host}:{where.port}/{'' if where.virtual_host == '/' else where.virtual_host}"


def explain(where: pika.URLParameters, error: BaseException) -> str:
    """One sentence for an exception of pika, and the remedy where there is one."""
    node = node_and_vhost(where)
    if isinstance(error, exceptions.ChannelClosedByBroker | exceptions.ConnectionClosedByBroker):
        return f"{node} refused: {error.reply_code} {error.reply_text}"
    if isinstance(error, exceptions.ProbableAuthenticationError | exceptions.AuthenticationError):
        return f"{node} refused user {where.credentials.username!r}: wrong name or password in --url"
    if isinstance(error, exceptions.ProbableAccessDeniedError):
        return f"{node} refused vhost {where.virtual_host!r}: it does not exist or the user may not use it"
    if isinstance(error, exceptions.StreamLostError | exceptions.ConnectionWrongStateError):
        return f"{node}: the connection broke; the node may have ended: `quorate status` tells"
    cause = _innermost(error)
    if isinstance(cause, exceptions.StreamLostError | exceptions.IncompatibleProtocolError):
        return f"{node} ended the connection before it was open: is that the AMQP port of a node?"
    if isinstance(error, exceptions.AMQPConnectionError):
        return (
            f"{node} cannot be reached: {cause or type(cause).__name__}; "
            "is the node running (`quorate up`), or is --url wrong?"
        )
    return f"{node}: {error or type(error).__name__}"


def _innermost(error: BaseException) -> BaseException:
    """The operating system's error, which pika wraps in several errors of its own."""
    while True:
        attempts = getattr(error, "exceptions", None) or error.args
        inner = attempts[-1] if attempts else None
        inner = getattr(inner, "exception", inner)
        if not isinstance(inner, BaseException):
            return error
        error = inner
