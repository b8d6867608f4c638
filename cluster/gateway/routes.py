"""Routes of a front end's messages, from exchange and key to links, by this node's catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from cluster.catalog.access.control import Access
from cluster.catalog.definitions import FIRST_LOCAL_ID, LocalName, PartState, parse_local_queue_name
from cluster.gateway.context import GatewayContext
from cluster.gateway.link import PartitionLink
from cluster.gateway.local_queues import LocalQueues
from node.delivery.deeds import MoveTarget
from node.message.run import Run
from node.refusal import AccessRefusedError, NotFoundError, Refusal
from node.routing.exchange import DEFAULT_EXCHANGE, RESERVED_PREFIX, Exchange, ExchangeKind
from node.session.permissions import Right, Scope
from node.session.ports import QueueRef, Route
from node.session.traffic import ExchangeFlow

REMEMBERED_ROUTES: Final = 65_536
REMEMBERED_ALIKE: Final = 4096
"""Routes that depend on headers and are remembered at a time."""

REMEMBERED_KEY: Final = 512
"""Octets. Routes of messages with more octets in the headers that count are not remembered."""

COUNTED_EXCHANGES: Final = 1024
"""Exchanges with counters. When there are more, the counters of deleted exchanges are dropped."""


@dataclass(frozen=True, slots=True)
class Targets:
    """A route: queue ids by the link of the partition that holds them, `queues` in all. Where it leads to
    parts that may go (x-owners each-node), `names` has the virtual host, the exchange, and the queues.
    """

    links: tuple[tuple[PartitionLink, list[int]], ...]
    queues: int
    flow: ExchangeFlow
    names: tuple[str, str, frozenset[str]] | None = None

    def __bool__(self) -> bool:
        return bool(self.links)

    @property
    def identity(self) -> tuple[object, ...]:
        """Equal for routes to the same queues over the same links, from one exchange."""
        return id(self.flow), *((id(link), *queues) for link, queues in self.links)


class Routes:
    """Routes of all users in all virtual hosts, remembered until the catalog changes."""

    def __init__(self, context: GatewayContext, access: Access, local: LocalQueues) -> None:
        replica, links = context.replica, context.links
        self._node, self._owner_of = context.config.node, context.owner_of
        self._replica = replica
        self._access = access
        self._links = links
        self._local = local
        self._known: dict[tuple[Scope, str, str], Targets] = {}
        self._alike: dict[tuple[Scope, str, str, bytes], Targets] = {}
        """Routes that depend on headers, by exchange, key, and what stands for the headers' values."""
        self._to_names: dict[tuple[str, str], dict[frozenset[str], Targets]] = {}
        """Routes by virtual host and exchange, and the names of the queues."""
        self._distinct: dict[tuple[object, ...], Targets] = {}
        """The routes in `_alike`, by their identity."""
        self._version = -1
        self._owners: dict[int, str | None] = {}
        """The owners of parts by which routes were made, by partition; mostly there is none."""
        self.flows: dict[tuple[str, str], ExchangeFlow] = {}
        """The counters of messages published to exchanges on this node, by virtual host and name."""
        self._flows_limit = COUNTED_EXCHANGES

    def exchange(self, vhost: str, name: str) -> Exchange:
        """Raises NotFoundError."""
        return self._replica.state.vhost(vhost).exchanges.get(name)

    def header_names(self, scope: Scope, exchange: str) -> tuple[str, ...] | None:
        """The names of the headers on which routes of the exchange depend; None where there are none.

        Raises NotFoundError, and AccessRefusedError.
        """
        try:
            self.exchange(scope.vhost, exchange)
        except NotFoundError:
            # A user who may not write to the exchange must not learn whether it exists.
            self._access.check_exchange(scope, Right.WRITE, exchange)
            raise
        return self._replica.state.vhost(scope.vhost).exchanges.header_names(exchange)

    def find(
        self,
        scope: Scope,
        exchange: str,
        key: str,
        headers: Mapping[str, Any] | None,
        copies: Sequence[str] = (),
    ) -> Targets:
        """The route of a message; `copies` are further keys (CC and BCC).

        `headers` is None where `header_names` is None: only such routes are remembered. Raises
        NotFoundError for the exchange, and AccessRefusedError, also for an internal exchange.
        """
        if copies:
            return self._compute(scope, exchange, (key, *copies), headers)
        if headers is not None or (exchange == DEFAULT_EXCHANGE and key.startswith(RESERVED_PREFIX)):
            # Queues that are not in the catalog come and go without a change of its version.
            return self._compute(scope, exchange, (key,), headers)
        if self._outdated() or len(self._known) > REMEMBERED_ROUTES:
            self._forget()
        targets = self._known.get((scope, exchange, key))
        if targets is None:
            targets = self._known[scope, exchange, key] = self._compute(scope, exchange, (key,), None)
        return targets

    def find_alike(
        self, scope: Scope, exchange: str, key: str, alike: bytes, headers: Callable[[], Mapping[str, Any]]
    ) -> Targets:
        """The route of messages with the values of headers that `alike` stands for
        (`MessageFormat.header_keys`). Raises as `find`.

        Equal routes are one object, so that the caller joins messages of one route.
        """
        if len(alike) > REMEMBERED_KEY:
            return self._compute(scope, exchange, (key,), headers())
        if self._outdated():
            self._forget()
        elif len(self._alike) >= REMEMBERED_ALIKE:
            # Headers that differ in each message take no other messages' routes away.
            self._alike.clear()
            self._distinct.clear()
        targets = self._alike.get((scope, exchange, key, alike))
        if targets is None:
            found = self._compute(scope, exchange, (key,), headers())
            targets = self._distinct.setdefault(found.identity, found)
            self._alike[scope, exchange, key, alike] = targets
        return targets

    def find_each(
        self, scope: Scope, exchange: str, keys: Sequence[str]
    ) -> tuple[Sequence[tuple[int, Targets]], Refusal | None]:
        """(number of messages in a row, their route) by the keys of messages, as far as no route is refused;
        and the refusal that ends the list.

        Equal routes are one object, so that messages of one route stay together. For exchanges whose routes
        depend on no headers.
        """
        found: list[tuple[int, Targets]] = []
        latest, begin, index = None, 0, 0
        refused = None
        try:
            find = self._finder(scope, exchange, keys[0])
            for index, key in enumerate(keys):
                targets = find(key)
                if targets is not latest:
                    if latest is not None:
                        found.append((index - begin, latest))
                    latest, begin = targets, index
            index = len(keys)
        except Refusal as refusal:
            refused = refusal
        if latest is not None:
            found.append((index - begin, latest))
        return found, refused

    def _finder(self, scope: Scope, exchange: str, first: str) -> Callable[[str], Targets]:
        """Gives the routes of one exchange by key. Raises as `find` for the first key, at once."""
        if self._outdated():
            self._forget()
        vhost = scope.vhost
        if exchange == DEFAULT_EXCHANGE:
            return lambda key: self.find(scope, exchange, key, None)
        # The checks of the exchange are those of every key.
        self._compute(scope, exchange, (first,), None)
        topic = self.exchange(vhost, exchange).kind is ExchangeKind.TOPIC
        exchanges, check_topic = self._replica.state.vhost(vhost).exchanges, self._access.check_topic
        known = self._to_names.setdefault((vhost, exchange), {})

        def find(key: str) -> Targets:
            if topic:
                check_topic(scope, Right.WRITE, exchange, key)
            names = exchanges.route(exchange, key)
            targets = known.get(names)
            if targets is None:
                if len(known) >= REMEMBERED_ALIKE:
                    known.clear()
                targets = known[names] = self._to_queues(vhost, exchange, names)
            return targets

        return find

    def _forget(self) -> None:
        """Forget all routes."""
        self._known.clear()
        self._to_names.clear()
        self._alike.clear()
        self._distinct.clear()
        self._owners.clear()
        self._version = self._replica.version

    def _outdated(self) -> bool:
        """Whether the catalog has changed, or the owner of a part among which a route chose."""
        if self._version != self._replica.version:
            return True
        owners = self._owners
        return bool(owners) and any(self._owner_of(one) != owner for one, owner in owners.items())

    def _owner_seen(self, partition: int) -> str | None:
        """The owner of a partition; routes by it are remembered while the owner stays."""
        owner = self._owners[partition] = self._owner_of(partition)
        return owner

    def _compute(
        self, scope: Scope, exchange: str, keys: Sequence[str], headers: Mapping[str, Any] | None
    ) -> Targets:
        vhost = scope.vhost
        self._access.check_exchange(scope, Right.WRITE, exchange)
        found = self.exchange(vhost, exchange)
        if found.kind is ExchangeKind.TOPIC:
            for key in keys:
                self._access.check_topic(scope, Right.WRITE, exchange, key)
        if found.internal:
            raise AccessRefusedError(f"cannot publish to internal exchange '{exchange}' in vhost '{vhost}'")
        exchanges = self._replica.state.vhost(vhost).exchanges
        names = set(exchanges.route(exchange, keys[0], headers, keys[1:]))
        if exchange == DEFAULT_EXCHANGE:
            # Queues in a node's memory are not in the catalog: their names tell where they are.
            names.update(key for key in keys if _local_name(key) is not None)
            if self._replica.state.parts.by_name:
                # No queue has the name of a local queue, but to this node its own part.
                names.update(keys)
        return self._to_queues(vhost, exchange, names)

    def _to_queues(self, vhost: str, exchange: str, names: Set[str]) -> Targets:
        state = self._replica.state
        by_partition: dict[int, list[int]] = {}
        told = frozenset(names)
        if state.parts.by_name:
            names = state.parts.routed(vhost, names, self._node)
        if state.owner_parts.by_name:
            names = state.owner_parts.routed(vhost, names, self._node, self._owner_seen)
        if state.topics.below:
            names = state.topics.spread(vhost, names)
        for name in sorted(names):
            local = _local_name(name)
            if local is not None:
                if self._local.may_be_there(local, vhost):
                    by_partition.setdefault(local.partition, []).append(local.queue)
            elif (vhost, name) in state.queues:
                queue = state.queues[vhost, name]
                by_partition.setdefault(queue.partition, []).append(queue.id)
        known = [one for one in by_partition.items() if one[0] in state.partitions]
        if len(self.flows) >= self._flows_limit:
            self._prune_flows()
        flow = self.flows.setdefault((vhost, exchange), ExchangeFlow())
        links = tuple((self._links.to(partition), queues) for partition, queues in known)
        of_nodes = state.owner_parts.of_nodes
        may_go = bool(of_nodes) and any((vhost, name) in of_nodes for name in told)
        named = (vhost, exchange, told) if may_go else None
        return Targets(links, sum(len(queues) for _, queues in known), flow, named)

    def present(self, publishes: Iterable[tuple[Run, Route]]) -> list[tuple[Run, Targets]]:
        """Publishes along routes that were found earlier, with other parts in the place of those that take no
        more messages.
        """
        return [(run, self._present(route)) for run, route in publishes]

    def _present(self, route: Route) -> Targets:
        assert isinstance(route, Targets)
        if route.names is None or self._all_open(route):
            return route
        return self._to_queues(*route.names)

    def _all_open(self, targets: Targets) -> bool:
        state = self._replica.state
        found = [state.queues_by_id.get(queue) for _, queues in targets.links for queue in queues]
        return all(one is not None and one.part is PartState.OPEN for one in found)

    def find_place(self, target: MoveTarget) -> Targets:
        """The route of messages that are moved to a queue. A stream brings the queues over it."""
        found = self._replica.state.queues_by_id.get(target.queue)
        if found is not None and found.stream:
            return self._to_queues(found.vhost, DEFAULT_EXCHANGE, {found.name})
        return Targets(((self._links.to(target.partition), [target.queue]),), 1, ExchangeFlow())

    def find_local(self, vhost: str, name: str) -> QueueRef:
        """The queue in a node's memory that has this name. Raises NotFoundError, also while that node is
        down.
        """
        local = parse_local_queue_name(name)
        there = local is not None and self._local.may_be_there(local, vhost)
        if local is None or not there or self._links.to(local.partition).unreachable:
            # The queues in the memory of a node that is down are lost.
            raise NotFoundError(f"no queue '{name}' in vhost '{vhost}'")
        return QueueRef(name, local.partition, local.queue, vhost)

    def still_leads(self, targets: Targets) -> bool:
        """Whether any of the route's queues still exists, as far as this node knows."""
        present = self._present(targets)
        return any(self._is_there(link, queue) for link, queues in present.links for queue in queues)

    def _is_there(self, link: PartitionLink, queue: int) -> bool:
        state = self._replica.state
        if queue < FIRST_LOCAL_ID:
            return queue in state.queues_by_id
        # This node does not know which queues are in another node's memory.
        partition = state.partitions.get(link.partition)
        elsewhere = partition is not None and partition.front_end != self._local.front_end
        return elsewhere or queue in self._local.settings

    def _prune_flows(self) -> None:
        """Drop the counters of exchanges that have been deleted."""
        vhosts = self._replica.state.vhosts
        present = {(name, one.name) for name, vhost in vhosts.items() for one in vhost.exchanges}
        self.flows = {key: flow for key, flow in self.flows.items() if key in present}
        self._flows_limit = max(COUNTED_EXCHANGES, 2 * len(self.flows))


def _local_name(name: str) -> LocalName | None:
    """The parts of a server-given name; None for any other name, which need not be looked at closely."""
    return parse_local_queue_name(name) if name.startswith(RESERVED_PREFIX) else None
