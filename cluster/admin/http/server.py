"""A node's HTTP ports: their addresses, the hosts that they answer to, and the id of each request."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

from cluster.admin.http.connections import Doors
from cluster.admin.http.headers import protect
from cluster.admin.http.hosts import Hosts
from cluster.admin.http.parts import HttpPart
from cluster.config.addresses import Address
from cluster.config.http_settings import HttpSettings
from cluster.log.event_log import REQUEST
from node.session.tls_port import BACKLOG, ServerIdentity, TlsPort
from replication.transport import ListenError

LINGERING_S = 2.0
"""How long the rest of a request that was refused is read, so that its client sees the answer."""

MAX_HEADERS: Final = 64
"""Lines in the head of a request; none of them may have more than 8 KiB."""

REQUEST_ID: Final = "X-Request-Id"
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


def _blames_the_node(record: logging.LogRecord) -> bool:
    """Whether a record reports an error of this node; malformed and broken-off requests are the client's."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | ConnectionError)


@dataclass(frozen=True, slots=True)
class HttpPorts:
    """The addresses and limits of a node's HTTP ports. `identity`: the encrypted port's certificate."""

    plain: Address
    encrypted: Address | None = None
    identity: ServerIdentity | None = None
    limits: HttpSettings = field(default_factory=HttpSettings)
    hosts: Hosts = field(default_factory=lambda: Hosts((), tuple))


class HttpServer:
    """Serves the parts of one node, and the list of their paths."""

    def __init__(self, ports: HttpPorts, parts: Iterable[HttpPart]) -> None:
        self._ports = ports
        self._parts = tuple(parts)
        self._runner: web.AppRunner | None = None
        self._listening: list[asyncio.Server | TlsPort] = []

    async def start(self) -> None:
        """Listen; raises `ListenError`."""
        app = web.Application(client_max_size=4096, middlewares=[_identified, self._addressed])
        app.router.add_get("/", self._index)
        for part in self._parts:
            part.attach(app)
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
        """Refuse requests for another host."""
        hosts = request.headers.getall("Host", [""])
        if len(hosts) > 1 or not self._ports.hosts.knows(hosts[0]):
            reason = "this node has no such name: see node.http.hosts in docs/configuration.md"
            return web.json_response({"error": "misdirected_request", "reason": reason}, status=421)
        return await handler(request)

    async def _index(self, request: web.Request) -> web.Response:
        """The list of all parts' paths; browsers are sent on to the console."""
        if "text/html" in request.headers.get("Accept", ""):
            return web.Response(status=302, headers={"Location": "/console/"})
        return web.Response(text="".join(f"{path}\n" for part in self._parts for path in part.paths))
