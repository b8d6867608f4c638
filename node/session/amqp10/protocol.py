"""AMQP 1.0, as one of the protocols that a listener offers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from node.session.amqp10.session import ConnectionSession
from node.session.amqp10.views import PROTOCOL_NAME
from node.session.client_session import ClientProtocol, ClientSession
from node.session.container_links import ContainerLink
from node.session.limits import SessionLimits
from node.session.logins import EXTERNAL
from node.session.ports import BrokerPort
from node.session.transport import Transport
from node.wire.amqp10.connection import AMQP_HEADER, SASL_HEADER, TLS_HEADER
from node.wire.amqp10.limits import MAX_CHANNEL, ConnectionLimits
from node.wire.amqp10.values import Symbol
from node.wire.scram import SCRAM_SHA_256

PROTOCOL_HEADERS: Final = (AMQP_HEADER, TLS_HEADER, SASL_HEADER)
"""The session answers a header that asks for TLS with the header that the node takes. Where the node has a
certificate the listener takes this header first.
"""


def amqp10(
    port: BrokerPort,
    limits: ConnectionLimits,
    clock: Callable[[], float],
    links: Sequence[ContainerLink] = (),
) -> ClientProtocol:
    """The protocol, whose connections keep these limits; `links` are those that the node attaches to
    containers. A client with a valid certificate may log in with it. SCRAM is offered once a user can log in
    by it: some clients try the strongest mechanism alone.
    """
    without_scram = tuple(name for name in limits.mechanisms if name != SCRAM_SHA_256)
    variants = {
        (scram, certified): replace(
            limits,
            mechanisms=(limits.mechanisms if scram else without_scram) + ((EXTERNAL,) if certified else ()),
        )
        for scram in (False, True)
        for certified in (False, True)
    }

    def begin(transport: Transport) -> ClientSession:
        offered = variants[port.offers_scram, bool(transport.certified_name)]
        return ConnectionSession(port, transport, offered, clock, links)

    return ClientProtocol(PROTOCOL_NAME, PROTOCOL_HEADERS, limits.mechanisms, begin, TLS_HEADER)


def connection_limits(limits: SessionLimits, container: str, names: Mapping[str, str]) -> ConnectionLimits:
    """The node's part of every Open; `names` are the names that the node gives its clients."""
    return ConnectionLimits(
        container_id=container,
        max_frame_size=limits.frame_size,
        channel_max=limits.channels - 1 if limits.channels else MAX_CHANNEL,
        idle_time_out=float(limits.heartbeat),
        mechanisms=(*limits.mechanisms, SCRAM_SHA_256) if limits.scram else limits.mechanisms,
        properties=tuple((str(Symbol(name)), value) for name, value in names.items()),
        handshake_timeout=limits.handshake_timeout,
        refusal_pause=limits.refusal_pause,
        message_size=limits.message_size,
        memory_bytes=limits.memory,
    )
