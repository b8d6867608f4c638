"""Policies and operator policies over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from cluster.admin.api.audience import Audience
from cluster.admin.api.call import Call
from cluster.admin.api.decision_timeout import decided
from cluster.admin.api.errors import bad_request, no_such_object
from cluster.admin.api.fields import Fields
from cluster.admin.api.names import visible_vhosts
from cluster.admin.api.responses import CREATED, DONE, Rows, Status
from cluster.admin.api.routing import Endpoints, Handler
from cluster.admin.api.services import Services
from cluster.catalog.policies import Policy
from cluster.catalog.policy_settings import mistake_in_policy
from cluster.catalog.recovery_points import POINT_KEY
from cluster.config.formats import CHANGED_POINTS

endpoints = Endpoints()

OPERATOR_COMPONENT: Final = "operator_policy"
"""The component of the runtime parameters by which definitions list operator policies."""

_ORDER: Final = ("vhost", "name")


def policy_rows(services: Services, vhost: str, *, operator: bool) -> Iterator[dict[str, Any]]:
    """The policies of a virtual host, as RabbitMQ describes them."""
    for policy in services.state.policies.in_vhost(vhost, operator=operator).values():
        yield {"vhost": vhost, "name": policy.name, **_said(policy)}


def operator_parameters(services: Services, vhost: str) -> Iterator[dict[str, Any]]:
    """The operator policies of a virtual host, as definitions have them."""
    for policy in services.state.policies.in_vhost(vhost, operator=True).values():
        row = {"vhost": vhost, "component": OPERATOR_COMPONENT, "name": policy.name}
        yield {**row, "value": _said(policy)}


def _said(policy: Policy) -> dict[str, Any]:
    return {
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": policy.definition,
        "priority": policy.priority,
    }


def read_policy(name: str, fields: Fields, *, operator: bool) -> dict[str, Any]:
    """A policy in plain form. Raises ApiError."""
    fields.require("pattern", "definition")
    if not name or len(name) > 255:
        raise bad_request("a policy has a name of 1 to 255 characters")
    pattern, definition = fields.text("pattern"), fields.table("definition")
    apply_to = fields.text("apply-to", "queues" if operator else "all")
    mistake = mistake_in_policy(pattern, apply_to, definition, operator=operator)
    if mistake is not None:
        raise bad_request(f"Validation failed\n\n{mistake}")
    priority = fields.integer("priority", 0)
    return asdict(Policy(name, pattern, apply_to, priority, definition))


async def set_policy(services: Services, vhost: str, policy: dict[str, Any], *, operator: bool) -> bool:
    """Set a policy; returns whether it is new. Raises ApiError and Refusal."""
    if POINT_KEY in policy["definition"] and services.formats < CHANGED_POINTS:
        raise bad_request(
            f"Validation failed\n\n{POINT_KEY}: a node of the cluster runs a release without policies for "
            "recovery points; upgrade all nodes first\n"
        )
    arguments = {"vhost": vhost, "operator": operator, "policy": policy}
    return bool(await _submit(services, "put_policy", arguments))


async def _submit(services: Services, command: str, arguments: dict[str, Any]) -> Any:
    def begin(answer: Any) -> None:
        services.submit(command, arguments, answer)

    return await decided(begin)


def _listing(*, operator: bool) -> Handler:
    async def list_policies(services: Services, call: Call) -> Rows:
        """Policies, or operator policies."""
        vhosts = visible_vhosts(services, call)
        return Rows((row for one in vhosts for row in policy_rows(services, one, operator=operator)), _ORDER)

    return list_policies


def _showing(*, operator: bool) -> Handler:
    async def show_policy(services: Services, call: Call) -> dict[str, Any]:
        """One policy, or operator policy."""
        for row in policy_rows(services, call.vhost, operator=operator):
            if row["name"] == call.path["name"]:
                return row
        raise no_such_object()

    return show_policy


def _putting(*, operator: bool) -> Handler:
    async def put_policy(services: Services, call: Call) -> Status:
        """Set a policy, or operator policy: `pattern`, `definition`, `apply-to` and `priority`."""
        policy = read_policy(call.path["name"], call.fields(), operator=operator)
        new = await set_policy(services, call.vhost, policy, operator=operator)
        return CREATED if new else DONE

    return put_policy


def _deleting(*, operator: bool) -> Handler:
    async def delete_policy(services: Services, call: Call) -> Status:
        """Delete a policy, or operator policy."""
        await _showing(operator=operator)(services, call)
        arguments = {"vhost": call.vhost, "operator": operator, "name": call.path["name"]}
        await _submit(services, "delete_policy", arguments)
        return DONE

    return delete_policy


for _path, _operator in (("/policies", False), ("/operator-policies", True)):
    # Operator policies bound the policies that policymakers may set.
    _writer = Audience.ADMINISTRATOR if _operator else Audience.POLICYMAKER
    _one = _path + "/{vhost}/{name}"
    endpoints.on("GET", _path)(_listing(operator=_operator))
    endpoints.on("GET", _path + "/{vhost}")(_listing(operator=_operator))
    endpoints.on("GET", _one)(_showing(operator=_operator))
    endpoints.on("PUT", _one, _writer)(_putting(operator=_operator))
    endpoints.on("DELETE", _one, _writer)(_deleting(operator=_operator))
