"""The session of a client, as the listener sees it, and the protocols that a listener offers."""

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
    SessionView,
)
from node.session.traffic import Traffic
from node.session.transport import Transport


class ClientSession(Protocol):
    """A client's session in any protocol. It has no socket and no clock: see `Transport`.

    The listener calls a session from the event loop. A session raises nothing: a defect ends the session.
    """

    @property
    def user(self) -> str:
        """The user who has logged in; empty before."""

    @property
    def vhost(self) -> str:
        """The virtual host of the connection; empty before it is open."""

    @property
    def traffic(self) -> Traffic:
        """The counters of the client's publishes."""

    @property
    def held(self) -> int:
        """Octets of memory that the client takes up, without output that the socket has taken."""

    @property
    def held_output(self) -> int:
        """The part of `held` that an orderly close would still have to write."""

    @property
    def held_back(self) -> bool:
        """Whether the session does not read from the client because a link or the catalog cannot keep up."""

    @property
    def has_output(self) -> bool:
        """Whether output is left that `take_output` has not taken."""

    @property
    def has_input(self) -> bool:
        """Whether input waits for a turn: earlier turns have left it."""

    @property
    def channels_opened(self) -> int:
        """The number of channels opened since the connection began."""

    @property
    def channel_count(self) -> int:
        """The number of channels that are open or closing."""

    @property
    def last_words(self) -> bytes:
        """The octets that the listener writes to an open connection when a defect has ended the session."""

    def receive(self, data: bytes) -> None:
        """Octets from the client. The first 8 are the protocol's header."""

    def take_output(self, writes: bool = True) -> bytes:
        """Remove and return the octets to write now; the listener calls it once a turn for a session that
        has called `Transport.wanted`. With `writes` False the socket takes none: the session only goes on
        with input that earlier turns have left.
        """

    def tick(self) -> None:
        """Run the timers that are due; the handshake's time-out is one. Called a few times a second."""

    def alarm(self, reason: str | None) -> None:
        """Hold publishes back for this reason; None: let them go on."""

    def reading(self, active: bool) -> None:
        """The listener reads from the socket, or has stopped: a silent client must not time out then."""

    def writing(self, active: bool) -> None:
        """True: the socket's buffer has drained. False: it is above its high-water mark, so consumers get no
        credit.
        """

    def force_close(self, reason: str) -> None:
        """Close the connection, with a reason for the client."""

    def exhausted(self, reason: str) -> None:
        """Close the connection, because the client takes up too much of the node's memory."""

    def failed(self, error: Exception) -> None:
        """A defect ends the session: its unsettled deliveries go back to their queues."""

    def lost(self) -> None:
        """The socket is closed: the session ends, and its unsettled deliveries go back to their queues."""

    # For the administration, which takes views of channels and consumers one by one.

    @property
    def is_open(self) -> bool:
        """Whether the client is in its virtual host, and its connection is not closing."""

    def view(self) -> ConnectionView: ...

    def channel_views(self) -> Iterator[ChannelView]: ...

    def channel_traffic(self) -> Iterator[tuple[int, ChannelTraffic]]:
        """The channels' numbers, and their counters alone."""

    def consumer_views(self) -> Iterator[ConsumerView]: ...

    def session_views(self) -> Iterator[SessionView]:
        """The sessions of AMQP 1.0, with their links; none for other protocols."""

    def channel_totals(self) -> ChannelTotals:
        """Sums over the channels, without making a view of each."""


@dataclass(frozen=True, slots=True)
class ClientProtocol:
    """A protocol of clients: the headers of 8 octets that ask for it, and the maker of its sessions."""

    name: str
    headers: tuple[bytes, ...]
    mechanisms: tuple[str, ...]
    """The SASL mechanisms that clients without a certificate may log in by."""
    begin: Callable[[Transport], ClientSession]
    tls_header: bytes = b""
    """The header, among `headers`, that asks for TLS on the same connection; empty where there is none."""
