"""The parts of a node that handlers of the management API use."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Protocol

from cluster.admin.inquiry import Inquiry
from cluster.catalog.access.control import Access, Answer
from cluster.catalog.definitions import NodeDefinition
from cluster.catalog.membership.directory import directory
from cluster.catalog.membership.plan import ClusterView
from cluster.catalog.state import CatalogState
from cluster.config.models import NodeConfig
from cluster.gateway.broker_port import FrontEnd
from cluster.log.event_log import EventLog


class Moves(Protocol):
    """The moves of replicas and queues between nodes (`cluster.catalog.membership.mover.Mover`)."""

    def view(self, reachable: Callable[[str], bool] | None = None) -> ClusterView: ...

    def answering(self, node: str) -> bool:
        """Whether there is a connection to a node now."""


@dataclass(frozen=True, slots=True)
class Services:
    """One for each node."""

    config: NodeConfig
    version: str
    state: CatalogState
    """This node's replica of the catalog: to be read, not changed."""
    access: Access
    front_end: FrontEnd
    inquiry: Inquiry
    log: EventLog
    moves: Moves
    submit: Callable[[str, dict[str, Any], Answer], None]
    """Has a command of the catalog carried out; its outcome comes to the callback."""
    connected: Callable[[], Collection[str]]
    """The other nodes that there is a connection to."""
    readiness: Callable[[], list[str]]
    """Why clients should not be sent to this node now."""
    shortage: Callable[[], str | None]
    """The reason why publishers are held back; None while they are not."""
    shut_out: Callable[[str], bool]
    """Whether log-ins from an address are refused for a while, after too many failed ones."""
    spares_node: Callable[[BaseException], bool]
    """Whether an exception ends only the request that met it; otherwise the node's end has begun."""
    login_failed: Callable[[str], None]
    """A log-in from an address has failed."""

    @property
    def node(self) -> str:
        return self.config.name

    @property
    def members(self) -> dict[str, NodeDefinition]:
        """The nodes of the cluster by name."""
        return directory(self.config, self.state)

    @property
    def formats(self) -> int:
        """The number of the formats that all members read, and may be written."""
        return min(self.config.cluster.formats, self.state.members.formats_of_all)

    @property
    def running(self) -> list[str]:
        """This node, and those that there is a connection to."""
        return [self.node, *self.connected()]
