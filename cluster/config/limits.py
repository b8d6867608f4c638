"""The table of the configuration that protects a node from its clients."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from cluster.config.tables import Section

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB


class ClientLimits(Section):
    """Limits for clients. They protect a node from its clients."""

    connections: int = Field(
        default=10_000, ge=1, le=1_000_000, description="Open connections to one node; more are refused."
    )
    channels: int = Field(default=2047, ge=1, le=65535, description="Channels of one connection.")
    frame_max_bytes: int = Field(
        default=131_072, ge=4096, le=64 * MIB, description="Largest AMQP frame offered to clients, in octets."
    )
    message_max_bytes: int = Field(
        default=128 * MIB, ge=KIB, le=512 * MIB, description="Largest message body accepted, in octets."
    )
    transaction_bytes: int = Field(
        default=64 * MIB,
        ge=MIB,
        le=256 * MIB,
        description="Octets of messages in the open transactions of one connection; beyond, the connection "
        "is closed. A transaction of one message may have any size.",
    )
    transaction_operations: int = Field(
        default=250_000,
        ge=1000,
        le=10_000_000,
        description="Publishes and acknowledgements in the open "
        "transactions of one connection; beyond, the connection is closed. Publishes in a row that differ "
        "only in content count as one.",
    )
    connection_memory_bytes: int = Field(
        default=64 * MIB,
        ge=MIB,
        le=64 * GIB,
        description="Octets that one connection may make a node hold: "
        "messages that have not come completely, frames and answers that wait, transactions, channels and "
        "consumers. Beyond, the connection is closed (506). There always is room for one message.",
    )
    clients_memory_bytes: int = Field(
        default=0,
        ge=0,
        le=1024 * GIB,
        description="Octets that all connections together may make a node "
        "hold, with the output that their sockets have not sent; beyond, the connection that holds most is "
        "closed. 0: half of the memory that a node may take before its memory alarm goes off.",
    )
    handshake_timeout_s: float = Field(
        default=10.0,
        gt=0,
        le=600,
        description="Seconds that a client has from connecting to an opened connection, and before that for "
        "a TLS handshake.",
    )
    heartbeat_s: int = Field(
        default=60,
        ge=0,
        le=3600,
        description="Heartbeat interval suggested to clients, in seconds; 0 turns it off.",
    )
