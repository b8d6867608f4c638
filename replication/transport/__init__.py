"""Batches of messages between nodes, over the protocol of ZeroMQ."""

from replication.transport.envelope import MalformedEnvelopeError
from replication.transport.peer import Peer
from replication.transport.peers import ListenError, PeerTransport, TransportConfig, UndecodableError
from replication.transport.zmtp import CurveKeys, InvalidKeyError, public_key

__all__ = [
    "CurveKeys",
    "InvalidKeyError",
    "ListenError",
    "MalformedEnvelopeError",
    "Peer",
    "PeerTransport",
    "TransportConfig",
    "UndecodableError",
    "public_key",
]
