"""How long the node keeps a terminus whose queue the broker has made for a link (part 3, sections 3.5.3 and
3.5.5).

kept until           detached by the peer   closed by the peer   closed by the node   session ends
link-detach          gone                   gone                 gone                 gone
session-end          kept by the session    gone                 gone                 gone
connection-close     kept                   gone                 gone                 kept
never, or a timeout  kept                   gone                 kept                 kept

A queue is deleted when its terminus is gone. The queues of the first three rows are the connection's own, and
the broker deletes those that are left with the connection. A queue of the last row is deleted by its timeout
(queue argument `x-expires`), or by a peer that closes the link. No terminus of another queue is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Protocol

from node.wire.amqp10.definitions import Source, Target, TerminusDurability, TerminusExpiryPolicy

MOST_TIMEOUT_S: Final = 4_000_000
"""The longest timeout in seconds that the node grants. `x-expires` takes 2**32 - 1 ms."""


@dataclass(frozen=True, slots=True)
class Retention:
    """The node keeps a terminus for so long. A timeout, in seconds, begins when the link is detached."""

    durable: TerminusDurability
    expiry: TerminusExpiryPolicy
    timeout_s: int

    @property
    def lasts(self) -> bool:
        """Whether the terminus outlives the connection."""
        return self.expiry is TerminusExpiryPolicy.NEVER or self.timeout_s > 0


UNTIL_DETACH: Final = Retention(TerminusDurability.NONE, TerminusExpiryPolicy.LINK_DETACH, 0)


def lasting(timeout_s: int, durable: bool) -> Retention:
    """The retention of a terminus that outlives the connection: with a timeout, or until the peer closes the
    link. Deliveries that are not settled go back to the queue.
    """
    durability = TerminusDurability.CONFIGURATION if durable else TerminusDurability.NONE
    expiry = TerminusExpiryPolicy.LINK_DETACH if timeout_s else TerminusExpiryPolicy.NEVER
    return Retention(durability, expiry, timeout_s)


def unsettled_kept(retention: Retention) -> Retention:
    """The retention of a terminus that is kept with its unsettled deliveries (`amqp10.recovery`)."""
    return replace(retention, durable=TerminusDurability.UNSETTLED_STATE)


def granted(asked: Source | Target, *, may_last: bool) -> Retention:
    """The retention that a peer gets which asks with this terminus. `may_last`: its queue may outlive the
    connection.
    """
    never = asked.expiry_policy is TerminusExpiryPolicy.NEVER
    if may_last and (never or asked.timeout):
        timeout_s = 0 if never else min(asked.timeout, MOST_TIMEOUT_S)
        return lasting(timeout_s, asked.durable is not TerminusDurability.NONE)
    expiry = TerminusExpiryPolicy.CONNECTION_CLOSE if never or asked.timeout else asked.expiry_policy
    return Retention(TerminusDurability.NONE, expiry, 0)


class LinkEnd(Enum):
    """How a link ends: see the module's docstring."""

    DETACHED_BY_PEER = 1
    CLOSED_BY_PEER = 2
    CLOSED_BY_NODE = 3
    SESSION_ENDED = 4


class Keeping(Enum):
    """The fate of the queue of a link that ends."""

    GONE = 1
    KEPT = 2
    KEPT_BY_SESSION = 3


def keeping(retention: Retention, end: LinkEnd) -> Keeping:
    """The entry of the table in the module's docstring."""
    if end is LinkEnd.CLOSED_BY_PEER:
        return Keeping.GONE
    if retention.lasts:
        return Keeping.KEPT
    if end is LinkEnd.DETACHED_BY_PEER and retention.expiry is TerminusExpiryPolicy.SESSION_END:
        return Keeping.KEPT_BY_SESSION
    outlives = end in (LinkEnd.DETACHED_BY_PEER, LinkEnd.SESSION_ENDED)
    if outlives and retention.expiry is TerminusExpiryPolicy.CONNECTION_CLOSE:
        return Keeping.KEPT
    return Keeping.GONE


class WithQueue(Protocol):
    """A link, as far as the queue goes that the broker has made for it."""

    made: str
    retention: Retention


class MadeQueues:
    """The queues of one session whose termini the session keeps without a link."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[str, None] = {}

    def take_over(self, link: WithQueue, queue: str, retention: Retention) -> None:
        """A link has this queue from now on."""
        self._kept.pop(queue, None)
        link.made, link.retention = queue, retention

    def link_ended(self, link: WithQueue, end: LinkEnd) -> str:
        """A link has ended. Returns its queue if that has to be deleted; else an empty text."""
        queue, link.made = link.made, ""
        kept = keeping(link.retention, end)
        if queue and kept is Keeping.KEPT_BY_SESSION:
            self._kept[queue] = None
        return queue if kept is Keeping.GONE else ""

    def session_ended(self) -> list[str]:
        """The session has ended: returns the queues that it has kept, which have to be deleted."""
        queues = list(self._kept)
        self._kept.clear()
        return queues
