"""A resource alarm's effect on a connection: the client is told once it publishes (§3.1.9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from node.wire.amqp091.effects import Outbox
from node.wire.amqp091.methods import ChannelFlow, ConnectionBlocked, ConnectionUnblocked
from node.wire.amqp091.primitives import truncated

CAPABILITY: Final = "connection.blocked"


class ResourceAlarm:
    """`reason` is None without an alarm. `blocked`: the client has published during the alarm."""

    __slots__ = ("_client_can", "_outbox", "_told", "blocked", "reason")

    def __init__(self, outbox: Outbox, client_can: Callable[[str], bool]) -> None:
        """`client_can` tells whether the client has announced a capability."""
        self.reason: str | None = None
        self.blocked = False
        self._told = False
        self._outbox, self._client_can = outbox, client_can

    def published(self) -> None:
        """The client publishes during the alarm: send connection.blocked, once for each alarm."""
        if not self.blocked:
            self.blocked = True
            if self._client_can(CAPABILITY):
                self._told = True
                self._outbox.send(0, ConnectionBlocked(truncated(self.reason or "")))

    def flow(self, channel: int, *, active: bool) -> None:
        """Ask a client without the capability to stop publishing on an open channel, or to go on."""
        if not self._client_can(CAPABILITY):
            self._outbox.send(channel, ChannelFlow(active))

    def over(self, connection_open: bool) -> None:
        """The alarm is over: send connection.unblocked where connection.blocked was sent."""
        if self._told and connection_open:
            self._outbox.send(0, ConnectionUnblocked())
        self.reason = None
        self.blocked = self._told = False
