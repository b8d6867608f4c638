"""A node's HTTP ports with metrics, console and management API, put together on views of the node."""

from __future__ import annotations

from collections.abc import Callable

from cluster.admin.api.node_report import NodeReport
from cluster.admin.api.operations import OPERATIONS
from cluster.admin.api.server import ManagementServer
from cluster.admin.api.services import Services
from cluster.admin.api.status import NodeStatus
from cluster.admin.api.status_page import StatusPage
from cluster.admin.console.server import Console
from cluster.admin.http.health import Health
from cluster.admin.http.hosts import Hosts
from cluster.admin.http.pages import Pages
from cluster.admin.http.server import HttpPorts, HttpServer
from cluster.admin.http.websocket import AmqpOverWebSocket
from cluster.admin.metrics.metrics import NodeMetrics
from cluster.admin.metrics.server import MetricsServer
from cluster.admin.round_trips import RoundTrips
from cluster.admin.views import NodeView
from cluster.catalog.membership.directory import http_hosts
from cluster.config.certificates import Certificates


class Administration:
    """The administration of one node. The process starts and stops `http`."""

    def __init__(
        self,
        node: NodeView,
        services: Services,
        certificates: Certificates | None,
        wanted: Callable[[], None],
    ) -> None:
        """`wanted` asks for a turn, in which the node's groups carry out requests such as a hand-over."""
        self._round_trips = RoundTrips(services.inquiry, services.connected, node.clock)
        self.metrics = NodeMetrics(node, self._round_trips)
        self._report = NodeReport(node, services.inquiry, wanted)
        management = ManagementServer(services, OPERATIONS)
        guard, guarded_pages = management.refusal, Pages()
        parts = (
            Console(),
            Health(node.health.readiness),
            MetricsServer(self.metrics, guard, guarded_pages),
            management,
            StatusPage(NodeStatus(node, services.inquiry).status, guard, guarded_pages),
            AmqpOverWebSocket(node.listener),
        )
        self.http = HttpServer(_ports(node, certificates), parts)

    def tick(self, now: float, late: float) -> None:
        """Advance timers; call it often. `late`: seconds by which the caller's timer was late."""
        self.metrics.loop_delay.add(late)
        self._report.sampler.tick(now)
        self._round_trips.tick(now)


def _ports(node: NodeView, certificates: Certificates | None) -> HttpPorts:
    config, state = node.config, node.partitions.state
    hosts = Hosts(config.http.hosts, lambda: http_hosts(config, state))
    return HttpPorts(config.listen.http, config.listen.https, certificates, config.http, hosts)
