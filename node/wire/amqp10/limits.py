"""The limits and time-outs of a connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from node.delivery.shares import TURN_WORK
from node.wire.amqp10.values import AmqpValue

MAX_CHANNEL: Final = 65_535

STRANGER_FRAME_SIZE: Final = 8192
"""The largest frame before the peer's Open, in octets. The specification grants 512 (section 2.3.1); longer
ones have room for tokens and for long lists of properties.
"""

OFFERED: Final = ("ANONYMOUS-RELAY", "LINK_PAIR_V1_0")
"""The capabilities that Open offers: links without a target address, whose messages name theirs (the standard
AMQP Anonymous Terminus for Message Routing 1.0), and link pairs.
"""

FRAMES_ALLOWANCE: Final = 4 * 1024 * 1024
"""Octets that a connection may take up, beside one message of the largest size."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The node's part of Open and Begin, and bounds that the peers do not tell each other.

    Times are in seconds, sizes in octets.
    """

    container_id: str = "quorate"
    max_frame_size: int = 131_072
    channel_max: int = 2047
    handle_max: int = 255
    """The highest handle of a session."""
    idle_time_out: float = 60.0
    """The interval within which the peer has to send a frame; the node waits twice as long. 0: no limit."""
    mechanisms: tuple[str, ...] = ("PLAIN",)
    properties: tuple[tuple[str, AmqpValue], ...] = ()
    """The node's description of itself in Open."""
    handshake_timeout: float = 10.0
    """The time from the connection's beginning to Open."""
    refusal_pause: float = 3.0
    """The pause between a refused login and the closing of the socket."""
    close_timeout: float = 10.0
    """The time from the node's Close to the peer's Close."""
    message_size: int = 128 * 1024 * 1024
    memory_bytes: int = 64 * 1024 * 1024
    """The memory that a connection may take up. One message is always accepted."""
    stranger_bytes: int = 64 * 1024
    """The input of a peer that may wait before its connection is open."""
    turn_work: int = TURN_WORK
    """Work on a peer's input in one turn, in the unit of `WorkShare`. The rest waits for later turns."""
    refusals_per_second: int = 200
    """Refused links and publishes, and errors that end a session, that a peer may cause in a second."""
    link_credit: int = 4096
    """The credit that a sending peer has at most on a link. The peer gets new credit when half is used up."""
    incoming_window: int = 8192
    """The transfer frames that a peer may send on a session. The window opens anew when half is used up."""
    unconfirmed: int = 16_384
    """With more unsettled deliveries than these on a session its sending links get no credit."""
    transactions: int = 255
    """The transactions that a connection may have at once."""
    pending_bytes: int = 16 * 1024 * 1024
    """With more output than this waiting a connection's receivers have no credit."""
    delivery_window: int = 2000
    """The number of deliveries to one link that may wait for `take_output`."""
    first_window: int = 16
    """That number before the link's first delivery, when the size of its messages is not known."""
    delivery_window_bytes: int = 4 * 1024 * 1024
    """The octets of deliveries to one link that may wait, by the mean size of its messages."""

    @property
    def budget(self) -> int:
        """Octets of memory above which a connection is closed: `memory_bytes`, or room for one message."""
        return max(self.memory_bytes, self.message_size + FRAMES_ALLOWANCE)
