"""`/api/status`: the cluster as one node sees it, in one page."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from aiohttp import web

from cluster.admin.http.pages import Pages, Rendering, rendered, shown
from cluster.admin.http.parts import Guard, guarded

STATUS_PATH: Final = "/api/status"

STATUS_TIMEOUT_S = 5.0
"""How long `/api/status` waits for the other nodes' part."""

StatusTables = Mapping[str, Sequence[Any]]
"""JSON values. `nodes`: name, pid, amqp, http, ready, build, c_modules. `partitions`: id, owner, term,
replicas, lag. `queues`: vhost, name, owner, partition, ready, leased, scheduled, duplicates."""


class StatusPage:
    """Serves `status` to the users whom `guard` lets in."""

    paths: Final = (STATUS_PATH,)

    def __init__(
        self, status: Callable[[], StatusTables | Awaitable[StatusTables]], guard: Guard, guarded_pages: Pages
    ) -> None:
        self._status = status
        self._guard = guard
        self._pages = guarded_pages

    def attach(self, app: web.Application) -> None:
        app.router.add_get(STATUS_PATH, guarded(self._guard, self._answer))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        async def page() -> Rendering:
            status = self._status()
            if inspect.isawaitable(status):
                status = await asyncio.wait_for(status, STATUS_TIMEOUT_S)
            return await rendered(_json_lines(status))

        try:
            return await shown(request, self._pages, "status", page, "application/json")
        except TimeoutError:
            text = f"the other nodes did not answer within {STATUS_TIMEOUT_S:.0f} s"
            return web.json_response({"error": text}, status=504)


def _json_lines(status: StatusTables) -> Iterator[str]:
    """An object of lists, row by row."""
    for number, (key, rows) in enumerate(status.items()):
        yield f"{', ' if number else '{'}{json.dumps(key)}: ["
        for place, row in enumerate(rows):
            yield f"{', ' if place else ''}{json.dumps(row)}"
        yield "]"
    yield "}"
