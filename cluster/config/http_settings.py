"""The table `[node.http]`: what the HTTP port takes from whoever reaches it."""

from __future__ import annotations

from pydantic import Field

from cluster.config.tables import Section


class HttpSettings(Section):
    """What the HTTP ports take. Protects a node from whoever can reach it."""

    hosts: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="Names under which browsers and tools ask for this node, beside those in "
        "`cluster.nodes`, `localhost` and all that are IP addresses. A request for any other is refused "
        "(421): a page from elsewhere cannot have its own name lead to the node (DNS rebinding).",
    )
    connections: int = Field(
        default=1000, ge=1, le=1_000_000, description="Open connections; further ones are closed."
    )
    connections_per_address: int = Field(
        default=250,
        ge=1,
        le=1_000_000,
        description="The same from one address (from one /64 network with IPv6).",
    )
    header_s: float = Field(
        default=10.0,
        gt=0,
        le=3600,
        description="Seconds that a client has for a TLS handshake and for the head of a request, and that a "
        "connection stays without one.",
    )
    body_s: float = Field(
        default=60.0, gt=0, le=3600, description="Seconds that a client has for the body of a request."
    )
    bodies_bytes: int = Field(
        default=64 * 1024 * 1024,
        ge=1024 * 1024,
        le=1 << 40,
        description="Octets of bodies of requests, those of all clients together, that are kept at any time; "
        "a request beyond is refused (503). The body of one may have 32 MiB.",
    )
