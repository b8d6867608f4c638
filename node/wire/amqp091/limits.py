"""The limits of a connection, and the time-outs of its negotiation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from node.wire.amqp091.fields import FieldValue

SMALLEST_FRAME_MAX: Final = 4096
"""frame-min-size of the specification: no peer may negotiate less.

The tables' 8192 is RabbitMQ's; it is what may come before Tune, so that tokens fit into a response.
"""

MAX_CHANNEL: Final = 65_535

FRAMES_ALLOWANCE: Final = 4 * 1024 * 1024
"""Octets that a message of the largest size takes besides its body, and that a connection holds meanwhile."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The server's side of the negotiation, and bounds that are never negotiated.

    Times are in seconds, sizes in octets.
    """

    channel_max: int = 2047
    frame_max: int = 131_072
    heartbeat: int = 60
    mechanisms: tuple[str, ...] = ("PLAIN", "AMQPLAIN")
    server_properties: Mapping[str, FieldValue] = field(default_factory=dict)
    handshake_timeout: float = 10.0
    """From the connection's beginning to Open-Ok."""
    negotiation_pause: float = 3.0
    """Between a failed negotiation and the closing of the socket (§4.10.2)."""
    close_timeout: float = 10.0
    """From Close to Close-Ok."""
    message_size: int = 128 * 1024 * 1024
    """Largest body of a message."""
    memory_bytes: int = 64 * 1024 * 1024
    """Octets that a connection may make the node hold (`memory`); a single message is always taken."""
    stranger_bytes: int = 64 * 1024
    """Octets of a client that may wait before its connection is open."""
    unread_bytes: int = 4 * 1024 * 1024
    """Answers that a client has not read, from which on no more requests and publishes of it are taken."""
    pending_bytes: int = 16 * 1024 * 1024
    """Output of a connection, from which on its consumers have no credit."""
    transaction_bytes: int = 64 * 1024 * 1024
    """Contents in the open transactions of a connection; a single message is always taken."""
    transaction_operations: int = 250_000
    """Publishes and settlements in the open transactions of a connection; alike neighbours count as one."""
    turn_work: int = 512 * 1024
    """Work on a client's input in one turn, in the unit of `work`; the rest is for later turns."""
    wide_values_per_second: int = 100_000
    """Header values that a client may publish in a second, beyond the first 64 of each message."""
    parked_bytes: int = 1024 * 1024
    """Frames that wait for the answer to a request; beyond it the connection is `paused`."""
    delivery_window: int = 2000
    """Deliveries of one consumer that may wait for `take_output`."""
    first_window: int = 16
    """The same before the consumer has had any: its messages may be of any size."""
    delivery_window_bytes: int = 4 * 1024 * 1024
    """The same in octets, judged by the mean size of the consumer's messages."""

    @property
    def budget(self) -> int:
        """Octets beyond which a connection is closed: there is always room for one message."""
        return max(self.memory_bytes, self.message_size + FRAMES_ALLOWANCE)
