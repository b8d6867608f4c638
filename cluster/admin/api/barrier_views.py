"""Consistent cuts over HTTP (requirement X9): taken for one answer, or kept under a name."""

from __future__ import annotations

from typing import Any, Final

from cluster.admin.api.audience import Audience
from cluster.admin.api.call import Call
from cluster.admin.api.cuts import CutError, take_cut
from cluster.admin.api.decision_timeout import decided
from cluster.admin.api.errors import ApiError, bad_request, no_such_object
from cluster.admin.api.responses import DONE, Rows, Status
from cluster.admin.api.routing import Endpoints
from cluster.admin.api.services import Services
from cluster.catalog.definitions import PartitionKind, QueueDefinition
from cluster.catalog.kept_cuts import KeptCut
from cluster.config.formats import BARRIERS_AND_FILTERS
from node.message.bookmarks import bookmark_of

endpoints = Endpoints()

_MOST_OCTETS: Final = 255

BARRIER_PREFIX: Final = "barrier:"
"""In front of the name of a barrier, where a position is asked for."""


@endpoints.on("POST", "/cluster/barrier", Audience.ADMINISTRATOR)
async def take_barrier(services: Services, call: Call) -> dict[str, Any]:
    """Take a consistent cut through the logs of all partitions in journals. Clients get no confirms and no
    new messages meanwhile, for a second at most. With a `name` the catalog keeps the cut.
    """
    name = _checked_name(services, call)
    partitions = {
        one.id for one in services.state.partitions.values() if one.kind is PartitionKind.REPLICATED
    }
    try:
        cut = await take_cut(services.inquiry, partitions)
    except CutError as error:
        raise ApiError(503, "service_unavailable", f"{error}: ask again") from None
    numbers = {position.partition: position.message for _, position in cut}
    if name is not None:
        await _submit(services, "keep_barrier", name=name, numbers=sorted(numbers.items()))
    services.log.info("barrier_taken", user=call.user, partitions=len(cut), name=name)
    return {
        "partitions": [
            {"id": one.partition, "node": node, "term": one.term, "index": one.entry} for node, one in cut
        ],
        "queues": [
            {"vhost": one.vhost, "name": one.name, "bookmark": bookmark_of(one.id, numbers[one.partition])}
            for one in services.state.queues.values()
            if one.partition in numbers
        ],
    }


def _checked_name(services: Services, call: Call) -> str | None:
    """The name to keep the cut under. Raises ApiError and Refusal, before any owner holds still."""
    fields = call.fields()
    if "name" not in fields.values:
        return None
    name = fields.text("name")
    if not 1 <= len(name.encode()) <= _MOST_OCTETS:
        raise bad_request(f"a barrier has a name of 1 to {_MOST_OCTETS} octets")
    if services.formats < BARRIERS_AND_FILTERS:
        raise bad_request("upgrade all nodes first: one runs a release that keeps no barriers")
    services.state.table.cuts.check_free(name)
    return name


@endpoints.on("GET", "/cluster/barriers")
async def list_barriers(services: Services, call: Call) -> Rows:
    """The barriers that are kept: of each partition the latest number of a message in front."""
    barriers = services.state.table.cuts.by_name.values()
    return Rows([_row(one) for one in barriers], ("name",))


@endpoints.on("DELETE", "/cluster/barriers/{name}", Audience.ADMINISTRATOR)
async def delete_barrier(services: Services, call: Call) -> Status:
    """Forget a barrier. Messages are not touched."""
    if call.path["name"] not in services.state.table.cuts.by_name:
        raise no_such_object()
    await _submit(services, "forget_barrier", name=call.path["name"])
    return DONE


def barrier_position(services: Services, queue: QueueDefinition, text: str) -> int:
    """The position of a barrier in a queue, from `barrier:NAME`. Raises ApiError."""
    name = text.removeprefix(BARRIER_PREFIX)
    barrier = services.state.table.cuts.by_name.get(name)
    if barrier is None:
        raise bad_request(f"there is no barrier '{name}': GET /api/cluster/barriers lists them")
    return barrier.position(queue.partition)


def _row(barrier: KeptCut) -> dict[str, Any]:
    numbers = sorted(barrier.numbers.items())
    return {"name": barrier.name, "partitions": [{"id": one, "number": number} for one, number in numbers]}


async def _submit(services: Services, command: str, **arguments: Any) -> None:
    await decided(lambda answer: services.submit(command, arguments, answer))
