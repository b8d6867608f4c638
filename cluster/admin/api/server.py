"""The HTTP side of the management API: log-in, the operation of a path, rights, and the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from aiohttp import web

from cluster.admin.api.audience import Audience
from cluster.admin.api.bodies import Bodies
from cluster.admin.api.call import Call
from cluster.admin.api.errors import ApiError, api_error_of, bad_request, no_such_object, not_authorised
from cluster.admin.api.log_in import LogIn, LoginError
from cluster.admin.api.responses import Streamed
from cluster.admin.api.routing import Endpoint, Router
from cluster.admin.api.services import Services
from cluster.admin.api.streamed import StreamedAnswers
from cluster.admin.api.writing import json_response, written
from cluster.admin.http.headers import SAFE_METHODS, is_from_elsewhere
from node.message.json_text import to_json
from node.refusal import Refusal
from node.session.ports import Identity

API_PREFIX: Final = "/api"
MAX_BODY: Final = 32 * 1024 * 1024
"""Octets of a request's body: definitions of 100,000 queues, or a message of 24 MB in base64."""

BODIED: Final = frozenset({"PUT", "POST"})
MAX_UNWANTED: Final = 4096
"""Octets of a body that comes with a method which has none: some clients send an empty object."""

REALM: Final = 'Basic realm="RabbitMQ Management"'
"""RabbitMQ's realm, by which clients and proxies choose the password to send."""


class ManagementServer:
    """Answers every path below `/api` that has no route of its own."""

    paths: Final = (API_PREFIX,)

    def __init__(self, services: Services, operations: Iterable[Endpoint]) -> None:
        self._services = services
        self._router = Router(operations)
        self._log_in = LogIn(services)
        self._bodies = Bodies(services.config.http)
        self._streamed = StreamedAnswers(services.config.http)

    def attach(self, app: web.Application) -> None:
        app.router.add_route("*", API_PREFIX, self._answer)
        app.router.add_route("*", API_PREFIX + "/{path:.*}", self._answer)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._respond(request)
        except Refusal as refusal:
            return _failure(api_error_of(refusal))
        except ApiError as error:
            return _failure(error)
        except ConnectionError:
            # The client is gone, and does not read the answer.
            return _failure(bad_request("the request was cut short"))
        except (web.HTTPException, asyncio.CancelledError):
            raise
        except Exception as error:
            if self._services.spares_node(error):
                self._services.log.error("management_failed", error, path=request.path)
            return _failure(ApiError(500, "internal_server_error", "see the node's log"))

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        if request.method not in SAFE_METHODS and is_from_elsewhere(request):
            # A browser that has a password for this origin sends the password with requests of any page.
            raise ApiError(403, "forbidden", "changes are not taken from pages of other origins")
        found = self._router.find(request.raw_path.partition("?")[0].removeprefix(API_PREFIX))
        identity = await self._log_in.identity(request)
        if found is None:
            raise no_such_object()
        operations, names = found
        method = "GET" if request.method == "HEAD" else request.method
        operation = operations.get(method)
        if operation is None:
            return _other_method(request.method, operations)
        self._check(operation, identity, names)
        body = await self._bodies.read(request, MAX_BODY if method in BODIED else MAX_UNWANTED)
        call = Call(identity, names, request.query, request.headers, body)
        value = await operation.handler(self._services, call)
        if isinstance(value, Streamed):
            return await self._streamed.write(request, value)
        return await written(call, value)

    # -- rights ------------------------------------------------------------------------------------

    async def refusal(self, request: web.Request) -> web.Response | None:
        """The answer to a user who may not monitor; None for one who may."""
        try:
            identity = await self._log_in.identity(request)
            if not Audience.MONITORING.allows(identity.tags):
                raise not_authorised(Audience.MONITORING.refusal)
        except ApiError as error:
            return _failure(error)
        return None

    def _check(self, operation: Endpoint, identity: Identity, names: dict[str, str]) -> None:
        """Raises ApiError."""
        for audience in (Audience.MANAGEMENT, operation.audience):
            if not audience.allows(identity.tags):
                raise not_authorised(audience.refusal)
        vhost = names.get("vhost")
        if vhost is None:
            return
        # Flower asks for the queues of "/" in a path that ends with two slashes.
        names["vhost"] = vhost = vhost or "/"
        if vhost not in self._services.state.vhosts:
            raise no_such_object()
        sees = operation.method == "GET" and Audience.MONITORING.allows(identity.tags)
        if not sees and not self._services.access.may_enter(identity, vhost):
            raise not_authorised("User not authorised to access virtual host")


def _failure(error: ApiError) -> web.Response:
    headers = {"WWW-Authenticate": REALM} if isinstance(error, LoginError) else {}
    return json_response(error.status, to_json(error.body), headers)


def _other_method(method: str, operations: Any) -> web.Response:
    allowed = sorted({*operations, "OPTIONS"} | ({"HEAD"} if "GET" in operations else set()))
    return web.Response(status=200 if method == "OPTIONS" else 405, headers={"Allow": ", ".join(allowed)})
