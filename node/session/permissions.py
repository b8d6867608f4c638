"""The rights of users on exchanges and queues, as sessions check them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from node.message.run import Run
from node.ranges.range_set import Range
from node.refusal import AccessRefusedError

DEFAULT_EXCHANGE_ALIAS: Final = "amq.default"
"""The name of the default exchange for patterns: its own name is empty."""

IMPERSONATOR: Final = "impersonator"
"""The tag of users who may publish with another user's user-id."""


class Right(StrEnum):
    """RabbitMQ's three permissions."""

    CONFIGURE = "configure"
    WRITE = "write"
    READ = "read"


class GrantedRights(Protocol):
    """The rights that an access token grants, equal for tokens that grant the same. The catalog's permissions
    do not count for a client with such rights.
    """

    def enters(self, vhost: str) -> bool:
        """Whether they grant anything in the virtual host."""

    def allows(self, vhost: str, right: Right, name: str) -> bool:
        """Whether they grant the right on a queue or an exchange of this name."""

    def allows_every(self, vhost: str, right: Right) -> bool:
        """Whether they grant the right on queues and exchanges of every name."""

    def allows_topic(self, vhost: str, right: Right, exchange: str, key: str) -> bool:
        """Whether they grant the right with the routing key at the topic exchange."""

    def let_go(self) -> None:
        """A client with these rights is gone: drop what is remembered of decisions."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Scope:
    """A user in a virtual host, and the rights of the user's token. There is one object for equal user,
    virtual host and rights, compared by identity.

    So callers can remember decisions under a scope without hashing its names. `rights` is None where the
    catalog has the user's permissions.
    """

    user: str
    vhost: str
    rights: GrantedRights | None = None


NOWHERE = Scope("", "")
"""The scope of a connection that is not open yet."""


class Permissions(Protocol):
    """Checks that raise AccessRefusedError where the user of the scope has not the right in its virtual host.

    A check reads the rights of the scope, or this node's catalog: a change of permissions there counts from
    the next call on.
    """

    @property
    def write_filters(self) -> Collection[object]:
        """The write filters of all users. Where there are none, `kept_out` need not be asked."""

    def check_exchange(self, scope: Scope, right: Right, name: str) -> None: ...
    def check_queue(self, scope: Scope, right: Right, name: str) -> None: ...

    def check_pattern(self, scope: Scope, right: Right, pattern: str) -> None:
        """Check the right on every name that a pattern may match, those of queues to come included."""

    def check_topic(self, scope: Scope, right: Right, exchange: str, key: str) -> None:
        """Check a routing key at a topic exchange: `WRITE` for a publish, `READ` for a binding."""

    def read_filter(self, scope: Scope) -> bytes:
        """The octets of the selector for the messages that the user may get; empty for all messages."""

    def write_filter(self, scope: Scope) -> bytes:
        """The octets of the selector for the messages that the user may publish; empty for all messages."""

    def kept_out(self, scope: Scope, run: Run) -> list[Range]:
        """The messages of a run, counted from 0, that the user may not publish by what is in them."""


def publish_refusal(scope: Scope, exchange: str) -> AccessRefusedError:
    """The refusal of a message that the user may not publish by what is in it."""
    where = f"exchange '{exchange or DEFAULT_EXCHANGE_ALIAS}' in vhost '{scope.vhost}'"
    return AccessRefusedError(
        f"write access to {where} refused for user '{scope.user}': the user's write filter does not take the "
        "message"
    )
