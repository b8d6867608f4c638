"""What a node shows of itself and of the cluster over HTTP: status and readiness.

A node answers for its own partitions; `status` asks the others for theirs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from cluster.admin.metrics.exposition import Slices
from cluster.admin.metrics.sweep import STEP
from cluster.catalog.definitions import PartitionKind
from cluster.catalog.membership.directory import directory
from cluster.process.joining import add_command

if TYPE_CHECKING:
    from cluster.process.node import NodeProcess

QUESTION: Final = "status"

PAUSE_S: Final = 0.001
"""Between slices of the work on an answer: other nodes wait a second for it."""


class NodeStatus:
    """The first half of `cluster.admin.http.server.NodeView`."""

    def __init__(self, process: NodeProcess) -> None:
        self.listening = False
        self._process = process
        process.inquiry.answer(QUESTION, lambda _: self._own_part())

    # -- status ---------------------------------------------------------------------------------

    async def status(self) -> Mapping[str, Any]:
        process = self._process
        told = await process.inquiry.ask_all(QUESTION)
        nodes: list[dict[str, Any]] = []
        partitions: dict[int, dict[str, Any]] = {}
        queues: list[dict[str, Any]] = []
        for name, member in directory(process.config, process.broker.catalog.state).items():
            part = told.get(name)
            if part is None:
                node: dict[str, Any] = {"name": name, "pid": None, "ready": False}
            else:
                # A node of an older release does not say what it writes.
                formats = part.get("formats", 0)
                node = {"name": name, "pid": part["pid"], "ready": part["ready"], "formats": formats}
                for partition in part["partitions"]:
                    known = partitions.get(partition["id"])
                    if known is None or known["term"] < partition["term"]:
                        partitions[partition["id"]] = partition
                queues += part["queues"]
            nodes.append({**node, "amqp": member.amqp, "http": member.http})
        return {
            "nodes": nodes,
            "partitions": [partitions[id] for id in sorted(partitions)],
            "queues": sorted(queues, key=lambda queue: (queue["vhost"], queue["name"])),
        }

    async def _own_part(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "ready": not self.readiness(),
            "formats": self._process.broker.formats.everywhere,
            "partitions": self._own_partitions(),
            "queues": await self._own_queues(),
        }

    def _own_partitions(self) -> list[dict[str, Any]]:
        broker = self._process.broker
        shown = []
        for group in broker.host.groups.values():
            raft = group.raft
            if broker.host.leads(group.partition, broker.now):
                matches = [progress.match for progress in raft.progress.values()]
                shown.append(
                    {
                        "id": group.partition,
                        "owner": broker.node,
                        "term": raft.term,
                        "replicas": sorted(raft.membership.members),
                        "lag": raft.last_index - min(matches, default=raft.last_index),
                    }
                )
        return shown

    async def _own_queues(self) -> list[dict[str, Any]]:
        broker = self._process.broker
        slices = Slices(PAUSE_S)
        shown = []
        for number, queue in enumerate(list(broker.catalog.state.queues.values())):
            owner = broker.owners.get(queue.partition)
            if owner is not None and owner.active and queue.id in owner.queues:
                counts = owner.queues[queue.id]
                shown.append(
                    {
                        "vhost": queue.vhost,
                        "name": queue.name,
                        "owner": broker.node,
                        "partition": queue.partition,
                        "ready": len(counts.ready) + len(counts.held),
                        "leased": counts.leased_count,
                        "scheduled": counts.scheduled_count,
                        "duplicates": counts.tally.duplicates,
                        "consumers": counts.consumers.count,
                    }
                )
            if number % STEP == 0 and slices.used_up:
                await slices.rest()
        return shown

    # -- health ---------------------------------------------------------------------------------

    def readiness(self) -> list[str]:
        process = self._process
        reasons = []
        if process.fail_stop.failure is not None:
            reasons.append(f"the node ends: {process.fail_stop.failure}")
        if not self.listening:
            reasons.append("not listening for clients yet")
        if process.broker.bootstrap.awaited:
            awaited = ", ".join(process.broker.bootstrap.awaited)
            reasons.append(
                f"no word from {awaited}: whether this cluster is new, all its founders have to say"
            )
        if process.broker.bootstrap.waiting:
            reasons.append(f"this node is no member of the cluster: {add_command(process)}")
        elif process.broker.host.rebuilding:
            reasons.append("getting back what its lost disk had")
        if not process.front_end.ready():
            reasons.append("no word from the catalog's leader: is a majority of the nodes up?")
        reasons.extend(
            f"partition {link.partition} has no owner"
            for link in process.broker.links.values()
            if link.owner is None and self._is_replicated(link.partition)
        )
        return reasons

    def _is_replicated(self, partition: int) -> bool:
        definition = self._process.broker.catalog.state.partitions.get(partition)
        return (
            definition is not None
            and definition.kind is PartitionKind.REPLICATED
            and len(definition.replicas) > 1
        )
