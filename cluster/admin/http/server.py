"""A node's HTTP port: health, metrics and status.

Everything is read when it is asked for: the hot path only counts in plain integers.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import math
import re
import secrets
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Final, Protocol

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import generate_latest

from cluster.admin.http.connections import Doors
from cluster.admin.http.headers import protect
from cluster.admin.http.hosts import Hosts
from cluster.admin.metrics.exposition import CONTENT_TYPE, BusyError, Pages, Piece, Rendering, lines, rendered
from cluster.config.addresses import Address
from cluster.config.http_settings import HttpSettings
from cluster.log.event_log import REQUEST
from node.session.tls_port import BACKLOG, ServerIdentity, TlsPort
from replication.transport import ListenError

LINGERING_S = 2.0
"""How long the rest of a request that was refused is read, so that its client sees the answer."""

MAX_HEADERS: Final = 64
"""Lines in the head of a request; none of them may have more than 8 KiB."""

STATUS_TIMEOUT_S = 5.0
"""How long `/api/status` waits for the other nodes' part."""


PATHS = (
    "/console/", "/health/live", "/health/ready",
    "/metrics", "/metrics/queues", "/metrics/per-object", "/metrics/detailed?family=…",
    "/api", "/api/status",
)  # fmt: skip


REQUEST_ID: Final = "X-Request-Id"
AGE_HEADER: Final = "Age-Ms"
"""Milliseconds since a page's rendering began: whether the page may be older than a change."""
_NUMBER: Final = web.RequestKey("number", str)

_ACCEPTABLE_ID: Final = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")


