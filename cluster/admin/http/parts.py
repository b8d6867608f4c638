"""What an HTTP port is made of: parts that each serve some paths, and who may see them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from aiohttp import web
from aiohttp.typedefs import Handler

Guard = Callable[[web.Request], Awaitable[web.Response | None]]
"""Answers a request of who may not see what belongs to all users; None: let it in."""


class Part(Protocol):
    """Something that a node serves over HTTP."""

    @property
    def paths(self) -> Sequence[str]:
        """What the list at `/` names of it."""

    def attach(self, app: web.Application) -> None:
        """Add the routes."""


def guarded(guard: Guard, handler: Handler) -> Handler:
    """The handler, for those whom the guard lets in."""

    async def answer(request: web.Request) -> web.StreamResponse:
        refusal = await guard(request)
        return await handler(request) if refusal is None else refusal

    return answer
