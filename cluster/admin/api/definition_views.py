"""Definitions over HTTP: export and import of all declarations, as RabbitMQ writes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from cluster.admin.api.audience import Audience
from cluster.admin.api.call import Call
from cluster.admin.api.definition_format import VHOST_LIMITS_PARAMETER, DefinitionReader
from cluster.admin.api.definition_import import DefinitionImport
from cluster.admin.api.exchange_views import exchange_definition, explicit_bindings
from cluster.admin.api.fields import Fields
from cluster.admin.api.permission_views import permission_rows, topic_permission_rows
from cluster.admin.api.policy_views import operator_parameters, policy_rows
from cluster.admin.api.queue_views import queue_definition
from cluster.admin.api.responses import DONE, Status
from cluster.admin.api.routing import Endpoints
from cluster.admin.api.services import Services
from cluster.admin.api.user_views import user_definition
from cluster.admin.api.vhost_views import vhost_definition
from cluster.admin.api.views_over_queues import view_definitions
from cluster.catalog.definitions import parse_local_queue_name
from cluster.catalog.owner_parts import whole_name
from cluster.config.identity import DIALECT_VERSION
from node.routing.exchange import DEFAULT_EXCHANGE, RESERVED_PREFIX

endpoints = Endpoints()


# -- out ------------------------------------------------------------------------------------------


@endpoints.on("GET", "/definitions", Audience.ADMINISTRATOR)
async def export_definitions(services: Services, call: Call) -> dict[str, Any]:
    """Users, virtual hosts, permissions, exchanges, queues and bindings of the cluster."""
    access = services.access.state
    vhosts = list(access.vhosts)
    return {
        "rabbit_version": DIALECT_VERSION,
        "rabbitmq_version": DIALECT_VERSION,
        "product_name": "quorate",
        "product_version": services.version,
        "users": [user_definition(user) for user in access.users.values()],
        "vhosts": [vhost_definition(name, one) for name, one in access.vhosts.items()],
        "permissions": permission_rows(services),
        "topic_permissions": topic_permission_rows(services),
        "parameters": [row for vhost in vhosts for row in _parameters(services, vhost)],
        "global_parameters": [{"name": "cluster_name", "value": services.config.cluster.name}],
        "policies": [row for one in vhosts for row in policy_rows(services, one, operator=False)],
        "queues": [row for vhost in vhosts for row in _queues(services, vhost)],
        "exchanges": [row for vhost in vhosts for row in _exchanges(services, vhost)],
        "bindings": [row for vhost in vhosts for row in _bindings(services, vhost)],
        **_views(services, *vhosts),
    }


@endpoints.on("GET", "/definitions/{vhost}", Audience.ADMINISTRATOR)
async def export_definitions_of_vhost(services: Services, call: Call) -> dict[str, Any]:
    """Exchanges, queues and bindings of a virtual host."""
    rows = {
        "parameters": _parameters(services, call.vhost),
        "policies": policy_rows(services, call.vhost, operator=False),
        "queues": _queues(services, call.vhost),
        "exchanges": _exchanges(services, call.vhost),
        "bindings": _bindings(services, call.vhost),
        **_views(services, call.vhost),
    }
    plain = {name: [_without_vhost(row) for row in found] for name, found in rows.items()}
    return {"rabbit_version": DIALECT_VERSION, **plain}


def _without_vhost(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "vhost"}


def _parameters(services: Services, vhost: str) -> Iterator[dict[str, Any]]:
    yield from operator_parameters(services, vhost)
    limits = services.access.state.vhosts[vhost].limits
    if limits:
        yield {"vhost": vhost, "component": VHOST_LIMITS_PARAMETER, "name": "limits", "value": limits}


def _queues(services: Services, vhost: str) -> Iterator[dict[str, Any]]:
    """The queues of a virtual host but for exclusive queues, which end with their connections."""
    for queue in services.state.queues.values():
        if queue.vhost == vhost and not queue.exclusive and whole_name(queue) is None:
            yield {"vhost": vhost, **queue_definition(queue)}


def _exchanges(services: Services, vhost: str) -> Iterator[dict[str, Any]]:
    for exchange in services.state.vhosts[vhost].exchanges:
        if exchange.name != DEFAULT_EXCHANGE and not exchange.name.startswith(RESERVED_PREFIX):
            yield {"vhost": vhost, **exchange_definition(exchange)}


def _bindings(services: Services, vhost: str) -> Iterator[dict[str, Any]]:
    for row in explicit_bindings(services, vhost):
        if row["destination_type"] == "queue":
            queue = services.state.queues.get((vhost, row["destination"]))
            if parse_local_queue_name(row["destination"]) is not None or queue is None or queue.exclusive:
                continue
        del row["properties_key"]
        yield row


def _views(services: Services, *vhosts: str) -> dict[str, list[dict[str, Any]]]:
    """The views of virtual hosts; no field where there are none, as RabbitMQ has none."""
    rows = [
        row
        for vhost in vhosts
        for row in view_definitions(services, vhost)
        if not services.state.queues[vhost, row["queue"]].exclusive
    ]
    return {"views": rows} if rows else {}


# -- in -------------------------------------------------------------------------------------------


@endpoints.on("POST", "/definitions", Audience.ADMINISTRATOR)
async def import_definitions(services: Services, call: Call) -> Status:
    """Import definitions. The answer is empty, or lists the unsupported entries that were left out."""
    return await _import(services, call, None)


@endpoints.on("POST", "/definitions/{vhost}", Audience.ADMINISTRATOR)
async def import_definitions_of_vhost(services: Services, call: Call) -> Status:
    """Import exchanges, queues and bindings into a virtual host."""
    return await _import(services, call, call.vhost)


async def _import(services: Services, call: Call, vhost: str | None) -> Status:
    definitions = DefinitionReader(Fields.parse(call.body, "failed_to_parse_json"), vhost).definitions()
    services.log.info("definitions_imported", user=call.user, vhost=vhost, queues=len(definitions.queues))
    await DefinitionImport(services, definitions).run()
    if not definitions.left_out:
        return DONE
    left_out = [asdict(one) for one in definitions.left_out]
    services.log.warning("definitions_left_out", entries=left_out)
    return Status(200, body={"left_out": left_out})
