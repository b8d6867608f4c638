"""Reading exchanges and bindings over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cluster.admin.api import survey
from cluster.admin.api.call import Call
from cluster.admin.api.errors import no_such_object
from cluster.admin.api.names import exchange_name, properties_key, visible_vhosts
from cluster.admin.api.rates import FLOW_NAMES, with_rates
from cluster.admin.api.responses import Rows
from cluster.admin.api.routing import Endpoints
from cluster.admin.api.services import Services
from cluster.admin.api.survey import Counted
from cluster.catalog.owner_parts import whole_name
from cluster.catalog.policies import ResourceKind
from node.routing.exchange import DEFAULT_EXCHANGE, Exchange
from node.routing.matching import Binding, Destination, DestinationKind

endpoints = Endpoints()

BINDING_ORDER = ("vhost", "source", "destination_type", "destination", "routing_key", "properties_key")
KINDS = {"q": DestinationKind.QUEUE, "e": DestinationKind.EXCHANGE}
"""The letters by which paths name the kinds of a binding's destination."""

Flows = dict[tuple[str, str], Counted]


# -- exchanges ------------------------------------------------------------------------------------


@endpoints.on("GET", "/exchanges")
async def list_exchanges(services: Services, call: Call) -> Rows:
    """All exchanges."""
    flows = await survey.flows(services.inquiry)
    vhosts = [(name, services.state.vhosts[name]) for name in visible_vhosts(services, call)]
    rows = [exchange_row(services, name, one, flows) for name, vhost in vhosts for one in vhost.exchanges]
    return Rows(rows, paged=True)


endpoints.on("GET", "/exchanges/{vhost}")(list_exchanges)


@endpoints.on("GET", "/exchanges/{vhost}/{name}")
async def show_exchange(services: Services, call: Call) -> dict[str, Any]:
    """One exchange."""
    exchange = exchange_in(services, call)
    row = exchange_row(services, call.vhost, exchange, await survey.flows(services.inquiry))
    return {**row, "incoming": [], "outgoing": []}


def exchange_in(services: Services, call: Call) -> Exchange:
    """The exchange in the path. Raises NotFoundError."""
    return services.front_end.exchange(call.vhost, exchange_name(call.path["name"]))


def exchange_row(services: Services, vhost: str, exchange: Exchange, flows: Flows) -> dict[str, Any]:
    applied = services.state.policies.applied(vhost, ResourceKind.EXCHANGE, exchange.name)
    row = {"vhost": vhost, **exchange_definition(exchange)}
    if applied.policy is not None:
        row["policy"] = applied.policy
    counted = flows.get((vhost, exchange.name))
    if counted is not None:
        row["message_stats"] = with_rates(FLOW_NAMES, counted.counts, counted.rates)
    return row


def exchange_definition(exchange: Exchange) -> dict[str, Any]:
    """As in RabbitMQ's definitions."""
    return {
        "name": exchange.name,
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": exchange.arguments,
    }


# -- bindings -------------------------------------------------------------------------------------


@endpoints.on("GET", "/bindings")
async def list_bindings(services: Services, call: Call) -> Rows:
    """All bindings, those of queues to the default exchange included."""
    rows = (row for vhost in visible_vhosts(services, call) for row in bindings_of(services, vhost))
    return Rows(rows, BINDING_ORDER)


endpoints.on("GET", "/bindings/{vhost}")(list_bindings)


@endpoints.on("GET", "/bindings/{vhost}/e/{source}/{kind}/{destination}")
async def list_bindings_between(services: Services, call: Call) -> Rows:
    """The bindings between an exchange and a queue (`q`) or another exchange (`e`)."""
    return Rows(bindings_between(services, call), BINDING_ORDER)


@endpoints.on("GET", "/bindings/{vhost}/e/{source}/{kind}/{destination}/{properties}")
async def show_binding(services: Services, call: Call) -> dict[str, Any]:
    """One binding, by its `properties_key`."""
    for row in bindings_between(services, call):
        if row["properties_key"] == call.path["properties"]:
            return row
    raise no_such_object()


@endpoints.on("GET", "/exchanges/{vhost}/{name}/bindings/source")
async def list_bindings_from(services: Services, call: Call) -> Rows:
    """The bindings that an exchange is the source of."""
    name = exchange_in(services, call).name
    rows = default_bindings(services, call.vhost) if name == DEFAULT_EXCHANGE else iter(())
    return Rows([*rows, *explicit_bindings(services, call.vhost, source=name)], BINDING_ORDER)


@endpoints.on("GET", "/exchanges/{vhost}/{name}/bindings/destination")
async def list_bindings_to(services: Services, call: Call) -> Rows:
    """The bindings that lead to an exchange."""
    destination = Destination(DestinationKind.EXCHANGE, exchange_in(services, call).name)
    return Rows(explicit_bindings(services, call.vhost, destination=destination), BINDING_ORDER)


def bindings_of(services: Services, vhost: str) -> Iterator[dict[str, Any]]:
    yield from default_bindings(services, vhost)
    yield from explicit_bindings(services, vhost)


def default_bindings(services: Services, vhost: str) -> Iterator[dict[str, Any]]:
    """Every queue is bound to the default exchange by its name (0-9-1 §3.1.3.1)."""
    for queue in services.state.queues.values():
        if queue.vhost == vhost and whole_name(queue) is None:
            yield default_binding(vhost, queue.name)


def default_binding(vhost: str, queue: str) -> dict[str, Any]:
    return _row(vhost, DEFAULT_EXCHANGE, Destination(DestinationKind.QUEUE, queue), queue, {})


def explicit_bindings(
    services: Services, vhost: str, source: str | None = None, destination: Destination | None = None
) -> Iterator[dict[str, Any]]:
    host = services.state.vhosts[vhost]
    for binding in host.exchanges.bindings(source, destination):
        yield binding_row(vhost, binding, host.arguments.get(binding, {}))


def binding_row(vhost: str, binding: Binding, arguments: dict[str, Any]) -> dict[str, Any]:
    return _row(vhost, binding.source, binding.destination, binding.key, arguments)


def _row(
    vhost: str, source: str, destination: Destination, key: str, arguments: dict[str, Any]
) -> dict[str, Any]:
    return {
        "source": source,
        "vhost": vhost,
        "destination": destination.name,
        "destination_type": destination.kind.value,
        "routing_key": key,
        "arguments": arguments,
        "properties_key": properties_key(key, arguments),
    }


def bindings_between(services: Services, call: Call) -> list[dict[str, Any]]:
    """The bindings between source and destination in the path; none if either is missing. Raises ApiError."""
    source, destination = ends_of(call)
    if source == DEFAULT_EXCHANGE:
        known = destination.kind is DestinationKind.QUEUE and is_queue(services, call.vhost, destination.name)
        return [default_binding(call.vhost, destination.name)] if known else []
    return list(explicit_bindings(services, call.vhost, source, destination))


def ends_of(call: Call) -> tuple[str, Destination]:
    """Source and destination in the path. Raises ApiError."""
    kind = KINDS.get(call.path["kind"])
    if kind is None:
        raise no_such_object()
    name = call.path["destination"]
    name = exchange_name(name) if kind is DestinationKind.EXCHANGE else name
    return exchange_name(call.path["source"]), Destination(kind, name)


def is_queue(services: Services, vhost: str, name: str) -> bool:
    return (vhost, name) in services.state.queues
