"""The effect of a resource alarm on a connection: channels that publish are held, and the client is told if
possible."""

from __future__ import annotations

from node.wire.amqp091.effects import Outbox
from node.wire.amqp091.methods import ConnectionBlocked, ConnectionUnblocked
from node.wire.amqp091.primitives import truncated


class ResourceAlarm:
    """`reason` is None while there is no alarm; `blocked` says that the client has published during one."""

    __slots__ = ("_outbox", "_told", "blocked", "reason")

    def __init__(self, outbox: Outbox) -> None:
        self.reason: str | None = None
        self.blocked = False
        self._told = False
        self._outbox = outbox

    def published(self, can_be_told: bool) -> None:
        """The client publishes; it hears of it once for each alarm."""
        if not self.blocked:
            self.blocked = True
            if can_be_told:
                self._told = True
                self._outbox.send(0, ConnectionBlocked(truncated(self.reason or "")))

    def over(self, can_be_told: bool) -> None:
        if self._told and can_be_told:
            self._outbox.send(0, ConnectionUnblocked())
        self.reason = None
        self.blocked = self._told = False
