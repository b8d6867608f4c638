"""What a connection makes of a resource alarm: who publishes meanwhile is held, and told if it can be."""

from __future__ import annotations

from collections.abc import Container

from node.wire.amqp091.methods import ChannelFlow, ConnectionBlocked, ConnectionUnblocked
from node.wire.amqp091.outbox import Outbox
from node.wire.amqp091.primitives import truncated


class ResourceAlarm:
    """`reason` is None while there is no alarm; `blocked` says that the client has published during one.

    A client that knows connection.blocked hears of the alarm once. Another one is asked to stop publishing on
    each channel on which it does, by channel.flow (§3.1.9), and to go on afterwards.
    """

    __slots__ = ("_asked", "_outbox", "_told", "blocked", "reason")

    def __init__(self, outbox: Outbox) -> None:
        self.reason: str | None = None
        self.blocked = False
        self._told = False
        self._asked: list[int] = []
        self._outbox = outbox

    def published(self, channel: int, can_be_told: bool) -> None:
        """The client publishes on a channel, whose further frames are held from now on."""
        if not can_be_told:
            self._asked.append(channel)
            self._outbox.send(channel, ChannelFlow(False))
        elif not self.blocked:
            self._told = True
            self._outbox.send(0, ConnectionBlocked(truncated(self.reason or "")))
        self.blocked = True

    def over(self, open_channels: Container[int]) -> None:
        """`open_channels`: those to which anything may be sent; 0 among them while the connection is open."""
        if self._told and 0 in open_channels:
            self._outbox.send(0, ConnectionUnblocked())
        for channel in self._asked:
            if channel in open_channels:
                self._outbox.send(channel, ChannelFlow(True))
        self.reason = None
        self.blocked = self._told = False
        self._asked.clear()
