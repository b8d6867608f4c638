"""The metrics of a node, for Prometheus. docs/metrics.md explains each metric.

A scrape reads all counters; the hot path only adds to plain integers, once a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Final

from cluster.admin.metrics.metric import (
    Kind,
    Metric,
    counter,
    gauge,
    histogram,
    label_text,
    series,
    with_label,
)
from cluster.admin.metrics.rabbitmq import RabbitMQNames
from cluster.admin.metrics.reader_metrics import reader_metrics, reader_sums
from cluster.admin.metrics.sweep import Sweep, swept
from cluster.admin.round_trips import RoundTrips
from cluster.admin.views import NodeView
from cluster.system import resources
from cluster.system.resources import DISK, MEMORY
from node.message.deaths import REASON_NAMES
from node.queue.delivery_state import Tally
from node.queue.dispatch import QueueOwner
from node.session.traffic import Traffic
from replication.group import RaftGroup
from replication.journal import Durations
from replication.raft import Raft, Role
from replication.transport import Peer

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
    "left_out": "Messages that filters kept out of queues of this node (queue argument x-filter).",
    "unreadable": "Times that a filter asked for the body of a message and could not read it.",
    "replaced": "Messages that newer ones have replaced in queues of this node (queue argument x-key).",
    "refused": "Messages that queues of this node did not take because they were full.",
}
"""Help texts of the counters of messages in queues, by field of `Tally`."""

GIVEN_UP: Final[Mapping[str, tuple[str, str]]] = {
    "dead": ("dead_lettered", "Messages that queues gave up to their dead-letter exchange, by reason."),
    "discarded": ("discarded", "Messages that queues gave up for good, by reason."),
}
"""The fields of `Tally` that exist for each reason, by what their names begin with: name, meaning."""

REASONS: Final = tuple(reason.name.lower() for reason in REASON_NAMES)

TRAFFIC: Final[Mapping[str, str]] = {
    "published": "Messages published by clients of this node.",
    "confirmed": "Messages confirmed to clients of this node.",
    "confirmable": "Messages published by clients of this node on channels that confirm.",
    "returned": "Mandatory messages returned to clients of this node: no queue took them.",
    "dropped": "Messages of clients of this node that no queue took, and that were not mandatory.",
}

assert {*TALLIES, *(f"{kind}_{reason}" for kind in GIVEN_UP for reason in REASONS)} == {
    one.name for one in fields(Tally)
}
assert TRAFFIC.keys() == {one.name for one in fields(Traffic)}


DEPTHS: Final[Sequence[tuple[str, str, Callable[[QueueOwner], int], str]]] = (
    ("consumers", "Consumers.", lambda queue: queue.delivery.consumers.count, "consumers"),
    (
        "messages_ready",
        "Messages waiting.",
        lambda queue: queue.delivery.waiting_count,
        "ready",
    ),
    (
        "messages_leased",
        "Messages delivered and not settled.",
        lambda queue: queue.delivery.leased_count,
        "leased",
    ),
    (
        "messages_scheduled",
        "Messages that are not due yet.",
        lambda queue: queue.delivery.scheduled_count,
        "scheduled",
    ),
)
"""Name, meaning, of a queue, field of `Depths`."""

RAFT: Final[Sequence[tuple[str, str, Callable[[Raft], float]]]] = (
    ("term", "Current term.", lambda raft: raft.term),
    ("commit_index", "Commit index.", lambda raft: raft.commit_index),
    ("applied_index", "Last applied log index.", lambda raft: raft.applied_index),
    ("last_index", "Last log index.", lambda raft: raft.last_index),
    ("leader", "1 where this node leads.", lambda raft: raft.role is Role.LEADER),
    ("leader_known", "1 where this node knows of a leader.", lambda raft: raft.leader is not None),
)

PEERS: Final[Sequence[tuple[str, Kind, str, Callable[[Peer], float]]]] = (
    ("connected", "gauge", "1 while there is a connection to the peer.", lambda peer: peer.up),
    (
        "queue_bytes",
        "gauge",
        "Octets that wait on this node for the peer, beside those on their way to it.",
        lambda peer: peer.outbox.queued,
    ),
    (
        "in_flight_bytes",
        "gauge",
        "Octets on their way to the peer that it has not acknowledged.",
        lambda peer: peer.outbox.in_flight,
    ),
    (
        "dropped_messages_total",
        "counter",
        "Messages for the peer dropped because it was down or too much waited for it.",
        lambda peer: peer.outbox.dropped_messages,
    ),
    ("received_bytes_total", "counter", "Octets that the peer has sent.", lambda peer: peer.received_bytes),
)


class NodeMetrics:
    """The metrics of one node, below `/metrics`; implements `cluster.admin.metrics.server.MetricsView`."""

    def __init__(self, node: NodeView, round_trips: RoundTrips) -> None:
        self.loop_delay = Durations()
        """Seconds that the node's timer was late: all other work of the event loop waits as long."""
        self._round_trips = round_trips
        self._node = node
        self._rabbitmq = RabbitMQNames(node)

    def metrics(self) -> Iterator[Metric | None]:
        """Of the node and its partitions. None: the work may rest here."""
        sweep = yield from swept(self._node, only_sums=True)
        for part in (self._clients, self._traffic, self._queues):
            yield from part(sweep)
        for piece in (self._raft, self._epochs, self._journal, self._peers, self._state):
            yield None
            yield from piece()
        yield None
        yield from reader_sums(self._node.partitions)
        yield None
        yield from self._rabbitmq.aggregated(sweep)

    def object_metrics(self) -> Iterator[Metric | None]:
        """As RabbitMQ's `/metrics/per-object`."""
        sweep = yield from swept(self._node)
        yield from self._rabbitmq.per_object(sweep)

    def detailed_metrics(self, families: Sequence[str], vhosts: Sequence[str]) -> Iterator[Metric | None]:
        """As RabbitMQ's `/metrics/detailed`."""
        sweep = yield from swept(self._node, vhosts)
        yield from self._rabbitmq.detailed(sweep, families, vhosts)

    def queue_metrics(self) -> Iterator[Metric | None]:
        """Of each queue of the catalog that this node owns, labelled by virtual host and name."""
        sweep = yield from swept(self._node)
        queues = sweep.declared
        for name, help_, read, _ in DEPTHS:
            samples = ((labels, float(read(queue))) for labels, queue in queues)
            yield Metric(f"quorate_queue_{name}", "gauge", help_, samples)
        for field, help_ in TALLIES.items():
            samples = ((labels, float(getattr(queue.delivery.tally, field))) for labels, queue in queues)
            yield Metric(_queue_counter("quorate_queue", field), "counter", help_, samples)
        samples = ((labels, _expired(queue.delivery.tally)) for labels, queue in queues)
        yield Metric("quorate_queue_messages_expired_total", "counter", EXPIRED, samples)
        for kind, (name, help_) in GIVEN_UP.items():
            samples = (
                (
                    with_label(labels, "reason", reason),
                    float(getattr(queue.delivery.tally, f"{kind}_{reason}")),
                )
                for labels, queue in queues
                for reason in REASONS
            )
            yield Metric(f"quorate_queue_messages_{name}_total", "counter", help_, samples)
        yield None
        yield from reader_metrics(self._node.partitions)

    # -- clients --------------------------------------------------------------------------------

    def _clients(self, sweep: Sweep) -> Iterator[Metric]:
        listener = self._node.listener
        gate = listener.gate
        yield gauge("quorate_connections", "Client connections.", sweep.connections)
        yield gauge("quorate_channels", "Open channels of client connections.", sweep.channels)
        yield from _links(sweep)
        yield counter("quorate_connections_opened_total", "Client connections accepted.", listener.accepted)
        yield gauge(
            "quorate_connections_unauthenticated",
            "Sockets of clients that have not logged in, TLS handshakes included.",
            gate.strangers,
        )
        yield counter(
            "quorate_connections_refused_total",
            "Client connections closed because there were too many, or too many failures at their address.",
            gate.refused,
        )
        yield counter(
            "quorate_connections_blocked_total",
            "Client connections closed because of failures at their address.",
            gate.blocked,
        )

    def _traffic(self, sweep: Sweep) -> Iterator[Metric]:
        total = sweep.traffic
        for field, help_ in TRAFFIC.items():
            yield counter(f"quorate_client_messages_{field}_total", help_, getattr(total, field))
        yield histogram(
            "quorate_confirm_latency_seconds",
            "From the arrival of messages, by batch, until all their queues of a partition have them safe: "
            "the time that a client waits for its confirm.",
            self._node.latencies.confirms,
        )

    # -- queues ---------------------------------------------------------------------------------

    def _queues(self, sweep: Sweep) -> Iterator[Metric]:
        yield gauge("quorate_queues", "Queues owned by this node.", sweep.owned.queues)
        for name, help_, _, field in DEPTHS:
            value = getattr(sweep.owned, field)
            yield gauge(f"quorate_{name}", f"{help_} Of all queues of this node.", value)
        yield from self._fates(sweep)
        yield histogram(
            "quorate_delivery_latency_seconds",
            "From the arrival of a message at the owner of its queue until it left for a consumer for the "
            "first time.",
            self._node.latencies.deliveries,
        )

    def _fates(self, sweep: Sweep) -> Iterator[Metric]:
        total = sweep.tally()
        for field, help_ in TALLIES.items():
            yield counter(_queue_counter("quorate", field), help_, getattr(total, field))
        yield counter("quorate_messages_expired_total", EXPIRED, _expired(total))
        for kind, (name, help_) in GIVEN_UP.items():
            yield Metric(f"quorate_messages_{name}_total", "counter", help_, _by_reason(total, kind))

    # -- replication ----------------------------------------------------------------------------

    def _raft(self) -> Iterator[Metric]:
        host = self._node.partitions.host
        groups = list(host.groups.values())
        labels = [{"partition": str(group.partition)} for group in groups]
        for name, help_, read in RAFT:
            values = [read(group.raft) for group in groups]
            yield series(f"quorate_raft_{name}", "gauge", help_, labels, values)
        yield Metric(
            "quorate_raft_role",
            "gauge",
            "1 for the role that this node's replica has, 0 for the others.",
            [
                ({"partition": str(group.partition), "role": role.value}, float(group.raft.role is role))
                for group in groups
                for role in Role
            ],
        )
        yield self._lag(groups)
        yield counter(
            "quorate_raft_elections_started_total",
            "Elections in which this node stood for leader.",
            host.campaigns,
        )
        yield counter("quorate_raft_elections_won_total", "Elections that this node won.", host.elections)
        yield histogram(
            "quorate_commit_duration_seconds",
            "From an owner's proposal of an entry, which has one turn's operations, to its commit.",
            host.commits,
        )

    def _epochs(self) -> Iterator[Metric]:
        yield counter(
            "quorate_epochs_overdue_total",
            "Epochs of sinks that owners of this node have dropped because no client decided them in time.",
            self._node.partitions.overdue.count,
        )
        yield counter(
            "quorate_takes_overdue_total",
            "Takes of readers that owners of this node have ended because they heard nothing of the reader.",
            self._node.partitions.overdue_takes.count,
        )

    def _journal(self) -> Iterator[Metric]:
        journal = self._node.storage.journal
        counters = journal.counters
        yield counter("quorate_journal_written_bytes_total", "Journal octets.", counters.bytes_written)
        yield counter(
            "quorate_journal_copied_bytes_total", "Octets written again to free space.", counters.bytes_copied
        )
        yield counter(
            "quorate_journal_read_bytes_total", "Octets of messages read back from disk.", counters.bytes_read
        )
        yield histogram(
            "quorate_journal_sync_duration_seconds", "Time of each fdatasync.", counters.sync_durations
        )
        yield gauge("quorate_journal_disk_bytes", "Size of the journal's files.", journal.disk_bytes())
        yield from self._archive()
        yield from self._damage()

    def _archive(self) -> Iterator[Metric]:
        archive = self._node.storage.archive
        for name, help_, value in (
            ("stored", "Segments of the journal that the archive has taken.", archive.stored),
            ("lost", "Segments that were used again although the archive has not taken them.", archive.lost),
            ("removed", "Segments that have left the archive because of its limits.", archive.removed),
        ):
            yield counter(f"quorate_archive_segments_{name}_total", help_, value)
        yield gauge("quorate_archive_bytes", "Size of the archive, when it was last used.", archive.octets)
        yield gauge(
            "quorate_archive_waiting_bytes",
            "Octets of segments that stay in the journal until the archive takes them.",
            archive.waiting_octets,
        )
        yield gauge(
            "quorate_archive_failing",
            "1 while the archive does not take segments.",
            int(archive.failing),
        )

    def _damage(self) -> Iterator[Metric]:
        storage, repair = self._node.storage, self._node.storage.repair
        for name, help_, value in (
            (
                "entries_damaged",
                "Entries that did not read back as they were written.",
                repair.found_here,
            ),
            (
                "entries_repaired",
                "Of these, entries that another replica gave back.",
                repair.repaired,
            ),
            ("messages_lost", "Messages that no replica could read any more.", storage.lost.messages),
        ):
            yield counter(f"quorate_journal_{name}_total", help_, value)
        yield gauge(
            "quorate_journal_set_aside",
            "1 while a damaged journal that a start has set aside is in the data directory.",
            int(storage.set_aside()),
        )

    def _lag(self, groups: Iterable[RaftGroup]) -> Metric:
        host, now = self._node.partitions.host, self._node.clock()
        samples = [
            ({"partition": str(group.partition), "peer": peer}, float(group.raft.last_index - progress.match))
            for group in groups
            if host.leads(group.partition, now)
            for peer, progress in group.raft.progress.items()
        ]
        help_ = "Log entries of a partition led here that a follower is not known to have on disk."
        return Metric("quorate_raft_follower_lag_entries", "gauge", help_, samples)

    # -- peers ----------------------------------------------------------------------------------

    def _peers(self) -> Iterator[Metric]:
        peers = self._node.transport.peers.values()
        for name, kind, help_, read in PEERS:
            values = [read(peer) for peer in peers]
            yield series(f"quorate_peer_{name}", kind, help_, [{"peer": peer.name} for peer in peers], values)
        trips = [({"peer": peer}, seconds) for peer, seconds in self._round_trips.last.items()]
        help_ = "From a question to the peer to its answer, event loops included; asked every five seconds."
        yield Metric("quorate_peer_round_trip_seconds", "gauge", help_, trips)
        yield counter(
            "quorate_peer_connections_refused_total",
            "Connections to the port for peers that ended before a message: another key, no handshake, or "
            "too many of these at once.",
            self._node.transport.refused_connections,
        )

    # -- the node -------------------------------------------------------------------------------

    def _state(self) -> Iterator[Metric]:
        health = self._node.health
        yield gauge("quorate_ready", "1 while the node is ready for clients.", not health.readiness())
        yield Metric(
            "quorate_resource_alarm",
            "gauge",
            "1 while this node is short of the resource, and publishers are held back everywhere.",
            [({"resource": one}, float(one in health.short_of())) for one in (MEMORY, DISK)],
        )
        yield gauge(
            "quorate_memory_used_bytes",
            "Memory that counts against the limit of the memory alarm.",
            resources.memory_used(),
        )
        yield gauge("quorate_memory_limit_bytes", "Limit of the memory alarm.", health.memory_limit)
        yield gauge(
            "quorate_disk_free_bytes",
            "Octets free where the data directory is.",
            resources.disk_free(self._node.config.data_dir),
        )
        yield histogram(
            "quorate_event_loop_delay_seconds", "How late a timer of the event loop was.", self.loop_delay
        )


EXPIRED: Final = "Messages that queues gave up because their time to live was over."


LINKS_HELP: Final = (
    "Links of AMQP 1.0: `in` are those on which clients send, `out` those on which this node sends."
)
LINK_CREDIT_HELP: Final = (
    "Messages that the receivers of these links have given credit for, and that have not been sent."
)


def _links(sweep: Sweep) -> Iterator[Metric]:
    labels, both = ({"direction": "in"}, {"direction": "out"}), (sweep.incoming, sweep.outgoing)
    yield series("quorate_links", "gauge", LINKS_HELP, labels, [totals.links for totals in both])
    yield series("quorate_link_credit", "gauge", LINK_CREDIT_HELP, labels, [totals.credit for totals in both])


def _expired(tally: Tally) -> float:
    return float(tally.dead_expired + tally.discarded_expired)


def _by_reason(tally: Tally, kind: str) -> list[tuple[str, float]]:
    return [(label_text({"reason": reason}), float(getattr(tally, f"{kind}_{reason}"))) for reason in REASONS]


def _queue_counter(prefix: str, field: str) -> str:
    special = {"got_empty": "gets_empty", "duplicates": "messages_duplicate"}
    return f"{prefix}_{special.get(field, f'messages_{field}')}_total"
