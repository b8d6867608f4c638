"""Answers that are made while their clients read them: bounded in number, and each in the time that its
client takes to read.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Final

from aiohttp import web

from cluster.admin.api.errors import ApiError
from cluster.admin.api.responses import Streamed
from cluster.config.http_settings import HttpSettings

MOST_STREAMS: Final = 16
"""Streamed answers of a node at a time: each keeps some pieces in memory."""


class StreamedAnswers:
    """The answers that a node is streaming now."""

    def __init__(self, limits: HttpSettings) -> None:
        self._limits = limits
        self._open = 0

    async def write(self, request: web.Request, value: Streamed) -> web.StreamResponse:
        """Write all pieces. A client that does not read a piece within the time for a body loses the
        connection. Raises ApiError, and the exceptions of the first piece.
        """
        if self._open >= MOST_STREAMS:
            raise ApiError(503, "service_unavailable", "too many streamed answers at once: ask again")
        self._open += 1
        try:
            async with aclosing(value.pieces) as pieces:
                first = await anext(pieces, b"")
                response = web.StreamResponse(headers={"Content-Type": value.content_type})
                await response.prepare(request)
                if request.method != "HEAD":
                    await self._put(request, response, first)
                    async for piece in pieces:
                        await self._put(request, response, piece)
                await response.write_eof()
                return response
        finally:
            self._open -= 1

    async def _put(self, request: web.Request, response: web.StreamResponse, piece: bytes) -> None:
        try:
            async with asyncio.timeout(self._limits.body_s):
                await response.write(piece)
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError("the client does not read") from None
