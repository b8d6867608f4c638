"""What RabbitMQ's own dashboards Overview and Quorum Queues Raft ask Prometheus, by shape of expression.

Left out is what has no counterpart here: sizes of messages, indexes of snapshots, names of older releases.
"""

from __future__ import annotations

from typing import Final

IDENTITY: Final = (
    "on(instance, job) group_left(rabbitmq_cluster, rabbitmq_node) "
    'rabbitmq_identity_info{rabbitmq_cluster="quorate", namespace="", rabbitmq_endpoint="aggregated"}'
)

NOW: Final = (
    "rabbitmq_queue_messages_ready",
    "rabbitmq_queue_messages_unacked",
    "rabbitmq_global_publishers",
    "rabbitmq_global_consumers",
    "rabbitmq_connections",
    "rabbitmq_channels",
    "rabbitmq_queues",
    "rabbitmq_raft_commit_latency_seconds",
)

COUNTED: Final = (
    "rabbitmq_global_messages_acknowledged_total",
    "rabbitmq_global_messages_confirmed_total",
    "rabbitmq_global_messages_delivered_consume_auto_ack_total",
    "rabbitmq_global_messages_delivered_consume_manual_ack_total",
    "rabbitmq_global_messages_delivered_get_auto_ack_total",
    "rabbitmq_global_messages_delivered_get_manual_ack_total",
    "rabbitmq_global_messages_delivered_total",
    "rabbitmq_global_messages_get_empty_total",
    "rabbitmq_global_messages_received_total",
    "rabbitmq_global_messages_redelivered_total",
    "rabbitmq_global_messages_routed_total",
    "rabbitmq_global_messages_unroutable_dropped_total",
    "rabbitmq_global_messages_unroutable_returned_total",
    "rabbitmq_queues_declared_total",
    "rabbitmq_queues_created_total",
    "rabbitmq_queues_deleted_total",
    "rabbitmq_channels_opened_total",
    "rabbitmq_channels_closed_total",
    "rabbitmq_connections_opened_total",
    "rabbitmq_connections_closed_total",
    "rabbitmq_raft_commit_index",
    "rabbitmq_raft_term",
)

PAIRS: Final = (
    ("rabbitmq_resident_memory_limit_bytes", "rabbitmq_process_resident_memory_bytes"),
    ("rabbitmq_disk_space_available_bytes", "rabbitmq_disk_space_available_limit_bytes"),
    ("rabbitmq_process_max_fds", "rabbitmq_process_open_fds"),
    ("rabbitmq_raft_last_written_index", "rabbitmq_raft_commit_index"),
)
"""The total, less the part in use."""

OTHERS: Final = (
    f"count({IDENTITY.split(') ')[-1]})",
    "rabbitmq_erlang_uptime_seconds * on(instance, job) group_left(rabbitmq_version, erlang_version) "
    f"rabbitmq_build_info * {IDENTITY}",
    f"sum(rate(rabbitmq_global_messages_received_confirm_total[15s]) * {IDENTITY} - "
    f"rate(rabbitmq_global_messages_confirmed_total[15s]) * {IDENTITY}) by (rabbitmq_node)",
    f"sum(rate(rabbitmq_global_messages_delivered_consume_auto_ack_total[15s]) * {IDENTITY} + "
    f"rate(rabbitmq_global_messages_delivered_consume_manual_ack_total[15s]) * {IDENTITY})",
    "rabbitmq_alarms_free_disk_space_watermark == 0",
    "rabbitmq_alarms_memory_used_watermark == 0",
)

EXPRESSIONS: Final = (
    *(f"sum({name} * {IDENTITY}) by (rabbitmq_node)" for name in NOW),
    *(f"sum(rate({name}[15s]) * {IDENTITY}) by (rabbitmq_node)" for name in COUNTED),
    *(f"sum(irate({name}[15s]) * {IDENTITY})" for name in COUNTED[6:9]),
    *(f"sum(({there} * {IDENTITY}) - ({used} * {IDENTITY})) by (rabbitmq_node)" for there, used in PAIRS),
    *OTHERS,
)
