"""Virtual hosts and their limits over HTTP."""

from __future__ import annotations

from functools import partial
from typing import Any

from cluster.admin.api import survey
from cluster.admin.api.audience import Audience
from cluster.admin.api.call import Call
from cluster.admin.api.decision_timeout import decided
from cluster.admin.api.errors import ApiError, bad_request, not_authorised
from cluster.admin.api.fields import Fields
from cluster.admin.api.names import found, sees
from cluster.admin.api.permission_views import permission_rows, topic_permission_rows
from cluster.admin.api.queue_rows import QueueFigures
from cluster.admin.api.queue_views import depths
from cluster.admin.api.rates import QUEUE_WIDTH, TALLY_NAMES, added, message_stats, with_rates
from cluster.admin.api.responses import CREATED, DONE, Rows, Status
from cluster.admin.api.routing import Endpoints
from cluster.admin.api.services import Services
from cluster.admin.clients import OCTETS
from cluster.catalog.access.records import VhostProperties

endpoints = Endpoints()

Totals = dict[str, dict[str, Any]]
"""By virtual host: the numbers of its messages, and the octets over its connections."""


@endpoints.on("GET", "/vhosts")
async def list_vhosts(services: Services, call: Call) -> Rows:
    """The virtual hosts that the user may see."""
    totals = await _totals(services)
    vhosts = services.access.state.vhosts.items()
    rows = [_row(services, name, one, totals) for name, one in vhosts if sees(services, call, name)]
    return Rows(rows, ("name",), paged=True)


@endpoints.on("GET", "/vhosts/{name}")
async def show_vhost(services: Services, call: Call) -> dict[str, Any]:
    """One virtual host."""
    name = call.path["name"]
    properties = found(services.access.state.vhosts.get(name))
    if not sees(services, call, name):
        raise not_authorised("User not authorised to access virtual host")
    return _row(services, name, properties, await _totals(services))


@endpoints.on("PUT", "/vhosts/{name}", Audience.ADMINISTRATOR)
async def put_vhost(services: Services, call: Call) -> Status:
    """Add a virtual host, in which the user then has every permission, or change the description of one."""
    new = await set_vhost(services, call.path["name"], call.fields(), call.user)
    return CREATED if new else DONE


async def set_vhost(services: Services, name: str, fields: Fields, creator: str = "") -> bool:
    """Add or change a virtual host; returns whether it is new. Raises ApiError and Refusal."""
    if fields.flag("tracing"):
        raise ApiError(400, "not_implemented", "tracing is not supported")
    changes: dict[str, Any] = {}
    if "description" in fields.values:
        changes["description"] = fields.text("description")
    if "tags" in fields.values:
        changes["tags"] = tags_in(fields)
    kind = fields.values.get("default_queue_type", fields.values.get("defaultqueuetype"))
    if kind not in (None, "", "undefined"):
        if kind not in ("quorum", "classic"):
            raise bad_request(f"unsupported default queue type '{kind}'")
        changes["default_queue_type"] = kind
    put = partial(services.access.put_vhost, name, creator=creator, **changes)
    return bool(await decided(lambda answer: put(answer=answer)))


def tags_in(fields: Fields) -> list[str]:
    """Tags are a list, or names with commas between them. Raises ApiError."""
    tags = fields.values.get("tags", "")
    if isinstance(tags, str):
        tags = tags.split(",")
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise bad_request("tags_not_strings")
    return [tag.strip() for tag in tags if tag.strip()]


@endpoints.on("DELETE", "/vhosts/{name}", Audience.ADMINISTRATOR)
async def delete_vhost(services: Services, call: Call) -> Status:
    """Delete a virtual host with everything in it; its connections are closed."""
    name = call.path["name"]
    found(services.access.state.vhosts.get(name))
    await decided(partial(services.access.delete_vhost, name))
    return DONE


@endpoints.on("GET", "/vhosts/{name}/permissions", Audience.ADMINISTRATOR)
async def list_permissions_in_vhost(services: Services, call: Call) -> Rows:
    """The permissions of all users in a virtual host."""
    found(services.access.state.vhosts.get(call.path["name"]))
    return Rows(permission_rows(services, vhost=call.path["name"]), ("vhost", "user"))


@endpoints.on("GET", "/vhosts/{name}/topic-permissions", Audience.ADMINISTRATOR)
async def list_topic_permissions_in_vhost(services: Services, call: Call) -> Rows:
    """Topic permissions in a virtual host."""
    found(services.access.state.vhosts.get(call.path["name"]))
    return Rows(topic_permission_rows(services, vhost=call.path["name"]), ("vhost", "user", "exchange"))


def vhost_definition(name: str, properties: VhostProperties) -> dict[str, Any]:
    """As in RabbitMQ's definitions."""
    kind = properties.default_queue_type
    said = {"description": properties.description, "tags": list(properties.tags)}
    return {
        "name": name,
        **said,
        **({"default_queue_type": kind} if kind else {}),
        "metadata": {**said, **({"default_queue_type": kind} if kind else {})},
    }


def _row(services: Services, name: str, properties: VhostProperties, totals: Totals) -> dict[str, Any]:
    return {
        "default_queue_type": "undefined",
        **vhost_definition(name, properties),
        "tracing": False,
        "cluster_state": dict.fromkeys(services.running, "running"),
        **totals.get(name, {}),
    }


async def _totals(services: Services) -> Totals:
    states, _ = await survey.queue_states(services.inquiry)
    queues: dict[str, list[QueueFigures]] = {}
    for (vhost, _), owned in states.items():
        queues.setdefault(vhost, []).append(owned.state)
    octets: dict[str, list[list[float]]] = {}
    for row in await survey.connections(services.inquiry):
        octets.setdefault(row["vhost"], []).append(_octets(row))
    vhosts = services.access.state.vhosts
    return {vhost: _total(queues.get(vhost, []), octets.get(vhost, [])) for vhost in vhosts}


def _total(queues: list[QueueFigures], octets: list[list[float]]) -> dict[str, Any]:
    counts = added((one.counts for one in queues), QUEUE_WIDTH)
    rates = added((one.rates for one in queues), QUEUE_WIDTH)
    sums = added(octets, 2 * len(OCTETS))
    return {
        **depths(*counts[-2:], *rates[-2:]),
        "message_stats": message_stats(TALLY_NAMES, counts[:-2], rates[:-2]),
        **with_rates(OCTETS, sums[: len(OCTETS)], sums[len(OCTETS) :]),
    }


def _octets(row: dict[str, Any]) -> list[float]:
    return [*(row[name] for name in OCTETS), *(row[f"{name}_details"]["rate"] for name in OCTETS)]
