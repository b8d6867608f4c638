"""Limits of virtual hosts and of users over HTTP."""

from __future__ import annotations

from functools import partial

from cluster.admin.api.audience import Audience
from cluster.admin.api.call import Call
from cluster.admin.api.decision_timeout import decided
from cluster.admin.api.names import found
from cluster.admin.api.responses import DONE, Rows, Status
from cluster.admin.api.routing import Endpoints
from cluster.admin.api.services import Services
from cluster.admin.api.user_views import user_in

endpoints = Endpoints()


# -- virtual hosts --------------------------------------------------------------------------------


@endpoints.on("GET", "/vhost-limits", Audience.ADMINISTRATOR)
async def list_vhost_limits(services: Services, call: Call) -> Rows:
    """The limits of virtual hosts that have any."""
    vhosts = services.access.state.vhosts.items()
    return Rows([{"vhost": name, "value": one.limits} for name, one in vhosts if one.limits], ("vhost",))


@endpoints.on("GET", "/vhost-limits/{name}", Audience.ADMINISTRATOR)
async def show_vhost_limits(services: Services, call: Call) -> Rows:
    """The limits of one virtual host."""
    name = call.path["name"]
    properties = found(services.access.state.vhosts.get(name))
    return Rows([{"vhost": name, "value": properties.limits}] if properties.limits else [], ("vhost",))


@endpoints.on("PUT", "/vhost-limits/{name}/{limit}", Audience.ADMINISTRATOR)
async def put_vhost_limit(services: Services, call: Call) -> Status:
    """Set `max-connections` or `max-queues`; a negative value lifts the limit."""
    return await _set_vhost_limit(services, call, call.fields().integer("value"))


@endpoints.on("DELETE", "/vhost-limits/{name}/{limit}", Audience.ADMINISTRATOR)
async def delete_vhost_limit(services: Services, call: Call) -> Status:
    """Lift a limit."""
    return await _set_vhost_limit(services, call, None)


async def _set_vhost_limit(services: Services, call: Call, value: int | None) -> Status:
    name = call.path["name"]
    found(services.access.state.vhosts.get(name))
    await decided(partial(services.access.set_vhost_limit, name, call.path["limit"], value))
    return DONE


# -- users ----------------------------------------------------------------------------------------


@endpoints.on("GET", "/user-limits", Audience.ADMINISTRATOR)
async def list_user_limits(services: Services, call: Call) -> Rows:
    """The limits of users who have any."""
    users = services.access.state.users.values()
    return Rows([{"user": user.name, "value": user.limits} for user in users if user.limits], ("user",))


@endpoints.on("GET", "/user-limits/{name}", Audience.ADMINISTRATOR)
async def show_user_limits(services: Services, call: Call) -> Rows:
    """The limits of one user."""
    user = user_in(services, call)
    return Rows([{"user": user.name, "value": user.limits}] if user.limits else [], ("user",))


@endpoints.on("PUT", "/user-limits/{name}/{limit}", Audience.ADMINISTRATOR)
async def put_user_limit(services: Services, call: Call) -> Status:
    """Set `max-connections` or `max-channels`; a negative value lifts the limit."""
    return await _set_user_limit(services, call, call.fields().integer("value"))


@endpoints.on("DELETE", "/user-limits/{name}/{limit}", Audience.ADMINISTRATOR)
async def delete_user_limit(services: Services, call: Call) -> Status:
    """Lift a limit."""
    return await _set_user_limit(services, call, None)


async def _set_user_limit(services: Services, call: Call, value: int | None) -> Status:
    user = user_in(services, call).name
    await decided(partial(services.access.set_user_limit, user, call.path["limit"], value))
    return DONE
