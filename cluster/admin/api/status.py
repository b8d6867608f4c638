"""The status of the cluster that a node shows in `/api/status`.

A node answers for its own partitions; `status` asks the other nodes for theirs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from cluster.admin.http.pages import Slices
from cluster.admin.inquiry import Inquiry
from cluster.admin.metrics.sweep import SWEEP_STEP
from cluster.admin.views import NodeView
from cluster.catalog.membership.directory import directory
from cluster.system.build import build, runs_c_modules

STATUS_QUESTION: Final = "status"

STATUS_PAUSE_S: Final = 0.001
"""Between slices of the work on an answer: other nodes wait a second for it."""


class NodeStatus:
    """The status of the cluster, put together of the answers of all nodes."""

    def __init__(self, node: NodeView, inquiry: Inquiry) -> None:
        self._node = node
        self._inquiry = inquiry
        inquiry.answer(STATUS_QUESTION, lambda _: self._own_part())

    async def status(self) -> Mapping[str, Any]:
        """See `status_page.Status`."""
        told = await self._inquiry.ask_all(STATUS_QUESTION)
        nodes: list[dict[str, Any]] = []
        partitions: dict[int, dict[str, Any]] = {}
        queues: list[dict[str, Any]] = []
        for name, member in directory(self._node.config, self._node.partitions.state).items():
            part = told.get(name)
            if part is None:
                node: dict[str, Any] = {"name": name, "pid": None, "ready": False}
            else:
                # A node of an older release leaves out the formats that it writes, and its build.
                node = {
                    "name": name,
                    "pid": part["pid"],
                    "ready": part["ready"],
                    "formats": part.get("formats", 0),
                    "build": part.get("build"),
                    "c_modules": part.get("c_modules"),
                }
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
            "ready": not self._node.health.readiness(),
            "formats": self._node.formats(),
            "build": build(),
            "c_modules": runs_c_modules(),
            "partitions": self._own_partitions(),
            "queues": await self._own_queues(),
        }

    def _own_partitions(self) -> list[dict[str, Any]]:
        name, host, now = self._node.config.name, self._node.partitions.host, self._node.clock()
        shown = []
        for group in host.groups.values():
            raft = group.raft
            if host.leads(group.partition, now):
                matches = [progress.match for progress in raft.progress.values()]
                shown.append(
                    {
                        "id": group.partition,
                        "owner": name,
                        "term": raft.term,
                        "replicas": sorted(raft.membership.members),
                        "lag": raft.last_index - min(matches, default=raft.last_index),
                    }
                )
        return shown

    async def _own_queues(self) -> list[dict[str, Any]]:
        name, partitions = self._node.config.name, self._node.partitions
        slices = Slices(STATUS_PAUSE_S)
        shown = []
        for number, queue in enumerate(list(partitions.state.queues.values())):
            owner = partitions.owners.get(queue.partition)
            if owner is not None and owner.active and queue.id in owner.queues:
                counts = owner.queues[queue.id]
                shown.append(
                    {
                        "vhost": queue.vhost,
                        "name": queue.name,
                        "owner": name,
                        "partition": queue.partition,
                        "ready": counts.delivery.waiting_count,
                        "leased": counts.delivery.leased_count,
                        "scheduled": counts.delivery.scheduled_count,
                        "duplicates": counts.delivery.tally.duplicates,
                        "consumers": counts.delivery.consumers.count,
                    }
                )
            if number % SWEEP_STEP == 0 and slices.used_up:
                await slices.rest()
        return shown
