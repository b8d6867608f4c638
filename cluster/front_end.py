"""The broker as client sessions see it: names to queues, publishes to links, requests to owners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cluster.access import Access
from cluster.broker import Broker
from cluster.catalog_state import ResourceLockedError
from cluster.definitions import parse_local_queue_name
from cluster.entrance import Entrance
from cluster.link import Confirmation, LinkConsumer, PartitionLink
from cluster.local_queues import LocalQueues
from cluster.placement import Placement, place
from cluster.ports import FIRST_CONSUMER, Delivery
from cluster.virtual_host import exchange_to_plain
from node.engine.arguments import check_arguments
from node.engine.errors import (
    AccessRefusedError,
    NotFoundError,
    PreconditionFailedError,
    Refusal,
)
from node.engine.exchange import RESERVED_PREFIX, Exchange, ExchangeKind
from node.engine.matching import Binding, DestinationKind
from node.frontend.logins import Login, PasswordLogin
from node.frontend.permissions import Permissions, Right, Scope
from node.frontend.ports import (
    Authenticated,
    ConsumerOptions,
    Done,
    Entry,
    Got,
    QueueCounts,
    QueueDeclaration,
    QueueRef,
    Route,
    Subscriber,
)
from node.frontend.traffic import ExchangeFlow
from node.runs import Run

CACHED_ROUTES: Final = 65_536
GET_LINKS: Final = 1024
"""Queues that were read with basic.get, from which on those that are gone are forgotten."""

COUNTED_EXCHANGES: Final = 1024
"""Exchanges with counters, from which on those that are gone are forgotten."""


@dataclass(frozen=True, slots=True)
class Targets:
    """A route: queue ids by the link of the partition that holds them, `queues` in all."""

    links: tuple[tuple[PartitionLink, list[int]], ...]
    queues: int
    flow: ExchangeFlow

    def __bool__(self) -> bool:
        return bool(self.links)


@dataclass(frozen=True, slots=True)
class Attached:
    """Where a consumer number of this front end leads."""

    link: PartitionLink
    queue: int


class FrontEnd:
    """Implements `node.frontend.ports.BrokerPort` on a node's broker."""

    def __init__(self, broker: Broker, local: LocalQueues, access: Access, default_type: str) -> None:
        self._broker = broker
        self._local = local
        self._default_type = default_type
        self._access = access
        self.flows: dict[tuple[str, str], ExchangeFlow] = {}
        """What came to exchanges on this node, by virtual host and name."""
        self._flows_limit = COUNTED_EXCHANGES
        self.permissions: Permissions = access
        self._entrance = Entrance(broker.catalog.state, access)
        self._routes: dict[tuple[Scope, str, str], Targets] = {}
        self._routes_version = -1
        self._consumers: dict[int, Attached] = {}
        self._get_links: dict[tuple[int, int], int] = {}
        self._get_links_limit = GET_LINKS
        self._last_consumer = FIRST_CONSUMER
        self._waiting: list[Subscriber] = []
        broker.on_access_removed = self._entrance.access_removed

    # -- readiness ------------------------------------------------------------------------------

    def ready(self) -> bool:
        return self._broker.catalog.fresh(self._broker.now)

    def wait_ready(self, subscriber: Subscriber) -> None:
        self._waiting.append(subscriber)

    def tick(self) -> None:
        """Let waiting sessions go on once the catalog may be relied upon again; close those cast out."""
        self._entrance.tick()
        if self._waiting and self.ready():
            waiting, self._waiting = self._waiting, []
            for subscriber in waiting:
                subscriber.unblocked()

    # -- connections ----------------------------------------------------------------------------

    def authenticate(self, login: Login, remote: str, answer: Authenticated) -> None:
        if isinstance(login, PasswordLogin):
            self._access.authenticate(login.user, login.password, remote, answer)
        else:
            self._access.admit(login.user, remote, answer)

    def enter(self, subscriber: Subscriber, user: str, vhost: str) -> Entry:
        return self._entrance.enter(subscriber, user, vhost)

    def release_holder(self, holder: int) -> None:
        self._entrance.leave(holder)
        self._local.release_holder(holder)
        state, front_end = self._broker.catalog.state, self._broker.front_end
        if any(q.exclusive and (q.front_end, q.holder) == (front_end, holder) for q in state.queues.values()):
            self._submit("release_holder", {"front_end": front_end, "holder": holder}, _ignore)

    # -- routing --------------------------------------------------------------------------------

    def exchange(self, vhost: str, name: str) -> Exchange:
        try:
            return self._broker.catalog.state.vhost(vhost).exchanges.get(name)
        except NotFoundError:
            raise NotFoundError(f"no exchange '{name}' in vhost '{vhost}'") from None

    def queue(self, vhost: str, name: str, holder: int) -> QueueRef:
        if parse_local_queue_name(name) is not None:
            return self._local.find(vhost, name, holder)
        queue = self._broker.catalog.state.queue(vhost, name)
        if queue.exclusive and (queue.front_end, queue.holder) != (self._broker.front_end, holder):
            raise ResourceLockedError(
                f"cannot obtain exclusive access to locked queue '{name}' in vhost '{vhost}'"
            )
        if self._broker.link(queue.partition).unreachable:
            raise NotFoundError(f"home node of queue '{name}' in vhost '{vhost}' is down or inaccessible")
        return QueueRef(name, queue.partition, queue.id)

    def needs_headers(self, scope: Scope, exchange: str) -> bool:
        try:
            self.exchange(scope.vhost, exchange)
        except NotFoundError:
            # Who may not write to it does not learn whether it is there.
            self._access.check_exchange(scope.user, scope.vhost, Right.WRITE, exchange)
            raise
        return self._broker.catalog.state.vhost(scope.vhost).exchanges.uses_headers(exchange)

    def route(self, scope: Scope, exchange: str, key: str, headers: Mapping[str, Any] | None = None) -> Route:
        if headers is not None:
            return self._find_targets(scope, exchange, key, headers)
        if self._routes_version != self._broker.catalog.version or len(self._routes) > CACHED_ROUTES:
            self._routes.clear()
            self._routes_version = self._broker.catalog.version
        targets = self._routes.get((scope, exchange, key))
        if targets is None:
            targets = self._routes[scope, exchange, key] = self._find_targets(scope, exchange, key, None)
        return targets

    def _find_targets(
        self, scope: Scope, exchange: str, key: str, headers: Mapping[str, Any] | None
    ) -> Targets:
        vhost = scope.vhost
        self._access.check_exchange(scope.user, vhost, Right.WRITE, exchange)
        found = self.exchange(vhost, exchange)
        if found.kind is ExchangeKind.TOPIC:
            self._access.check_topic(scope.user, vhost, Right.WRITE, exchange, key)
        if found.internal:
            raise AccessRefusedError(f"cannot publish to internal exchange '{exchange}' in vhost '{vhost}'")
        state = self._broker.catalog.state
        if exchange == "" and parse_local_queue_name(key) is not None:
            names = frozenset({key})
        else:
            names = state.vhost(vhost).exchanges.route(exchange, key, headers)
        by_partition: dict[int, list[int]] = {}
        for name in sorted(names):
            local = parse_local_queue_name(name)
            if local is not None:
                by_partition.setdefault(local[1], []).append(local[2])
            elif (vhost, name) in state.queues:
                queue = state.queues[vhost, name]
                by_partition.setdefault(queue.partition, []).append(queue.id)
        known = [one for one in by_partition.items() if one[0] in state.partitions]
        if len(self.flows) >= self._flows_limit:
            self._prune_flows()
        flow = self.flows.setdefault((vhost, exchange), ExchangeFlow())
        links = tuple((self._broker.link(partition), queues) for partition, queues in known)
        return Targets(links, sum(len(queues) for _, queues in known), flow)

    def _prune_flows(self) -> None:
        """Forget what was counted of exchanges that are gone by now."""
        vhosts = self._broker.catalog.state.vhosts
        present = {(name, one.name) for name, vhost in vhosts.items() for one in vhost.exchanges}
        self.flows = {key: flow for key, flow in self.flows.items() if key in present}
        self._flows_limit = max(COUNTED_EXCHANGES, 2 * len(self.flows))

    def publish(self, subscriber: Subscriber, channel: int, run: Run, route: Route, first_tag: int) -> bool:
        assert isinstance(route, Targets)
        route.flow.routed += run.count * route.queues
        confirmation = None
        last_tag = first_tag + run.count - 1
        if any(link.unreachable for link, _ in route.links):
            # Nobody could say when such a message will be safe.
            if first_tag:
                subscriber.reject(channel, first_tag, last_tag)
            return True
        if first_tag:
            confirmation = Confirmation(subscriber, channel, first_tag, last_tag, len(route.links))
        going_on = True
        for link, queues in route.links:
            link.publish(run, queues, confirmation)
            if link.full and going_on:
                going_on = False
                link.wait(subscriber)
        return going_on

    # -- the catalog ----------------------------------------------------------------------------

    def _submit(
        self, name: str, arguments: dict[str, Any], answer: Callable[[Any, Refusal | None], None]
    ) -> None:
        self._broker.catalog.submit(name, arguments, answer, self._broker.now)
        self._broker.wanted()

    def declare_exchange(self, vhost: str, exchange: Exchange, answer: Done) -> None:
        arguments = {"vhost": vhost, "exchange": exchange_to_plain(exchange)}
        present = self._broker.catalog.state.vhost(vhost).exchanges
        if any(one == exchange for one in present):
            answer(None)
            return
        self._submit("declare_exchange", arguments, lambda _, refusal: answer(refusal))

    def delete_exchange(self, vhost: str, name: str, if_unused: bool, answer: Done) -> None:
        arguments = {"vhost": vhost, "name": name, "if_unused": if_unused}
        self._submit("delete_exchange", arguments, lambda _, refusal: answer(refusal))

    def bind(self, vhost: str, binding: Binding, arguments: dict[str, Any], answer: Done) -> None:
        if binding.destination.kind is DestinationKind.QUEUE:
            self._local.bound(binding.destination.name)
        plain = _binding_to_plain(vhost, binding, arguments)
        self._submit("bind", plain, lambda _, refusal: answer(refusal))

    def unbind(self, vhost: str, binding: Binding, arguments: dict[str, Any], answer: Done) -> None:
        plain = _binding_to_plain(vhost, binding, arguments)
        self._submit("unbind", plain, lambda _, refusal: answer(refusal))

    def declare_queue(
        self,
        vhost: str,
        declaration: QueueDeclaration,
        holder: int,
        answer: Callable[[QueueRef | None, Refusal | None], None],
    ) -> None:
        try:
            if not declaration.name and declaration.exclusive:
                answer(self._local.declare(vhost, declaration, holder), None)
                return
            settings = check_arguments(declaration.arguments, declaration.name, vhost)
            placement = self._placement(vhost, declaration)
        except Refusal as refusal:
            answer(None, refusal)
            return
        arguments = {
            "vhost": vhost,
            "name": declaration.name or self._local.new_name(),
            "replicas": list(placement.replicas),
            "transient": placement.transient,
            "durable": declaration.durable,
            "exclusive": declaration.exclusive,
            "auto_delete": declaration.auto_delete,
            "arguments": declaration.arguments,
            "semantics": int(settings.semantics),
            "front_end": self._broker.front_end,
            "holder": holder if declaration.exclusive else 0,
        }

        def declared(value: Any, refusal: Refusal | None) -> None:
            if refusal is not None:
                answer(None, refusal)
            else:
                answer(QueueRef(value["name"], value["partition"], value["id"]), None)

        self._submit("declare_queue", arguments, declared)

    def _placement(self, vhost: str, declaration: QueueDeclaration) -> Placement:
        known = (vhost, declaration.name) in self._broker.catalog.state.queues
        if declaration.name.startswith(RESERVED_PREFIX) and not known:
            raise AccessRefusedError(
                f"queue name '{declaration.name}' contains reserved prefix '{RESERVED_PREFIX}*'"
            )
        return place(declaration, self._broker.node, self._broker.config.members, self._default_type)

    def delete_queue(
        self,
        queue: QueueRef,
        if_unused: bool,
        if_empty: bool,
        answer: Callable[[int, Refusal | None], None],
    ) -> None:
        def counted(counts: QueueCounts, refusal: Refusal | None) -> None:
            if refusal is not None:
                answer(0, refusal)
            elif if_unused and counts.consumers:
                answer(0, PreconditionFailedError(f"queue '{queue.name}' in use"))
            elif if_empty and counts.ready:
                answer(0, PreconditionFailedError(f"queue '{queue.name}' not empty"))
            elif self._local.owns(queue):
                self._local.delete(queue)
                answer(counts.ready, None)
            else:
                self._submit(
                    "delete_queue", {"id": queue.id}, lambda _, refusal: answer(counts.ready, refusal)
                )

        self.count(queue, counted)

    # -- owners ---------------------------------------------------------------------------------

    def _ask(
        self,
        queue: QueueRef,
        name: str,
        arguments: list[Any],
        answer: Callable[[Any, Delivery | None, Refusal | None], None],
    ) -> None:
        def answered(value: Any, delivery: Delivery | None) -> None:
            refusal = NotFoundError(f"no queue '{queue.name}'") if _is_refusal(value) else None
            answer(value, delivery, refusal)

        self._broker.link(queue.partition).request(name, [queue.id, *arguments], answered)
        self._broker.wanted()

    def purge(self, queue: QueueRef, answer: Callable[[int, Refusal | None], None]) -> None:
        self._ask(queue, "purge", [], lambda count, _, refusal: answer(0 if refusal else count, refusal))

    def count(self, queue: QueueRef, answer: Callable[[QueueCounts, Refusal | None], None]) -> None:
        def counted(value: Any, _: Delivery | None, refusal: Refusal | None) -> None:
            counts = QueueCounts(0, 0, 0) if refusal or value is None else QueueCounts(*value)
            answer(counts, refusal)

        self._ask(queue, "count", [], counted)

    def get(
        self, queue: QueueRef, no_ack: bool, answer: Callable[[Got | None, Refusal | None], None]
    ) -> None:
        link = self._broker.link(queue.partition)
        key = (queue.partition, queue.id)
        number = self._get_links.get(key)
        if number is None:
            if len(self._get_links) >= self._get_links_limit:
                self._prune_get_links()
            number = self._get_links[key] = self._new_consumer(link, queue.id)

        def got(value: Any, delivery: Delivery | None, refusal: Refusal | None) -> None:
            if delivery is None:
                answer(None, refusal)
            else:
                answer(Got(number, delivery.run, delivery.first, delivery.redelivered, value), None)

        self._ask(queue, "get", [no_ack], got)

    def _prune_get_links(self) -> None:
        """Forget the numbers under which messages of queues were got that are gone by now."""
        state = self._broker.catalog.state
        for key, number in list(self._get_links.items()):
            if key[1] not in state.queues_by_id and key[1] not in self._broker.local_queues:
                del self._get_links[key], self._consumers[number]
        self._get_links_limit = max(GET_LINKS, 2 * len(self._get_links))

    def _new_consumer(self, link: PartitionLink, queue: int) -> int:
        self._last_consumer += 1
        self._consumers[self._last_consumer] = Attached(link, queue)
        return self._last_consumer

    def consume(
        self, subscriber: Subscriber, queue: QueueRef, options: ConsumerOptions,
        answer: Callable[[int, Refusal | None], None],
    ) -> None:  # fmt: skip
        link = self._broker.link(queue.partition)
        number = self._new_consumer(link, queue.id)
        consumer = LinkConsumer(
            number, queue.id, subscriber, options.limit, options.no_ack, options.exclusive, options.priority
        )

        def attached(value: Any, _: Delivery | None) -> None:
            if value is None:
                answer(number, None)
                return
            del self._consumers[number]
            code, text = value
            answer(0, AccessRefusedError(text) if code == AccessRefusedError.code else NotFoundError(text))

        link.attach(consumer, attached)
        self._broker.wanted()

    def consumer(self, number: int) -> LinkConsumer | None:
        """What a consumer of this front end asked for; None for one that is gone."""
        attached = self._consumers.get(number)
        return None if attached is None else attached.link.consumers.get(number)

    def cancel(self, consumer: int) -> None:
        attached = self._consumers.get(consumer)
        if attached is not None:
            attached.link.detach(consumer)

    def forget(self, consumer: int) -> None:
        self._consumers.pop(consumer, None)

    def credit(self, consumer: int, limit: int) -> None:
        attached = self._consumers.get(consumer)
        if attached is not None:
            attached.link.credit(consumer, limit)

    def settle(self, consumer: int, first: int, last: int) -> None:
        attached = self._consumers.get(consumer)
        if attached is not None:
            attached.link.settle(attached.queue, first, last)

    def give_back(self, consumer: int, first: int, last: int, failed: bool) -> None:
        attached = self._consumers.get(consumer)
        if attached is not None:
            attached.link.give_back(attached.queue, [(first, last)], failed=failed)

    def discard(self, consumer: int, first: int, last: int) -> None:
        attached = self._consumers.get(consumer)
        if attached is not None:
            attached.link.discard(attached.queue, [(first, last)])


def _binding_to_plain(vhost: str, binding: Binding, arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "vhost": vhost,
        "source": binding.source,
        "kind": binding.destination.kind.value,
        "destination": binding.destination.name,
        "key": binding.key,
        "arguments": arguments,
    }


def _is_refusal(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[1], str)


def _ignore(value: Any, refusal: Refusal | None) -> None:
    """The next start of this node removes what a lost command did not."""
