"""The session of a client, as the listener sees it, and the protocols that it is chosen from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from node.session.client_views import (
    ChannelTotals,
    ChannelTraffic,
    ChannelView,
    ConnectionView,
    ConsumerView,
)
from node.session.traffic import Traffic
from node.session.transport import Transport


class ClientSession(Protocol):
    """A client's session, whatever it speaks. No socket and no clock: see `Transport`."""

    @property
    def user(self) -> str: ...

    @property
    def vhost(self) -> str: ...

    @property
    def traffic(self) -> Traffic: ...

    @property
    def held(self) -> int:
        """Octets that the client makes the node hold, those that the socket has taken excepted."""

    @property
    def held_output(self) -> int:
        """Of these, the octets that closing the connection in good order would still have to write."""

    @property
    def held_back(self) -> bool:
        """Whether the client is not read from because it publishes faster than can be taken."""

    @property
    def has_output(self) -> bool:
        """Whether `take_output` has left something."""

    @property
    def channels_opened(self) -> int:
        """Channels since the connection began."""

    @property
    def channel_count(self) -> int:
        """Channels that are open or closing."""

    @property
    def last_words(self) -> bytes:
        """What an open connection is told when a defect ends its session."""

    def receive(self, data: bytes) -> None:
        """Octets from the client; the protocol's header comes first."""

    def take_output(self, writes: bool = True) -> bytes:
        """What to write now; nothing where the socket takes no more."""

    def tick(self) -> None:
        """Run timers that are due; the handshake's time-out is one."""

    def alarm(self, reason: str | None) -> None:
        """Hold publishers back, or with None let them go on."""

    def reading(self, active: bool) -> None:
        """The socket is read from, or not."""

    def writing(self, active: bool) -> None:
        """The socket's buffer has drained, or is above its high-water mark: no more is to be delivered."""

    def force_close(self, reason: str) -> None:
        """Close the connection from this side, and tell the client why."""

    def exhausted(self, reason: str) -> None:
        """Close the connection: the client makes the node hold too much."""

    def failed(self, error: Exception) -> None:
        """A defect was met: the session ends, and gives back what it had."""

    def lost(self) -> None:
        """The socket is gone."""

    # For an administration. What is said of channels and consumers is made one by one, as it is taken.

    @property
    def is_open(self) -> bool:
        """Whether the client is in its virtual host, and its connection is not closing."""

    def view(self) -> ConnectionView: ...

    def channel_views(self) -> Iterator[ChannelView]: ...

    def channel_traffic(self) -> Iterator[tuple[int, ChannelTraffic]]:
        """The channels' numbers, and their counters alone."""

    def consumer_views(self) -> Iterator[ConsumerView]: ...

    def channel_totals(self) -> ChannelTotals:
        """Costs no view of a channel."""


@dataclass(frozen=True, slots=True)
class ClientProtocol:
    """A protocol of clients: the headers of 8 octets that ask for it, and how its sessions begin."""

    name: str
    headers: tuple[bytes, ...]
    begin: Callable[[Transport], ClientSession]
