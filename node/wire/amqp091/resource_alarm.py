"""A resource alarm's effect on a connection: the client gets connection.blocked, if it has the capability."""

from __future__ import annotations

from node.wire.amqp091.effects import Outbox
from node.wire.amqp091.methods import ConnectionBlocked, ConnectionUnblocked
from node.wire.amqp091.primitives import truncated


class ResourceAlarm:
    """`reason` is None without an alarm. `blocked`: the client has published during the alarm."""

    __slots__ = ("_outbox", "_told", "blocked", "reason")

    def __init__(self, outbox: Outbox) -> None:
        self.reason: str | None = None
        self.blocked = False
        self._told = False
        self._outbox = outbox

    def published(self, can_be_told: bool) -> None:
        """The client publishes during the alarm: send connection.blocked, once for each alarm."""
        if not self.blocked:
            self.blocked = True
            if can_be_told:
                self._told = True
                self._outbox.send(0, ConnectionBlocked(truncated(self.reason or "")))

    def over(self, can_be_told: bool) -> None:
        """The alarm is over: send connection.unblocked where connection.blocked was sent."""
        if self._told and can_be_told:
            self._outbox.send(0, ConnectionUnblocked())
        self.reason = None
        self.blocked = self._told = False
