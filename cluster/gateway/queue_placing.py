"""Where a node places a queue that its clients declare, and which queues its clients may use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from cluster.catalog.definitions import QueueDefinition
from cluster.catalog.domains import asked_domain, check_domain, check_owner, nodes_in
from cluster.catalog.local_parts import asks_for_part, name_of_part, part_name
from cluster.catalog.owner_parts import hidden_part_name, whole_name
from cluster.catalog.placement import PartPlacement, Placement, check_type, local_or_balanced, place, ring
from cluster.catalog.policies import KIND_OF_TYPE
from cluster.catalog.policy_settings import arguments_with
from cluster.catalog.redeclaration import refuse_reserved
from cluster.catalog.state import CatalogState
from cluster.gateway.context import GatewayContext
from node.queue.placement_arguments import EACH_NODE, X_INITIAL_OWNER, X_OWNERS
from node.refusal import NotFoundError, OutsideDomainError, PreconditionFailedError
from node.routing.matching import Binding, Destination, DestinationKind
from node.session.ports import QueueDeclaration, QueueRef


class QueuePlacing:
    """The places of queues, as one node sees the cluster. `default_type` is the type of durable queues whose
    declaration and virtual host name none.
    """

    def __init__(self, context: GatewayContext, default_type: str) -> None:
        self._context, self._default_type = context, default_type
        self._state = context.catalog.state

    def name_here(self, vhost: str, name: str) -> str:
        """The queue that clients of this node mean by a name: of a local queue the node's part."""
        return self._state.parts.at(vhost, name, self._context.config.node)

    def nearest(self, queue: QueueRef) -> QueueRef:
        """The part of a queue that clients of this node publish to and consume from: the queue itself where
        it has one owner.
        """
        if not self._state.owner_parts.by_name:
            return queue
        node, owner_of = self._context.config.node, self._context.owner_of
        part = self._state.owner_parts.nearest(queue.vhost, queue.name, node, owner_of)
        return queue if part is None else QueueRef(queue.name, part.partition, part.id, queue.vhost)

    def shared(self, queue: QueueRef) -> bool:
        """Whether the queue has several owners."""
        defined = self._state.queues_by_id.get(queue.id) if self._state.owner_parts.by_name else None
        return defined is not None and X_OWNERS in defined.arguments

    def has_barriers(self, queue: QueueRef) -> bool:
        """Whether some messages of the queue may be barriers."""
        defined = self._state.queues_by_id.get(queue.id)
        return defined is not None and "x-barrier-expression" in defined.arguments

    def parts(self, queue: QueueRef) -> list[QueueRef]:
        """All parts of a queue, the nearest one first: the queue itself where it has one owner."""
        defined = self._state.queues_by_id.get(queue.id) if self._state.owner_parts.by_name else None
        found = [] if defined is None else self._state.owner_parts.of(defined)
        refs = [QueueRef(queue.name, one.partition, one.id, queue.vhost) for one in found]
        first = self.nearest(queue)
        return [first, *(one for one in refs if one.id != first.id)]

    def destination_here(self, vhost: str, destination: Destination) -> Destination:
        """The end of a binding that clients of this node mean."""
        if destination.kind is DestinationKind.EXCHANGE:
            return destination
        return Destination(destination.kind, self.name_here(vhost, destination.name))

    def binding_here(self, vhost: str, binding: Binding) -> Binding:
        """The binding that clients of this node mean."""
        destination = self.destination_here(vhost, binding.destination)
        return Binding(binding.source, destination, binding.key, binding.arguments)

    def named(self, vhost: str, declaration: QueueDeclaration, node: str) -> tuple[QueueDeclaration, str]:
        """The declaration under the name that the catalog has for the queue, and the node that declares as in
        `place`. A local queue is declared as the part of that node; the name of a part names its node.

        Raises PreconditionFailedError where a client declares a new part by the name of the part: the user's
        rights to the name of the queue would not have been asked for.
        """
        name = declaration.name
        if not name or not asks_for_part(declaration.arguments):
            return replace(declaration, name=self.name_here(vhost, name)), node
        (queue, stated), own = name_of_part(name), self._context.config.node
        if stated not in self._state.nodes:
            return replace(declaration, name=part_name(name, node or own)), node
        if node:
            return declaration, stated
        if (vhost, name) not in self._state.queues:
            raise PreconditionFailedError(
                f"cannot declare queue '{name}' in vhost '{vhost}': it would be the part of a local queue; "
                f"declare '{queue}' at node '{stated}'"
            )
        return declaration, node

    def check_here(self, queue: QueueDefinition) -> None:
        """Raises OutsideDomainError where clients of this node may not use the queue: it is in a domain of
        other nodes. Raises NotFoundError for a hidden part: no client knows its name.
        """
        if whole_name(queue) is not None:
            raise NotFoundError(f"no queue '{queue.name}' in vhost '{queue.vhost}'")
        partition = self._state.partitions.get(queue.partition)
        if partition is not None and partition.domain:
            self._check_inside(queue.name, queue.vhost, partition.domain)

    def _check_inside(self, queue: str, vhost: str, domain: str) -> None:
        config = self._context.config
        if domain not in config.domains:
            nodes = ", ".join(nodes_in(domain, sorted(self._state.nodes), self._state.members.domains))
            raise OutsideDomainError(
                f"no queue '{queue}' in vhost '{vhost}' at node '{config.node}': the queue is in the domain "
                f"'{domain}', whose nodes are {nodes}"
            )

    def place(self, vhost: str, declaration: QueueDeclaration, node: str) -> Placement:
        """The place of a new queue. `node` is the node that declares for an administrator; without it a
        client of this node declares.

        Raises AccessRefusedError for a reserved name, PreconditionFailedError for arguments that contradict
        each other or name no node or domain, and OutsideDomainError.
        """
        refuse_reserved(declaration.name)
        state = self._state
        default = state.access.vhost(vhost).default_queue_type or self._default_type
        there, known = self._nodes()
        if not declaration.durable or declaration.exclusive:
            return place(declaration, node or self._context.config.node, there, default)
        domain = asked_domain(declaration.arguments)
        if domain:
            told = state.members.domains
            check_domain(declaration.name, vhost, domain, told)
            if not node:
                self._check_inside(declaration.name, vhost, domain)
            there, known = (nodes_in(domain, names, told) for names in (there, known))
        placed = self._on_disk(vhost, declaration, node, default, there, known)
        if X_OWNERS in declaration.arguments:
            placed = self._in_parts(vhost, declaration, default, there, placed)
        return replace(placed, domain=domain)

    def _in_parts(
        self, vhost: str, declaration: QueueDeclaration, default: str, there: Sequence[str], first: Placement
    ) -> Placement:
        """The places of all parts of a queue with several owners: the next nodes of the ring own the others.
        Raises PreconditionFailedError where there are too few nodes.
        """
        owner, up = first.replicas[0], self._up(there)
        # A part whose first owner is down has another owner meanwhile.
        nodes = sorted(ring(owner, there), key=lambda one: one not in up)
        others = [one for one in nodes if one != owner]
        each_node = declaration.arguments[X_OWNERS] == EACH_NODE
        wanted = len(others) + 1 if each_node else int(declaration.arguments[X_OWNERS])
        hidden_part_name(declaration.name, wanted)
        if wanted > len(others) + 1:
            raise PreconditionFailedError(
                f"invalid arg '{X_OWNERS}' for queue '{declaration.name}' in vhost '{vhost}': {wanted} "
                f"owners on {len(others) + 1} nodes that take queues"
            )
        others = others[: wanted - 1]
        placed = (place(declaration, one, there, default) for one in others)
        parts = [PartPlacement(one.replicas, self._owned_by_others(*_of(one))) for one in placed]
        return replace(
            first,
            elsewhere=self._owned_by_others(*_of(first)),
            parts=tuple(parts),
            nodes=(owner, *others) if each_node else (),
        )

    def _up(self, there: Sequence[str]) -> list[str]:
        """The nodes of `there` that this node can reach, and itself."""
        connected, own = self._context.peers.connected, self._context.config.node
        return [one for one in there if one == own or one in connected]

    def _nodes(self) -> tuple[Sequence[str], Sequence[str]]:
        """The nodes that take queues, and all nodes."""
        members = self._state.members
        if members.founded:
            return members.eligible, sorted(members.nodes)
        # Until the cluster is founded, only the configuration has its members.
        return self._context.config.members, self._context.config.members

    def _on_disk(
        self,
        vhost: str,
        declaration: QueueDeclaration,
        node: str,
        default: str,
        there: Sequence[str],
        known: Sequence[str],
    ) -> Placement:
        """The place of a durable queue on some of the nodes `there`."""
        context, state, name = self._context, self._state, declaration.name
        asked = self._asked(vhost, declaration, default)
        domain, owner = asked_domain(declaration.arguments), asked.get(X_INITIAL_OWNER)
        if X_INITIAL_OWNER in declaration.arguments:
            check_owner(name, vhost, str(owner), known, domain)
        if not there:
            raise PreconditionFailedError(
                f"cannot declare queue '{name}' in vhost '{vhost}': no node of the domain '{domain}' takes "
                "queues now"
            )
        # A queue on a node that is down could not be used before that node is back.
        up = self._up(there)
        if asks_for_part(declaration.arguments):
            # No policy places the part of a node on another one.
            return place(declaration, node or context.config.node, there, default)
        if isinstance(owner, str) and owner in up:
            placed = place(declaration, owner, there, default)
            return replace(placed, elsewhere=self._owned_by_others(owner, placed.replicas))
        owned = partial(queues_owned, state, context.owner_of)
        first = local_or_balanced(asked, node or context.config.node, up, owned)
        return place(declaration, first, there, default)

    def _owned_by_others(self, owner: str, replicas: Sequence[str]) -> tuple[int, ...]:
        """The partitions with these replicas that have another owner."""
        alike = (one.id for one in self._state.table.replicated() if one.replicas == tuple(replicas))
        return tuple(one for one in alike if self._context.owner_of(one) not in (None, owner))

    def _asked(self, vhost: str, declaration: QueueDeclaration, default: str) -> dict[str, Any]:
        """A durable queue's arguments, with those of the policies that will apply to it."""
        kind = KIND_OF_TYPE[check_type(declaration) or default]
        applied = self._state.policies.applied(vhost, kind, declaration.name)
        return arguments_with(declaration.arguments, applied.definition)


def _of(placement: Placement) -> tuple[str, tuple[str, ...]]:
    """The owner that a placement asks for, and its replicas."""
    return placement.replicas[0], placement.replicas


def queues_owned(state: CatalogState, owner_of: Callable[[int], str | None]) -> Counter[str]:
    """How many queues each node owns. Queues without an owner count for their preferred owner."""
    found: Counter[str] = Counter()
    for partition, count in state.table.queues.items():
        found[owner_of(partition) or state.partitions[partition].replicas[0]] += count
    return found
