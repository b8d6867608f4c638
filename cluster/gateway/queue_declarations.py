"""Declarations of queues on a node: compared with an existing queue, or placed and put into the catalog."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from cluster.catalog.definitions import parse_local_queue_name
from cluster.catalog.placement import QUEUES_A_PARTITION, Placement
from cluster.gateway.context import GatewayContext
from cluster.gateway.link import Links
from cluster.gateway.local_queues import LocalQueues
from cluster.gateway.lost_memory import LostMemory
from cluster.gateway.queue_placing import QueuePlacing
from cluster.peers.link_messages import JUST_CREATED, NOT_FOUND, UNREACHABLE, Delivery
from node.message.streams import X_HISTORY, X_HISTORY_OF
from node.queue.features.arguments import read_queue_arguments
from node.queue.operations import Semantics
from node.refusal import HomeNodeDownError, Refusal
from node.session.filter_arguments import check_arguments_known
from node.session.ports import DeclaredQueue, QueueCounts, QueueDeclaration, QueueRef

Declared = Callable[[DeclaredQueue | None, Refusal | None], None]


@dataclass(slots=True)
class QueueChurn:
    """How many queues clients of one node have declared, created by that, and deleted."""

    declared: int = 0
    created: int = 0
    deleted: int = 0


class QueueDeclarations:
    """The declarations of one node's connections. `default_type` is the type of durable queues whose
    declaration and virtual host name none.
    """

    def __init__(
        self, context: GatewayContext, local: LocalQueues, lost_memory: LostMemory, default_type: str
    ) -> None:
        self._context = context
        self._catalog = context.catalog
        self._local = local
        self._lost_memory = lost_memory
        self.placing = QueuePlacing(context, default_type)
        # The connections with exclusive queues in the catalog, or on their way into it.
        self._holders: set[int] = set()
        self.churn = QueueChurn()

    def release_holder(self, holder: int) -> bool:
        """The connection is closed. Returns whether it may have exclusive queues in the catalog."""
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
        """Declare a queue. Answers once every node sees it; for a queue of this node's memory at once.

        While a queue in lost memory has the name, the declaration waits. `node` is the node that declares for
        an administrator, in whatever domain; without it a client of this node declares.
        """
        self.churn.declared += 1
        asked = declaration.name
        try:
            declaration, node = self.placing.named(vhost, declaration, node)
        except Refusal as refusal:
            answer(None, refusal)
        else:
            named = answer if declaration.name == asked else partial(_answer_under, asked, answer)
            self._declare(vhost, declaration, holder, named, node)

    def _declare(
        self, vhost: str, declaration: QueueDeclaration, holder: int, answer: Declared, node: str
    ) -> None:
        """Declare a queue under the name that the catalog has for it."""
        lost = self._catalog.state.queues.get((vhost, declaration.name))
        if lost is not None and self._lost_memory.holds(lost):
            again = partial(self._declare, vhost, declaration, holder, answer, node)
            self._lost_memory.wait(lost.id, holder, again)
            return
        try:
            present = self._declared(vhost, declaration, holder, node)
            if present is not None:
                self._answer_present(present, answer)
                return
            known = self._context.formats.know_argument
            absent = self._catalog.state.members.never_started
            check_arguments_known(declaration.name, vhost, declaration.arguments, known, absent)
            settings = read_queue_arguments(declaration.arguments, declaration.name, vhost)
            placement = self.placing.place(vhost, declaration, node)
        except Refusal as refusal:
            answer(None, refusal)
            return
        self._submit(vhost, declaration, holder, answer, placement, settings.semantics, node)

    def _answer_present(self, queue: QueueRef, answer: Declared) -> None:
        done = partial(answer, DeclaredQueue(queue), None)
        if self._local.owns(queue):
            done()
        else:
            # Another client may be just declaring the queue, so that other nodes do not see it yet (A16).
            self._catalog.when_visible(done)

    def _submit(
        self,
        vhost: str,
        declaration: QueueDeclaration,
        holder: int,
        answer: Declared,
        placement: Placement,
        semantics: Semantics,
        node: str,
    ) -> None:
        catalog = self._catalog
        arguments = {
            **self._fields(declaration, holder),
            **({"front_end": catalog.state.nodes[node].front_end} if node else {}),
            "vhost": vhost,
            "name": declaration.name or self._local.new_name(),
            "semantics": int(semantics),
            **self.place_of(declaration, placement),
        }
        if declaration.exclusive:
            self._holders.add(holder)
        creation = Creation(self._context, vhost, answer)

        def declared(value: Any, refusal: Refusal | None) -> None:
            if refusal is not None:
                answer(None, refusal)
                return
            if declaration.exclusive and holder not in self._holders:
                # The queue's connection was closed meanwhile, and no other client may use the queue.
                catalog.submit("delete_queue", {"id": value["id"]}, _ignore)
            self.churn.created += 1
            creation.visible(value)

        catalog.submit("declare_queue", arguments, declared, creation.applied)

    def place_of(self, declaration: QueueDeclaration, placement: Placement) -> dict[str, Any]:
        """The arguments of the catalog's command that say where the queue is placed. Those of the last
        releases alone go to members that read no others.
        """
        formats = self._context.formats
        found: dict[str, Any] = {
            "replicas": list(placement.replicas),
            "transient": placement.transient,
            "size": placement.size,
            "share": QUEUES_A_PARTITION,
        }
        if placement.domain:
            found["domain"] = placement.domain
        if placement.parts:
            found["parts"] = [[list(one.replicas), list(one.elsewhere)] for one in placement.parts]
        if placement.nodes:
            found["nodes"] = list(placement.nodes)
        if placement.elsewhere and formats.know_domains():
            found["elsewhere"] = list(placement.elsewhere)
        historic = not declaration.arguments.keys().isdisjoint((X_HISTORY, X_HISTORY_OF))
        if historic and formats.keep_histories():
            found["apart"] = True
        return found

    def _declared(self, vhost: str, declaration: QueueDeclaration, holder: int, node: str) -> QueueRef | None:
        """The queue, if it exists already or is in this node's memory; None if the catalog must create it."""
        if not declaration.name and declaration.exclusive:
            self.churn.created += 1
            return self._local.declare(vhost, declaration, holder)
        if parse_local_queue_name(declaration.name) is not None:
            return self._local.redeclare(vhost, declaration, holder)
        state = self._catalog.state
        queue = state.queues.get((vhost, declaration.name))
        if queue is None:
            return None
        if not node:
            self.placing.check_here(queue)
        state.check_redeclared(queue, self._fields(declaration, holder))
        return reachable(self._context.links, QueueRef(queue.name, queue.partition, queue.id, vhost))

    def _fields(self, declaration: QueueDeclaration, holder: int) -> dict[str, Any]:
        """The properties by which the catalog compares redeclarations."""
        return {
            # An exclusive queue goes with its connection: it cannot outlive the server.
            "durable": declaration.durable and not declaration.exclusive,
            "exclusive": declaration.exclusive,
            "auto_delete": declaration.auto_delete,
            "arguments": declaration.arguments,
            "front_end": self._local.front_end,
            "holder": holder if declaration.exclusive else 0,
        }


