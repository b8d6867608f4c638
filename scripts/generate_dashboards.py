"""Writes deploy/grafana/dashboards/ from the panels listed here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

OUTPUT = Path(__file__).resolve().parent.parent / "deploy" / "grafana" / "dashboards"

WIDTH: Final = 8
HEIGHT: Final = 8
ROW: Final = 24
DATA_SOURCE: Final = {"type": "prometheus", "uid": "quorate"}


class Panel(NamedTuple):
    """A plot: title, unit as Grafana calls it, and its expressions by legend."""

    title: str
    unit: str
    lines: Mapping[str, str]


def rates(metric: str, by: str = "instance") -> dict[str, str]:
    return {f"{{{{{by}}}}}": f"sum by ({by}) (rate({metric}[$__rate_interval]))"}


def quantiles(metric: str) -> dict[str, str]:
    series = f"sum by (instance, le) (rate({metric}_bucket[$__rate_interval]))"
    return {f"{{{{instance}}}} p{q}": f"histogram_quantile(0.{q}, {series})" for q in (50, 99)}


def largest(metric: str) -> dict[str, str]:
    return {"{{vhost}} {{queue}}": f"topk(20, sum by (vhost, queue) ({metric}))"}


def fastest(metric: str) -> dict[str, str]:
    return {"{{vhost}} {{queue}}": f"topk(20, sum by (vhost, queue) (rate({metric}[$__rate_interval])))"}


DASHBOARDS: Final[Mapping[str, tuple[str, Sequence[Panel]]]] = {
    "overview": (
        "Overview",
        (
            Panel("Nodes ready", "none", {"ready": "sum(quorate_ready)"}),
            Panel("Partitions without owner", "none", {
                "partitions": "count(max by (partition) (quorate_raft_leader_known) == 0) or vector(0)",
            }),
            Panel("Alerts firing", "none", {
                "{{alertname}}": 'count by (alertname) (ALERTS{alertstate="firing"}) or vector(0)',
            }),
            Panel("Resource alarms", "none", {"{{instance}} {{resource}}": "quorate_resource_alarm"}),
            Panel("Messages", "cps", {
                "published": "sum(rate(quorate_client_messages_published_total[$__rate_interval]))",
                "confirmed": "sum(rate(quorate_client_messages_confirmed_total[$__rate_interval]))",
                "delivered": "sum(rate(quorate_messages_delivered_total[$__rate_interval]))",
                "acknowledged": "sum(rate(quorate_messages_acknowledged_total[$__rate_interval]))",
                "redelivered": "sum(rate(quorate_messages_redelivered_total[$__rate_interval]))",
            }),
            Panel("Messages in queues", "short", {
                "ready": "sum(quorate_messages_ready)", "leased": "sum(quorate_messages_leased)",
            }),
            Panel("Time to confirm", "s", quantiles("quorate_confirm_latency_seconds")),
            Panel("Time to the first delivery", "s", quantiles("quorate_delivery_latency_seconds")),
            Panel("Given up", "cps", {
                "expired": "sum(rate(quorate_messages_expired_total[$__rate_interval]))",
                "dead letters": "sum(rate(quorate_messages_dead_lettered_total[$__rate_interval]))",
                "discarded": "sum(rate(quorate_messages_discarded_total[$__rate_interval]))",
                "refused": "sum(rate(quorate_messages_refused_total[$__rate_interval]))",
                "duplicates": "sum(rate(quorate_messages_duplicate_total[$__rate_interval]))",
                "unroutable": "sum(rate(quorate_client_messages_dropped_total[$__rate_interval]))",
            }),
            Panel("Connections", "short", {"{{instance}}": "quorate_connections"}),
            Panel("Queues owned", "short", {"{{instance}}": "quorate_queues"}),
            Panel("Elections won", "short", {
                "{{instance}}": "increase(quorate_raft_elections_won_total[$__rate_interval])",
            }),
        ),
    ),
    "queues": (
        "Queues",
        (
            Panel("Ready", "short", largest("quorate_queue_messages_ready")),
            Panel("Leased", "short", largest("quorate_queue_messages_leased")),
            Panel("Consumers", "short", largest("quorate_queue_consumers")),
            Panel("Published", "cps", fastest("quorate_queue_messages_published_total")),
            Panel("Delivered", "cps", fastest("quorate_queue_messages_delivered_total")),
            Panel("Acknowledged", "cps", fastest("quorate_queue_messages_acknowledged_total")),
            Panel("Redelivered", "cps", fastest("quorate_queue_messages_redelivered_total")),
            Panel("Expired", "cps", fastest("quorate_queue_messages_expired_total")),
            Panel("Dead letters", "cps", fastest("quorate_queue_messages_dead_lettered_total")),
            Panel("Discarded", "cps", fastest("quorate_queue_messages_discarded_total")),
            Panel("Taken with basic.get", "cps", fastest("quorate_queue_messages_got_total")),
        ),
    ),
    "replication": (
        "Replication",
        (
            Panel("Partitions led", "short", {"{{instance}}": "sum by (instance) (quorate_raft_leader)"}),
            Panel("Lag of followers", "short", {
                "{{partition}} {{peer}}": "max by (partition, peer) (quorate_raft_follower_lag_entries)",
            }),
            Panel("Term", "short", {"{{partition}}": "max by (partition) (quorate_raft_term)"}),
            Panel("Entries committed", "cps", {
                "{{partition}}": "max by (partition) (rate(quorate_raft_commit_index[$__rate_interval]))",
            }),
            Panel("Not committed", "short", {
                "{{instance}}": "sum by (instance) (quorate_raft_last_index - quorate_raft_commit_index)",
            }),
            Panel("Time to commit", "s", quantiles("quorate_commit_duration_seconds")),
            Panel("Roles", "short", {"{{role}}": "sum by (role) (quorate_raft_role)"}),
            Panel("Waiting for peers", "bytes", {
                "{{instance}} to {{peer}}": "quorate_peer_queue_bytes + quorate_peer_in_flight_bytes",
            }),
            Panel("Round trip", "s", {"{{instance}} to {{peer}}": "quorate_peer_round_trip_seconds"}),
            Panel("Peers connected", "none", {"{{instance}} to {{peer}}": "quorate_peer_connected"}),
            Panel("Connections of peers refused", "short", {
                "{{instance}}": "increase(quorate_peer_connections_refused_total[$__rate_interval])",
            }),
            Panel("Elections won", "short", {
                "{{instance}}": "increase(quorate_raft_elections_won_total[$__rate_interval])",
            }),
        ),
    ),
    "node": (
        "Nodes",
        (
            Panel("Time of an fsync", "s", quantiles("quorate_journal_sync_duration_seconds")),
            Panel("Fsyncs", "cps", rates("quorate_journal_sync_duration_seconds_count")),
            Panel("Written to the journal", "Bps", rates("quorate_journal_written_bytes_total")),
            Panel("Read back from disk", "Bps", rates("quorate_journal_read_bytes_total")),
            Panel("Size of the journal", "bytes", {"{{instance}}": "quorate_journal_disk_bytes"}),
            Panel("Disk free", "bytes", {"{{instance}}": "quorate_disk_free_bytes"}),
            Panel("Memory used, of its limit", "percentunit", {
                "{{instance}}": "quorate_memory_used_bytes / quorate_memory_limit_bytes",
            }),
            Panel("Processor", "percentunit", rates("process_cpu_seconds_total")),
            Panel("Delay of the event loop", "s", quantiles("quorate_event_loop_delay_seconds")),
            Panel("Channels", "short", {"{{instance}}": "quorate_channels"}),
            Panel("Connections opened", "cps", rates("quorate_connections_opened_total")),
            Panel("Connections refused", "cps", rates("quorate_connections_refused_total")),
            Panel("Entries damaged and repaired", "short", {
                "{{instance}} damaged": "increase(quorate_journal_entries_damaged_total[$__rate_interval])",
                "{{instance}} repaired": "increase(quorate_journal_entries_repaired_total[$__rate_interval])",
            }),
            Panel("Messages lost", "short", {
                "{{instance}}": "increase(quorate_journal_messages_lost_total[$__rate_interval])",
            }),
        ),
    ),
}  # fmt: skip


def dashboard(name: str) -> str:
    """The JSON that Grafana provisions."""
    title, panels = DASHBOARDS[name]
    return (
        json.dumps(
            {
                "uid": f"quorate-{name}",
                "title": f"quorate: {title}",
                "tags": ["quorate"],
                "schemaVersion": 39,
                "editable": False,
                "refresh": "10s",
                "time": {"from": "now-15m", "to": "now"},
                "links": [
                    {"type": "dashboards", "tags": ["quorate"], "title": "quorate", "asDropdown": False}
                ],
                "panels": [_panel(number, panel) for number, panel in enumerate(panels)],
            },
            indent=2,
        )
        + "\n"
    )


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    place = number * WIDTH
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": DATA_SOURCE,
        "gridPos": {"x": place % ROW, "y": place // ROW * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + at),
                "datasource": DATA_SOURCE,
                "expr": expression,
                "legendFormat": legend,
            }
            for at, (legend, expression) in enumerate(panel.lines.items())
        ],
    }


if __name__ == "__main__":
    for _name in DASHBOARDS:
        (OUTPUT / f"{_name}.json").write_text(dashboard(_name), encoding="utf-8")
