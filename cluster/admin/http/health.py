"""Whether the node lives, and whether clients should be sent to it: for load balancers and orchestrators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from aiohttp import web


class Health:
    """The paths below `/health`, which everybody may see."""

    paths: Final = ("/health/live", "/health/ready")

    def __init__(self, readiness: Callable[[], list[str]]) -> None:
        """`readiness` tells why clients should not be sent here now; nothing when the node is ready."""
        self._readiness = readiness

    def attach(self, app: web.Application) -> None:
        app.router.add_get("/health/live", self._live)
        app.router.add_get("/health/ready", self._ready)

    async def _live(self, _request: web.Request) -> web.Response:
        return web.json_response({"live": True})

    async def _ready(self, _request: web.Request) -> web.Response:
        reasons = self._readiness()
        return web.json_response({"ready": not reasons, "reasons": reasons}, status=503 if reasons else 200)
