"""Declaring, deleting, binding and purging over HTTP, as commands of the user."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from cluster.admin.api.call import Call
from cluster.admin.api.errors import ApiError, bad_request, no_such_object
from cluster.admin.api.exchange_views import bindings_between, ends_of
from cluster.admin.api.fields import Fields
from cluster.admin.api.internal_channel import internal_channel
from cluster.admin.api.names import exchange_name, properties_key
from cluster.admin.api.responses import CREATED, DONE, Status
from cluster.admin.api.routing import Endpoints
from cluster.admin.api.services import Services
from node.refusal import NotFoundError
from node.session.commands import (
    Bind,
    Command,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    PurgeQueue,
    Unbind,
)
from node.session.ports import QueueDeclaration

endpoints = Endpoints()


async def _carry_out(services: Services, call: Call, command: Command) -> None:
    """Raises Refusal and ApiError."""
    async with internal_channel(services.front_end, call.identity, call.vhost) as channel:
        await channel.call(command)


def _asked(call: Call, name: str) -> bool:
    """Whether the query parameter `name` is "true"."""
    return call.query.get(name, "").lower() == "true"


# -- queues ---------------------------------------------------------------------------------------


@endpoints.on("PUT", "/queues/{vhost}/{name}")
async def put_queue(services: Services, call: Call) -> Status:
    """Declare a queue."""
    fields = call.fields()
    node = fields.values.get("node")
    if node not in (None, "", services.node):
        raise _elsewhere(services, node)
    name = call.path["name"]
    known = (call.vhost, services.front_end.name_here(call.vhost, name)) in services.state.queues
    await _carry_out(services, call, queue_command(name, fields))
    return DONE if known else CREATED


def _elsewhere(services: Services, node: Any) -> ApiError:
    member = services.members.get(node) if isinstance(node, str) else None
    if member is None:
        return bad_request(f"Node {node} could not be contacted")
    return bad_request(f"a queue is declared on the node that is asked: ask {node} at http://{member.http}")


def queue_command(name: str, fields: Fields) -> DeclareQueue:
    """Raises ApiError."""
    return DeclareQueue(
        QueueDeclaration(
            name, fields.flag("durable"), False, fields.flag("auto_delete"), fields.table("arguments")
        )
    )


@endpoints.on("DELETE", "/queues/{vhost}/{name}")
async def delete_queue(services: Services, call: Call) -> Status:
    """Delete a queue; `if-empty=true` and `if-unused=true` have it refused otherwise."""
    name = _present(services, call)
    await _carry_out(services, call, DeleteQueue(name, _asked(call, "if-unused"), _asked(call, "if-empty")))
    return DONE


@endpoints.on("DELETE", "/queues/{vhost}/{name}/contents")
async def purge_queue(services: Services, call: Call) -> Status:
    """Remove all messages that are ready."""
    await _carry_out(services, call, PurgeQueue(_present(services, call)))
    return DONE


def _present(services: Services, call: Call) -> str:
    """The queue in the path. Raises ApiError (404) for a missing queue, which AMQP would let be deleted."""
    name = call.path["name"]
    try:
        services.front_end.queue(call.vhost, name, 0)
    except NotFoundError:
        raise no_such_object() from None
    return name


# -- exchanges ------------------------------------------------------------------------------------


@endpoints.on("PUT", "/exchanges/{vhost}/{name}")
async def put_exchange(services: Services, call: Call) -> Status:
    """Declare an exchange."""
    name = exchange_name(call.path["name"])
    known = any(one.name == name for one in services.state.vhosts[call.vhost].exchanges)
    await _carry_out(services, call, exchange_command(name, call.fields()))
    return DONE if known else CREATED


def exchange_command(name: str, fields: Fields) -> DeclareExchange:
    """Raises ApiError."""
    return DeclareExchange(
        name,
        fields.text("type", "direct"),
        durable=fields.flag("durable"),
        auto_delete=fields.flag("auto_delete"),
        internal=fields.flag("internal"),
        arguments=fields.table("arguments"),
    )


@endpoints.on("DELETE", "/exchanges/{vhost}/{name}")
async def delete_exchange(services: Services, call: Call) -> Status:
    """Delete an exchange; `if-unused=true` has it refused while it is the source of bindings."""
    name = exchange_name(call.path["name"])
    if not any(one.name == name for one in services.state.vhosts[call.vhost].exchanges):
        raise no_such_object()
    await _carry_out(services, call, DeleteExchange(name, _asked(call, "if-unused")))
    return DONE


# -- bindings -------------------------------------------------------------------------------------


@endpoints.on("POST", "/bindings/{vhost}/e/{source}/{kind}/{destination}")
async def post_binding(services: Services, call: Call) -> Status:
    """Bind a queue (`q`) or an exchange (`e`) to an exchange; the answer says where the binding is."""
    fields = call.fields()
    source, destination = ends_of(call)
    binding = Bind(source, destination, fields.text("routing_key"), fields.table("arguments"))
    await _carry_out(services, call, binding)
    key = properties_key(binding.key, binding.arguments)
    path = (call.vhost, "e", call.path["source"], call.path["kind"], destination.name, key)
    return Status(201, {"Location": "../../../../" + "/".join(quote(one, safe="~") for one in path)})


@endpoints.on("DELETE", "/bindings/{vhost}/e/{source}/{kind}/{destination}/{properties}")
async def delete_binding(services: Services, call: Call) -> Status:
    """Remove a binding, named by its `properties_key`."""
    source, destination = ends_of(call)
    for row in bindings_between(services, call):
        if row["properties_key"] == call.path["properties"]:
            await _carry_out(
                services, call, Unbind(source, destination, row["routing_key"], row["arguments"])
            )
            return DONE
    raise no_such_object()
