"""Reading the cluster and its nodes over HTTP: overview, nodes, names, who one is."""

from __future__ import annotations

from typing import Any, Final

from cluster.identity import DIALECT_VERSION
from cluster.management import survey
from cluster.management.answers import Rows
from cluster.management.call import Call
from cluster.management.errors import ApiError
from cluster.management.names import found, sees, visible_vhosts
from cluster.management.node_report import CHURN_NAMES, MESSAGE_NAMES
from cluster.management.queue_views import depths
from cluster.management.rates import added, message_stats, with_rates
from cluster.management.routing import Audience, Endpoints
from cluster.management.sampling import INTERVAL_S
from cluster.management.services import Services
from cluster.management.survey import OwnedQueue
from node.engine.exchange import ExchangeKind

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
        "sample_retention_policies": {"global": [INTERVAL_S], "basic": [INTERVAL_S], "detailed": []},
        "statistics_db_event_queue": 0,
        "exchange_types": exchange_types(),
        "listeners": [one for node in services.config.cluster.nodes for one in listeners(services, node)],
        "contexts": [one for node in services.config.cluster.nodes for one in contexts(services, node)],
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
    return {
        "connections": len(connections),
        "channels": sum(one["channels"] for one in connections),
        "consumers": sum(one.state.consumers for one in shown),
        "exchanges": sum(1 for vhost in vhosts for _ in services.state.vhosts[vhost].exchanges),
        "queues": local + sum(queue.vhost in vhosts for queue in services.state.queues.values()),
    }


def shows(call: Call, row: dict[str, Any]) -> bool:
    """Whether the user may see a connection or a channel: users see their own."""
    return call.monitors or row["user"] == call.user


def exchange_types() -> list[dict[str, Any]]:
    return [
        {"name": kind.value, "description": f"AMQP {kind.value} exchange", "enabled": True}
        for kind in ExchangeKind
    ]


def listeners(services: Services, node: str) -> list[dict[str, Any]]:
    """Where a node listens, as the cluster's configuration says."""
    member = services.config.cluster.nodes[node]
    ports = (("amqp", member.amqp), ("clustering", member.peers), ("http", member.http))
    return [
        {"node": node, "protocol": protocol, "ip_address": address.host, "port": address.port}
        for protocol, address in ports
    ]


def contexts(services: Services, node: str) -> list[dict[str, Any]]:
    address = services.config.cluster.nodes[node].http
    return [
        {
            "node": node,
            "description": "quorate management",
            "path": "/",
            "ip": address.host,
            "port": str(address.port),
        }
    ]


# -- nodes ----------------------------------------------------------------------------------------


@endpoints.on("GET", "/nodes", Audience.MONITORING)
async def list_nodes(services: Services, call: Call) -> Rows:
    """All nodes of the cluster, also those that do not run."""
    facts = await survey.nodes(services.inquiry)
    return Rows([_node_row(services, node, facts.get(node)) for node in services.config.cluster.nodes])


@endpoints.on("GET", "/nodes/{name}", Audience.MONITORING)
async def show_node(services: Services, call: Call) -> dict[str, Any]:
    """One node."""
    name = call.path["name"]
    found(services.config.cluster.nodes.get(name))
    return _node_row(services, name, (await survey.nodes(services.inquiry)).get(name))


@endpoints.on("GET", "/nodes/{name}/memory", Audience.MONITORING)
async def show_memory(services: Services, call: Call) -> dict[str, Any]:
    """How much memory a node takes."""
    facts = found((await survey.nodes(services.inquiry)).get(call.path["name"]))
    return {"memory": {"strategy": "rss", "total": {"rss": facts["mem_used"]}}}


_PLAIN_FACTS: Final = (
    "os_pid", "uptime", "processors", "mem_used", "mem_limit", "fd_used", "fd_total", "sockets_used",
    "sockets_total", "proc_used", "disk_free", "db_dir", "journal_bytes",
)  # fmt: skip


def _node_row(services: Services, node: str, facts: dict[str, Any] | None) -> dict[str, Any]:
    row = {"name": node, "type": "disc", "running": facts is not None, "partitions": []}
    if facts is None:
        return row
    return {
        **row,
        **{name: facts[name] for name in _PLAIN_FACTS},
        "mem_alarm": False,
        "mem_calculation_strategy": "rss",
        "disk_free_limit": 0,
        "disk_free_alarm": False,
        "rates_mode": "basic",
        "being_drained": False,
        "ready": not facts["reasons"],
        "exchange_types": exchange_types(),
        "auth_mechanisms": [{"name": name, "enabled": True} for name in facts["mechanisms"]],
        "applications": [
            {"name": "quorate", "description": "message broker", "version": services.version},
            {"name": "python", "description": "Python", "version": facts["python"]},
        ],
        "contexts": contexts(services, node),
        "enabled_plugins": ["rabbitmq_management"],
        "cluster_links": [],
        **with_rates(CHURN_NAMES, facts["churn_counts"], facts["churn_rates"]),
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
