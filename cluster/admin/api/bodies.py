"""Bodies of requests: bounded one by one and all together, in octets and in time."""

from __future__ import annotations

import asyncio

from aiohttp import web

from cluster.admin.api.errors import ApiError, bad_request
from cluster.config.http_settings import HttpSettings


class Bodies:
    """The bodies that a node is reading now."""

    def __init__(self, limits: HttpSettings) -> None:
        self._limits = limits
        self._held = 0

    async def read(self, request: web.Request, largest: int) -> bytes:
        """The body, of at most so many octets. Raises ApiError."""
        if (request.content_length or 0) > largest:
            raise _too_large()
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.body_s):
                async for piece in request.content.iter_any():
                    self._held += len(piece)
                    body += piece
                    if len(body) > largest:
                        raise _too_large()
                    if self._held > self._limits.bodies_bytes:
                        raise ApiError(503, "service_unavailable", "too many bodies at once; try again later")
        except TimeoutError:
            raise ApiError(408, "request_timeout", "the body did not come in time") from None
        finally:
            self._held -= len(body)
        return bytes(body)


def _too_large() -> ApiError:
    return bad_request("Exceeded HTTP request body size limit")
