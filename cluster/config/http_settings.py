"""The table `[node.http]`: limits of the HTTP ports for any client."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from cluster.config.tables import Section

STREAM_OCTETS: Final = 2 * 1024 * 1024
"""Octets that one answer which is streamed keeps at most: what is cut out of an entry that is not large, or a
slice of one, and what the connection buffers of that.
"""


class HttpSettings(Section):
    """Limits of the HTTP ports. They protect a node from any client that can reach it."""

    hosts: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="Names under which browsers and tools may ask for this node, beside those in "
        "`cluster.nodes`, `localhost` and all IP addresses. A request for any other name is refused "
        "(421), so that a page of another origin cannot have its own name lead to the node (DNS rebinding).",
    )
    connections: int = Field(
        default=1000, ge=1, le=1_000_000, description="Open connections; further ones are closed."
    )
    connections_per_address: int = Field(
        default=250,
        ge=1,
        le=1_000_000,
        description="Open connections from one address (from one /64 network with IPv6).",
    )
    header_s: float = Field(
        default=10.0,
        gt=0,
        le=3600,
        description="Seconds that a client has for a TLS handshake and for the head of a request, and that a "
        "connection without a request stays open.",
    )
    body_s: float = Field(
        default=60.0, gt=0, le=3600, description="Seconds that a client has for the body of a request."
    )
    bodies_bytes: int = Field(
        default=64 * 1024 * 1024,
        ge=1024 * 1024,
        le=1 << 40,
        description="Octets of request bodies, of all clients together, that the node keeps at any time; "
        "a request beyond is refused (503). One body may have 32 MiB.",
    )
    streamed_bytes: int = Field(
        default=32 * 1024 * 1024,
        ge=STREAM_OCTETS,
        le=1 << 40,
        description="Octets that all answers together keep at any time which read the log (docs/log-api.md). "
        "Each answer counts as 2 MiB, however large messages are; a request beyond is refused (503).",
    )
