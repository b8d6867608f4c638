"""Has the parts of queues with a part for each node come and go with the members
(docs/decisions/0082-a-part-for-each-node.md). Pure.

As the catalog's leader the node has the parts follow the members. As the owner of a new part it opens the
part. As a front end it tells the owner of a closing part that it publishes no more to it. All of that follows
from the catalog, so that the next leader, owner, or process goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from functools import partial
from typing import Any, Final

from cluster.catalog.definitions import MemberState, NodeDefinition, QueueDefinition
from cluster.catalog.domains import nodes_in
from cluster.catalog.membership.formats import Formats
from cluster.catalog.placement import QUEUES_A_PARTITION, ring
from cluster.catalog.replica import Catalog
from cluster.config.formats import PARTS_OF_NODES
from cluster.gateway.link import Links
from cluster.owner.partition import PartitionOwner
from cluster.peers.link_messages import NOTHING_TO_GET
from node.queue.transaction_operations import TransactionKey

FOLLOW_INTERVAL_S: Final = 0.1

STAYING: Final = (MemberState.MEMBER, MemberState.DRAINING)
"""The states of nodes that keep their part. Another node owns the part while its node drains, or is down."""


class ChangingParts:
    """See the module's docstring; `tick` it every few milliseconds."""

    def __init__(
        self,
        catalog: Catalog,
        formats: Formats,
        links: Links,
        owners: Mapping[int, PartitionOwner],
        owner_of: Callable[[int], str | None],
        reachable: Callable[[str], bool],
        undecided: Set[TransactionKey],
    ) -> None:
        """`owner_of` names the node that owns a partition, as far as this node has heard. `undecided` has the
        transactions of this node's front end of which the coordinator has no share yet.
        """
        self._catalog, self._state, self._formats = catalog, catalog.state, formats
        self._links, self._owners = links, owners
        self._owner_of, self._reachable = owner_of, reachable
        self._told, self._asked, self._undecided = set[int](), set[str](), undecided
        self._before: dict[int, frozenset[TransactionKey]] = {}
        """The transactions that were undecided when the node first saw that a part closes."""
        self._next = 0.0

    def tick(self, now: float, leads: bool) -> None:
        """Look for parts that change, every `FOLLOW_INTERVAL_S`. `leads`: this node leads the catalog."""
        if now < self._next or not self._state.owner_parts.of_nodes:
            return
        self._next = now + FOLLOW_INTERVAL_S
        self._tell_last_publishes()
        self._open()
        if leads and self._state.members.founded and self._formats.everywhere >= PARTS_OF_NODES:
            for name in sorted(self._state.owner_parts.of_nodes):
                self._follow(self._state.queues[name])

    def _tell_last_publishes(self) -> None:
        """Tell the owners of closing parts behind the last publishes to these parts. This node's routes lead
        to them no more, but a transaction of before may have a share for its coordinator.
        """
        closing = {part.id: part for part in self._state.owner_parts.closing()}
        for gone in self._before.keys() - closing.keys():
            del self._before[gone]
        for id in closing.keys() - self._told:
            before = self._before.setdefault(id, frozenset(self._undecided))
            if before.isdisjoint(self._undecided):
                self._told.add(id)
                link, answered = self._links.to(closing[id].partition), partial(self._answered, id)
                # Where the part is still there after the answer, the node tells its next owner.
                self._links.request(link, "publishes_no_more", [*NOTHING_TO_GET, id], answered)

    def _answered(self, part: int, _value: Any, _delivery: object) -> None:
        self._told.discard(part)

    def _open(self) -> None:
        """Open the parts that are in the logs of this node's owners."""
        for part in self._state.owner_parts.opening():
            owner = self._owners.get(part.partition)
            if owner is not None and owner.active and part.id in owner.queues:
                self._submit("open_part", {"id": part.id})

    def _follow(self, queue: QueueDefinition) -> None:
        """Have each member that stays have a part, and no other node."""
        state, parts = self._state, self._state.owner_parts.lasting(queue)
        domain, told = state.partitions[queue.partition].domain, state.members.domains
        there = sorted(name for name, node in state.nodes.items() if node.state in STAYING)
        staying = nodes_in(domain, there, told) if domain else there
        having = {part.node for part in parts}
        places = {
            name: self._place(queue, name)
            for name in staying
            if name not in having and self._takes_queues(state.nodes[name])
        }
        if staying and (places or not having.issubset(staying)):
            wanted = {"nodes": list(staying), "places": places, "share": QUEUES_A_PARTITION}
            self._submit("follow_members", {"queue": queue.id, **wanted})

    def _takes_queues(self, node: NodeDefinition) -> bool:
        return node.state is MemberState.MEMBER and bool(node.front_end) and self._reachable(node.name)

    def _place(self, queue: QueueDefinition, node: str) -> tuple[list[str], list[int]]:
        """The place of a node's part: its replicas, and the partitions with these that others own."""
        state, like = self._state, self._state.partitions[queue.partition]
        eligible = state.members.eligible
        if like.domain:
            eligible = list(nodes_in(like.domain, eligible, state.members.domains))
        replicas = ring(node, eligible)[: like.size]
        alike = (one.id for one in state.table.replicated() if one.replicas == replicas)
        return list(replicas), [one for one in alike if self._owner_of(one) not in (None, node)]

    def _submit(self, command: str, arguments: dict[str, Any]) -> None:
        """Submit a command to the catalog, unless the same command has no answer yet."""
        key = f"{command} {arguments}"
        if key not in self._asked:
            self._asked.add(key)
            self._catalog.submit(command, arguments, lambda _value, _refusal: self._asked.discard(key))
