"""The configuration's limits for clients, and the links that nodes attach to them, in the form that sessions
and the listener take.
"""

from __future__ import annotations

from ipaddress import ip_network
from typing import Final

from cluster.config.memory import memory_watermark
from cluster.config.models import ClusterConfig, NodeConfig
from node.session.client_memory import ClientMemory
from node.session.container_links import ContainerLink
from node.session.gate import Gate, GateLimits
from node.session.limits import SessionLimits

CLIENTS_PART: Final = 2
"""By default clients may have the node's memory limit divided by this number. The rest is for queues, the
journal's cache and the code."""


def gate(config: NodeConfig) -> Gate:
    """The gate for connections that have not logged in."""
    strangers = config.cluster.strangers
    return Gate(
        GateLimits(
            sockets=config.cluster.limits.connections + strangers.connections,
            strangers=strangers.connections,
            strangers_per_address=strangers.connections_per_address,
            failures=strangers.failures,
            window=strangers.window_s,
            block=strangers.block_s,
            never_blocked=tuple(map(ip_network, strangers.never_blocked)),
        )
    )


def client_memory(config: NodeConfig) -> ClientMemory:
    """The count of the memory that all clients of the node take, with its limit."""
    granted = config.cluster.limits.clients_memory_bytes
    return ClientMemory(granted or memory_watermark(config.cluster.alarms) // CLIENTS_PART)


def container_links(config: ClusterConfig) -> list[ContainerLink]:
    """The links that nodes attach to clients' containers."""
    return [
        ContainerLink(
            name, one.container, one.vhost, one.direction == "send", one.address, one.container_address
        )
        for name, one in config.links.items()
    ]


def session_limits(config: NodeConfig) -> SessionLimits:
    """The limits that the node offers each client, and those that it enforces."""
    limits = config.cluster.limits
    return SessionLimits(
        channels=limits.channels,
        frame_size=limits.frame_max_bytes,
        heartbeat=limits.heartbeat_s,
        handshake_timeout=limits.handshake_timeout_s,
        refusal_pause=config.cluster.strangers.pause_s,
        message_size=limits.message_max_bytes,
        memory=limits.connection_memory_bytes,
        transaction_size=limits.transaction_bytes,
        transaction_operations=limits.transaction_operations,
        anonymous=bool(config.cluster.anonymous_user),
        scram=config.cluster.scram,
    )
