"""The limits of a client's session, whatever protocol it speaks; each protocol translates them."""

from __future__ import annotations

from dataclasses import dataclass

from node.session.logins import ANONYMOUS, PLAIN_MECHANISM


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """The resources that a client may use. Times are in seconds, sizes in octets."""

    channels: int
    """Channels or sessions of a connection at a time; 0: as many as the protocol can number."""
    frame_size: int
    """The largest frame that the node takes and sends."""
    heartbeat: int
    """The interval that the node offers; 0: none."""
    handshake_timeout: float
    """From the connection's beginning until the client is in its virtual host."""
    refusal_pause: float
    """Between a login that has failed and the closing of the socket."""
    message_size: int
    """The largest body of a message."""
    memory: int
    """Octets that a connection may make the node hold; a single message is always taken."""
    transaction_size: int
    """Contents in the open transactions of a connection; a single message is always taken."""
    transaction_operations: int
    """Publishes and settlements in the open transactions of a connection; alike neighbours count as one."""
    anonymous: bool = False
    """Whether a client may log in without a name (SASL ANONYMOUS)."""
    scram: bool = False
    """Whether a client may log in by SCRAM, over protocols with such a mechanism."""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The SASL mechanisms of all protocols that a client without a certificate may log in by. PLAIN is
        the first, because some clients take the first one that they know.
        """
        return (PLAIN_MECHANISM, ANONYMOUS) if self.anonymous else (PLAIN_MECHANISM,)
