"""Lives of messages as HTTP clients see them: names in place of numbers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cluster.admin.api.message_lives import Life
from cluster.catalog.state import CatalogState
from cluster.owner.transfers import FIRST_TRANSIT_ID
from cluster.peers.link_messages import FIRST_CONSUMER
from node.message.bookmarks import bookmark_of
from node.queue.events import Occurrence
from node.queue.operations import OWNER


@dataclass(frozen=True, slots=True)
class ClientNames:
    """The nodes of running processes, and the consumers that are there yet, by node and number."""

    nodes: Mapping[int, str]
    consumers: Mapping[tuple[str, int], Mapping[str, Any]]

    def named(self, front_end: int) -> dict[str, Any]:
        """A front end: the owner, another partition, a node, or a process that is gone."""
        if front_end == OWNER:
            return {"owner": True}
        if front_end >= FIRST_TRANSIT_ID:
            return {"partition": front_end - FIRST_TRANSIT_ID}
        node = self.nodes.get(front_end)
        return {"node": node} if node is not None else {"process": f"{front_end:x}"}

    def consumer(self, front_end: int, number: int | None) -> dict[str, Any]:
        """A consumer of a front end, as far as it is known."""
        if number is None:
            return self.named(front_end)
        if number < FIRST_CONSUMER:
            return {**self.named(front_end), "get": True}
        node = self.nodes.get(front_end, "")
        return {**self.named(front_end), "consumer": number, **self.consumers.get((node, number), {})}


def shown_life(life: Life, state: CatalogState, front_ends: ClientNames) -> dict[str, Any]:
    """A life in one partition, with the bookmark that the message has in each queue."""
    return {
        "partition": life.partition,
        "node": life.node,
        "owner": life.owned,
        "bookmarks": [
            {**_queue(one, state), "bookmark": bookmark_of(one, life.number)}
            for one in dict.fromkeys(life.queues)
        ],
        "between": life.between,
        "omitted": life.omitted,
        "events": [_event(one, life, state, front_ends) for one in life.events],
        "now": [
            {**_queue(queue, state), **_place(place, front_ends)}
            for queue, place in life.now.items()
            if queue in state.queues_by_id
        ],
    }


def _queue(id: int, state: CatalogState) -> dict[str, Any]:
    named = state.queue_name(id)
    return {"queue": f"#{id}", "deleted": True} if named is None else {"vhost": named[0], "queue": named[1]}


def _place(place: Mapping[str, Any], front_ends: ClientNames) -> dict[str, Any]:
    told = dict(place)
    if "to" in told:
        told["to"] = front_ends.named(told["to"])
    return told


def _event(event: Occurrence, life: Life, state: CatalogState, front_ends: ClientNames) -> dict[str, Any]:
    facts = dict(event.facts)
    if "by" in facts:
        facts["by"] = front_ends.named(facts["by"])
    if "to" in facts:
        facts["to"] = front_ends.consumer(facts["to"], facts.pop("consumer", None))
    if "queues" in facts:
        facts["queues"] = [_queue(one, state)["queue"] for one in facts["queues"]]
    return {
        "event": str(event.happened),
        "time": event.time or None,
        "entry": event.entry,
        "term": event.term,
        "digest": life.digests.get(event.entry),
        "queue": _queue(event.queue, state)["queue"] if event.queue else None,
        **facts,
    }
