"""Channels and consumers over HTTP."""

from __future__ import annotations

from typing import Any

from cluster.admin.api import survey
from cluster.admin.api.call import Call
from cluster.admin.api.connection_views import connection_in
from cluster.admin.api.errors import no_such_object
from cluster.admin.api.names import shows, visible_vhosts
from cluster.admin.api.responses import Rows
from cluster.admin.api.routing import Endpoints
from cluster.admin.api.services import Services

endpoints = Endpoints()


async def _channels(services: Services, call: Call) -> list[dict[str, Any]]:
    return [row for row in await survey.channels(services.inquiry) if shows(call, row)]


@endpoints.on("GET", "/channels")
async def list_channels(services: Services, call: Call) -> Rows:
    """Open channels."""
    return Rows(await _channels(services, call), ("name",), paged=True)


@endpoints.on("GET", "/vhosts/{vhost}/channels")
async def list_channels_of_vhost(services: Services, call: Call) -> Rows:
    """Open channels of connections to a virtual host."""
    rows = [row for row in await _channels(services, call) if row["vhost"] == call.vhost]
    return Rows(rows, ("name",), paged=True)


@endpoints.on("GET", "/connections/{name}/channels")
async def list_channels_of_connection(services: Services, call: Call) -> Rows:
    """The channels of a connection."""
    name = (await connection_in(services, call))["name"]
    rows = [row for row in await _channels(services, call) if row["connection_details"]["name"] == name]
    return Rows(rows, ("name",))


@endpoints.on("GET", "/channels/{name}")
async def show_channel(services: Services, call: Call) -> dict[str, Any]:
    """One channel, with its consumers."""
    for row in await _channels(services, call):
        if row["name"] == call.path["name"]:
            consumers = await survey.consumers(services.inquiry)
            mine = [one for one in consumers if one["channel_details"]["name"] == row["name"]]
            return {**row, "consumer_details": mine, "publishes": [], "deliveries": []}
    raise no_such_object()


# -- consumers ------------------------------------------------------------------------------------


@endpoints.on("GET", "/consumers")
async def list_consumers(services: Services, call: Call) -> Rows:
    """Consumers of queues that the user may see."""
    vhosts = set(visible_vhosts(services, call))
    rows = [row for row in await survey.consumers(services.inquiry) if row["queue"]["vhost"] in vhosts]
    return Rows(rows, ("consumer_tag",))


endpoints.on("GET", "/consumers/{vhost}")(list_consumers)
