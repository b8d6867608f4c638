"""This node's answers to the questions that the management API of any node asks.

Every answer is made on request, in plain values. Only the sampler runs on a timer.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final

from cluster.admin.api.client_rows import ClientRows
from cluster.admin.api.cuts import BEGIN_CUT, END_CUT, CutAnswers
from cluster.admin.api.explain_answers import DIGESTS, EXPLAIN, ExplainAnswers
from cluster.admin.api.log_answers import LOG_PLAN, LOG_READ, TAKE_PLAN, LogAnswers
from cluster.admin.api.partition_rows import PartitionRows
from cluster.admin.api.queue_rows import QueueRows
from cluster.admin.api.rates import (
    FLOW_NAMES,
    TALLY_NAMES,
    TRAFFIC_NAMES,
    added,
    flow_counts,
    queue_counts,
    tally_counts,
    traffic_counts,
)
from cluster.admin.api.sampling import SampledCounts, Sampler
from cluster.admin.clients import client_name, connection_octets
from cluster.admin.inquiry import Inquiry
from cluster.admin.views import NodeView
from cluster.catalog.owner_parts import known_as
from cluster.system import resources
from cluster.system.build import build, runs_c_modules
from node.session.listener import Client

NODE: Final = "management.node"
CONNECTIONS: Final = "management.connections"
CHANNELS: Final = "management.channels"
CONSUMERS: Final = "management.consumers"
QUEUES: Final = "management.queues"
FLOWS: Final = "management.flows"
SESSIONS: Final = "management.sessions"
CLOSE: Final = "management.close"
PARTITIONS: Final = "management.partitions"
HAND_OVER: Final = "management.hand_over"
READER_ROWS: Final = "management.readers"
CONSUMER_NAMES: Final = "management.consumer_names"

CHURN_NAMES: Final = ("connection_created", "connection_closed", "channel_created", "channel_closed")
MESSAGE_NAMES: Final = (*TRAFFIC_NAMES, *TALLY_NAMES[1:])
"""The counters of a whole node: those of publishes, then those of queues."""


class NodeReport:
    """This node's part of what the management API shows."""

    def __init__(self, node: NodeView, inquiry: Inquiry, wanted: Callable[[], None]) -> None:
        """`wanted` has the node's groups carry out requests, such as a hand-over, in this turn."""
        self._node = node
        self._started = node.clock()
        self.sampler = Sampler(self._counters)
        name, find_consumer = node.config.name, node.front_end.consumer
        self._clients = ClientRows(name, self.sampler, self.wall_ms, find_consumer, self._queue_name)
        self._queues = QueueRows(node.partitions, self.sampler, self.wall_ms)
        cuts = CutAnswers(node.partitions.owners, wanted)
        explaining = ExplainAnswers(node.partitions.owners, node.partitions.host, node.clock, wanted)
        logs = LogAnswers(
            node.partitions.owners,
            node.partitions.host,
            node.clock,
            lambda: self.wall_ms(node.clock()),
            wanted,
        )
        partitions = PartitionRows(name, node.partitions.host, node.clock, wanted)
        for question, answerer in (
            (NODE, lambda _: self._facts()),
            (CONNECTIONS, lambda _: [self._clients.connection(client) for client in self._shown()]),
            (CHANNELS, lambda _: self._channels()),
            (CONSUMERS, lambda _: self._consumers()),
            (QUEUES, self._queues.rows),
            (FLOWS, lambda _: self._flows()),
            (SESSIONS, self._sessions),
            (CONSUMER_NAMES, self._consumer_names),
            (CLOSE, self._close),
            (PARTITIONS, partitions.rows),
            (HAND_OVER, partitions.hand_over),
            (BEGIN_CUT, cuts.begin),
            (END_CUT, cuts.end),
            (EXPLAIN, explaining.explain),
            (DIGESTS, explaining.digests),
            (LOG_PLAN, logs.plan),
            (LOG_READ, logs.read),
            (TAKE_PLAN, logs.plan_take),
            (READER_ROWS, lambda _: self._readers()),
        ):
            inquiry.answer(question, answerer)

    def wall_ms(self, at: float) -> int:
        """A time of the node's clock as milliseconds since 1970."""
        return int((time.time() - self._node.clock() + at) * 1000)

    def _readers(self) -> list[list[Any]]:
        """The subscriptions of the streams that this node owns, each behind the stream's id."""
        owners = list(self._node.partitions.owners.values())
        return [[queue, *row] for owner in owners for queue, row in owner.reader_rows()]

    # -- counters -------------------------------------------------------------------------------

    def _counters(self) -> Iterator[tuple[Hashable, SampledCounts]]:
        yield "messages", self._message_counts()
        yield "churn", self._churn()
        for key, flow in list(self._node.front_end.flows.items()):
            yield ("flow", *key), flow_counts(flow)
        for client in self._shown():
            yield ("connection", client.number), connection_octets(client)
            for channel, traffic in client.session.channel_traffic():
                yield ("channel", client.number, channel), traffic
        for id, queue in self._queues.owned():
            yield ("queue", id), queue_counts(queue)

    def _message_counts(self) -> SampledCounts:
        """In the order of `MESSAGE_NAMES`."""
        traffic = traffic_counts(self._node.listener.traffic())
        owners = self._node.partitions.owners.values()
        tallies = [owner.past for owner in owners]
        tallies += [queue.delivery.tally for _, queue in self._queues.owned()]
        return tuple(map(int, [*traffic, *added(map(tally_counts, tallies), len(TALLY_NAMES))[1:]]))

    def _churn(self) -> SampledCounts:
        """In the order of `CHURN_NAMES`."""
        listener = self._node.listener
        sessions = [client.session for client in listener.clients.values()]
        opened = listener.past_channels + sum(one.channels_opened for one in sessions)
        return (
            listener.accepted,
            listener.accepted - len(sessions),
            opened,
            opened - sum(one.channel_count for one in sessions),
        )

    # -- answers --------------------------------------------------------------------------------

    def _shown(self) -> list[Client]:
        return [client for client in self._node.listener.clients.values() if client.session.is_open]

    def _channels(self) -> list[dict[str, Any]]:
        return [
            self._clients.channel(client, channel)
            for client in self._shown()
            for channel in client.session.channel_views()
        ]

    def _consumers(self) -> list[dict[str, Any]]:
        return [row for client in self._shown() for row in self._clients.consumers(client)]

    def _flows(self) -> list[tuple[Any, ...]]:
        """(virtual host, exchange, counts, rates), both in the order of `FLOW_NAMES`."""
        flows = self._node.front_end.flows.items()
        return [
            (*key, flow_counts(flow), self.sampler.rates(("flow", *key), len(FLOW_NAMES)))
            for key, flow in flows
        ]

    def _queue_name(self, id: int) -> tuple[str, str] | None:
        definition = self._node.partitions.state.queues_by_id.get(id)
        if definition is not None:
            return known_as(definition)
        local = self._node.partitions.local.by_id(id)
        return None if local is None else (local.vhost, local.ref.name)

    def _sessions(self, name: str) -> list[dict[str, Any]]:
        """The sessions of the connection of this name; none where this node has no such connection."""
        found = [client for client in self._shown() if client_name(client) == name]
        return [row for client in found for row in self._clients.sessions(client)]

    def _consumer_names(self, numbers: list[int]) -> list[tuple[int, dict[str, Any]]]:
        """The names of those consumers of these numbers that are there."""
        return [
            (one.number, {"connection": client_name(client), "tag": one.tag, "user": client.session.user})
            for client in self._shown()
            for one in client.session.consumer_views()
            if one.number in numbers
        ]

    def _close(self, argument: dict[str, str]) -> bool:
        """Close the connection of this name, if this node has it."""
        for client in self._shown():
            if client_name(client) == argument["name"]:
                client.force_close(argument["reason"])
                return True
        return False

    def _listeners(self) -> list[dict[str, Any]]:
        """The open listeners: those for clients open once the node is part of the cluster."""
        config = self._node.config
        listen = config.listen
        open_to = [("clustering", listen.peers), ("http", listen.http)]
        if listen.https is not None:
            open_to.append(("https", listen.https))
        if self._node.health.listening():
            open_to.append(("amqp", listen.amqp))
            if config.tls is not None:
                open_to.append(("amqp/ssl", listen.amqps))
        return [
            {"node": config.name, "protocol": name, "ip_address": one.host, "port": one.port}
            for name, one in open_to
        ]

    def _facts(self) -> dict[str, Any]:
        config, health = self._node.config, self._node.health
        limits = config.cluster.limits
        return {
            "os_pid": str(os.getpid()),
            "uptime": int((self._node.clock() - self._started) * 1000),
            "reasons": health.readiness(),
            "mechanisms": self._node.listener.mechanisms,
            "processors": resources.processors(),
            "python": platform.python_version(),
            "build": build(),
            "c_modules": runs_c_modules(),
            "mem_used": resources.memory_used(),
            "mem_limit": health.memory_limit,
            "disk_free_limit": health.disk_free_limit,
            "short_of": sorted(health.short_of()),
            "fd_used": resources.descriptors_used(),
            "fd_total": resources.descriptors_total(),
            "sockets_used": len(self._node.listener.clients),
            "sockets_total": limits.connections,
            "proc_used": resources.threads(),
            "listeners": self._listeners(),
            "disk_free": resources.disk_free(config.data_dir),
            "db_dir": str(config.data_dir),
            "journal_bytes": self._node.storage.journal.disk_bytes(),
            "message_counts": self._message_counts(),
            "message_rates": self.sampler.rates("messages", len(MESSAGE_NAMES)),
            "churn_counts": self._churn(),
            "churn_rates": self.sampler.rates("churn", len(CHURN_NAMES)),
        }
