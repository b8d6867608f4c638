"""Declarations of queues on a node: compared with what is there, placed, and put to the catalog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from cluster.catalog.definitions import parse_local_queue_name
from cluster.catalog.placement import QUEUES_A_PARTITION, QUORUM, Placement, local_or_balanced, place
from cluster.catalog.policies import ResourceKind
from cluster.catalog.policy_settings import arguments_with
from cluster.catalog.redeclaration import TYPE_ARGUMENT, refuse_reserved
from cluster.catalog.state import CatalogState
from cluster.gateway.context import GatewayContext
from cluster.gateway.link import Links
from cluster.gateway.local_queues import LocalQueues
from cluster.gateway.lost_memory import LostMemory
from node.queue.features.arguments import read_queue_arguments
from node.queue.operations import Semantics
from node.refusal import HomeNodeDownError, Refusal
from node.session.ports import QueueDeclaration, QueueRef

Declared = Callable[[QueueRef | None, Refusal | None], None]


@dataclass(slots=True)
class QueueChurn:
    """Queues that clients of one node have declared, made by it, and deleted; plain counters."""

    declared: int = 0
    created: int = 0
    deleted: int = 0


class QueueDeclarations:
    """What the connections of one node declare. `default_type` is that of durable queues."""

    def __init__(
        self, context: GatewayContext, local: LocalQueues, lost_memory: LostMemory, default_type: str
    ) -> None:
        self._context = context
        self._catalog = context.catalog
        self._local = local
        self._lost_memory = lost_memory
        self._default_type = default_type
        # The connections that have declared exclusive queues which the catalog knows, or is about to.
        self._holders: set[int] = set()
        self.churn = QueueChurn()

    def release_holder(self, holder: int) -> bool:
        """The connection is closed; whether there may be exclusive queues of it in the catalog."""
        held = holder in self._holders
        self._holders.discard(holder)
        return held

    def declare(
        self,
        vhost: str,
        declaration: QueueDeclaration,
        holder: int,
        answer: Declared,
        node: str = "",
    ) -> None:
        """Answers at once where the queue is there; later where the catalog must take it up.

        A name that a lost queue has is waited for.
        """
        self.churn.declared += 1
        lost = self._catalog.state.queues.get((vhost, declaration.name))
        if lost is not None and self._lost_memory.holds(lost):
            again = partial(self.declare, vhost, declaration, holder, answer, node)
            self._lost_memory.wait(lost.id, holder, again)
            return
        try:
            present = self._declared(vhost, declaration, holder)
            if present is not None:
                self._answer_present(present, answer)
                return
            settings = read_queue_arguments(declaration.arguments, declaration.name, vhost)
            placement = self._placement(vhost, declaration, node or self._context.config.node)
        except Refusal as refusal:
            answer(None, refusal)
            return
        self._submit(vhost, declaration, holder, answer, placement, settings.semantics, node)

    def _answer_present(self, queue: QueueRef, answer: Declared) -> None:
        done = partial(answer, queue, None)
        if self._local.owns(queue):
            done()
        else:
            # Another client may be just declaring the queue, and other nodes not have it yet (A16).
            self._catalog.when_visible(done)

    def _submit(
        self, vhost: str, declaration: QueueDeclaration, holder: int, answer: Declared,
        placement: Placement, semantics: Semantics, node: str,
    ) -> None:  # fmt: skip
        catalog = self._catalog
        arguments = {
            **self._fields(declaration, holder),
            **({"front_end": catalog.state.nodes[node].front_end} if node else {}),
            "vhost": vhost,
            "name": declaration.name or self._local.new_name(),
            "replicas": list(placement.replicas),
            "transient": placement.transient,
            "size": placement.size,
            "share": QUEUES_A_PARTITION,
            "semantics": int(semantics),
        }

        if declaration.exclusive:
            self._holders.add(holder)

        def declared(value: Any, refusal: Refusal | None) -> None:
            if refusal is not None:
                answer(None, refusal)
            else:
                if declaration.exclusive and holder not in self._holders:
                    # Its connection was closed meanwhile, and nobody else may use it.
                    catalog.submit("delete_queue", {"id": value["id"]}, _ignore)
                self.churn.created += 1
                answer(QueueRef(value["name"], value["partition"], value["id"], vhost), None)

        catalog.submit("declare_queue", arguments, declared)

    def _declared(self, vhost: str, declaration: QueueDeclaration, holder: int) -> QueueRef | None:
        """The queue, if it is there already or concerns this node alone; None: up to the catalog."""
        if not declaration.name and declaration.exclusive:
            self.churn.created += 1
            return self._local.declare(vhost, declaration, holder)
        if parse_local_queue_name(declaration.name) is not None:
            return self._local.redeclare(vhost, declaration, holder)
        state = self._catalog.state
        queue = state.queues.get((vhost, declaration.name))
        if queue is None:
            return None
        state.check_redeclared(queue, self._fields(declaration, holder))
        return reachable(self._context.links, QueueRef(queue.name, queue.partition, queue.id, vhost))

    def _fields(self, declaration: QueueDeclaration, holder: int) -> dict[str, Any]:
        """What a redeclaration is compared by."""
        return {
            # An exclusive queue goes with its connection: it cannot outlive the server.
            "durable": declaration.durable and not declaration.exclusive,
            "exclusive": declaration.exclusive,
            "auto_delete": declaration.auto_delete,
            "arguments": declaration.arguments,
            "front_end": self._local.front_end,
            "holder": holder if declaration.exclusive else 0,
        }

    def _placement(self, vhost: str, declaration: QueueDeclaration, node: str) -> Placement:
        refuse_reserved(declaration.name)
        config, state = self._context.config, self._catalog.state
        default = state.access.vhost(vhost).default_queue_type or self._default_type
        members = state.members
        # Until the catalog has taken up its founders, they are in the configuration alone.
        there = members.eligible if members.founded else config.members
        if declaration.durable and not declaration.exclusive:
            asked = self._asked(vhost, declaration, default)
            # A queue that a node is to own which is down would wait for that node.
            connected = self._context.peers.connected
            up = [one for one in there if one == config.node or one in connected]
            owned = partial(queues_owned, state, self._context.owner_of)
            node = local_or_balanced(asked, node, up, owned)
        return place(declaration, node, there, default)

    def _asked(self, vhost: str, declaration: QueueDeclaration, default: str) -> dict[str, Any]:
        """A durable queue's arguments, and what the policies define that will apply to it."""
        quorum = declaration.arguments.get(TYPE_ARGUMENT, default) == QUORUM
        kind = ResourceKind.QUORUM_QUEUE if quorum else ResourceKind.CLASSIC_QUEUE
        applied = self._catalog.state.policies.applied(vhost, kind, declaration.name)
        return arguments_with(declaration.arguments, applied.definition)


def _ignore(value: object, refusal: object) -> None:
    """The next start of this node removes what a lost command did not."""


def reachable(links: Links, queue: QueueRef) -> QueueRef:
    """The queue, which somebody can be asked about. Raises HomeNodeDownError."""
    if links.to(queue.partition).unreachable:
        raise home_node_down(queue)
    return queue


def home_node_down(queue: QueueRef) -> HomeNodeDownError:
    return HomeNodeDownError(f"home node of {queue} is down or inaccessible")


def queues_owned(state: CatalogState, owner_of: Callable[[int], str | None]) -> Counter[str]:
    """How many queues each node owns; one without an owner counts for the node that is to be it."""
    found: Counter[str] = Counter()
    for partition, count in state.table.queues.items():
        found[owner_of(partition) or state.partitions[partition].replicas[0]] += count
    return found
