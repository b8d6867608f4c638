"""Refusals of commands. The type states the AMQP 0-9-1 reply code, and whether the connection ends.

The codes are those of the AMQP 0-9-1 specification, table of constants. Other protocols map the types.
"""

from __future__ import annotations

from typing import ClassVar


class Refusal(Exception):
    """The broker refuses a command, and has changed nothing. The text goes to the client."""

    code: ClassVar[int]
    ends_connection: ClassVar[bool] = False


class AccessRefusedError(Refusal):
    """The user has no permission, the name is reserved, or the object belongs to the broker."""

    code = 403


class NotFoundError(Refusal):
    """There is no such exchange or queue."""

    code = 404


class HomeNodeDownError(Refusal):
    """The queue is on one node, and that node is down."""

    code = 404


class OutsideDomainError(Refusal):
    """The queue is in a domain to which the client's node does not belong."""

    code = 404


class ResourceLockedError(Refusal):
    """The queue is exclusive to another connection."""

    code = 405


class PreconditionFailedError(Refusal):
    """The object exists with other properties, is in use, or the arguments contradict each other."""

    code = 406


class EntryRefusedError(Refusal):
    """The virtual host does not exist, the user may not enter it, or a limit on connections or channels is
    reached.
    """

    code = 530
    ends_connection = True


class ResourceError(Refusal):
    """The node lacks a resource for the command at the moment."""

    code = 506


class NotImplementedRefusal(Refusal):
    """The broker does not implement the command."""

    code = 540
    ends_connection = True


def locked(vhost: str, queue: str) -> ResourceLockedError:
    """The refusal to a connection without access to an exclusive queue."""
    return ResourceLockedError(
        f"cannot obtain exclusive access to locked queue '{queue}' in vhost '{vhost}'. It could be "
        "originally declared on another connection or the exclusive property value does not match that of "
        "the original declaration."
    )
