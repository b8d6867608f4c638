"""Health checks over HTTP: 200 where all is well, 503 with a reason where it is not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cluster.admin.api import node_report, survey
from cluster.admin.api.call import Call
from cluster.admin.api.certificate_dates import expiry_dates
from cluster.admin.api.errors import bad_request, no_such_object
from cluster.admin.api.node_report import NODE
from cluster.admin.api.responses import Status
from cluster.admin.api.routing import Endpoints
from cluster.admin.api.services import Services

endpoints = Endpoints()

OK: Final = {"status": "ok"}
PROTOCOLS: Final = {
    "amqp091": "amqp",
    "amqp0-9-1": "amqp",
    "amqps": "amqp/ssl",
    "amqp091s": "amqp/ssl",
}
"""The name of a listener by each other name that a client may use for its protocol."""

UNITS: Final = {"days": 1, "weeks": 7, "months": 30, "years": 365}


def _failed(reason: str, **more: Any) -> Status:
    return Status(503, body={"status": "failed", "reason": reason, **more})


@endpoints.on("GET", "/health/checks/alarms")
async def check_alarms(services: Services, call: Call) -> Any:
    """Whether any node is short of memory or disk."""
    short = {name: facts["short_of"] for name, facts in (await survey.nodes(services.inquiry)).items()}
    return _alarms(short)


@endpoints.on("GET", "/health/checks/local-alarms")
async def check_local_alarms(services: Services, call: Call) -> Any:
    """Whether this node is short of memory or disk."""
    facts = await services.inquiry.ask(services.node, node_report.NODE)
    return _alarms({services.node: facts["short_of"]})


def _alarms(short: dict[str, list[str]]) -> Any:
    found = [{"node": node, "resource": one} for node, ones in sorted(short.items()) for one in ones]
    return _failed("There are alarms in effect in the cluster", alarms=found) if found else OK


@endpoints.on("GET", "/health/checks/virtual-hosts")
async def check_vhosts(services: Services, call: Call) -> Any:
    """Whether this node serves all virtual hosts."""
    reasons = services.readiness()
    return _failed("; ".join(reasons)) if reasons else OK


@endpoints.on("GET", "/health/checks/ready-to-serve-clients")
async def check_ready(services: Services, call: Call) -> Any:
    """Whether a load balancer may send clients to this node."""
    return await check_vhosts(services, call)


@endpoints.on("GET", "/health/checks/node-is-quorum-critical")
async def check_quorum(services: Services, call: Call) -> Any:
    """Whether some partition would be without a majority if this node were stopped."""
    running = set(await survey.nodes(services.inquiry))
    members = tuple(services.members)
    if len(members) == 1:
        return {**OK, "reason": "single node cluster"}
    groups = {partition.replicas for partition in services.state.partitions.values()} | {members}
    critical = sorted(
        replicas
        for replicas in groups
        if services.node in replicas
        and len(replicas) > 1
        and len(running & set(replicas) - {services.node}) <= len(replicas) // 2
    )
    if not critical:
        return OK
    return _failed("There are quorum queues that would lose their quorum", groups=critical)


@endpoints.on("GET", "/health/checks/node-is-mirror-sync-critical")
async def check_mirrors(services: Services, call: Call) -> Any:
    """Always true: there are no mirrors that could be out of step."""
    return OK


@endpoints.on("GET", "/health/checks/port-listener/{port}")
async def check_port(services: Services, call: Call) -> Any:
    """Whether this node listens on a port."""
    if not call.path["port"].isascii() or not call.path["port"].isdigit() or len(call.path["port"]) > 5:
        raise bad_request("Invalid port")
    port = int(call.path["port"])
    ports = [one["port"] for one in await _active(services)]
    if port in ports:
        return {**OK, "port": port}
    return _failed("No active listener", missing=port, ports=ports)


@endpoints.on("GET", "/health/checks/protocol-listener/{protocol}")
async def check_protocol(services: Services, call: Call) -> Any:
    """Whether this node listens for a protocol."""
    asked = call.path["protocol"]
    protocol = PROTOCOLS.get(asked, asked)
    protocols = [one["protocol"] for one in await _active(services)]
    if protocol in protocols:
        return {**OK, "protocol": protocol}
    return _failed("No active listener", missing=asked, protocols=protocols)


async def _active(services: Services) -> list[dict[str, Any]]:
    """The listeners of this node that are open now."""
    facts = await services.inquiry.ask(services.node, NODE)
    return list(facts["listeners"])


@endpoints.on("GET", "/health/checks/certificate-expiration/{within}/{unit}")
async def check_certificates(services: Services, call: Call) -> Any:
    """Whether a certificate of this node expires within so many days, weeks, months or years."""
    days = UNITS.get(call.path["unit"])
    if days is None:
        raise bad_request("Time unit not recognised. Supported units: days, weeks, months, years.")
    within = call.path["within"]
    if not (within.isascii() and within.isdigit() and len(within) < 6):
        raise bad_request("Invalid expiration value.")
    tls = services.config.tls
    if tls is None:
        return OK
    limit = datetime.now(UTC) + timedelta(days=days * int(within))
    files = [path for path in (tls.certificate, tls.ca) if path is not None]
    dates = {path: expiry_dates(path.read_text(encoding="ascii")) for path in files}
    expired = [
        {"file": str(path), "expires_on": [date.isoformat() for date in found if date < limit]}
        for path, found in dates.items()
        if any(date < limit for date in found)
    ]
    return _failed("Certificates expiring", expired=expired) if expired else OK


@endpoints.on("GET", "/healthchecks/node")
async def check_node(services: Services, call: Call) -> Any:
    """Whether this node serves clients (RabbitMQ's older check)."""
    reasons = services.readiness()
    return {"status": "failed", "reason": "; ".join(reasons)} if reasons else OK


@endpoints.on("GET", "/healthchecks/node/{name}")
async def check_named_node(services: Services, call: Call) -> Any:
    """Whether a node serves clients."""
    name = call.path["name"]
    if name not in services.members:
        raise no_such_object()
    facts = (await survey.nodes(services.inquiry)).get(name)
    reasons = ["the node does not answer"] if facts is None else facts["reasons"]
    return {"status": "failed", "reason": "; ".join(reasons)} if reasons else OK
