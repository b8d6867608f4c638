"""What the engine refuses. The type states the AMQP 0-9-1 reply code and what the refusal ends.

Codes: AMQP 0-9-1 specification, table of constants; other protocols map the types.
"""

from __future__ import annotations

from typing import ClassVar


class Refusal(Exception):
    """The engine does not do what was asked, and has changed nothing."""

    code: ClassVar[int]
    ends_connection: ClassVar[bool] = False


class AccessRefusedError(Refusal):
    """The name is reserved, or the thing belongs to the broker."""

    code = 403


class NotFoundError(Refusal):
    """There is no such exchange or queue."""

    code = 404


class HomeNodeDownError(Refusal):
    """There is such a queue, but only on a node that is down: nobody can say anything of it."""

    code = 404


class PreconditionFailedError(Refusal):
    """The thing exists with other properties, is in use, or the arguments contradict each other."""

    code = 406


class EntryRefusedError(Refusal):
    """The user may not enter the virtual host, or it is not there, or it takes no more connections."""

    code = 530
    ends_connection = True


class ResourceError(Refusal):
    """The node has not what the request takes at the moment."""

    code = 506


class NotImplementedRefusal(Refusal):
    """The broker cannot do this."""

    code = 540
    ends_connection = True
