"""The parts of an HTTP port, each of which serves some paths, and the guard of those paths."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from aiohttp import web
from aiohttp.typedefs import Handler

Guard = Callable[[web.Request], Awaitable[web.Response | None]]
"""Answers the request of a user who may not monitor; None: the request goes on."""


class HttpPart(Protocol):
    """Paths that a node serves over HTTP."""

    @property
    def paths(self) -> Sequence[str]:
        """The paths that the list at `/` names."""

    def attach(self, app: web.Application) -> None:
        """Add the routes."""


def guarded(guard: Guard, handler: Handler) -> Handler:
    """The handler, behind the guard."""

    async def answer(request: web.Request) -> web.StreamResponse:
        refusal = await guard(request)
        return await handler(request) if refusal is None else refusal

    return answer
