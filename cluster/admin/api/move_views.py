"""Moving messages from one queue to another over HTTP: none is lost on the way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from cluster.admin.api.call import Call
from cluster.admin.api.errors import bad_request, no_such_object
from cluster.admin.api.internal_channel import InternalChannel, internal_channel
from cluster.admin.api.routing import Endpoints
from cluster.admin.api.services import Services
from node.routing.exchange import DEFAULT_EXCHANGE
from node.session.ports import Got
from node.wire.formats import format_of

endpoints = Endpoints()

MOST: Final = 10_000
"""Messages that one request moves; a client repeats the request for more."""

BATCH: Final = 128
BATCH_OCTETS: Final = 4 * 1024 * 1024
"""Octets under way at a time. A message under way may be in both queues when a node fails meanwhile."""


@dataclass(slots=True)
class _Progress:
    moved: int = 0
    refused: bool = False
    drained: bool = False


@endpoints.on("POST", "/queues/{vhost}/{name}/move")
async def move_messages(services: Services, call: Call) -> dict[str, Any]:
    """Move up to `count` ready messages to the end of the queue `destination`, in their order.

    A message is removed from its queue only once it is safe in the other.
    """
    fields = call.fields()
    fields.require("destination")
    source, destination = call.path["name"], fields.text("destination")
    vhost = fields.text("destination_vhost", call.vhost)
    count = fields.integer("count") if "count" in fields.values else MOST
    _check(services, call, source, (vhost, destination), count)
    async with (
        internal_channel(services.front_end, call.identity, call.vhost) as taking,
        internal_channel(services.front_end, call.identity, vhost) as giving,
    ):
        if not taking.keeps_until_settled(source):
            raise bad_request("an at-most-once queue forgets a message before it is safe elsewhere")
        progress = await _move(taking, giving, source, destination, count)
        await taking.settle_all(source, requeue=True)
    services.log.info(
        "messages_moved",
        user=call.user,
        vhost=call.vhost,
        queue=source,
        destination_vhost=vhost,
        destination=destination,
        count=progress.moved,
    )
    return {"moved": progress.moved, "drained": progress.drained, "refused": progress.refused}


def _check(services: Services, call: Call, source: str, to: tuple[str, str], count: int) -> None:
    """Raises ApiError."""
    vhost, destination = to
    if not 1 <= count <= MOST:
        raise bad_request(f"count must be from 1 to {MOST}")
    if to == (call.vhost, source):
        raise bad_request("the destination is the queue itself")
    if vhost not in services.state.vhosts or to not in services.state.queues:
        raise bad_request(f"there is no queue '{destination}' in vhost '{vhost}' to move messages to")


async def _move(
    taking: InternalChannel, giving: InternalChannel, source: str, destination: str, count: int
) -> _Progress:
    progress = _Progress()
    while progress.moved < count and not progress.drained and not progress.refused:
        batch = await _take(taking, source, min(BATCH, count - progress.moved))
        progress.drained = batch.drained
        safe = await _give(giving, destination, batch.got)
        # Only after the publish: a node that fails before leaves each message in its queue, or in both.
        if safe:
            await taking.remove(safe)
        progress.moved += len(safe)
        progress.refused = len(safe) < len(batch.got)
    return progress


@dataclass(slots=True)
class _Batch:
    got: list[Got]
    drained: bool = False


async def _take(channel: InternalChannel, queue: str, count: int) -> _Batch:
    """Get one message, whose size is an estimate for the others, then as many as fit `BATCH_OCTETS`."""
    first = await channel.get(queue, False)
    if first is None:
        return _Batch([], drained=True)
    fitting = BATCH_OCTETS // max(1, len(first.run.raw))
    wanted = min(count, max(1, fitting)) - 1
    more = await channel.get_more(queue, wanted)
    return _Batch([first, *more], drained=len(more) < wanted)


async def _give(channel: InternalChannel, queue: str, got: list[Got]) -> list[Got]:
    """Publish messages to the destination; returns those that it has taken. Raises Refusal and ApiError."""
    messages = [message for one in got for _, message in format_of(one.run).by_key(one.run)]
    runs = [replace(message, exchange=DEFAULT_EXCHANGE, routing_key=queue) for message in messages]
    routed = [(run, channel.route(run)) for run in runs]
    if not all(route for _, route in routed):
        raise no_such_object()
    rejected = await channel.publish_all(routed)
    return [one for place, one in enumerate(got) if place not in rejected]