def _answer_under(
    name: str, answer: Declared, declared: DeclaredQueue | None, refusal: Refusal | None
) -> None:
    """Answer with the name that the client gave a local queue."""
    if declared is not None:
        queue = replace(declared.queue, name=name)
        declared = DeclaredQueue(queue, declared.counts, declared.created)
    answer(declared, refusal)


class Creation:
    """A declaration that the catalog decides. Answers once every node sees the queue. A queue that the
    declaration creates is in its owner's log by then, with all its parts: later owners have the queue, too.
    """

    __slots__ = ("_answer", "_asked", "_awaited", "_context", "_counts", "_vhost", "_waiting")

    def __init__(self, context: GatewayContext, vhost: str, answer: Declared) -> None:
        self._context, self._vhost, self._answer = context, vhost, answer
        self._asked = set[int]()
        self._awaited: dict[int, int] = {}
        """The partitions of the queues that are not in their owners' logs yet, by id."""
        self._counts: QueueCounts | None = None
        self._waiting: QueueRef | None = None

    def applied(self, value: Any) -> None:
        """This node has the queue. Where it is the owner too it creates the queue while the other nodes apply
        the declaration; another owner might not have heard of the queue yet.
        """
        if value["created"]:
            self._awaited = _places_of(value)
            self._ask(here=True)

    def visible(self, value: Any) -> None:
        """Every node sees the queue."""
        queue = QueueRef(value["name"], value["partition"], value["id"], self._vhost)
        if not value["created"]:
            self._answer(DeclaredQueue(queue, None, False), None)
            return
        self._waiting = queue
        if self._counts is None:
            self._awaited = self._awaited or _places_of(value)
        self._ask()
        self._created()

    def _ask(self, *, here: bool = False) -> None:
        """Ask the owners that have not been asked; with `here` those on this node alone."""
        links, own = self._context.links, self._context.config.node
        for queue, partition in list(self._awaited.items()):
            if queue not in self._asked and not (here and self._context.owner_of(partition) != own):
                self._asked.add(queue)
                counted = partial(self._counted, queue)
                links.request(links.to(partition), "count", [queue, JUST_CREATED], counted)

    def _counted(self, queue: int, value: Any, _: Delivery | None) -> None:
        refused = value in (NOT_FOUND, UNREACHABLE)
        if refused and self._waiting is None:
            # The owner is asked again when every node sees the queue.
            self._asked.discard(queue)
            return
        del self._awaited[queue]
        if not refused:
            self._counts = QueueCounts(*value)
        self._created()

    def _created(self) -> None:
        if self._waiting is not None and not self._awaited:
            queue, self._waiting = self._waiting, None
            self._answer(DeclaredQueue(queue, self._counts, created=True), None)


def _places_of(value: Any) -> dict[int, int]:
    """The partitions of a new queue, and of its parts, by id."""
    others = {id: partition for partition, id in value.get("parts", ())}
    return {value["id"]: value["partition"], **others}


def _ignore(value: object, refusal: object) -> None:
    """If the command is lost with this process, the next start of the node removes the queue."""


def reachable(links: Links, queue: QueueRef) -> QueueRef:
    """The queue itself. Raises HomeNodeDownError where the only node that has the queue is down."""
    if links.to(queue.partition).unreachable:
        raise home_node_down(queue)
    return queue


def home_node_down(queue: QueueRef) -> HomeNodeDownError:
    """The refusal of requests to a queue whose only node is down."""
    return HomeNodeDownError(f"home node of {queue} is down or inaccessible")
