"""Which names a node answers to over HTTP.

A browser that a page sends to its own name, which by now leads to the node, still says the page's name (DNS
rebinding). Where a request names an address there is no name that could have been led elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import Final

LOOPBACK: Final = "localhost"


class Hosts:
    """The names that are configured, and those of members, which change."""

    def __init__(self, configured: Iterable[str], members: Callable[[], Iterable[str]]) -> None:
        self._configured = frozenset(map(_plain, configured))
        self._members = members

    def knows(self, header: str) -> bool:
        """Whether a request with this Host (RFC 9110 §7.2) is for this node; one without is of no browser."""
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
