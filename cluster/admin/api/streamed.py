"""Answers that are made while their clients read them: bounded in number, so that the memory for all of them
is bounded, and each in the time that its client takes to read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

from aiohttp import web

from cluster.admin.api.errors import ApiError
from cluster.admin.api.responses import CutShortError, Streamed
from cluster.config.http_settings import STREAM_OCTETS, HttpSettings

LEAST_PACE: Final = 16 * 1024
"""Octets a second that a client is to read, in the mean, beyond the time for a body."""

WRITTEN_OCTETS: Final = 256 * 1024
"""Octets of a piece that the connection buffers at a time."""


class StreamedAnswers:
    """The answers that a node is streaming now."""

    def __init__(self, limits: HttpSettings) -> None:
        self._limits = limits
        self._most = limits.streamed_bytes // STREAM_OCTETS
        self._open = 0

    async def write(self, request: web.Request, value: Streamed) -> web.StreamResponse:
        """Write all pieces. A client that does not read a piece within the time for a body, or reads less
        than `LEAST_PACE`, loses the connection. Raises ApiError, and the exceptions of the first piece.
        """
        if self._open >= self._most:
            raise ApiError(503, "service_unavailable", "too many streamed answers at once: ask again")
        self._open += 1
        try:
            async with aclosing(value.pieces) as pieces:
                first = await anext(pieces, b"")
                response = web.StreamResponse(headers={"Content-Type": value.content_type})
                await response.prepare(request)
                if request.method != "HEAD":
                    pace = ClientPace(self._limits.body_s, asyncio.get_running_loop().time)
                    await pace.write(response, first)
                    del first
                    async for piece in pieces:
                        await pace.write(response, piece)
                await response.write_eof()
                return response
        except (CutShortError, TimeoutError) as error:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError("the answer is cut short") from error
        finally:
            self._open -= 1


class ClientPace:
    """How fast a client reads: the time that writing to the client has taken, and the octets."""

    def __init__(self, piece_s: float, clock: Callable[[], float]) -> None:
        """`piece_s`: seconds for each piece, and for all of them beyond `LEAST_PACE`."""
        self._piece_s, self._clock = piece_s, clock
        self._waited, self._octets = 0.0, 0

    async def write(self, response: web.StreamResponse, piece: bytes) -> None:
        """Raises TimeoutError."""
        self._octets += len(piece)
        if self.left <= 0:
            raise TimeoutError
        began = self._clock()
        octets = memoryview(piece)
        async with asyncio.timeout(self.left):
            for start in range(0, len(piece), WRITTEN_OCTETS):
                await response.write(octets[start : start + WRITTEN_OCTETS])
        self._waited += self._clock() - began

    @property
    def left(self) -> float:
        """Seconds that the client has for the piece that is written now."""
        return min(self._piece_s, self._piece_s + self._octets / LEAST_PACE - self._waited)