@web.middleware
async def _identified(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give the request the id that its client or a proxy chose, or one of ours: for logs and the answer."""
    given = request.headers.get(REQUEST_ID, "")
    number = given if _ACCEPTABLE_ID.fullmatch(given) else secrets.token_hex(8)
    request[_NUMBER] = number
    token = REQUEST.set(number)
    try:
        return await handler(request)
    finally:
        REQUEST.reset(token)


async def _answer_with_id(request: web.Request, response: web.StreamResponse) -> None:
    """Name the request in its answer, before that is sent."""
    if _NUMBER in request:
        response.headers[REQUEST_ID] = request[_NUMBER]


class NodeView(Protocol):
    """What the HTTP server shows of a node."""

    def status(self) -> Mapping[str, Sequence[Any]] | Awaitable[Mapping[str, Sequence[Any]]]:
        """Cluster as this node sees it, as JSON values.

        `nodes`: name, pid, amqp, http, ready. `partitions`: id, owner, term, replicas, lag.
        `queues`: vhost, name, owner, partition, ready, leased, scheduled, duplicates.
        """

    def readiness(self) -> list[str]:
        """Why clients should not be sent here now; empty when the node is ready."""


class MetricsView(Protocol):
    """What the HTTP server shows of a node to Prometheus. None among the metrics: the work may rest here."""

    def metrics(self) -> Iterable[Piece]:
        """The current value of every metric of the node."""

    def queue_metrics(self) -> Iterable[Piece]:
        """The same of each of its queues, of which there may be very many."""

    def object_metrics(self) -> Iterable[Piece]:
        """Of the node and each of its queues, channels and connections, as RabbitMQ names them."""

    def detailed_metrics(self, families: Sequence[str], vhosts: Sequence[str]) -> Iterable[Piece]:
        """Those of RabbitMQ's families of metrics that are asked for; no virtual host: of all of them."""


def _blames_the_node(record: logging.LogRecord) -> bool:
    """What a client sends that is no HTTP, or stops sending, is no error of this node's."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | ConnectionError)


Guard = Callable[[web.Request], Awaitable[web.Response | None]]
"""Answers a request of who may not see what belongs to all users; None: let it in."""


@dataclass(frozen=True, slots=True)
class HttpPorts:
    """Where a node listens for HTTP, and what it takes there. `identity` is shown on the encrypted port."""

    plain: Address
    encrypted: Address | None = None
    identity: ServerIdentity | None = None
    limits: HttpSettings = field(default_factory=HttpSettings)
    hosts: Hosts = field(default_factory=lambda: Hosts((), tuple))


class HttpServer:
    """Serves `PATHS` of one node.

    `parts` add more to what is served. Who is not let in by `guard` sees health and what is
    counted of the whole node.
    """

    def __init__(
        self,
        view: NodeView,
        metrics: MetricsView,
        ports: HttpPorts,
        guard: Guard,
        parts: Iterable[Callable[[web.Application], None]] = (),
    ) -> None:
        self._view = view
        self._parts = tuple(parts)
        self._ports = ports
        self._runner: web.AppRunner | None = None
        self._listening: list[asyncio.Server | TlsPort] = []
        self._guard = guard
        self._metrics_view = metrics
        self._open_pages = Pages()
        self._guarded_pages = Pages()
        self._process_registry = CollectorRegistry()
        ProcessCollector(registry=self._process_registry)
        PlatformCollector(registry=self._process_registry)
        GCCollector(registry=self._process_registry)

    async def start(self) -> None:
        """Listen; raises `ListenError`."""
        app = web.Application(client_max_size=4096, middlewares=[_identified, self._addressed])
        app.add_routes(
            [
                web.get("/", self._index),
                web.get("/health/live", self._live),
                web.get("/health/ready", self._ready),
                web.get("/metrics", self._metrics),
                web.get("/metrics/queues", self._guarded(self._queue_metrics)),
                web.get("/metrics/per-object", self._guarded(self._object_metrics)),
                web.get("/metrics/detailed", self._guarded(self._detailed)),
                web.get("/api/status", self._guarded(self._status)),
            ]
        )
        for attach in self._parts:
            attach(app)
        app.on_response_prepare.append(protect)
        app.on_response_prepare.append(_answer_with_id)
        logger = logging.getLogger("quorate.http")
        logger.addFilter(_blames_the_node)
        settings: dict[str, Any] = {
            "access_log": None,
            "keepalive_timeout": self._ports.limits.header_s,
            "lingering_time": LINGERING_S,
            "logger": logger,
            "max_headers": MAX_HEADERS,
        }
        runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=1.0, **settings)
        await runner.setup()
        assert runner.server is not None
        self._runner = runner
        await self._listen(Doors(self._ports.limits, runner.server, settings))

    async def _listen(self, doors: Doors) -> None:
        """Raises `ListenError`."""
        ports = self._ports
        address, key = ports.plain, "http"
        try:
            loop = asyncio.get_running_loop()
            plain = await loop.create_server(doors.new_client, *ports.plain, backlog=BACKLOG)
            self._listening.append(plain)
            if ports.encrypted is not None and ports.identity is not None:
                address, key = ports.encrypted, "https"
                encrypted = TlsPort(doors, ports.identity)
                self._listening.append(encrypted)
                await encrypted.start(*address)
        except OSError as error:
            await self.stop()
            raise ListenError(
                f"cannot listen for HTTP on {address}: {error.strerror or error}; "
                f"stop what uses the port or set node.listen.{key} to another address"
            ) from error

    async def stop(self) -> None:
        """Stop listening and close connections, within about a second."""
        for one in self._listening:
            if isinstance(one, TlsPort):
                one.stop()
            else:
                one.close()
        self._listening.clear()
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    @web.middleware
    async def _addressed(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse what is meant for another host."""
        hosts = request.headers.getall("Host", [""])
        if len(hosts) > 1 or not self._ports.hosts.knows(hosts[0]):
            reason = "this node has no such name: see node.http.hosts in docs/configuration.md"
            return web.json_response({"error": "misdirected_request", "reason": reason}, status=421)
        return await handler(request)

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

    def _guarded(self, handler: Handler) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            refusal = await self._guard(request)
            return await handler(request) if refusal is None else refusal

        return answer

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        def page() -> Awaitable[Rendering]:
            of_process = generate_latest(self._process_registry).decode()
            return rendered(chain(lines(self._metrics_view.metrics()), (of_process,)))

        return await _shown(request, self._open_pages, "metrics", page)

    async def _queue_metrics(self, request: web.Request) -> web.StreamResponse:
        return await self._metrics_of(request, "queues", self._metrics_view.queue_metrics)

    async def _object_metrics(self, request: web.Request) -> web.StreamResponse:
        return await self._metrics_of(request, "objects", self._metrics_view.object_metrics)

    async def _detailed(self, request: web.Request) -> web.StreamResponse:
        families, vhosts = (tuple(sorted({*request.query.getall(name, [])})) for name in ("family", "vhost"))
        read = partial(self._metrics_view.detailed_metrics, families, vhosts)
        return await self._metrics_of(request, ("detailed", families, vhosts), read)

    async def _metrics_of(
        self, request: web.Request, key: Hashable, read: Callable[[], Iterable[Piece]]
    ) -> web.StreamResponse:
        return await _shown(request, self._guarded_pages, key, lambda: rendered(lines(read())))

    async def _status(self, request: web.Request) -> web.StreamResponse:
        async def page() -> Rendering:
            status = self._view.status()
            if inspect.isawaitable(status):
                status = await asyncio.wait_for(status, STATUS_TIMEOUT_S)
            return await rendered(_json_lines(status))

        try:
            return await _shown(request, self._guarded_pages, "status", page, "application/json")
        except TimeoutError:
            text = f"the other nodes did not answer within {STATUS_TIMEOUT_S:.0f} s"
            return web.json_response({"error": text}, status=504)


async def _shown(
    request: web.Request,
    pages: Pages,
    key: Hashable,
    render: Callable[[], Awaitable[Rendering]],
    content_type: str = CONTENT_TYPE,
) -> web.StreamResponse:
    """Answer with a page, as fast as the client reads it."""
    try:
        page = await pages.page(key, render)
    except BusyError as error:
        headers = {"Retry-After": str(math.ceil(error.wait_s))}
        return web.json_response({"error": str(error)}, status=503, headers=headers)
    headers = {"Content-Type": content_type, AGE_HEADER: str(math.ceil(page.age_s * 1000))}
    response = web.StreamResponse(headers=headers)
    response.content_length = page.rendering.size
    await response.prepare(request)
    for piece in page.rendering.pieces if request.method != "HEAD" else ():
        await response.write(piece)
    await response.write_eof()
    return response


def _json_lines(status: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """An object of lists, row by row."""
    for number, (key, rows) in enumerate(status.items()):
        yield f"{', ' if number else '{'}{json.dumps(key)}: ["
        for place, row in enumerate(rows):
            yield f"{', ' if place else ''}{json.dumps(row)}"
        yield "]"
    yield "}"
