"""The rights of users on exchanges and queues, as sessions check them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

IMPERSONATOR: Final = "impersonator"
"""The tag of users who may publish with another user's user-id."""


class Right(StrEnum):
    """RabbitMQ's three permissions."""

    CONFIGURE = "configure"
    WRITE = "write"
    READ = "read"


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Scope:
    """A user in a virtual host. There is one object for each pair of user and virtual host, compared by
    identity.

    So callers can remember decisions under a scope without hashing its names.
    """

    user: str
    vhost: str


NOWHERE = Scope("", "")
"""The scope of a connection that is not open yet."""


class Permissions(Protocol):
    """Checks that raise AccessRefusedError where the user has not the right in the virtual host.

    A check reads this node's catalog: a change of permissions counts from the next call on.
    """

    def check_exchange(self, user: str, vhost: str, right: Right, name: str) -> None: ...
    def check_queue(self, user: str, vhost: str, right: Right, name: str) -> None: ...

    def check_topic(self, user: str, vhost: str, right: Right, exchange: str, key: str) -> None:
        """Check a routing key at a topic exchange: `WRITE` for a publish, `READ` for a binding."""
