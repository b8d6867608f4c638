"""What a node counts, for Prometheus. Each metric is explained in docs/metrics.md.

Everything is read when it is scraped; the hot path only counts in plain integers, once a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Final

from cluster.catalog.definitions import QueueDefinition
from cluster.management import machine
from cluster.watch.http import Metric
from node.engine.dispatch import QueueOwner
from node.engine.tally import Tally
from node.frontend.traffic import Traffic
from replication.journal import BOUNDS_S, Durations
from replication.raft import Role

if TYPE_CHECKING:
    from cluster.process.node import NodeProcess

TALLIES: Final[Mapping[str, str]] = {
    "published": "Messages that queues of this node have taken in.",
    "delivered": "Messages sent to consumers that acknowledge.",
    "delivered_no_ack": "Messages sent to consumers that do not acknowledge.",
    "got": "Messages taken with basic.get, to be acknowledged.",
    "got_no_ack": "Messages taken with basic.get without acknowledgement.",
    "redelivered": "Deliveries of messages that had been delivered before.",
    "acknowledged": "Messages acknowledged.",
    "got_empty": "Times that basic.get found nothing.",
    "duplicates": "Messages that queues of this node dropped because they had seen their ids.",
}
"""What becomes of messages in queues, by field of `Tally`."""

TRAFFIC: Final[Mapping[str, str]] = {
    "published": "Messages published by clients of this node.",
    "confirmed": "Messages confirmed to clients of this node.",
    "returned": "Mandatory messages returned to clients of this node: no queue took them.",
    "dropped": "Messages of clients of this node that no queue took, and that were not mandatory.",
}

assert TALLIES.keys() == {one.name for one in fields(Tally)}
assert TRAFFIC.keys() == {one.name for one in fields(Traffic)}


class NodeMetrics:
    """The second half of `cluster.watch.http.NodeView`."""

    def __init__(self, process: NodeProcess) -> None:
        self.loop_delay = Durations()
        """How late the node's timer was, each time: what else waits for the event loop waits as long."""
        self._process = process

    def metrics(self) -> Iterable[Metric]:
        """Of the node and its partitions."""
        yield from self._clients()
        yield from self._traffic()
        yield from self._queues()
        yield from self._raft()
        yield from self._journal()
        yield from self._node()

    def queue_metrics(self) -> Iterable[Metric]:
        """Of each queue that this node owns, labelled by virtual host and name."""
        named = [(queue.vhost, queue.name, owner) for queue, owner in self._owned()]
        labels = [{"vhost": vhost, "queue": name} for vhost, name, _ in named]
        for name, help_, depths in (
            ("messages_ready", "Messages waiting in the queue.", [_ready(one) for _, _, one in named]),
            (
                "messages_leased",
                "Messages delivered and not settled.",
                [one.leased_count for _, _, one in named],
            ),
            (
                "messages_scheduled",
                "Messages that are not due yet.",
                [one.scheduled_count for _, _, one in named],
            ),
            ("consumers", "Consumers of the queue.", [one.consumers.count for _, _, one in named]),
        ):
            samples = list(zip(labels, map(float, depths), strict=True))
            yield Metric(f"quorate_queue_{name}", "gauge", help_, samples)
        for field, help_ in TALLIES.items():
            values = [float(getattr(one.tally, field)) for _, _, one in named]
            samples = list(zip(labels, values, strict=True))
            yield Metric(_queue_counter("quorate_queue", field), "counter", help_, samples)

    # -- clients --------------------------------------------------------------------------------

    def _clients(self) -> Iterator[Metric]:
        listener = self._process.listener
        gate = listener.gate
        connections = [client.session.connection for client in listener.clients.values()]
        channels = sum(len(connection.channels) for connection in connections)
        yield _gauge("quorate_connections", "Client connections.", len(connections))
        yield _gauge("quorate_channels", "Open channels of client connections.", channels)
        yield _counter("quorate_connections_opened_total", "Client connections accepted.", listener.accepted)
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

    def _traffic(self) -> Iterator[Metric]:
        listener = self._process.listener
        total = Traffic()
        total.add(listener.past)
        for client in listener.clients.values():
            total.add(client.session.traffic)
        for field, help_ in TRAFFIC.items():
            yield _counter(f"quorate_client_messages_{field}_total", help_, getattr(total, field))

    # -- queues ---------------------------------------------------------------------------------

    def _owned(self) -> Iterator[tuple[QueueDefinition, QueueOwner]]:
        broker = self._process.broker
        for queue in broker.catalog.state.queues.values():
            owner = broker.owners.get(queue.partition)
            if owner is not None and owner.active and queue.id in owner.queues:
                yield queue, owner.queues[queue.id]

    def _queues(self) -> Iterator[Metric]:
        owners = list(self._process.broker.owners.values())
        queues = [queue for owner in owners if owner.active for queue in owner.queues.values()]
        yield _gauge("quorate_queues", "Queues owned by this node.", len(queues))
        yield _gauge(
            "quorate_consumers",
            "Consumers of queues owned by this node.",
            sum(queue.consumers.count for queue in queues),
        )
        yield _gauge(
            "quorate_messages_ready",
            "Messages waiting in queues of this node.",
            sum(_ready(queue) for queue in queues),
        )
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
        total = Tally()
        for owner in owners:
            total.add(owner.past)
            for queue in owner.queues.values():
                total.add(queue.tally)
        for field, help_ in TALLIES.items():
            yield _counter(_queue_counter("quorate", field), help_, getattr(total, field))

    # -- replication ----------------------------------------------------------------------------

    def _raft(self) -> Iterator[Metric]:
        host, now = self._process.broker.host, self._process.clock()
        groups = list(host.groups.values())
        for name, help_, values in (
            ("term", "Current term.", [group.raft.term for group in groups]),
            ("commit_index", "Commit index.", [group.raft.commit_index for group in groups]),
            ("applied_index", "Last applied log index.", [group.raft.applied_index for group in groups]),
            ("last_index", "Last log index.", [group.raft.last_index for group in groups]),
            ("leader", "1 where this node leads.", [group.raft.role is Role.LEADER for group in groups]),
            (
                "leader_known",
                "1 where this node knows of a leader.",
                [group.raft.leader is not None for group in groups],
            ),
        ):
            labelled = zip(groups, values, strict=True)
            samples = [({"partition": str(group.partition)}, float(value)) for group, value in labelled]
            yield Metric(f"quorate_raft_{name}", "gauge", help_, samples)
        yield Metric(
            "quorate_raft_follower_lag_entries",
            "gauge",
            "Log entries of a partition led here that a follower is not known to have on disk.",
            [
                (
                    {"partition": str(group.partition), "peer": peer},
                    float(group.raft.last_index - progress.match),
                )
                for group in groups
                if host.leads(group.partition, now)
                for peer, progress in group.raft.progress.items()
            ],
        )
        yield _counter("quorate_raft_elections_won_total", "Elections that this node won.", host.elections)
        yield _histogram(
            "quorate_commit_duration_seconds",
            "From an owner's proposal of an entry to its commit; an entry is what one turn brought.",
            host.commits,
        )

    def _journal(self) -> Iterator[Metric]:
        journal = self._process.journal
        counters = journal.counters
        yield _counter("quorate_journal_written_bytes_total", "Journal octets.", counters.bytes_written)
        yield _counter(
            "quorate_journal_copied_bytes_total", "Octets written again to free space.", counters.bytes_copied
        )
        yield _counter(
            "quorate_journal_read_bytes_total", "Octets of messages read back from disk.", counters.bytes_read
        )
        yield _histogram(
            "quorate_journal_sync_duration_seconds", "Time of each fdatasync.", counters.sync_durations
        )
        yield _gauge("quorate_journal_disk_bytes", "Size of the journal's files.", journal.disk_bytes())

    # -- the node -------------------------------------------------------------------------------

    def _node(self) -> Iterator[Metric]:
        process = self._process
        status = process.status
        yield _gauge("quorate_ready", "1 while clients should be sent here.", not status.readiness())
        peers = [name for name in process.broker.standing.members if name != process.config.name]
        yield Metric(
            "quorate_peer_connected",
            "gauge",
            "1 while there is a connection to the peer.",
            [({"peer": peer}, float(peer in process.broker.connected)) for peer in peers],
        )
        yield Metric(
            "quorate_resource_alarm",
            "gauge",
            "1 while this node is short of the resource, and publishers are held back everywhere.",
            [({"resource": one}, float(one in process.shortages.own)) for one in ("memory", "disk")],
        )
        yield _gauge(
            "quorate_memory_used_bytes",
            "What is compared with the limit of the memory alarm.",
            machine.memory_used(),
        )
        yield _gauge("quorate_memory_limit_bytes", "Limit of the memory alarm.", process.watermarks.memory)
        yield _gauge(
            "quorate_disk_free_bytes",
            "Octets free where the data directory is.",
            machine.disk_free(process.config.data_dir),
        )
        yield _histogram(
            "quorate_event_loop_delay_seconds", "How late a timer of the event loop was.", self.loop_delay
        )


def _ready(queue: QueueOwner) -> int:
    return len(queue.ready) + len(queue.held)


def _queue_counter(prefix: str, field: str) -> str:
    special = {"got_empty": "gets_empty", "duplicates": "messages_duplicate"}
    return f"{prefix}_{special.get(field, f'messages_{field}')}_total"


def _gauge(name: str, help_: str, value: float) -> Metric:
    return Metric(name, "gauge", help_, [({}, float(value))])


def _counter(name: str, help_: str, value: float) -> Metric:
    return Metric(name, "counter", help_, [({}, float(value))])


def _histogram(name: str, help_: str, durations: Durations) -> Metric:
    samples: list[tuple[Mapping[str, str], float]] = []
    count = 0
    for bound, more in zip((*map(str, BOUNDS_S), "+Inf"), durations.counts, strict=True):
        count += more
        samples.append(({"le": bound}, float(count)))
    return Metric(name, "histogram", help_, samples, total=durations.total)
