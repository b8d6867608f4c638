"""The host names that a node answers to over HTTP.

A page can have its own name lead to the node (DNS rebinding); the browser's request then still names the
page's host. A request that names an address has no name that could be rebound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import Final

LOOPBACK: Final = "localhost"


class Hosts:
    """The configured names, and the names of the members, which change."""

    def __init__(self, configured: Iterable[str], members: Callable[[], Iterable[str]]) -> None:
        self._configured = frozenset(map(_plain, configured))
        self._members = members

    def knows(self, header: str) -> bool:
        """Whether a request with this Host (RFC 9110 §7.2) is for this node. No browser leaves Host out."""
        if not header:
            return True
        name = _plain(_without_port(header))
        return (
            name == LOOPBACK
            or name.endswith("." + LOOPBACK)
            or _is_address(name)
            or name in self._configured
            or name in map(_plain, self._members())
        )


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


def _without_port(header: str) -> str:
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
