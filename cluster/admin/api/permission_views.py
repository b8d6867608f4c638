"""Permissions and topic permissions over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Any

from cluster.admin.api.audience import Audience
from cluster.admin.api.call import Call
from cluster.admin.api.decision_timeout import decided
from cluster.admin.api.errors import bad_request, no_such_object
from cluster.admin.api.fields import Fields
from cluster.admin.api.names import exchange_name, found
from cluster.admin.api.responses import CREATED, DONE, Rows, Status
from cluster.admin.api.routing import Endpoints
from cluster.admin.api.services import Services
from cluster.catalog.access.entitlements import FILTER_FIELDS
from cluster.catalog.access.records import PATTERNS
from node.refusal import NotFoundError

endpoints = Endpoints()

TOPIC_RIGHTS = ("write", "read")


def permission_rows(
    services: Services, vhost: str | None = None, user: str | None = None
) -> list[dict[str, Any]]:
    """All permissions, or those in a virtual host or of a user."""
    return [
        {"user": of_user, "vhost": of_vhost, **one.to_plain()}
        for (of_vhost, of_user), one in services.access.state.permissions.items()
        if vhost in (None, of_vhost) and user in (None, of_user)
    ]


def topic_permission_rows(
    services: Services, vhost: str | None = None, user: str | None = None
) -> list[dict[str, Any]]:
    """All topic permissions, or those in a virtual host or of a user."""
    return [
        {"user": of_user, "vhost": of_vhost, "exchange": exchange, "write": one.write, "read": one.read}
        for (of_vhost, of_user), exchanges in services.access.state.topic_permissions.items()
        for exchange, one in exchanges.items()
        if vhost in (None, of_vhost) and user in (None, of_user)
    ]


# -- permissions ----------------------------------------------------------------------------------


@endpoints.on("GET", "/permissions", Audience.ADMINISTRATOR)
async def list_permissions(services: Services, call: Call) -> Rows:
    """The permissions of all users in all virtual hosts."""
    return Rows(permission_rows(services), ("vhost", "user"))


@endpoints.on("GET", "/permissions/{of_vhost}/{user}", Audience.ADMINISTRATOR)
async def show_permission(services: Services, call: Call) -> dict[str, Any]:
    """The permissions of a user in a virtual host."""
    rows = permission_rows(services, call.path["of_vhost"], call.path["user"])
    if not rows:
        raise no_such_object()
    return rows[0]


@endpoints.on("PUT", "/permissions/{of_vhost}/{user}", Audience.ADMINISTRATOR)
async def put_permission(services: Services, call: Call) -> Status:
    """Set the three patterns of a user in a virtual host. `read_filter` and `write_filter` are expressions
    for the messages that the user may get and publish: an empty one is lifted, one that is not named stays.
    """
    return await _status(set_permission(services, call.path["of_vhost"], call.path["user"], call.fields()))


@endpoints.on("DELETE", "/permissions/{of_vhost}/{user}", Audience.ADMINISTRATOR)
async def delete_permission(services: Services, call: Call) -> Status:
    """Take all permissions in a virtual host from a user."""
    vhost, user = call.path["of_vhost"], call.path["user"]
    found(services.access.state.permissions.get((vhost, user)))
    await decided(partial(services.access.clear_permissions, user, vhost))
    return DONE


async def set_permission(services: Services, vhost: str, user: str, fields: Fields) -> bool:
    """Set permissions; returns whether the user had none. Raises ApiError and Refusal."""
    fields.require(*PATTERNS)
    configure, write, read = (fields.text(right) for right in PATTERNS)
    filters = {name: fields.text(name) for name in FILTER_FIELDS if name in fields.values}
    change = services.access.set_permissions
    return bool(await decided(lambda answer: change(user, vhost, configure, write, read, answer, filters)))


async def _status(setting: Awaitable[bool]) -> Status:
    """Set a permission; a missing user or virtual host is answered with 400, as in RabbitMQ."""
    try:
        return CREATED if await setting else DONE
    except NotFoundError:
        raise bad_request("vhost_or_user_not_found") from None


# -- topic permissions ----------------------------------------------------------------------------


@endpoints.on("GET", "/topic-permissions", Audience.ADMINISTRATOR)
async def list_topic_permissions(services: Services, call: Call) -> Rows:
    """Which routing keys users may use at topic exchanges."""
    return Rows(topic_permission_rows(services), ("vhost", "user", "exchange"))


@endpoints.on("GET", "/topic-permissions/{of_vhost}/{user}", Audience.ADMINISTRATOR)
async def show_topic_permissions(services: Services, call: Call) -> Rows:
    """Topic permissions of a user in a virtual host."""
    rows = topic_permission_rows(services, call.path["of_vhost"], call.path["user"])
    if not rows:
        raise no_such_object()
    return Rows(rows, ("exchange",))


@endpoints.on("PUT", "/topic-permissions/{of_vhost}/{user}", Audience.ADMINISTRATOR)
async def put_topic_permission(services: Services, call: Call) -> Status:
    """Set the patterns of a user at one topic exchange."""
    setting = set_topic_permission(services, call.path["of_vhost"], call.path["user"], call.fields())
    return await _status(setting)


@endpoints.on("DELETE", "/topic-permissions/{of_vhost}/{user}", Audience.ADMINISTRATOR)
async def delete_topic_permissions(services: Services, call: Call) -> Status:
    """Take all topic permissions in a virtual host from a user."""
    return await _clear_topic(services, call, None)


@endpoints.on("DELETE", "/topic-permissions/{of_vhost}/{user}/{exchange}", Audience.ADMINISTRATOR)
async def delete_topic_permission(services: Services, call: Call) -> Status:
    """Take the topic permissions at one exchange from a user."""
    return await _clear_topic(services, call, exchange_name(call.path["exchange"]))


async def _clear_topic(services: Services, call: Call, exchange: str | None) -> Status:
    vhost, user = call.path["of_vhost"], call.path["user"]
    found(services.access.state.topic_permissions.get((vhost, user)))
    await decided(partial(services.access.clear_topic_permissions, user, vhost, exchange))
    return DONE


async def set_topic_permission(services: Services, vhost: str, user: str, fields: Fields) -> bool:
    """Set topic permissions; returns whether the user had none there. Raises ApiError and Refusal."""
    fields.require("exchange", *TOPIC_RIGHTS)
    exchange = exchange_name(fields.text("exchange"))
    write, read = (fields.text(right) for right in TOPIC_RIGHTS)
    change = services.access.set_topic_permissions
    return bool(await decided(lambda answer: change(user, vhost, exchange, write, read, answer)))
