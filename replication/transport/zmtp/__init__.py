"""ZMTP 3.1 with CURVE, as state machines: octets in, frames and octets to send out. No sockets, no clocks."""

from replication.transport.zmtp.connection import HEARTBEAT_S, Octets, ZmtpConnection
from replication.transport.zmtp.curve import (
    ClientMechanism,
    CurveKeys,
    InvalidKeyError,
    ServerMechanism,
    public_key,
)
from replication.transport.zmtp.frames import ProtocolError
from replication.transport.zmtp.mechanism import Mechanism
from replication.transport.zmtp.scratch import Scratch

__all__ = [
    "HEARTBEAT_S",
    "ClientMechanism",
    "CurveKeys",
    "InvalidKeyError",
    "Mechanism",
    "Octets",
    "ProtocolError",
    "Scratch",
    "ServerMechanism",
    "ZmtpConnection",
    "public_key",
]
