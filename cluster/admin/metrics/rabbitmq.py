"""The names under which RabbitMQ's exporter serves metrics, where the meaning is the same.

Dashboards and alerts made for RabbitMQ work with them. Names, labels and endpoints are those of the plugin
rabbitmq_prometheus: https://www.rabbitmq.com/docs/prometheus. Figures without a counterpart here, such as
those of Erlang's virtual machine, are left out and not served as 0.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version as installed_version
from typing import Final

from cluster.admin.metrics.metric import Metric, counter, gauge, series
from cluster.admin.metrics.rabbitmq_objects import DETAILED, RabbitMQObjects
from cluster.admin.metrics.sweep import Sweep
from cluster.admin.views import NodeView
from cluster.config.identity import DIALECT_VERSION, version
from cluster.system import resources
from cluster.system.resources import DISK, MEMORY
from node.message.deaths import REASON_NAMES
from node.queue.delivery_state import Tally

METRIC_PREFIX: Final = "rabbitmq_"
PROTOCOL: Final = {"protocol": "amqp091"}
QUORUM_TYPE: Final = "rabbit_quorum_queue"
CLASSIC_TYPE: Final = "rabbit_classic_queue"

RABBITMQ_TRAFFIC: Final[Mapping[str, tuple[str, str]]] = {
    "received": ("published", "Messages received from publishers."),
    "received_confirm": ("confirmable", "Messages received from publishers that expect confirms."),
    "confirmed": ("confirmed", "Messages confirmed to publishers."),
    "unroutable_dropped": ("dropped", "Messages that were not mandatory and that no queue took."),
    "unroutable_returned": ("returned", "Mandatory messages returned because no queue took them."),
}
"""Name, field of `Traffic`, meaning."""

RABBITMQ_TALLIES: Final[Mapping[str, tuple[str, str]]] = {
    "delivered_consume_auto_ack": ("delivered_no_ack", "Messages delivered to consumers, automatic acks."),
    "delivered_consume_manual_ack": ("delivered", "Messages delivered to consumers that acknowledge."),
    "delivered_get_auto_ack": ("got_no_ack", "Messages taken with basic.get, automatic acks."),
    "delivered_get_manual_ack": ("got", "Messages taken with basic.get, to be acknowledged."),
    "get_empty": ("got_empty", "Times that basic.get found nothing."),
    "redelivered": ("redelivered", "Messages delivered again."),
    "acknowledged": ("acknowledged", "Messages acknowledged by consumers."),
}
"""Name, field of `Tally`, meaning."""

DELIVERED: Final = ("delivered", "delivered_no_ack", "got", "got_no_ack")


class RabbitMQNames:
    """Metrics of one node as RabbitMQ names them."""

    def __init__(self, node: NodeView) -> None:
        self._node = node
        self._started = node.clock()
        self._objects = RabbitMQObjects(node)

    # -- endpoints ------------------------------------------------------------------------------

    def aggregated(self, sweep: Sweep) -> Iterator[Metric]:
        """`/metrics`: nothing is labelled with a queue, channel or connection."""
        yield from self._whole_node("aggregated", sweep)
        yield from self._depths(sweep)

    def per_object(self, sweep: Sweep) -> Iterator[Metric | None]:
        """`/metrics/per-object`."""
        yield from self._whole_node("per-object", sweep)
        for family in self._objects.always:
            yield from family(METRIC_PREFIX, sweep, ())

    def detailed(
        self, sweep: Sweep, families: Sequence[str], vhosts: Sequence[str]
    ) -> Iterator[Metric | None]:
        """`/metrics/detailed?family=…&vhost=…`; families that are not known here yield nothing.

        `sweep` lists what is in the virtual hosts.
        """
        yield from self._identity("detailed")
        for name in dict.fromkeys(families):
            family = self._objects.families.get(name)
            if family is not None and not (name == "queue_consumer_count" and "queue_metrics" in families):
                yield from family(DETAILED, sweep, vhosts)

    def _whole_node(self, endpoint: str, sweep: Sweep) -> Iterator[Metric]:
        yield from self._identity(endpoint)
        yield from self._churn(sweep)
        yield from self._machine()
        yield from self._totals(sweep)
        yield from self._traffic(sweep)
        yield from self._deliveries(sweep)
        yield from self._dead_letters(sweep)
        yield from self._raft()

    # -- identity ------------------------------------------------------------------------------------

    def _identity(self, endpoint: str) -> Iterator[Metric]:
        config = self._node.config
        identity = {
            "rabbitmq_node": config.name,
            "rabbitmq_cluster": config.cluster.name,
            "rabbitmq_cluster_permanent_id": config.cluster.name,
            "rabbitmq_endpoint": endpoint,
        }
        build = {
            "rabbitmq_version": DIALECT_VERSION,
            "prometheus_plugin_version": version(),
            "prometheus_client_version": installed_version("prometheus-client"),
            # Dashboards join on the label of Erlang's version; the version of Python stands in its place.
            "erlang_version": f"Python {platform.python_version()}",
            "product_name": "quorate",
            "product_version": version(),
        }
        for name, help_, labels in (
            ("identity_info", "Names of the node and its cluster.", identity),
            ("build_info", "Versions of the node's software.", build),
        ):
            yield Metric(METRIC_PREFIX + name, "gauge", help_, [(labels, 1.0)])

    # -- node -----------------------------------------------------------------------------------

    def _churn(self, sweep: Sweep) -> Iterator[Metric]:
        listener = self._node.listener
        opened = sweep.channels_opened
        queues = self._node.front_end.churn
        for name, help_, value in (
            ("connections_opened", "Connections opened.", listener.accepted),
            ("connections_closed", "Connections closed.", listener.accepted - sweep.connections),
            ("channels_opened", "Channels opened.", opened),
            ("channels_closed", "Channels closed.", opened - sweep.channels),
            ("queues_declared", "Queues declared by clients of this node.", queues.declared),
            ("queues_created", "Queues that clients of this node created.", queues.created),
            ("queues_deleted", "Queues that clients of this node deleted.", queues.deleted),
        ):
            yield counter(f"{METRIC_PREFIX}{name}_total", help_, value)

    def _machine(self) -> Iterator[Metric]:
        node, health = self._node, self._node.health
        short_of, journal = health.short_of(), node.storage.journal.counters
        for name, help_, value in (
            ("process_open_fds", "File descriptors open.", resources.descriptors_used()),
            ("process_max_fds", "File descriptors that may be open.", resources.descriptors_total()),
            ("process_resident_memory_bytes", "Memory used.", resources.memory_used()),
            ("resident_memory_limit_bytes", "Limit of the memory alarm.", health.memory_limit),
            ("disk_space_available_bytes", "Disk space free.", resources.disk_free(node.config.data_dir)),
            ("disk_space_available_limit_bytes", "Limit of the disk alarm.", health.disk_free_limit),
            ("erlang_uptime_seconds", "Seconds since the node started.", node.clock() - self._started),
            ("alarms_free_disk_space_watermark", "1 while short of disk.", DISK in short_of),
            ("alarms_memory_used_watermark", "1 while short of memory.", MEMORY in short_of),
        ):
            yield gauge(METRIC_PREFIX + name, help_, value)
        for name, help_, value in (
            ("io_read_ops", "Reads of the journal.", journal.blocks_read),
            ("io_read_bytes", "Octets read back from the journal.", journal.bytes_read),
            ("io_write_bytes", "Octets written to the journal.", journal.bytes_written),
            ("io_sync_ops", "Times that the journal was made durable.", journal.syncs),
            ("io_sync_time_seconds", "Seconds in fdatasync.", journal.sync_durations.total),
        ):
            yield counter(f"{METRIC_PREFIX}{name}_total", help_, value)

    def _totals(self, sweep: Sweep) -> Iterator[Metric]:
        yield gauge(f"{METRIC_PREFIX}connections", "Connections open.", sweep.connections)
        yield gauge(f"{METRIC_PREFIX}channels", "Channels open.", sweep.channels)
        yield gauge(f"{METRIC_PREFIX}consumers", "Consumers connected.", sweep.consumers)
        yield gauge(f"{METRIC_PREFIX}queues", "Queues that this node owns.", sweep.listed.queues)
        for name, help_, value in (
            ("publishers", "Channels that have published.", sweep.publishers),
            ("consumers", "Consumers connected.", sweep.consumers),
        ):
            yield Metric(f"{METRIC_PREFIX}global_{name}", "gauge", help_, [(PROTOCOL, float(value))])

    def _depths(self, sweep: Sweep) -> Iterator[Metric]:
        depths = sweep.listed
        for name, help_, value in (
            ("messages_ready", "Messages that wait for consumers.", depths.ready),
            ("messages_unacked", "Messages delivered and not acknowledged.", depths.leased),
            ("messages", "Messages ready and unacknowledged.", depths.ready + depths.leased),
            ("consumers", "Consumers of the queue.", depths.consumers),
        ):
            yield gauge(f"{METRIC_PREFIX}queue_{name}", help_, value)

    # -- messages -------------------------------------------------------------------------------

    def _traffic(self, sweep: Sweep) -> Iterator[Metric]:
        total = sweep.traffic
        for name, (field, help_) in RABBITMQ_TRAFFIC.items():
            samples = [(PROTOCOL, float(getattr(total, field)))]
            yield Metric(f"{METRIC_PREFIX}global_messages_{name}_total", "counter", help_, samples)
        routed = sum(flow.routed for flow in self._node.front_end.flows.values())
        name, help_ = f"{METRIC_PREFIX}global_messages_routed_total", "Messages routed to queues."
        yield Metric(name, "counter", help_, [(PROTOCOL, float(routed))])

    def _deliveries(self, sweep: Sweep) -> Iterator[Metric]:
        totals = _tallies(sweep)
        labels = [{**PROTOCOL, "queue_type": kind} for kind in totals]
        for name, (field, help_) in RABBITMQ_TALLIES.items():
            values = [getattr(tally, field) for tally in totals.values()]
            yield series(f"{METRIC_PREFIX}global_messages_{name}_total", "counter", help_, labels, values)
        delivered = [sum(getattr(tally, field) for field in DELIVERED) for tally in totals.values()]
        help_ = "Messages delivered to clients."
        yield series(f"{METRIC_PREFIX}global_messages_delivered_total", "counter", help_, labels, delivered)

    def _dead_letters(self, sweep: Sweep) -> Iterator[Metric]:
        """A queue with a dead-letter exchange moves its dead letters without loss, whatever it asked for."""
        totals = _tallies(sweep)
        for reason in REASON_NAMES:
            name = reason.name.lower()
            samples = []
            for kind, tally in totals.items():
                for strategy, field in (("disabled", "discarded"), ("at_least_once", "dead")):
                    labels = {"queue_type": kind, "dead_letter_strategy": strategy}
                    samples.append((labels, float(getattr(tally, f"{field}_{name}"))))
            help_ = f"Messages that queues gave up: {name.replace('_', ' ')}."
            yield Metric(
                f"{METRIC_PREFIX}global_messages_dead_lettered_{name}_total", "counter", help_, samples
            )

    # -- replication ----------------------------------------------------------------------------

    def _raft(self) -> Iterator[Metric]:
        groups = list(self._node.partitions.host.groups.values())
        labels = [{"partition": str(group.partition)} for group in groups]
        for name, help_, values in (
            ("term", "Current term.", [group.raft.term for group in groups]),
            ("commit_index", "Commit index.", [group.raft.commit_index for group in groups]),
            ("last_applied", "Last applied index.", [group.raft.applied_index for group in groups]),
            ("last_written_index", "Last index of the log.", [group.raft.last_index for group in groups]),
        ):
            yield series(f"{METRIC_PREFIX}raft_{name}", "gauge", help_, labels, values)
        commits = self._node.partitions.host.commits
        mean = commits.total / sum(commits.counts) if any(commits.counts) else 0.0
        yield gauge(f"{METRIC_PREFIX}raft_commit_latency_seconds", "Mean time from proposal to commit.", mean)
        written = self._node.storage.journal.counters.bytes_written
        yield counter(f"{METRIC_PREFIX}raft_bytes_written_total", "Octets written to the journal.", written)


def _tallies(sweep: Sweep) -> dict[str, Tally]:
    """The tallies of messages, by type of queue."""
    return {QUORUM_TYPE: sweep.replicated.tally(), CLASSIC_TYPE: sweep.local.tally()}
