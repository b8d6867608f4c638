"""A node's HTTP port: health, metrics and status.

Everything is read when it is asked for: the hot path only counts in plain integers.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from cluster.config.addresses import Address
from cluster.process.logs import REQUEST
from cluster.watch.http_headers import protect
from cluster.watch.metric import Metric
from replication.transport import ListenError

LINGERING_S = 2.0
"""How long the rest of a request that was refused is read, so that its client sees the answer."""

STATUS_TIMEOUT_S = 5.0
"""How long `/api/status` waits for the other nodes' part."""


PATHS = (
    "/console/", "/health/live", "/health/ready",
    "/metrics", "/metrics/queues", "/metrics/per-object", "/metrics/detailed?family=…",
    "/api", "/api/status",
)  # fmt: skip


REQUEST_ID: Final = "X-Request-Id"

_ACCEPTABLE_ID: Final = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")


@web.middleware
async def _identified(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give the request the id that its client or a proxy chose, or one of ours: for logs and the answer."""
    given = request.headers.get(REQUEST_ID, "")
    number = given if _ACCEPTABLE_ID.fullmatch(given) else secrets.token_hex(8)
    token = REQUEST.set(number)
    try:
        answer = await handler(request)
    except web.HTTPException as refusal:
        refusal.headers[REQUEST_ID] = number
        raise
    finally:
        REQUEST.reset(token)
    if not answer.prepared:
        answer.headers[REQUEST_ID] = number
    return answer


class NodeView(Protocol):
    """What the HTTP server shows of a node."""

    def status(self) -> Mapping[str, Any] | Awaitable[Mapping[str, Any]]:
        """Cluster as this node sees it, as JSON values.

        `nodes`: name, pid, amqp, http, ready. `partitions`: id, owner, term, replicas, lag.
        `queues`: vhost, name, owner, partition, ready, leased, scheduled, duplicates.
        """

    def readiness(self) -> list[str]:
        """Why clients should not be sent here now; empty when the node is ready."""


class MetricsView(Protocol):
    """What the HTTP server shows of a node to Prometheus."""

    def metrics(self) -> Iterable[Metric]:
        """The current value of every metric of the node."""

    def queue_metrics(self) -> Iterable[Metric]:
        """The same of each of its queues, of which there may be very many."""

    def object_metrics(self) -> Iterable[Metric]:
        """Of the node and each of its queues, channels and connections, as RabbitMQ names them."""

    def detailed_metrics(self, families: Sequence[str], vhosts: Sequence[str]) -> Iterable[Metric]:
        """Those of RabbitMQ's families of metrics that are asked for; no virtual host: of all of them."""


def _blames_the_node(record: logging.LogRecord) -> bool:
    """What a client sends that is no HTTP, or stops sending, is no error of this node's."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | ConnectionError)


Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily


class _ViewCollector(Collector):
    def __init__(self, read: Callable[[], Iterable[Metric]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Family]:
        for metric in self._read():
            if metric.kind == "histogram":
                buckets = [(labels["le"], value) for labels, value in metric.samples]
                yield HistogramMetricFamily(metric.name, metric.help, buckets=buckets, sum_value=metric.total)
                continue
            labels = list(metric.samples[0][0]) if metric.samples else []
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = kind(metric.name, metric.help, labels=labels)
            for values, value in metric.samples:
                family.add_metric([values[label] for label in labels], value)
            yield family

    def describe(self) -> list[Family]:
        """Nothing: without this the registry would collect once before the node runs."""
        return []


def _registry(read: Callable[[], Iterable[Metric]]) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(_ViewCollector(read))
    return registry


class HttpServer:
    """Serves `PATHS` of one node.

    `parts` add more to what is served.
    """

    def __init__(
        self,
        view: NodeView,
        metrics: MetricsView,
        address: Address,
        parts: Iterable[Callable[[web.Application], None]] = (),
    ) -> None:
        self._view = view
        self._parts = tuple(parts)
        self._address = address
        self._runner: web.AppRunner | None = None
        self._metrics_view = metrics
        self._registry = _registry(metrics.metrics)
        self._queue_registry = _registry(metrics.queue_metrics)
        self._object_registry = _registry(metrics.object_metrics)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    async def start(self) -> None:
        """Listen; raises `ListenError`."""
        app = web.Application(client_max_size=4096, middlewares=[_identified])
        app.add_routes(
            [
                web.get("/", self._index),
                web.get("/health/live", self._live),
                web.get("/health/ready", self._ready),
                web.get("/metrics", partial(self._metrics, self._registry)),
                web.get("/metrics/queues", partial(self._metrics, self._queue_registry)),
                web.get("/metrics/per-object", partial(self._metrics, self._object_registry)),
                web.get("/metrics/detailed", self._detailed),
                web.get("/api/status", self._status),
            ]
        )
        for attach in self._parts:
            attach(app)
        app.on_response_prepare.append(protect)
        logger = logging.getLogger("quorate.http")
        logger.addFilter(_blames_the_node)
        runner = web.AppRunner(
            app, access_log=None, handle_signals=False, shutdown_timeout=1.0, lingering_time=LINGERING_S,
            logger=logger,
        )  # fmt: skip
        await runner.setup()
        try:
            await web.TCPSite(runner, self._address.host, self._address.port).start()
        except OSError as error:
            await runner.cleanup()
            raise ListenError(
                f"cannot listen for HTTP on {self._address}: {error.strerror or error}; "
                "stop what uses the port or set node.listen.http to another address"
            ) from error
        self._runner = runner

    async def stop(self) -> None:
        """Stop listening and close connections, within about a second."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _index(self, request: web.Request) -> web.Response:
        """The list of what is here; people are sent on to the console."""
        if "text/html" in request.headers.get("Accept", ""):
            return web.Response(status=302, headers={"Location": "/console/"})
        return web.Response(text="".join(f"{path}\n" for path in PATHS))

    async def _live(self, _request: web.Request) -> web.Response:
        return web.json_response({"live": True})

    async def _ready(self, _request: web.Request) -> web.Response:
        reasons = self._view.readiness()
        return web.json_response({"ready": not reasons, "reasons": reasons}, status=503 if reasons else 200)

    async def _metrics(self, registry: CollectorRegistry, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(registry), headers={"Content-Type": content_type})

    async def _detailed(self, request: web.Request) -> web.Response:
        families, vhosts = (request.query.getall(name, []) for name in ("family", "vhost"))
        view = self._metrics_view
        return await self._metrics(_registry(lambda: view.detailed_metrics(families, vhosts)), request)

    async def _status(self, _request: web.Request) -> web.Response:
        status = self._view.status()
        if inspect.isawaitable(status):
            try:
                status = await asyncio.wait_for(status, STATUS_TIMEOUT_S)
            except TimeoutError:
                text = f"the other nodes did not answer within {STATUS_TIMEOUT_S:.0f} s"
                return web.json_response({"error": text}, status=504)
        return web.json_response(status)
