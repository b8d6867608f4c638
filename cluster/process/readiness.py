"""The reasons why load balancers should send no clients to this node now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.catalog.definitions import PartitionKind
from cluster.catalog.membership.bootstrap import Bootstrap
from cluster.catalog.state import CatalogState
from cluster.gateway.broker_port import FrontEnd
from cluster.gateway.link import Links
from replication.host import Host


@dataclass(frozen=True, slots=True)
class ReadinessView:
    """The parts of a node that its readiness depends on."""

    bootstrap: Bootstrap
    host: Host
    links: Links
    state: CatalogState
    front_end: FrontEnd


class Readiness:
    """The readiness of one node."""

    def __init__(
        self,
        view: ReadinessView,
        failure: Callable[[], Exception | None],
        listening: Callable[[], bool],
        add_command: str,
    ) -> None:
        """`failure` gives the exception that ends the node, or None. `add_command` is the command with which
        an administrator adds the node.
        """
        self._view = view
        self._failure = failure
        self._listening = listening
        self._add_command = add_command

    def reasons(self) -> list[str]:
        """The reasons, as sentences for operators; empty if the node is ready."""
        view, failure = self._view, self._failure()
        reasons = []
        if failure is not None:
            reasons.append(f"the node ends: {failure}")
        if not self._listening():
            reasons.append("not listening for clients yet")
        if view.bootstrap.awaited:
            awaited = ", ".join(view.bootstrap.awaited)
            reasons.append(
                f"no answer from {awaited}: all founders must tell this node whether the cluster is new"
            )
        if view.bootstrap.waiting:
            reasons.append(f"this node is no member of the cluster: {self._add_command}")
        elif view.host.rebuilding:
            reasons.append("getting the content of the lost disk back from the other nodes")
        if not view.front_end.ready():
            reasons.append("no answer from the catalog's leader: is a majority of the nodes up?")
        reasons.extend(
            f"partition {link.partition} has no owner"
            for link in view.links.by_partition.values()
            if link.owner is None and self._is_replicated(link.partition)
        )
        return reasons

    def _is_replicated(self, partition: int) -> bool:
        definition = self._view.state.partitions.get(partition)
        return (
            definition is not None
            and definition.kind is PartitionKind.REPLICATED
            and len(definition.replicas) > 1
        )
