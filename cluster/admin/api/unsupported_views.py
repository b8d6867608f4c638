"""RabbitMQ's features that this broker lacks: lists are empty, and changes are refused with a reason."""

from __future__ import annotations

from typing import Any, Final

from cluster.admin.api.audience import Audience
from cluster.admin.api.call import Call
from cluster.admin.api.errors import ApiError, no_such_object
from cluster.admin.api.responses import Rows
from cluster.admin.api.routing import Endpoints
from cluster.admin.api.services import Services

endpoints = Endpoints()

_EMPTY: Final = {
    "/parameters": Audience.POLICYMAKER,
    "/parameters/{component}": Audience.POLICYMAKER,
    "/parameters/{component}/{vhost}": Audience.POLICYMAKER,
    "/global-parameters": Audience.POLICYMAKER,
    "/feature-flags": Audience.ADMINISTRATOR,
    "/deprecated-features": Audience.MANAGEMENT,
    "/deprecated-features/used": Audience.MANAGEMENT,
    "/queues/{vhost}/{name}/policies": Audience.MANAGEMENT,
}
_ONE: Final = {
    "/parameters/{component}/{vhost}/{name}": "runtime parameters are not supported",
    "/global-parameters/{name}": "global parameters are not supported",
}


async def list_nothing(services: Services, call: Call) -> Rows:
    """Always an empty list."""
    return Rows([])


async def show_nothing(services: Services, call: Call) -> Any:
    """Always 404."""
    raise no_such_object()


def _refusing(reason: str) -> Any:
    async def refuse(services: Services, call: Call) -> Any:
        """Refused: not supported."""
        raise ApiError(400, "not_implemented", reason)

    return refuse


for _template, _audience in _EMPTY.items():
    endpoints.on("GET", _template, _audience)(list_nothing)
for _template, _reason in _ONE.items():
    endpoints.on("GET", _template)(show_nothing)
    endpoints.on("DELETE", _template, Audience.POLICYMAKER)(show_nothing)
    endpoints.on("PUT", _template, Audience.POLICYMAKER)(_refusing(_reason))
endpoints.on("POST", "/queues/{vhost}/{name}/actions", Audience.POLICYMAKER)(
    _refusing("there are no mirrors to synchronise")
)
