"""The cluster at a glance over HTTP, its name, and the user who asks."""

from __future__ import annotations

from typing import Any

from cluster.admin.api import survey
from cluster.admin.api.audience import Audience
from cluster.admin.api.call import Call
from cluster.admin.api.errors import ApiError
from cluster.admin.api.names import sees, shows, visible_vhosts
from cluster.admin.api.node_report import CHURN_NAMES, MESSAGE_NAMES
from cluster.admin.api.node_views import contexts, exchange_types
from cluster.admin.api.queue_views import depths
from cluster.admin.api.rates import added, message_stats, with_rates
from cluster.admin.api.responses import Rows
from cluster.admin.api.routing import Endpoints
from cluster.admin.api.sampling import SAMPLING_INTERVAL_S
from cluster.admin.api.services import Services
from cluster.admin.api.survey import OwnedQueue
from cluster.catalog.owner_parts import whole_name
from cluster.config.identity import DIALECT_VERSION

endpoints = Endpoints()

NodeFacts = dict[str, dict[str, Any]]


@endpoints.on("GET", "/overview")
async def show_overview(services: Services, call: Call) -> dict[str, Any]:
    """The cluster at a glance: versions, totals, rates, listeners."""
    facts = await survey.nodes(services.inquiry)
    states, _ = await survey.queue_states(services.inquiry)
    shown = [one for one in states.values() if sees(services, call, one.state.vhost)]
    return {
        **_versions(services),
        "node": services.node,
        "cluster_name": services.config.cluster.name,
        "rates_mode": "basic",
        "sample_retention_policies": {
            "global": [SAMPLING_INTERVAL_S],
            "basic": [SAMPLING_INTERVAL_S],
            "detailed": [],
        },
        "statistics_db_event_queue": 0,
        "exchange_types": exchange_types(),
        "listeners": [one for node in sorted(facts) for one in facts[node]["listeners"]],
        "contexts": [one for node in services.members for one in contexts(services, node)],
        "queue_totals": _queue_totals(shown),
        "object_totals": await _object_totals(services, call, shown),
        "message_stats": message_stats(MESSAGE_NAMES, *_totals(facts, "message")),
        "churn_rates": with_rates(CHURN_NAMES, *_totals(facts, "churn")),
    }


def _versions(services: Services) -> dict[str, Any]:
    """Clients choose by RabbitMQ's version what they may ask for."""
    return {
        "product_name": "quorate",
        "product_version": services.version,
        "management_version": DIALECT_VERSION,
        "rabbitmq_version": DIALECT_VERSION,
    }


def _totals(facts: NodeFacts, what: str) -> tuple[list[float], list[float]]:
    """Counts and rates of all nodes."""
    width = len(MESSAGE_NAMES if what == "message" else CHURN_NAMES)
    counts = added((node[f"{what}_counts"] for node in facts.values()), width)
    return counts, added((node[f"{what}_rates"] for node in facts.values()), width)


def _queue_totals(shown: list[OwnedQueue]) -> Any:
    ready, unacknowledged = added((one.state.counts[-2:] for one in shown), 2)
    return depths(ready, unacknowledged, *added((one.state.rates[-2:] for one in shown), 2))


async def _object_totals(services: Services, call: Call, shown: list[OwnedQueue]) -> dict[str, int]:
    connections = [one for one in await survey.connections(services.inquiry) if shows(call, one)]
    vhosts = visible_vhosts(services, call)
    local = sum(one.state.local is not None for one in shown)
    known = services.state.queues.values()
    return {
        "connections": len(connections),
        "channels": sum(one["channels"] for one in connections),
        "consumers": sum(one.state.consumers for one in shown),
        "exchanges": sum(1 for vhost in vhosts for _ in services.state.vhosts[vhost].exchanges),
        "queues": local + sum(one.vhost in vhosts and whole_name(one) is None for one in known),
    }


# -- names ----------------------------------------------------------------------------------------


@endpoints.on("GET", "/cluster-name")
async def show_cluster_name(services: Services, call: Call) -> dict[str, Any]:
    """The cluster's name."""
    return {"name": services.config.cluster.name}


@endpoints.on("PUT", "/cluster-name", Audience.ADMINISTRATOR)
async def set_cluster_name(services: Services, call: Call) -> None:
    """Refused: the name is in every node's configuration."""
    raise ApiError(501, "not_implemented", "the cluster's name is set in the configuration: cluster.name")


@endpoints.on("GET", "/whoami")
async def show_user(services: Services, call: Call) -> dict[str, Any]:
    """The user who asks."""
    return {"name": call.user, "tags": list(call.identity.tags)}


@endpoints.on("GET", "/auth")
async def show_authentication(services: Services, call: Call) -> dict[str, Any]:
    """How to log in: by password alone."""
    return {"oauth_enabled": False}


@endpoints.on("GET", "/extensions")
async def list_extensions(services: Services, call: Call) -> Rows:
    """Extensions of the web console: none."""
    return Rows([])
