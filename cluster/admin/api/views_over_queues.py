"""Views over queues, over HTTP: their definitions, and their rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from cluster.admin.api.audience import Audience
from cluster.admin.api.call import Call
from cluster.admin.api.decision_timeout import decided
from cluster.admin.api.errors import bad_request
from cluster.admin.api.fields import Fields, is_text
from cluster.admin.api.internal_channel import internal_channel
from cluster.admin.api.names import found, visible_vhosts
from cluster.admin.api.responses import CREATED, DONE, Rows, Status
from cluster.admin.api.routing import Endpoints
from cluster.admin.api.services import Services
from cluster.catalog.views import ViewDefinition
from node.queue.placement_arguments import X_OWNERS
from node.queue.view_terms import ViewError
from node.session.commands import ReadView, ViewRead
from node.session.view_port import followed

endpoints = Endpoints()

MOST_OCTETS_OF_NAME: Final = 255


def view_definitions(services: Services, vhost: str) -> Iterator[dict[str, Any]]:
    """The definitions of the views of a virtual host."""
    for view in services.state.views.in_vhost(vhost):
        yield {"vhost": vhost, **_said(view)}


def _said(view: ViewDefinition) -> dict[str, Any]:
    return {**asdict(view), "group_by": list(view.group_by)}


def read_view_definition(name: str, fields: Fields) -> ViewDefinition:
    """The definition of a view. Raises ApiError, with the column for a wrong expression."""
    fields.require("queue", "fields")
    if not 1 <= len(name.encode()) <= MOST_OCTETS_OF_NAME:
        raise bad_request(f"a view has a name of 1 to {MOST_OCTETS_OF_NAME} octets")
    group_by, columns = fields.values.get("group_by", []), fields.values["fields"]
    if not isinstance(group_by, list) or not all(_is_expression(one) for one in group_by):
        raise bad_request("group_by is no list of texts")
    if not isinstance(columns, dict) or not all(
        is_text(field) and 0 < len(field.encode()) <= MOST_OCTETS_OF_NAME and _is_expression(text)
        for field, text in columns.items()
    ):
        raise bad_request("fields is no object of texts with names of 1 to 255 octets")
    queue, filter = fields.text("queue"), fields.text("filter", "")
    view = ViewDefinition(name, queue, filter, tuple(group_by), columns)
    try:
        view.terms()
    except ViewError as error:
        raise bad_request(f"invalid view '{name}': {error}") from None
    return view


def _is_expression(value: object) -> bool:
    return isinstance(value, str) and is_text(value)


@endpoints.on("GET", "/views")
async def list_views(services: Services, call: Call) -> Rows:
    """The definitions of views over queues."""
    vhosts = visible_vhosts(services, call)
    return Rows(row for one in vhosts for row in view_definitions(services, one))


endpoints.on("GET", "/views/{vhost}")(list_views)


@endpoints.on("GET", "/views/{vhost}/{name}")
async def show_view(services: Services, call: Call) -> dict[str, Any]:
    """The definition and the rows of a view, and how many messages the rows lag behind the queue. With
    `after`, a `version` of an earlier answer, and `wait` the answer waits up to so many seconds for another
    version.
    """
    view = found(services.state.views.get(call.vhost, call.path["name"]))
    try:
        known, wait_ms = followed(call.query.get("after", ""), call.query.get("wait", ""))
    except ValueError as error:
        raise bad_request(f"after is no version, or wait no number of seconds: {error}") from None
    async with internal_channel(services.front_end, call.identity, call.vhost) as channel:
        result = await channel.call(ReadView(view.name, known, wait_ms))
    assert isinstance(result, ViewRead)
    read = result.found
    return {
        "vhost": call.vhost,
        **_said(view),
        "version": str(read.version),
        "behind": read.behind,
        "complete": read.complete,
        "at_once": read.at_once,
        "rows": [dict(zip(read.fields, row, strict=True)) for row in read.rows],
    }


@endpoints.on("PUT", "/views/{vhost}/{name}", Audience.MANAGEMENT)
async def put_view(services: Services, call: Call) -> Status:
    """Define a view over a `queue`, which the user may configure: `filter`, `group_by`, and `fields`, which
    are aggregates or expressions of `group_by`.
    """
    view = read_view_definition(call.path["name"], call.fields())
    former = services.state.views.get(call.vhost, view.name)
    async with internal_channel(services.front_end, call.identity, call.vhost) as channel:
        for name in {view.queue} if former is None else {view.queue, former.queue}:
            channel.check_configurable(name)
    return CREATED if await set_view(services, call.vhost, view) else DONE


async def set_view(services: Services, vhost: str, view: ViewDefinition) -> bool:
    """Set a view; returns whether it is new. Raises ApiError and Refusal."""
    queue = services.state.queues.get((vhost, view.queue))
    if queue is None:
        raise bad_request(f"no queue '{view.queue}' in vhost '{vhost}' that a view could be over")
    if queue.exclusive:
        raise bad_request(f"queue '{view.queue}' in vhost '{vhost}' is exclusive, and has no views")
    if not services.front_end.knows_views:
        raise bad_request("upgrade all nodes first: one runs a release without views")
    arguments: dict[str, Any] = {"vhost": vhost, "view": _said(view)}
    if X_OWNERS in queue.arguments:
        if not services.front_end.knows_views_of_parts:
            raise bad_request(
                "upgrade all nodes first: one runs a release without views over queues with several owners"
            )
        arguments["parts"] = True
    return bool(await _submit(services, "put_view", arguments))


@endpoints.on("DELETE", "/views/{vhost}/{name}", Audience.MANAGEMENT)
async def delete_view(services: Services, call: Call) -> Status:
    """Delete a view over a queue that the user may configure."""
    view = found(services.state.views.get(call.vhost, call.path["name"]))
    async with internal_channel(services.front_end, call.identity, call.vhost) as channel:
        channel.check_configurable(view.queue)
    await _submit(services, "delete_view", {"vhost": call.vhost, "name": view.name})
    return DONE


async def _submit(services: Services, command: str, arguments: dict[str, Any]) -> Any:
    return await decided(lambda answer: services.submit(command, arguments, answer))
