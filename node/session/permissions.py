"""What a connection may do: the rights on exchanges and queues, as sessions ask for them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

IMPERSONATOR: Final = "impersonator"
"""The tag of users who may publish with somebody else's user-id."""


class Right(StrEnum):
    """RabbitMQ's three permissions."""

    CONFIGURE = "configure"
    WRITE = "write"
    READ = "read"


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Scope:
    """A user in a virtual host. There is one object for each such pair, which identity tells apart.

    What was decided for a scope may be remembered under it without hashing its names.
    """

    user: str
    vhost: str


NOWHERE = Scope("", "")
"""Of a connection that is not open yet."""


class Permissions(Protocol):
    """Raise AccessRefusedError where the user has not got the right in the virtual host.

    Answers follow the catalog: a permission that is taken away is missed at the next call.
    """

    def check_exchange(self, user: str, vhost: str, right: Right, name: str) -> None: ...
    def check_queue(self, user: str, vhost: str, right: Right, name: str) -> None: ...

    def check_topic(self, user: str, vhost: str, right: Right, exchange: str, key: str) -> None:
        """Whether a key may be used at a topic exchange: written when publishing, read when binding."""
