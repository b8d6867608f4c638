"""What a node shows of itself and of the cluster over HTTP: status, readiness, metrics.

A node answers for its own partitions; `status` asks the others for theirs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from cluster.definitions import PartitionKind
from cluster.http import Metric

if TYPE_CHECKING:
    from cluster.process import NodeProcess

QUESTION: Final = "status"


class NodeStatus:
    """Implements `cluster.http.NodeView`."""

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
        for name, member in process.config.cluster.nodes.items():
            part = told.get(name)
            if part is None:
                node: dict[str, Any] = {"name": name, "pid": None, "ready": False}
            else:
                node = {"name": name, "pid": part["pid"], "ready": part["ready"]}
                for partition in part["partitions"]:
                    known = partitions.get(partition["id"])
                    if known is None or known["term"] < partition["term"]:
                        partitions[partition["id"]] = partition
                queues += part["queues"]
            nodes.append({**node, "amqp": str(member.amqp), "http": str(member.http)})
        return {
            "nodes": nodes,
            "partitions": [partitions[id] for id in sorted(partitions)],
            "queues": sorted(queues, key=lambda queue: (queue["vhost"], queue["name"])),
        }

    def _own_part(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "ready": not self.readiness(),
            "partitions": self._own_partitions(),
            "queues": self._own_queues(),
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

    def _own_queues(self) -> list[dict[str, Any]]:
        broker = self._process.broker
        shown = []
        for queue in broker.catalog.state.queues.values():
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
        return shown

    # -- health ---------------------------------------------------------------------------------

    def readiness(self) -> list[str]:
        process = self._process
        reasons = []
        if process.failure is not None:
            reasons.append(f"the journal failed: {process.failure}")
        if not self.listening:
            reasons.append("not listening for clients yet")
        if process.broker.host.rebuilding:
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

    # -- metrics --------------------------------------------------------------------------------

    def metrics(self) -> Iterable[Metric]:
        yield from self._client_metrics()
        yield from self._queue_metrics()
        yield from self._replication_metrics()

    def _client_metrics(self) -> Iterable[Metric]:
        gate = self._process.listener.gate
        yield _gauge("quorate_connections", "Client connections.", len(self._process.listener.clients))
        yield _gauge(
            "quorate_connections_unauthenticated",
            "Sockets of clients that have not logged in, TLS handshakes included.",
            gate.strangers,
        )
        yield _counter(
            "quorate_connections_refused_total",
            "Client connections closed because there were too many, or too many failures at their address.",
            gate.refused,
        )
        yield _counter(
            "quorate_connections_blocked_total",
            "Those closed because of failures at their address.",
            gate.blocked,
        )

    def _queue_metrics(self) -> Iterable[Metric]:
        owners = [owner for owner in self._process.broker.owners.values() if owner.active]
        queues = [queue for owner in owners for queue in owner.queues.values()]
        ready = sum(len(queue.ready) + len(queue.held) for queue in queues)
        yield _gauge("quorate_queues", "Queues owned by this node.", len(queues))
        yield _gauge("quorate_messages_ready", "Messages waiting in queues of this node.", ready)
        yield _gauge(
            "quorate_messages_leased",
            "Messages delivered by this node's queues and not settled.",
            sum(queue.leased_count for queue in queues),
        )
        yield _gauge(
            "quorate_messages_scheduled",
            "Messages of this node's queues that are not due yet.",
            sum(queue.scheduled_count for queue in queues),
        )
        yield _counter(
            "quorate_messages_duplicate_total",
            "Messages that queues of this node dropped because they had seen their ids.",
            sum(queue.tally.duplicates for queue in queues)
            + sum(owner.past.duplicates for owner in self._process.broker.owners.values()),
        )
        yield _counter(
            "quorate_messages_published_total",
            "Messages that this node took into partitions it owns.",
            sum(owner.published for owner in self._process.broker.owners.values()),
        )
        yield _counter(
            "quorate_messages_delivered_total",
            "Messages handed to consumers by queues of this node.",
            sum(owner.delivered for owner in self._process.broker.owners.values()),
        )

    def _replication_metrics(self) -> Iterable[Metric]:
        process = self._process
        groups = process.broker.host.groups.values()
        labels = [{"partition": str(group.partition)} for group in groups]
        for name, help_, values in (
            ("quorate_raft_term", "Current term.", [group.raft.term for group in groups]),
            ("quorate_raft_commit_index", "Commit index.", [group.raft.commit_index for group in groups]),
            ("quorate_raft_last_index", "Last log index.", [group.raft.last_index for group in groups]),
        ):
            yield Metric(name, "gauge", help_, list(zip(labels, map(float, values), strict=True)))
        yield _counter(
            "quorate_raft_elections_won_total", "Elections that this node won.", process.broker.host.elections
        )
        counters = process.journal.counters
        yield _counter("quorate_journal_written_bytes_total", "Journal octets.", counters.bytes_written)
        yield _counter("quorate_journal_syncs_total", "Calls of fdatasync.", counters.syncs)
        yield _counter(
            "quorate_journal_sync_seconds_total", "Time spent in fdatasync.", counters.sync_seconds
        )
        yield _gauge(
            "quorate_journal_disk_bytes", "Size of the journal's files.", process.journal.disk_bytes()
        )


def _gauge(name: str, help_: str, value: float) -> Metric:
    return Metric(name, "gauge", help_, [({}, float(value))])


def _counter(name: str, help_: str, value: float) -> Metric:
    return Metric(name, "counter", help_, [({}, float(value))])
