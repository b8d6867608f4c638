"""The headers of every answer of a node's HTTP ports, which tell browsers what they may do."""

from __future__ import annotations

from typing import Final

from aiohttp import web

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing (RFC 9110 §9.2.1)."""

_ALWAYS: Final = {
    # The names and versions of the libraries stay out: only an attacker would use them.
    "Server": "quorate",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_UNLESS_SAID: Final = {
    # An answer that is no page of the console is data: a browser that shows it runs and loads nothing.
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}


async def protect(_request: web.Request, response: web.StreamResponse) -> None:
    """Give an answer its headers, before it is sent."""
    response.headers.update(_ALWAYS)
    for name, value in _UNLESS_SAID.items():
        response.headers.setdefault(name, value)


def is_from_elsewhere(request: web.Request) -> bool:
    """Whether a browser sends this request on behalf of a page of another origin.

    Browsers say so in `Sec-Fetch-Site` (to https and loopback) and in `Origin`; other clients send neither.
    """
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = request.headers.get("Origin")
    return origin is not None and origin.partition("://")[2].lower() != request.host.lower()
