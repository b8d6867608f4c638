"""Partitions over HTTP: their owners, how far their replicas are, and hand-overs."""

from __future__ import annotations

from collections import Counter
from typing import Any

from cluster.admin.api import survey
from cluster.admin.api.audience import Audience
from cluster.admin.api.call import Call
from cluster.admin.api.errors import ApiError, bad_request, no_such_object
from cluster.admin.api.node_report import HAND_OVER
from cluster.admin.api.responses import DONE, Rows, Status
from cluster.admin.api.routing import Endpoints
from cluster.admin.api.services import Services
from cluster.catalog.definitions import PartitionDefinition, PartitionKind
from cluster.catalog.replica import CATALOG

endpoints = Endpoints()


@endpoints.on("GET", "/partitions", Audience.MONITORING)
async def list_partitions(services: Services, call: Call) -> Rows:
    """The Raft groups of the cluster: owner, term, and for each replica how many entries it lacks."""
    told = await survey.partitions(services.inquiry)
    held = Counter(queue.partition for queue in services.state.queues.values())
    rows = [_row(one, told, held[one.id]) for one in services.state.partitions.values()]
    members = tuple(services.members)
    catalog = PartitionDefinition(CATALOG, PartitionKind.REPLICATED, members)
    return Rows([{**_row(catalog, told, 0), "kind": "catalog"}, *rows], ("id",))


def _row(definition: PartitionDefinition, told: dict[int, dict[str, Any]], queues: int) -> dict[str, Any]:
    facts = told.get(definition.id, {"owner": None, "term": None, "last_index": None, "replicas": {}})
    return {
        "id": definition.id,
        "kind": definition.kind.value,
        "queues": queues,
        "preferred": definition.preferred,
        "members": list(definition.replicas),
        **facts,
    }


@endpoints.on("PUT", "/partitions/{id}/owner", Audience.ADMINISTRATOR)
async def put_owner(services: Services, call: Call) -> Status:
    """Hand a partition over to the node `node`, which must have a replica of it and run."""
    fields = call.fields()
    fields.require("node")
    wanted, text = fields.text("node"), call.path["id"]
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise no_such_object()
    facts = (await survey.partitions(services.inquiry)).get(int(text))
    if facts is None:
        raise no_such_object()
    if wanted == facts["owner"]:
        return DONE
    if wanted not in facts["replicas"]:
        raise bad_request(f"node {wanted} has no replica of partition {text}")
    if wanted not in services.running:
        raise bad_request(f"node {wanted} does not run, or cannot be reached")
    services.log.info("owner_change_asked", partition=int(text), owner=wanted, user=call.user)
    asked = {"partition": int(text), "to": wanted}
    if not await services.inquiry.ask(facts["owner"], HAND_OVER, asked):
        raise ApiError(503, "service_unavailable", "the owner has changed meanwhile: ask again")
    return DONE
