"""Liveness and readiness of the node, for load balancers and orchestrators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from aiohttp import web


class Health:
    """The paths below `/health`, which need no log-in."""

    paths: Final = ("/health/live", "/health/ready")

    def __init__(self, readiness: Callable[[], list[str]]) -> None:
        """`readiness`: the reasons why load balancers should send no clients here now; empty: ready."""
        self._readiness = readiness

    def attach(self, app: web.Application) -> None:
        app.router.add_get("/health/live", self._live)
        app.router.add_get("/health/ready", self._ready)

    async def _live(self, _request: web.Request) -> web.Response:
        return web.json_response({"live": True})

    async def _ready(self, _request: web.Request) -> web.Response:
        reasons = self._readiness()
        return web.json_response({"ready": not reasons, "reasons": reasons}, status=503 if reasons else 200)
