"""Connections over HTTP: listing and closing them."""

from __future__ import annotations

from typing import Any

from cluster.admin.api import survey
from cluster.admin.api.audience import Audience
from cluster.admin.api.call import Call
from cluster.admin.api.errors import no_such_object, not_authorised
from cluster.admin.api.names import shows
from cluster.admin.api.responses import DONE, Rows, Status
from cluster.admin.api.routing import Endpoints
from cluster.admin.api.services import Services

endpoints = Endpoints()

CLOSED_TEXT = "Closed via management plugin"
"""The reason that RabbitMQ tells a client when an administrator closes its connection and gives none."""

REASON_HEADER = "X-Reason"


async def _connections(services: Services, call: Call) -> list[dict[str, Any]]:
    return [row for row in await survey.connections(services.inquiry) if shows(call, row)]


async def connection_in(services: Services, call: Call) -> dict[str, Any]:
    """The connection in the path. Raises ApiError."""
    for row in await survey.connections(services.inquiry):
        if row["name"] == call.path["name"]:
            if not shows(call, row):
                raise not_authorised("User not authorised to access object")
            return row
    raise no_such_object()


@endpoints.on("GET", "/connections")
async def list_connections(services: Services, call: Call) -> Rows:
    """Open connections: all, or for users without the tag `monitoring` their own."""
    return Rows(await _connections(services, call), ("name",), paged=True)


@endpoints.on("GET", "/vhosts/{vhost}/connections")
async def list_connections_of_vhost(services: Services, call: Call) -> Rows:
    """Open connections to a virtual host."""
    rows = [row for row in await _connections(services, call) if row["vhost"] == call.vhost]
    return Rows(rows, ("name",), paged=True)


@endpoints.on("GET", "/connections/username/{user}")
async def list_connections_of_user(services: Services, call: Call) -> Rows:
    """Open connections of a user."""
    rows = [row for row in await _connections(services, call) if row["user"] == call.path["user"]]
    return Rows(rows, ("name",), paged=True)


@endpoints.on("DELETE", "/connections/username/{user}", Audience.ADMINISTRATOR)
async def close_connections_of_user(services: Services, call: Call) -> Status:
    """Close all connections of a user."""
    for row in await _connections(services, call):
        if row["user"] == call.path["user"]:
            await _close(services, call, row)
    return DONE


@endpoints.on("GET", "/connections/{name}")
async def show_connection(services: Services, call: Call) -> dict[str, Any]:
    """One connection."""
    return await connection_in(services, call)


@endpoints.on("GET", "/connections/{name}/sessions")
async def list_sessions_of_connection(services: Services, call: Call) -> list[dict[str, Any]]:
    """The sessions of a connection of AMQP 1.0, with their links."""
    row = await connection_in(services, call)
    return await survey.sessions(services.inquiry, row["node"], row["name"])


@endpoints.on("DELETE", "/connections/{name}")
async def close_connection(services: Services, call: Call) -> Status:
    """Close a connection (320); its client is told the reason in the header X-Reason."""
    await _close(services, call, await connection_in(services, call))
    return DONE


async def _close(services: Services, call: Call, row: dict[str, Any]) -> None:
    reason = call.headers.get(REASON_HEADER, "") or CLOSED_TEXT
    services.log.info("connection_closed_by_operator", name=row["name"], user=call.user, reason=reason)
    await survey.close_connection(services.inquiry, row["node"], row["name"], reason)
