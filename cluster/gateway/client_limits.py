"""The configuration's limits for clients, in the form that connections and the listener take."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Final

from cluster.config.identity import server_properties
from cluster.config.memory import memory_watermark
from cluster.config.models import NodeConfig
from node.session.client_memory import ClientMemory
from node.session.gate import Gate, GateLimits
from node.wire.amqp091.limits import ConnectionLimits

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


def connection_limits(config: NodeConfig) -> ConnectionLimits:
    """The limits that the node offers each client, and those that it enforces."""
    cluster = config.cluster
    limits = cluster.limits
    return ConnectionLimits(
        channel_max=limits.channels,
        frame_max=limits.frame_max_bytes,
        heartbeat=limits.heartbeat_s,
        handshake_timeout=limits.handshake_timeout_s,
        negotiation_pause=cluster.strangers.pause_s,
        message_size=limits.message_max_bytes,
        memory_bytes=limits.connection_memory_bytes,
        transaction_bytes=limits.transaction_bytes,
        transaction_operations=limits.transaction_operations,
        server_properties=server_properties(cluster.server_product, cluster.name, config.name),
    )
