"""Metrics over HTTP. Each request reads all counters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Final, Protocol

from aiohttp import web
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import generate_latest

from cluster.admin.http.pages import Pages, Rendering, rendered, shown
from cluster.admin.http.parts import Guard, guarded
from cluster.admin.metrics.exposition import CONTENT_TYPE, Piece, lines


class MetricsView(Protocol):
    """The metrics of a node. None among the metrics: the work may rest here."""

    def metrics(self) -> Iterable[Piece]:
        """The current value of every metric of the node."""

    def queue_metrics(self) -> Iterable[Piece]:
        """The metrics of each of the node's queues, of which there may be very many."""

    def object_metrics(self) -> Iterable[Piece]:
        """Of the node and each of its queues, channels and connections, as RabbitMQ names them."""

    def detailed_metrics(self, families: Sequence[str], vhosts: Sequence[str]) -> Iterable[Piece]:
        """The metrics of these families of RabbitMQ, of queues and clients in `vhosts` (none: in all)."""


class MetricsServer:
    """The paths below `/metrics`. A client that `guard` refuses sees only the metrics of the whole node."""

    paths: Final = ("/metrics", "/metrics/queues", "/metrics/per-object", "/metrics/detailed?family=…")

    def __init__(self, view: MetricsView, guard: Guard, guarded_pages: Pages) -> None:
        self._view = view
        self._guard = guard
        self._open_pages = Pages()
        self._guarded_pages = guarded_pages
        self._process_registry = CollectorRegistry()
        ProcessCollector(registry=self._process_registry)
        PlatformCollector(registry=self._process_registry)
        GCCollector(registry=self._process_registry)

    def attach(self, app: web.Application) -> None:
        app.router.add_get("/metrics", self._metrics)
        for path, handler in (
            ("/metrics/queues", self._queue_metrics),
            ("/metrics/per-object", self._object_metrics),
            ("/metrics/detailed", self._detailed),
        ):
            app.router.add_get(path, guarded(self._guard, handler))

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        def page() -> Awaitable[Rendering]:
            of_process = generate_latest(self._process_registry).decode()
            return rendered(chain(lines(self._view.metrics()), (of_process,)))

        return await shown(request, self._open_pages, "metrics", page, CONTENT_TYPE)

    async def _queue_metrics(self, request: web.Request) -> web.StreamResponse:
        return await self._metrics_of(request, "queues", self._view.queue_metrics)

    async def _object_metrics(self, request: web.Request) -> web.StreamResponse:
        return await self._metrics_of(request, "objects", self._view.object_metrics)

    async def _detailed(self, request: web.Request) -> web.StreamResponse:
        families, vhosts = (tuple(sorted({*request.query.getall(name, [])})) for name in ("family", "vhost"))
        read = partial(self._view.detailed_metrics, families, vhosts)
        return await self._metrics_of(request, ("detailed", families, vhosts), read)

    async def _metrics_of(
        self, request: web.Request, key: Hashable, read: Callable[[], Iterable[Piece]]
    ) -> web.StreamResponse:
        return await shown(request, self._guarded_pages, key, lambda: rendered(lines(read())), CONTENT_TYPE)
