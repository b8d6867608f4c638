"""The catalog's replicated state and the commands that change it. Pure and deterministic.

A command is a msgpack array `[version, origin, request, name, arguments]`. By `origin` (a front end) and
`request` the node that submitted the command finds its answer when its own replica applies the command.
An entry of the log is a command, or a batch of commands: `[version, [command, ...]]`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from cluster.catalog.access.state import AccessState
from cluster.catalog.batches import Batches
from cluster.catalog.definitions import (
    MemberState,
    NodeDefinition,
    PartitionDefinition,
    PartitionKind,
    QueueDefinition,
    parse_local_queue_name,
    queue_from_plain,
    to_plain,
)
from cluster.catalog.histories import check_not_history, history_of, queue_of
from cluster.catalog.local_parts import LocalParts
from cluster.catalog.members import Members
from cluster.catalog.node_parts import NodeParts
from cluster.catalog.observer import Observer
from cluster.catalog.owner_parts import OwnerParts, check_whole, told_parts, with_hidden_parts
from cluster.catalog.partition_table import PartitionTable, SharingTerms
from cluster.catalog.placement import QUORUM, RestartedError
from cluster.catalog.policies import Policies
from cluster.catalog.recent_requests import RecentRequests
from cluster.catalog.redeclaration import check_redeclared
from cluster.catalog.topics import Topics
from cluster.catalog.views import Views
from cluster.catalog.virtual_host import VirtualHost, exchange_from_plain, vhost_to_plain
from cluster.catalog.witnesses import Witnesses
from cluster.peers.packing import pack, pack_joined, unpack
from node.message.streams import X_HISTORY, history_name
from node.queue.operations import Semantics
from node.refusal import NotFoundError, PreconditionFailedError, Refusal
from node.routing.exchange import Exchanges
from node.routing.matching import Binding, Destination, DestinationKind

COMMAND_VERSION: Final = 1
"""The format of commands."""

BATCH_VERSION: Final = 2
"""The format of entries with several commands."""

CATALOG_SNAPSHOT_VERSION: Final = 4
"""Snapshots of version 1 have no `access`, as the catalog had no users; those of version 2 have no
`policies`; those of version 3 have no `members`, as members never changed, and no `witnesses`."""

RETIRED_FRONT_ENDS: Final = 1024
"""Dead incarnations of nodes whose late commands are recognised."""


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """The outcome of a command: an `error`, or a `value` if there is no error."""

    origin: int
    request: int
    value: Any = None
    error: Refusal | None = None


def encode_command(origin: int, request: int, name: str, arguments: dict[str, Any]) -> bytes:
    return pack([COMMAND_VERSION, origin, request, name, arguments])


def encode_commands(commands: Sequence[bytes]) -> bytes:
    """One entry with several commands, which are carried out in this order."""
    return pack_joined([BATCH_VERSION], commands)


def _declared(queue: QueueDefinition, *, created: bool) -> dict[str, Any]:
    """The value of a command that declares a queue."""
    return {"id": queue.id, "name": queue.name, "partition": queue.partition, "created": created}


class CatalogState:
    """Members, partitions, virtual hosts, exchanges, bindings, queues, users, permissions and policies."""

    def __init__(self, observer: Observer, default_queue_type: str = QUORUM) -> None:
        self.access = AccessState(observer.user_removed)
        self.members = Members(observer.members_changed)
        self.table = PartitionTable(observer)
        self.queues: dict[tuple[str, str], QueueDefinition] = {}
        self.queues_by_id: dict[int, QueueDefinition] = {}
        self.vhosts: dict[str, VirtualHost] = {}
        self.witnesses = Witnesses(lambda: self.vhosts.values(), lambda: self.nodes.values())
        self.topics, self.parts = Topics(lambda name: self.queues.get(name)), LocalParts()
        self.owner_parts = OwnerParts(lambda name: self.queues.get(name))
        self._queue_counts, self._retired, self.last_queue = Counter[str](), list[int](), 0
        self._recent: defaultdict[int, RecentRequests] = defaultdict(RecentRequests)
        self._observer, self.default_queue_type = observer, default_queue_type
        """The type of durable queues whose virtual host has no other default; the same on all nodes."""
        self.policies = Policies(self._policies_changed, self.vhost)
        self.views = Views(self.queue, observer.views_changed, self.topics)
        self._commands: dict[str, Callable[..., Any]] = {
            "start_node": self._start_node,
            "forget_member": self._forget_member,
            "found_access": self._found_access,
            "declare_vhost": self._declare_vhost,
            "delete_vhost": self._delete_vhost,
            "declare_exchange": self._declare_exchange,
            "delete_exchange": self._delete_exchange,
            "declare_queue": self.declare_queue,
            "delete_queue": self._delete_queue,
            "delete_queues": self._delete_queues,
            "batch": Batches(self).carry_out,
            "release_holder": self._release_holder,
            "bind": self._bind,
            "unbind": self._unbind,
            "forget_local_queue": self._forget_local_queue,
            **self.access.commands,
            **self.policies.commands,
            **self.views.commands,
            **self.members.commands,
            **self.table.commands,
            **self.witnesses.commands,
            **NodeParts(self).commands,
        }

    def apply(self, data: bytes) -> list[CommandOutcome]:
        """Carry out the commands of one committed entry; a refusal is an outcome too.

        A command that has been carried out before has no outcome: a node proposes a command again while it
        has no answer.
        """
        entry = unpack(data)
        commands = entry[1] if entry[0] == BATCH_VERSION else [entry]
        return [outcome for outcome in map(self._carry_out, commands) if outcome is not None]

    def _carry_out(self, command: list[Any]) -> CommandOutcome | None:
        _version, origin, request, name, arguments = command
        if not self._recent[origin].add(request):
            return None
        try:
            return CommandOutcome(origin, request, value=self._commands[name](**arguments))
        except Refusal as error:
            return CommandOutcome(origin, request, error=error)

    # -- look-ups -------------------------------------------------------------------------------

    @property
    def nodes(self) -> dict[str, NodeDefinition]:
        """The nodes by name, including those that join or leave."""
        return self.members.nodes

    @property
    def partitions(self) -> dict[int, PartitionDefinition]:
        """The partitions by id."""
        return self.table.partitions

    def vhost(self, name: str) -> VirtualHost:
        """Raises NotFoundError."""
        try:
            return self.vhosts[name]
        except KeyError:
            raise NotFoundError(f"no virtual host '{name}'") from None

    def queue(self, vhost: str, name: str) -> QueueDefinition:
        """Raises NotFoundError."""
        try:
            return self.queues[vhost, name]
        except KeyError:
            raise NotFoundError(f"no queue '{name}' in vhost '{vhost}'") from None

    # -- members --------------------------------------------------------------------------------

    def _start_node(
        self,
        name: str,
        front_end: int,
        formats: int = 0,
        domains: list[str] | None = None,
        **addresses: Any,
    ) -> None:
        previous = self.members.started(name, front_end, addresses, formats, domains)
        if previous == front_end:
            return
        if previous:
            self._forget_incarnation(previous)
        self.witnesses.node_started(front_end, previous)
        self.table.add(PartitionKind.TRANSIENT, (name,), front_end)
        self._observer.node_started(self.nodes[name], previous)

    def _forget_member(self, name: str) -> bool:
        """Forget a leaving node. Returns False while it has a replica of a partition that is not given up."""
        node = self.nodes.get(name)
        if node is None or node.state is not MemberState.LEAVING:
            return False
        kept = self.table.replicated()
        alone = [one for one in kept if one.replicas == (name,) and node.forced]
        if any(name in one.hosts for one in kept if one not in alone):
            return False
        for queue in [one for one in self.queues.values() if self.partitions[one.partition] in alone]:
            self.remove_queue(queue)
        for partition in alone:
            self.table.remove(partition)
        self.members.forget(name)
        if node.front_end:
            self._forget_incarnation(node.front_end)
            self._observer.node_started(NodeDefinition(name), node.front_end)
        return True

    def _forget_incarnation(self, front_end: int) -> None:
        """A process of a node is gone: remove the queues in its memory, and those of its connections."""
        self._retired.append(front_end)
        del self._retired[:-RETIRED_FRONT_ENDS]
        for queue in list(self.queues.values()):
            transient = self.partitions[queue.partition].kind is PartitionKind.TRANSIENT
            if queue.front_end == front_end and (queue.exclusive or transient):
                self.remove_queue(queue)
        for vhost in self.vhosts.values():
            for name in {binding.destination.name for binding in vhost.exchanges.bindings()}:
                local = parse_local_queue_name(name)
                if local is not None and local[0] == front_end:
                    vhost.remove_queue(name)
        self._recent.pop(front_end, None)
        partition = self.table.transient(front_end)
        if partition is not None:
            self.table.remove(partition)

    # -- virtual hosts, exchanges, bindings -----------------------------------------------------

    def _found_access(self, vhost: str, users: dict[str, Any]) -> bool:
        """Make the first virtual host and the users of the configuration at the first start of a cluster.

        Returns False, and changes nothing, where that has been done before.
        """
        if self.access.founded:
            return False
        self._declare_vhost(vhost)
        return self.access.found(users, vhost)

    def _declare_vhost(self, vhost: str, creator: str = "", **changes: Any) -> bool:
        """Add a virtual host, in which its creator gets every permission, or change the properties of one.

        Returns whether the virtual host is new.
        """
        new = vhost not in self.vhosts
        if new:
            self.vhosts[vhost] = VirtualHost(Exchanges(vhost), {})
        self.access.put_vhost(vhost, changes, creator if new else "")
        return new

    def _delete_vhost(self, vhost: str) -> None:
        self.vhost(vhost)
        for queue in [queue for queue in self.queues.values() if queue.vhost == vhost]:
            self.remove_queue(queue)
        del self.vhosts[vhost]
        del self._queue_counts[vhost]
        self.access.forget_vhost(vhost)
        self.policies.forget_vhost(vhost)
        self._observer.vhost_removed(vhost)

    def _declare_exchange(self, vhost: str, exchange: dict[str, Any]) -> None:
        made, exchanges = exchange_from_plain(exchange), self.vhost(vhost).exchanges
        exchanges.declare(made)
        alternate = self.policies.alternate(vhost, made.name)
        if alternate is not None:
            exchanges.set_policy_alternate(made.name, alternate)

    def _policies_changed(self, vhost: str) -> None:
        self.policies.set_alternates(vhost, self.vhosts[vhost].exchanges)
        self._observer.policies_changed(vhost)

    def _delete_exchange(self, vhost: str, name: str, if_unused: bool) -> None:
        self.vhost(vhost).delete_exchange(name, if_unused)

    def _bind(
        self, vhost: str, source: str, kind: str, destination: str, key: str, arguments: dict[str, Any]
    ) -> None:
        host = self.vhost(vhost)
        if kind == DestinationKind.QUEUE.value and parse_local_queue_name(destination) is not None:
            host.exchanges.add_queue(destination)
        binding = Binding.of(source, Destination(DestinationKind(kind), destination), key, arguments)
        if host.exchanges.bind(binding):
            host.arguments[binding] = arguments

    def _unbind(
        self, vhost: str, source: str, kind: str, destination: str, key: str, arguments: dict[str, Any]
    ) -> None:
        host = self.vhost(vhost)
        binding = Binding.of(source, Destination(DestinationKind(kind), destination), key, arguments)
        host.unbind(binding)

    def _forget_local_queue(self, vhost: str, name: str) -> None:
        """Remove the bindings of a server-named queue that is gone."""
        self.vhost(vhost).remove_queue(name)

    # -- queues ---------------------------------------------------------------------------------

    def declare_queue(
        self,
        *,
        vhost: str,
        name: str,
        replicas: list[str],
        transient: bool,
        size: int = 0,
        share: int = 0,
        apart: bool = False,
        domain: str = "",
        elsewhere: Sequence[int] = (),
        parts: Sequence[tuple[Sequence[str], Sequence[int]]] = (),
        nodes: Sequence[str] = (),
        **fields: Any,
    ) -> dict[str, Any]:
        """Declare a queue, whose parts are those of `nodes`. Raises what the checks of declarations raise."""
        self.vhost(vhost)
        if (existing := self.queues.get((vhost, name))) is not None:
            self.check_redeclared(existing, fields)
            return _declared(existing, created=False)
        self.parts.check_declared(vhost, name, fields["arguments"], self.queues)
        self.views.check_feeds(vhost, name, fields["arguments"])
        topic, arguments = self.topics.asked(vhost, name, fields["arguments"]), fields["arguments"]
        history = None if topic or X_HISTORY not in arguments else history_of(vhost, name, arguments)
        self.check_queue_limit(vhost, name, len(parts) if history is None else 1)
        terms = SharingTerms(size, share, apart, domain, frozenset(elsewhere))
        shared = None if topic is None else self.partitions[topic.partition]
        partition = shared or self._place(tuple(replicas), transient, fields["front_end"], terms)
        # All parts have their places before the first is added.
        places = [partition.id]
        for there, owned in parts:
            apart_of = replace(terms, elsewhere=frozenset((*owned, *places)))
            places.append(self._place(tuple(there), False, fields["front_end"], apart_of).id)
        if history is not None:
            self.add_queue(partition.id, history)
        fields |= {"vhost": vhost, "name": name, "semantics": Semantics(fields["semantics"])}
        added = [self.add_queue(*one) for one in with_hidden_parts(places, fields, nodes)]
        return _declared(added[0], created=True) | told_parts(added)

    def add_queue(self, partition: int, fields: dict[str, Any]) -> QueueDefinition:
        """Add a queue with the next id."""
        self.last_queue += 1
        queue = QueueDefinition(id=self.last_queue, partition=partition, **fields)
        self.queues[queue.vhost, queue.name] = queue
        self.queues_by_id[queue.id] = queue
        for kind in (self.topics, self.parts, self.owner_parts):
            kind.add(queue)
        self._queue_counts[queue.vhost] += 1
        self.table.queues[partition] += 1
        self.vhost(queue.vhost).exchanges.add_queue(queue.name)
        self._observer.queue_added(queue)
        return queue

    def change_queue(self, queue: QueueDefinition) -> None:
        """A queue that is there has other properties: arguments that policies may set, or those of a part."""
        self.queues[queue.vhost, queue.name] = self.queues_by_id[queue.id] = queue
        self._observer.views_changed(queue)

    def queue_name(self, id: int) -> tuple[str, str] | None:
        """A queue's virtual host and name; None where the catalog has no such queue."""
        queue = self.queues_by_id.get(id)
        return None if queue is None else (queue.vhost, queue.name)

    def check_queue_limit(self, vhost: str, name: str, others: int = 0) -> None:
        """Raises PreconditionFailedError where the virtual host may have no further queue.

        `others` is the number of its queues that are not in the catalog.
        """
        limit = self.access.vhost(vhost).limits.get("max-queues")
        if limit is not None and self._queue_counts[vhost] + others >= limit:
            raise PreconditionFailedError(
                f"cannot declare queue '{name}': queue limit in vhost '{vhost}' ({limit}) is reached"
            )

    def check_redeclared(self, existing: QueueDefinition, fields: Mapping[str, Any]) -> None:
        """Raises ResourceLockedError or PreconditionFailedError where `fields` describe another queue."""
        check_redeclared(existing, fields, self.partitions[existing.partition])

    def _place(
        self, replicas: tuple[str, ...], transient: bool, front_end: int, terms: SharingTerms
    ) -> PartitionDefinition:
        """The partition for a new queue. Raises RestartedError where its nodes are gone."""
        replicas = self.check_placed(replicas, transient, front_end)
        return (self.table.transient(front_end) if transient else None) or self.table.place(replicas, terms)

    def check_placed(self, replicas: Sequence[str], transient: bool, front_end: int) -> tuple[str, ...]:
        """The nodes for a new queue that are there. Raises RestartedError where its nodes are gone."""
        if transient:
            if self.table.transient(front_end) is None:
                raise RestartedError("the declaring node has restarted")
            return tuple(replicas)
        found = tuple(name for name in replicas if name in self.nodes or not self.members.founded)
        if not found:
            raise RestartedError("the nodes chosen for the queue have left the cluster; declare again")
        return found

    def _delete_queue(self, id: int) -> bool:
        queue = self.queues_by_id.get(id)
        if queue is None:
            return False
        self.check_goes_alone(queue)
        self.remove_queue(queue)
        return True

    def check_goes_alone(self, queue: QueueDefinition) -> None:
        """Raises PreconditionFailedError for the history of a queue which is there, and for a hidden part."""
        check_whole(queue)
        check_not_history(queue, self.queues)

    def _delete_queues(self, ids: list[int]) -> None:
        """Delete the queues that still exist: they were in the memory of a node that is gone."""
        for id in ids:
            self._delete_queue(id)

    def _release_holder(self, front_end: int, holder: int) -> None:
        """A connection is closed: remove its exclusive queues."""
        for queue in list(self.queues.values()):
            if queue.exclusive and (queue.front_end, queue.holder) == (front_end, holder):
                self.remove_queue(queue)

    def remove_queue(self, queue: QueueDefinition) -> None:
        """Remove a queue, and with it the stream that keeps its history, and its hidden parts."""
        if queue.id not in self.queues_by_id:
            return
        del self.queues[queue.vhost, queue.name]
        del self.queues_by_id[queue.id]
        self.topics.remove(queue)
        self.parts.remove(queue)
        others = self.owner_parts.remove(queue)
        self.views.forget_queue(queue.vhost, queue.name)
        self._queue_counts[queue.vhost] -= 1
        self.table.queues[queue.partition] -= 1
        self.vhosts[queue.vhost].remove_queue(queue.name)
        self._observer.queue_removed(queue)
        history = self.queues.get((queue.vhost, history_name(queue.name)))
        if history is not None and queue_of(history) == queue.name:
            others.append(history)
        for other in others:
            self.remove_queue(other)

    # -- snapshots ------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """The whole state in msgpack; equal states give equal octets."""
        plain = {
            "version": CATALOG_SNAPSHOT_VERSION,
            "members": self.members.to_plain(),
            "partitions": self.table.to_plain(),
            **self.table.cuts.to_plain(),
            "queues": [to_plain(queue) for queue in self.queues.values()],
            "vhosts": {name: vhost_to_plain(vhost) for name, vhost in self.vhosts.items()},
            "access": self.access.to_plain(),
            "policies": self.policies.to_plain(),
            "views": self.views.to_plain(),
            "witnesses": self.witnesses.to_plain(),
            "recent": sorted((origin, recent.to_plain()) for origin, recent in self._recent.items()),
            "retired": self._retired,
            "last_queue": self.last_queue,
            "last_partition": self.table.last,
        }
        return pack(plain)

    def restore(self, data: bytes) -> None:
        """Replace the state by that of a snapshot, of this format version or an earlier one."""
        plain = unpack(data)
        self.members.restore(plain)
        self.witnesses.restore(plain.get("witnesses", [node.front_end for node in self.nodes.values()]))
        queues = [queue_from_plain(queue) for queue in plain["queues"]]
        self.table.restore(plain["partitions"], plain["last_partition"], (one.partition for one in queues))
        self.table.cuts.restore(plain.get("barriers", ()))
        self.queues = {(queue.vhost, queue.name): queue for queue in queues}
        self.queues_by_id = {queue.id: queue for queue in queues}
        for kind in (self.topics, self.parts, self.owner_parts):
            kind.restore(queues)
        self._queue_counts = Counter(queue.vhost for queue in queues)
        self.access.restore(plain.get("access"), list(plain["vhosts"]))
        self.policies.restore(plain.get("policies"))
        self.views.restore(plain.get("views"))
        self.vhosts.clear()
        for name, host in plain["vhosts"].items():
            self.vhosts[name] = VirtualHost(Exchanges(name), {})
            for queue in [one for one in queues if one.vhost == name]:
                self.vhosts[name].exchanges.add_queue(queue.name)
            for exchange in host["exchanges"]:
                self._declare_exchange(name, exchange)
            for binding in host["bindings"]:
                self._bind(name, **binding)
            self.policies.set_alternates(name, self.vhosts[name].exchanges)
        self._recent.clear()
        for origin, requests in plain["recent"]:
            for request in requests:
                self._recent[origin].add(request)
        self._retired = plain["retired"]
        self.last_queue = plain["last_queue"]
        self._observer.replaced()
