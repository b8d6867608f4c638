"""The console over HTTP: its files below `/console/`, with what browsers are to forbid them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aiohttp import web

from cluster.admin.console.assets import INDEX, Asset, read_assets

CONSOLE_PATH: Final = "/console/"

CONTENT_SECURITY_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""Only this origin's files, none of them inline; and no text that ever becomes HTML (Trusted Types)."""

HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
    # Browsers ask again each time and get 304: a page must not mix modules of two releases.
    "Cache-Control": "no-cache",
}


class Console:
    """Serves the files; every other path below `/console/` is answered with 404."""

    paths: Final = (CONSOLE_PATH,)

    def __init__(self) -> None:
        self._assets: Mapping[str, Asset] = read_assets()

    def attach(self, app: web.Application) -> None:
        app.router.add_get(CONSOLE_PATH.rstrip("/"), self._to_index)
        app.router.add_get(CONSOLE_PATH + "{path:.*}", self._answer)

    async def _to_index(self, _request: web.Request) -> web.Response:
        return web.Response(status=308, headers={"Location": CONSOLE_PATH})

    async def _answer(self, request: web.Request) -> web.Response:
        asset = self._assets.get(request.match_info["path"] or INDEX)
        if asset is None:
            return web.Response(status=404, text="404: Not Found", headers=HEADERS)
        headers = {**HEADERS, "ETag": asset.tag}
        if any(tag.value == asset.tag.strip('"') for tag in request.if_none_match or ()):
            return web.Response(status=304, headers=headers)
        return web.Response(body=asset.content, headers={**headers, "Content-Type": asset.content_type})
