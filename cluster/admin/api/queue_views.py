"""Reading queues over HTTP: their definitions in the catalog, with the figures of their owners."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from cluster.admin.api import survey
from cluster.admin.api.call import Call
from cluster.admin.api.errors import no_such_object
from cluster.admin.api.exchange_views import BINDING_ORDER, default_binding, explicit_bindings
from cluster.admin.api.names import visible_vhosts
from cluster.admin.api.queue_rows import QueueFigures, QueueKey, added_figures
from cluster.admin.api.rates import DEPTH_NAMES, TALLY_NAMES, message_stats, with_rates
from cluster.admin.api.responses import Rows
from cluster.admin.api.routing import Endpoints
from cluster.admin.api.services import Services
from cluster.admin.api.survey import OwnedQueue
from cluster.catalog.definitions import QueueDefinition, parse_local_queue_name
from cluster.catalog.effective import applied_to_queue, queue_type
from cluster.catalog.owner_parts import whole_name
from cluster.catalog.placement import CLASSIC
from cluster.catalog.policies import AppliedPolicies, ResourceKind
from node.queue.placement_arguments import X_OWNERS
from node.routing.matching import Destination, DestinationKind

endpoints = Endpoints()

States = dict[QueueKey, OwnedQueue]


@endpoints.on("GET", "/queues")
async def list_queues(services: Services, call: Call) -> Rows:
    """All queues."""
    states, answered = await survey.queue_states(services.inquiry)
    return Rows(_rows(services, set(visible_vhosts(services, call)), states, answered), paged=True)


endpoints.on("GET", "/queues/{vhost}")(list_queues)


@endpoints.on("GET", "/queues/{vhost}/{name}")
async def show_queue(services: Services, call: Call) -> dict[str, Any]:
    """One queue, with its consumers."""
    key = (call.vhost, services.front_end.name_here(call.vhost, call.path["name"]))
    states, answered = await survey.queue_states(services.inquiry, _parts(services, key))
    row = _row_of(services, key, states, answered)
    consumers = await survey.consumers(services.inquiry)
    place = {"name": key[1], "vhost": key[0]}
    mine = [one for one in consumers if one["queue"] == place]
    return {
        **row,
        "consumer_details": mine,
        "single_active_consumer_tag": _tag(one for one in mine if one["activity_status"] == "single_active"),
        "exclusive_consumer_tag": _tag(one for one in mine if one["exclusive"]),
        "incoming": [],
        "deliveries": [],
    }


def _tag(consumers: Iterator[dict[str, Any]]) -> str | None:
    return next((str(one["consumer_tag"]) for one in consumers), None)


@endpoints.on("GET", "/queues/{vhost}/{name}/bindings")
async def list_bindings_of_queue(services: Services, call: Call) -> Rows:
    """The bindings of a queue."""
    name = services.front_end.name_here(call.vhost, call.path["name"])
    if (call.vhost, name) not in services.state.queues and parse_local_queue_name(name) is None:
        raise no_such_object()
    destination = Destination(DestinationKind.QUEUE, name)
    explicit = explicit_bindings(services, call.vhost, destination=destination)
    return Rows([default_binding(call.vhost, name), *explicit], BINDING_ORDER)


def _rows(
    services: Services, vhosts: set[str], states: States, answered: set[str]
) -> Iterator[dict[str, Any]]:
    for queue in list(services.state.queues.values()):
        if queue.vhost in vhosts and whole_name(queue) is None:
            yield queue_row(services, queue, _figures(services, queue, states), answered)
    for owned in states.values():
        if owned.state.local is not None and owned.state.vhost in vhosts:
            yield _local_row(services, owned)


def _parts(services: Services, key: QueueKey) -> list[QueueKey]:
    """The queue itself, and its hidden parts."""
    queue = services.state.queues.get(key)
    parts = [] if queue is None else services.state.owner_parts.of(queue)
    return [(one.vhost, one.name) for one in parts] or [key]


def _figures(services: Services, queue: QueueDefinition, states: States) -> OwnedQueue | None:
    """The figures of a queue: of all parts that have an owner, at the node of the first of these."""
    key = queue.vhost, queue.name
    if X_OWNERS not in queue.arguments:
        return states.get(key)
    found = [states[one] for one in _parts(services, key) if one in states]
    return OwnedQueue(found[0].node, added_figures([one.state for one in found])) if found else None


def _row_of(services: Services, key: QueueKey, states: States, answered: set[str]) -> dict[str, Any]:
    """Raises ApiError."""
    queue, owned = services.state.queues.get(key), states.get(key)
    if queue is not None and whole_name(queue) is None:
        return queue_row(services, queue, _figures(services, queue, states), answered)
    if owned is None or queue is not None:
        raise no_such_object()
    return _local_row(services, owned)


def queue_row(
    services: Services, queue: QueueDefinition, owned: OwnedQueue | None, answered: set[str]
) -> dict[str, Any]:
    """A queue of the catalog. A queue without an owner has no figures."""
    partition = services.state.partitions[queue.partition]
    kind = queue_type(services.state, queue)
    row = {
        "vhost": queue.vhost,
        **queue_definition(queue),
        "exclusive": queue.exclusive,
        "type": kind,
        "partition": queue.partition,
        "node": partition.preferred if owned is None else owned.node,
        **applied_policies(applied_to_queue(services.state, queue)),
        "state": "down" if owned is None else "running",
    }
    if kind != CLASSIC:
        online = [node for node in partition.replicas if node in answered]
        leader = None if owned is None else owned.node
        row |= {"leader": leader, "members": list(partition.replicas), "online": online}
    return row if owned is None else {**row, **_contents(owned.state)}


def queue_definition(queue: QueueDefinition) -> dict[str, Any]:
    """As in RabbitMQ's definitions."""
    return {
        "name": queue.name,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "arguments": queue.arguments,
    }


