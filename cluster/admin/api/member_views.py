"""The members of the cluster over HTTP: their replicas and queues, adding, draining and removing them."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any, Final

from cluster.admin.api.audience import Audience
from cluster.admin.api.call import Call
from cluster.admin.api.decision_timeout import decided
from cluster.admin.api.errors import ApiError, bad_request
from cluster.admin.api.fields import Fields
from cluster.admin.api.responses import DONE, Status
from cluster.admin.api.routing import Endpoints
from cluster.admin.api.services import Services
from cluster.catalog.definitions import MemberState
from cluster.catalog.membership.plan import ClusterView, steps_left
from cluster.catalog.membership.removal import obstacle, only_on
from cluster.config.addresses import Address
from replication.transport import InvalidKeyError, public_key

endpoints = Endpoints()

NAMED_QUEUES: Final = 10
"""Queues that an answer names; of more it gives the number."""


@endpoints.on("GET", "/cluster/members", Audience.MONITORING)
async def list_members(services: Services, call: Call) -> dict[str, Any]:
    """The members, the replicas and queues of each, and how many are left to move."""
    view = services.moves.view()
    return {
        "members": [_row(services, view, name) for name in services.members],
        "moves": [
            {"partition": id, **asdict(one.move)}
            for id, one in view.partitions.items()
            if one.move is not None
        ],
        "spreading": view.spreading,
        "steps_left": steps_left(view) + _leaving(view),
    }


def _leaving(view: ClusterView) -> int:
    """Steps left: each node that joins or leaves, and each replica and queue that has to be moved."""
    states = [node.state for node in view.nodes.values()]
    return states.count(MemberState.JOINING) + states.count(MemberState.LEAVING)


def _row(services: Services, view: ClusterView, name: str) -> dict[str, Any]:
    node = services.members[name]
    held = [one for one in view.partitions.values() if name in one.replicas]
    return {
        "name": name,
        "state": node.state.value,
        "up": services.moves.answering(name),
        "peers": node.peers,
        "amqp": node.amqp,
        "http": node.http,
        "replicas": len(held),
        "owns": sum(one.owner == name for one in held),
        "heir": node.heir or None,
        "domains": services.state.members.domains.get(name, []),
    }


@endpoints.on("PUT", "/cluster/members/{name}", Audience.ADMINISTRATOR)
async def add_member(services: Services, call: Call) -> Status:
    """Let a node join, or set the address of a known one."""
    await _add(services, call.path["name"], call.fields())
    return DONE


async def _add(services: Services, name: str, fields: Fields) -> None:
    """Raises ApiError and Refusal."""
    given = {key: fields.text(key) for key in ("peers", "amqp", "http", "public_key") if key in fields.values}
    try:
        for key in given.keys() - {"public_key"}:
            Address.parse(given[key])
        if "public_key" in given:
            public_key(given["public_key"])
    except (ValueError, InvalidKeyError) as error:
        raise bad_request(str(error)) from None
    known = services.members.get(name)
    has_key = "public_key" in given or (known is not None and known.public_key is not None)
    if has_key != services.config.cluster.encrypted:
        raise bad_request(
            "the nodes prove who they are by keys: give the new one's public key (`quorate keygen`)"
            if services.config.cluster.encrypted
            else "the nodes of this cluster have no keys"
        )
    await _command(services, "add_member", name=name, **given)


@endpoints.on("POST", "/cluster/members/{name}/drain", Audience.ADMINISTRATOR)
async def drain_member(services: Services, call: Call) -> Status:
    """Move everything away from a node, or with `undo` let it have its share again."""
    undo = call.fields().flag("undo")
    await _command(services, "keep_member" if undo else "drain_member", name=call.path["name"])
    return DONE


@endpoints.on("POST", "/cluster/members/{name}/remove", Audience.ADMINISTRATOR)
async def remove_member(services: Services, call: Call) -> dict[str, Any]:
    """Drain a node and forget it; `heir`: the node that gets its queues. The answer lists lost queues."""
    name, fields = call.path["name"], call.fields()
    heir, force = fields.text("heir"), fields.flag("force")
    moves = services.moves
    view = moves.view(moves.answering)
    if name not in services.state.nodes:
        return {"removed": name, "lost_queues": []}
    found = obstacle(view, name, heir)
    if found is not None:
        raise ApiError(409, "conflict", found)
    lost = _queues(services, view, name)
    if lost and not force:
        raise ApiError(
            409,
            "conflict",
            f"{name} does not answer, and these queues are on it alone: {_listed(lost)}. Start it, so that "
            "they can be moved, or use --force to lose them",
        )
    if heir and heir not in services.state.nodes:
        await _add(services, heir, fields)
    await _command(services, "remove_member", name=name, heir=heir, forced=force)
    return {"removed": name, "lost_queues": lost}


@endpoints.on("POST", "/cluster/spread", Audience.ADMINISTRATOR)
async def spread(services: Services, call: Call) -> Status:
    """Have replicas and owners spread evenly over the members, as after one was added."""
    await _command(services, "spread", on=True)
    return DONE


def _queues(services: Services, view: ClusterView, name: str) -> list[str]:
    """The queues that are lost with a node that does not answer."""
    alone = only_on(view, name)
    return sorted(queue.name for queue in services.state.queues.values() if queue.partition in alone)


def _listed(names: list[str]) -> str:
    more = len(names) - NAMED_QUEUES
    return ", ".join(names[:NAMED_QUEUES]) + (f" and {more} more" if more > 0 else "")


async def _command(services: Services, command: str, **arguments: Any) -> Any:
    """Raises Refusal, and ApiError when there is no majority."""

    def begin(answer: Any) -> None:
        services.submit(command, arguments, answer)

    return await decided(partial(begin))
