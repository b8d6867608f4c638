"""Moving messages from one queue to another, publishing them anew, and bringing them back, over HTTP, each
exactly once (docs/decisions/0055, 0064).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from cluster.admin.api.call import Call
from cluster.admin.api.errors import bad_request
from cluster.admin.api.fields import Fields
from cluster.admin.api.internal_channel import internal_channel
from cluster.admin.api.message_views import ALL, going_on, named_by
from cluster.admin.api.routing import Endpoints
from cluster.admin.api.services import Services
from node.delivery.deeds import Became, Deed, MoveTarget, ReplayTarget
from node.session.commands import MessagesSettled, SettleMessages

endpoints = Endpoints()

MOST: Final = 10_000
"""Messages that one request moves; a client repeats the request for more."""


@endpoints.on("POST", "/queues/{vhost}/{name}/move")
async def move_messages(services: Services, call: Call) -> dict[str, Any]:
    """Move messages that no consumer has to the end of the queue `destination`, in their order; with `copy`
    they stay in theirs, too. Up to `count` of all, of those with these `bookmarks`, or of those that a
    `filter` takes, and that came at the time `since` or later, or before the time `until`.
    """
    fields = call.fields()
    fields.require("destination")
    destination, vhost = fields.text("destination"), fields.text("destination_vhost", call.vhost)
    _check(services, (call.vhost, call.path["name"]), (vhost, destination))
    asked = _asked(call.path["name"], fields, Deed.COPY if fields.flag("copy") else Deed.MOVE)
    async with internal_channel(services.front_end, call.identity, vhost) as giving:
        target, condition = giving.writable(destination)
    command = replace(asked, target=MoveTarget(target.partition, target.id), condition=condition)
    moved = await _settled(services, call, command)
    if not command.tries:
        to = {"destination_vhost": vhost, "destination": destination}
        services.log.info("messages_moved", **_done(call, moved), **to)
    return {"moved": moved.counts.get(Became.SETTLED, 0), **_outcome(command, moved)}


@endpoints.on("POST", "/queues/{vhost}/{name}/replay")
async def replay_messages(services: Services, call: Call) -> dict[str, Any]:
    """Publish messages that no consumer has anew: with the exchange and routing key with which they were
    published first, or with this `exchange` or `routing_key`, and without the headers of dead letters. With
    `copy` they stay in their queue, too. `count`, `bookmarks` and `filter` are as for a move.
    """
    fields = call.fields()
    target = ReplayTarget(*(fields.text(one) if one in fields.values else None for one in _PLACE))
    deed = Deed.REPLAY_COPY if fields.flag("copy") else Deed.REPLAY
    command = replace(_asked(call.path["name"], fields, deed), target=target)
    replayed = await _settled(services, call, command)
    if not command.tries:
        services.log.info("messages_replayed", **_done(call, replayed))
    return {
        "replayed": replayed.counts.get(Became.SETTLED, 0),
        "unrouted": replayed.counts.get(Became.UNROUTED, 0),
        **_outcome(command, replayed),
    }


_PLACE: Final = ("exchange", "routing_key")


@endpoints.on("POST", "/queues/{vhost}/{name}/undo")
async def bring_messages_back(services: Services, call: Call) -> dict[str, Any]:
    """Bring back messages that have left a queue over a stream, at their old places, as long as the stream
    has them. `count`, `bookmarks` and `filter` are as for a move.
    """
    command = _asked(call.path["name"], call.fields(), Deed.UNDO)
    back = await _settled(services, call, command)
    if not command.tries:
        services.log.info("messages_brought_back", **_done(call, back))
    return {"undone": back.counts.get(Became.SETTLED, 0), **_outcome(command, back)}


async def _settled(services: Services, call: Call, command: SettleMessages) -> MessagesSettled:
    async with internal_channel(services.front_end, call.identity, call.vhost) as channel:
        settled = await channel.call(command)
    assert isinstance(settled, MessagesSettled)
    return settled


def _done(call: Call, settled: MessagesSettled) -> dict[str, Any]:
    """The fields of the log line about a request that has changed queues."""
    count = settled.counts.get(Became.SETTLED, 0)
    return {"user": call.user, "vhost": call.vhost, "queue": call.path["name"], "count": count}


def _outcome(command: SettleMessages, moved: MessagesSettled) -> dict[str, Any]:
    """The part of an answer that all these requests have."""
    return {
        "leased": moved.counts.get(Became.LEASED, 0),
        "drained": moved.left is None and Became.REFUSED not in moved.counts,
        "refused": Became.REFUSED in moved.counts,
        **going_on(command, moved),
    }


def _asked(queue: str, fields: Fields, deed: Deed) -> SettleMessages:
    """The command of a request. Raises ApiError."""
    count = fields.integer("count", MOST)
    if not 1 <= count <= MOST:
        raise bad_request(f"count must be from 1 to {MOST}")
    otherwise = "" if fields.values.get("bookmarks") else ALL
    return replace(named_by(queue, deed, fields, otherwise), limit=count)


def _check(services: Services, source: tuple[str, str], to: tuple[str, str]) -> None:
    """Raises ApiError."""
    vhost, destination = to
    if to == source:
        raise bad_request("the destination is the queue itself")
    if vhost not in services.state.vhosts or to not in services.state.queues:
        raise bad_request(f"there is no queue '{destination}' in vhost '{vhost}' to move messages to")
