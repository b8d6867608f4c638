"""AMQP 0-9-1, as one of the protocols that a listener offers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from node.session.amqp091.amqplain import AMQPLAIN
from node.session.amqp091.session import Session
from node.session.amqp091.views import PROTOCOL_NAME
from node.session.client_session import ClientProtocol, ClientSession
from node.session.limits import SessionLimits
from node.session.logins import EXTERNAL
from node.session.ports import BrokerPort
from node.session.transport import Transport
from node.wire.amqp091.codec import ACCEPTED_HEADERS
from node.wire.amqp091.limits import ConnectionLimits


def amqp091(port: BrokerPort, limits: ConnectionLimits, clock: Callable[[], float]) -> ClientProtocol:
    """The protocol, whose sessions keep these limits. A client with a valid certificate may log in
    with it.
    """
    certified = replace(limits, mechanisms=(*limits.mechanisms, EXTERNAL))

    def begin(transport: Transport) -> ClientSession:
        return Session(port, transport, certified if transport.certified_name else limits, clock)

    return ClientProtocol(PROTOCOL_NAME, ACCEPTED_HEADERS, limits.mechanisms, begin)


def connection_limits(limits: SessionLimits, properties: Mapping[str, str]) -> ConnectionLimits:
    """The node's side of every negotiation; `properties` are the names that the node gives its clients."""
    return ConnectionLimits(
        channel_max=limits.channels,
        frame_max=limits.frame_size,
        heartbeat=limits.heartbeat,
        mechanisms=(*limits.mechanisms, AMQPLAIN),
        handshake_timeout=limits.handshake_timeout,
        negotiation_pause=limits.refusal_pause,
        message_size=limits.message_size,
        memory_bytes=limits.memory,
        transaction_bytes=limits.transaction_size,
        transaction_operations=limits.transaction_operations,
        server_properties=properties,
    )
