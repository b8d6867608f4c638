"""What handlers of the management API use of the node that they run on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.admin.inquiry import Inquiry
from cluster.broker.broker import Broker
from cluster.catalog.access.control import Access
from cluster.catalog.definitions import NodeDefinition
from cluster.catalog.membership.directory import directory
from cluster.catalog.state import CatalogState
from cluster.config.models import NodeConfig
from cluster.gateway.broker_port import FrontEnd
from cluster.log.event_log import EventLog


@dataclass(frozen=True, slots=True)
class Services:
    """One for each node."""

    config: NodeConfig
    version: str
    broker: Broker
    access: Access
    front_end: FrontEnd
    inquiry: Inquiry
    log: EventLog
    readiness: Callable[[], list[str]]
    """Why clients should not be sent to this node now."""
    shut_out: Callable[[str], bool]
    """Whether nobody at an address may log in for a while, as too many there have failed to."""
    spares_node: Callable[[BaseException], bool]
    """Whether an exception ends the request that met it alone; otherwise the node's end has begun."""
    login_failed: Callable[[str], None]
    """Somebody at an address has failed to log in."""

    @property
    def node(self) -> str:
        return self.config.name

    @property
    def members(self) -> dict[str, NodeDefinition]:
        """The nodes of the cluster by name."""
        return directory(self.config, self.state)

    @property
    def state(self) -> CatalogState:
        """This node's replica of the catalog: to be read, not changed."""
        return self.broker.catalog.state
