"""Nodes over HTTP: their reports and listeners."""

from __future__ import annotations

from typing import Any, Final

from cluster.admin.api import survey
from cluster.admin.api.audience import Audience
from cluster.admin.api.call import Call
from cluster.admin.api.names import found
from cluster.admin.api.node_report import CHURN_NAMES
from cluster.admin.api.rates import with_rates
from cluster.admin.api.responses import Rows
from cluster.admin.api.routing import Endpoints
from cluster.admin.api.services import Services
from cluster.catalog.membership.mover import GOING
from cluster.system.resources import DISK, MEMORY
from node.routing.exchange import DELAYED_TYPE, ExchangeKind

endpoints = Endpoints()


@endpoints.on("GET", "/nodes", Audience.MONITORING)
async def list_nodes(services: Services, call: Call) -> Rows:
    """All nodes of the cluster, also those that do not run."""
    facts = await survey.nodes(services.inquiry)
    return Rows([_node_row(services, node, facts.get(node)) for node in services.members])


@endpoints.on("GET", "/nodes/{name}", Audience.MONITORING)
async def show_node(services: Services, call: Call) -> dict[str, Any]:
    """One node."""
    name = call.path["name"]
    found(services.members.get(name))
    return _node_row(services, name, (await survey.nodes(services.inquiry)).get(name))


@endpoints.on("GET", "/nodes/{name}/memory", Audience.MONITORING)
async def show_memory(services: Services, call: Call) -> dict[str, Any]:
    """How much memory a node takes."""
    facts = found((await survey.nodes(services.inquiry)).get(call.path["name"]))
    return {"memory": {"strategy": "rss", "total": {"rss": facts["mem_used"]}}}


_PLAIN_FACTS: Final = (
    "os_pid",
    "uptime",
    "processors",
    "mem_used",
    "mem_limit",
    "fd_used",
    "fd_total",
    "sockets_used",
    "sockets_total",
    "proc_used",
    "disk_free",
    "disk_free_limit",
    "db_dir",
    "journal_bytes",
)


def _node_row(services: Services, node: str, facts: dict[str, Any] | None) -> dict[str, Any]:
    row = {"name": node, "type": "disc", "running": facts is not None, "partitions": []}
    if facts is None:
        return row
    return {
        **row,
        **{name: facts[name] for name in _PLAIN_FACTS},
        "mem_alarm": MEMORY in facts["short_of"],
        "mem_calculation_strategy": "rss",
        "disk_free_alarm": DISK in facts["short_of"],
        "rates_mode": "basic",
        "being_drained": services.members[node].state in GOING,
        "ready": not facts["reasons"],
        "exchange_types": exchange_types(),
        "auth_mechanisms": [{"name": name, "enabled": True} for name in facts["mechanisms"]],
        "applications": [
            {"name": "quorate", "description": "message broker", "version": services.version},
            {"name": "python", "description": "Python", "version": facts["python"]},
        ],
        # A node of an older release does not tell its build.
        "build": facts.get("build"),
        "c_modules": facts.get("c_modules"),
        "contexts": contexts(services, node),
        "enabled_plugins": ["rabbitmq_management"],
        "cluster_links": [],
        **with_rates(CHURN_NAMES, facts["churn_counts"], facts["churn_rates"]),
    }


def exchange_types() -> list[dict[str, Any]]:
    names = [*(kind.value for kind in ExchangeKind), DELAYED_TYPE]
    return [{"name": name, "description": f"AMQP {name} exchange", "enabled": True} for name in names]


def contexts(services: Services, node: str) -> list[dict[str, Any]]:
    host, _, port = services.members[node].http.rpartition(":")
    return [
        {
            "node": node,
            "description": "quorate management",
            "path": "/",
            "ip": host.strip("[]"),
            "port": port,
        }
    ]