def applied_policies(applied: AppliedPolicies) -> dict[str, Any]:
    """The policies of a queue or exchange, as RabbitMQ shows them."""
    return {
        "policy": applied.policy,
        "operator_policy": applied.operator_policy,
        "effective_policy_definition": applied.definition,
    }


def _local_row(services: Services, owned: OwnedQueue) -> dict[str, Any]:
    """A server-named exclusive queue, which only its node knows."""
    state = owned.state
    declared = state.local or {}
    return {
        "vhost": state.vhost,
        "name": state.name,
        "durable": False,
        "auto_delete": declared["auto_delete"],
        "exclusive": True,
        "arguments": declared["arguments"],
        "type": "classic",
        "node": owned.node,
        **applied_policies(
            services.state.policies.applied(state.vhost, ResourceKind.CLASSIC_QUEUE, state.name)
        ),
        "state": "running",
        **_contents(state),
    }


def _contents(state: QueueFigures) -> dict[str, Any]:
    *tally, ready, unacknowledged = state.counts
    *tally_rates, ready_rate, unacknowledged_rate = state.rates
    contents = {
        **depths(ready, unacknowledged, ready_rate, unacknowledged_rate),
        "messages_scheduled": state.scheduled,
        "consumers": state.consumers,
        "message_stats": message_stats(TALLY_NAMES, tally, tally_rates),
    }
    if state.idle_ms:
        at = datetime.fromtimestamp(state.idle_ms / 1000, UTC)
        contents["idle_since"] = at.isoformat(timespec="milliseconds")
    return contents


def depths(ready: float, unacknowledged: float, ready_rate: float, unacknowledged_rate: float) -> Any:
    """The numbers of messages, and their rates by the second."""
    counts = (ready + unacknowledged, ready, unacknowledged)
    rates = (ready_rate + unacknowledged_rate, ready_rate, unacknowledged_rate)
    return with_rates(DEPTH_NAMES, counts, rates)
