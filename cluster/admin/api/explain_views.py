"""Why a message is where it is, over HTTP, and the digests of partitions (requirement X8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from cluster.admin.api import survey
from cluster.admin.api.audience import Audience
from cluster.admin.api.call import Call
from cluster.admin.api.errors import ApiError, bad_request, no_such_object, not_authorised
from cluster.admin.api.internal_channel import internal_channel
from cluster.admin.api.message_lives import Life, Lives, NoAnswerError, owner_first
from cluster.admin.api.names import sees
from cluster.admin.api.node_report import CONSUMER_NAMES
from cluster.admin.api.routing import Endpoints
from cluster.admin.api.services import Services
from cluster.admin.api.shown_lives import ClientNames, shown_life
from cluster.catalog.definitions import PartitionKind, QueueDefinition
from cluster.catalog.state import CatalogState
from node.message.bookmarks import bookmark_of, is_bookmark, number_in, queue_in
from node.queue.events import Happened, Lead, LeadKind
from node.refusal import Refusal

endpoints = Endpoints()

GONE: Final = 410


@endpoints.on("GET", "/explain/{bookmark}")
async def explain_message(services: Services, call: Call) -> dict[str, Any]:
    """The life of the message with this bookmark, as the logs tell it: publishes, leases, returns,
    settlements, expiries and moves, each with the log index, the term and the digest of its entry, and where
    the message is now.
    """
    bookmark = call.path["bookmark"]
    if not is_bookmark(bookmark):
        raise bad_request(f"{bookmark!r} is no bookmark: a bookmark has 24 hexadecimal digits, in lower case")
    queue = services.state.queues_by_id.get(queue_in(bookmark))
    if queue is None or not sees(services, call, queue.vhost):
        raise no_such_object()
    if services.state.partitions[queue.partition].kind is not PartitionKind.REPLICATED:
        raise bad_request(f"queue '{queue.name}' in vhost '{queue.vhost}' is in the memory of one node")
    await _check_readable(services, call, queue)
    try:
        lead = Lead(queue.partition, LeadKind.NUMBER, number_in(bookmark))
        lives = await (await _lives(services)).chain(lead)
    except NoAnswerError as error:
        raise ApiError(503, "service_unavailable", f"{error}: ask again") from None
    if lives[0].unborn:
        raise no_such_object()
    if not lives[0].known:
        raise _absent(queue, lives[0], lead.number, services.state)
    shown = [one for one in lives if await _readable_life(services, call, one)]
    front_ends = await _front_ends(services, shown)
    return {
        "bookmark": bookmark,
        "vhost": queue.vhost,
        "queue": queue.name,
        "lives": [shown_life(one, services.state, front_ends) for one in shown],
        "hidden": len(lives) - len(shown),
    }


async def _check_readable(services: Services, call: Call, queue: QueueDefinition) -> None:
    """Raises Refusal, and ApiError, where the user may not read every message of the queue."""
    async with internal_channel(services.front_end, call.identity, queue.vhost) as channel:
        if channel.readable(queue.name):
            raise not_authorised("the user may read some messages of the queue only")


async def _readable_life(services: Services, call: Call, life: Life) -> bool:
    """Whether the user may read one of the queues of a life; a life of deleted queues alone is shown."""
    queues = [services.state.queues_by_id.get(one) for one in life.queues]
    there = [one for one in queues if one is not None]
    for queue in there:
        try:
            await _check_readable(services, call, queue)
        except (Refusal, ApiError):
            continue
        return True
    return not there


def _absent(queue: QueueDefinition, life: Life, number: int, state: CatalogState) -> ApiError:
    """The refusal of a message of which no entry tells."""
    topic = state.topics.under(queue.vhost, queue.name)
    ids = [queue.id] if topic is None else [queue.id, topic.id]
    numbers = [one for one in map(life.oldest.get, ids) if one is not None]
    oldest = min(numbers, default=None)
    if oldest is not None and number > oldest:
        return no_such_object()
    told = "it has no message" if oldest is None else f"the oldest is {bookmark_of(queue.id, oldest)}"
    return ApiError(GONE, "gone", f"the log of queue '{queue.name}' tells no more of the message: {told}")


async def _lives(services: Services) -> Lives:
    owners = await survey.partitions(services.inquiry)

    def replicas(partition: int) -> list[str]:
        definition, facts = services.state.partitions.get(partition), owners.get(partition)
        hosts = () if definition is None else definition.replicas
        return owner_first(None if facts is None else facts["owner"], hosts, services.running)

    return Lives(services.inquiry, replicas)


async def _front_ends(services: Services, lives: Iterable[Life]) -> ClientNames:
    """The names of running processes and of their consumers, for the events of lives."""
    nodes = {one.front_end: name for name, one in services.state.nodes.items() if one.front_end}
    asked: dict[str, set[int]] = {}
    for event in (event for life in lives for event in life.events):
        node = nodes.get(event.facts.get("to", 0))
        if event.happened is Happened.LEASED and node in services.running:
            asked.setdefault(node, set()).add(event.facts["consumer"])
    consumers: dict[tuple[str, int], Mapping[str, Any]] = {}
    for node, numbers in asked.items():
        told = await services.inquiry.ask(node, CONSUMER_NAMES, sorted(numbers))
        consumers |= {(node, number): row for number, row in told or ()}
    return ClientNames(nodes, consumers)


@endpoints.on("GET", "/partitions/{id}/digests", Audience.MONITORING)
async def compare_digests(services: Services, call: Call) -> dict[str, Any]:
    """The digests of a partition's replicas after one entry, each computed anew from the log of the replica.
    They are equal unless a log has been changed.
    """
    text = call.path["id"]
    if (
        not (text.isascii() and text.isdigit() and len(text) < 19)
        or int(text) not in services.state.partitions
    ):
        raise no_such_object()
    found = await (await _lives(services)).digests(int(text))
    if not found:
        raise bad_request(f"partition {text} keeps no history")
    rows = [{"node": node, **one} for node, one in found.items()]
    equal = len({row["digest"] for row in rows}) == 1 and all(row["differs"] is None for row in rows)
    return {"partition": int(text), "index": rows[0]["index"], "equal": equal, "replicas": rows}
