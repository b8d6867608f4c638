"""The limits and time-outs of a connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from node.delivery.shares import TURN_WORK
from node.wire.amqp091.fields import FieldValue

SMALLEST_FRAME_MAX: Final = 4096
"""frame-min-size of the specification, below which no peer may negotiate.

The tables' 8192 is RabbitMQ's: frames before Tune may have so many octets, so that tokens fit into a
response.
"""

MAX_CHANNEL: Final = 65_535

FRAMES_ALLOWANCE: Final = 4 * 1024 * 1024
"""Octets that a connection may take up, beside the body of one message of the largest size."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The server's proposals for the negotiation, and bounds that are not negotiated.

    Times are in seconds, sizes in octets.
    """

    channel_max: int = 2047
    frame_max: int = 131_072
    heartbeat: int = 60
    mechanisms: tuple[str, ...] = ("PLAIN", "AMQPLAIN")
    server_properties: Mapping[str, FieldValue] = field(default_factory=dict)
    handshake_timeout: float = 10.0
    """The time from the connection's beginning to Open-Ok."""
    negotiation_pause: float = 3.0
    """The pause between a failed negotiation and the closing of the socket (§4.10.2)."""
    close_timeout: float = 10.0
    """The time from the server's Close to the client's Close-Ok."""
    message_size: int = 128 * 1024 * 1024
    """The largest body of a message."""
    memory_bytes: int = 64 * 1024 * 1024
    """The memory that a connection may take up (`ConnectionLifecycle.held`). One message is always
    accepted.
    """
    stranger_bytes: int = 64 * 1024
    """The input of a client that may wait before its connection is open."""
    unread_bytes: int = 4 * 1024 * 1024
    """With more unread answers than these a client's further requests and publishes wait."""
    pending_bytes: int = 16 * 1024 * 1024
    """With more output than this waiting a connection's consumers have no credit."""
    transaction_bytes: int = 64 * 1024 * 1024
    """The contents in the open transactions of a connection. One message is always accepted."""
    transaction_operations: int = 250_000
    """Publishes and settlements in the open transactions of a connection. Runs of like ones count as one."""
    turn_work: int = TURN_WORK
    """Work on a client's input in one turn, in the unit of `WorkShare`. The rest waits for later turns."""
    wide_values_per_second: int = 20_000
    """Header values that a client may publish in a second, beyond the first 128 of each message."""
    refusals_per_second: int = 200
    """Errors of channels that a client may cause in a second."""
    parked_bytes: int = 1024 * 1024
    """With more parked frames than these the session stops reading the socket (`Connection.paused`)."""
    delivery_window: int = 2000
    """The number of deliveries to one consumer that may wait for `take_output`."""
    first_window: int = 16
    """That number before the consumer's first delivery, when the size of its messages is not known."""
    delivery_window_bytes: int = 4 * 1024 * 1024
    """The octets of deliveries to one consumer that may wait, by the mean size of its messages."""

    @property
    def budget(self) -> int:
        """Octets of memory above which a connection is closed: `memory_bytes`, or room for one message."""
        return max(self.memory_bytes, self.message_size + FRAMES_ALLOWANCE)
