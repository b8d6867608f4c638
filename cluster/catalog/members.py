"""The members in the catalog, and the commands that add, drain and remove them. Pure.

A node's name is its identity. Each command may be repeated: it says what should be, not what should change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cluster.catalog.definitions import MemberState, NodeDefinition, node_from_plain, to_plain
from node.refusal import NotFoundError, PreconditionFailedError

ADDRESSES = ("peers", "amqp", "http", "public_key")


class Members:
    """`nodes` by name. `spreading`: the catalog's leader spreads replicas and owners evenly over the members.

    `formats` has the format level that each node reads, by name (`cluster.catalog.membership.formats`), and
    `domains` the domains of each node that has told them (`cluster.catalog.domains`): no command's effect
    depends on them, because releases from before level 24 drop them from their snapshots.
    `upgrades` counts the starts of nodes with a higher level than before.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self.nodes: dict[str, NodeDefinition] = {}
        self.spreading = False
        self.founded = False
        self.formats: dict[str, int] = {}
        self.domains: dict[str, list[str]] = {}
        self.upgrades = 0
        self._changed = changed
        self.commands: dict[str, Callable[..., Any]] = {
            "found_members": self._found,
            "add_member": self._add,
            "member_joined": self._joined,
            "drain_member": self._drain,
            "keep_member": self._keep,
            "remove_member": self._remove,
            "spread": self._spread,
        }

    @property
    def eligible(self) -> list[str]:
        """The nodes on which queues may be placed."""
        return sorted(name for name, node in self.nodes.items() if node.state is MemberState.MEMBER)

    @property
    def never_started(self) -> list[str]:
        """The members that have not told the catalog of any start: their format level is not known yet."""
        return [name for name in self.eligible if not self.nodes[name].front_end]

    @property
    def formats_of_all(self) -> int:
        """The format level that every node reads. A joining node counts from its first start; a node that is
        down counts with the level that it had.
        """
        counted = [
            name
            for name, node in self.nodes.items()
            if node.front_end or node.state is not MemberState.JOINING
        ]
        return min((self.formats.get(name, 0) for name in counted), default=0)

    def node(self, name: str) -> NodeDefinition:
        """Raises NotFoundError."""
        try:
            return self.nodes[name]
        except KeyError:
            raise NotFoundError(f"no node '{name}' in the cluster") from None

    def started(
        self,
        name: str,
        front_end: int,
        addresses: dict[str, Any],
        formats: int = 0,
        domains: list[str] | None = None,
    ) -> int:
        """Record that the process `front_end` of the node runs. Returns the id of the one before; 0: none.
        `domains` is None where the node's release has none.

        Raises PreconditionFailedError for a node that is not a member of a founded cluster.
        """
        if self.founded and name not in self.nodes:
            raise PreconditionFailedError(f"node '{name}' is no member: add it first")
        known = self.nodes.get(name, NodeDefinition(name))
        self.upgrades += bool(known.front_end) and formats > self.formats.get(name, 0)
        self.formats[name] = formats
        if domains is None:
            self.domains.pop(name, None)
        else:
            self.domains[name] = domains
        self._put(replace(known, front_end=front_end, **_given(addresses)))
        return known.front_end

    def forget(self, name: str) -> NodeDefinition:
        """Forget a node that has left. Returns its last definition."""
        node = self.nodes.pop(name)
        self.formats.pop(name, None)
        self.domains.pop(name, None)
        self._changed()
        return node

    def _put(self, node: NodeDefinition) -> None:
        if self.nodes.get(node.name) != node:
            self.nodes[node.name] = node
            self._changed()

    def _found(self, nodes: dict[str, dict[str, Any]]) -> bool:
        """Take over the nodes of the configuration at the first start of a cluster.

        Returns False, and changes nothing, where that has been done before.
        """
        if self.founded:
            return False
        self.founded = True
        for name in sorted(nodes):
            self.nodes[name] = replace(self.nodes.get(name, NodeDefinition(name)), **_given(nodes[name]))
        self._changed()
        return True

    def _add(self, name: str, **addresses: Any) -> str:
        """Let a node join, or change the addresses of one that is known. Returns its state."""
        joining = NodeDefinition(name, state=MemberState.JOINING)
        node = replace(self.nodes.get(name, joining), **_given(addresses))
        if not node.peers:
            raise PreconditionFailedError(
                f"where is node '{name}'? Give the address where its peers reach it"
            )
        taken = [other.name for other in self.nodes.values() if other.peers == node.peers]
        if taken and taken != [name]:
            raise PreconditionFailedError(f"address {node.peers} is that of node '{taken[0]}'")
        self._put(node)
        return node.state.value

    def _joined(self, name: str) -> None:
        """The node has become a voter of the catalog: spread replicas and owners to it."""
        node = self.nodes.get(name)
        if node is not None and node.state is MemberState.JOINING:
            self._put(replace(node, state=MemberState.MEMBER))
            self.spreading = True

    def _drain(self, name: str) -> str:
        node = self.node(name)
        if node.state is MemberState.JOINING:
            raise PreconditionFailedError(f"node '{name}' has not joined yet: remove it instead")
        if node.state is MemberState.MEMBER:
            self._check_others(name)
            self._put(replace(node, state=MemberState.DRAINING))
        return self.nodes[name].state.value

    def _keep(self, name: str) -> str:
        """Undo a draining or a removal that is not complete."""
        node = self.node(name)
        if node.state in (MemberState.DRAINING, MemberState.LEAVING):
            self._put(replace(node, state=MemberState.MEMBER, heir="", forced=False))
            self.spreading = True
        return self.nodes[name].state.value

    def _remove(self, name: str, heir: str = "", forced: bool = False) -> str:
        node = self.node(name)
        if heir and heir not in self.nodes:
            raise NotFoundError(f"no node '{heir}' in the cluster")
        if heir == name:
            raise PreconditionFailedError(f"node '{name}' cannot be its own heir: name another node")
        if not heir:
            self._check_others(name)
        self._put(replace(node, state=MemberState.LEAVING, heir=heir, forced=forced or node.forced))
        return MemberState.LEAVING.value

    def _check_others(self, name: str) -> None:
        if not set(self.eligible) - {name}:
            raise PreconditionFailedError(f"node '{name}' is the only member that can have queues")

    def _spread(self, on: bool) -> None:
        self.spreading = on

    # -- snapshots ------------------------------------------------------------------------------

    def to_plain(self) -> dict[str, Any]:
        nodes = [to_plain(self.nodes[name]) for name in sorted(self.nodes)]
        # Not in the nodes' own tables: the release before `formats` accepts no unknown field of a node.
        return {
            "nodes": nodes,
            "spreading": self.spreading,
            "founded": self.founded,
            "formats": self.formats,
            "domains": {name: self.domains[name] for name in sorted(self.domains)},
        }

    def restore(self, plain: dict[str, Any]) -> None:
        """Restore from the plain form of a catalog's snapshot; an earlier version has the nodes only."""
        members = plain.get("members", plain)
        self.nodes = {node["name"]: node_from_plain(node) for node in members["nodes"]}
        self.spreading = members.get("spreading", False)
        self.founded = members.get("founded", False)
        self.formats = dict(members.get("formats", {}))
        self.domains = dict(members.get("domains", {}))
        self._changed()


def _given(addresses: dict[str, Any]) -> dict[str, Any]:
    return {key: addresses[key] for key in ADDRESSES if addresses.get(key)}
