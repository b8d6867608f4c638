"""The broker as client sessions see it: names to queues, publishes to links, requests to owners."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cluster.catalog.access.control import Access
from cluster.catalog.definitions import parse_local_queue_name
from cluster.config.formats import FILTERS_IN_TERMS, METHODS_IN_RUNS, SECTIONS_IN_RUNS
from cluster.gateway.attached_consumers import AttachedConsumers
from cluster.gateway.attaching import Attaching
from cluster.gateway.batches import FrontEndBatches
from cluster.gateway.browsing import Bookmark
from cluster.gateway.browsing_consumers import BrowsingConsumers
from cluster.gateway.cancellations import Cancellations
from cluster.gateway.client_connections import ClientConnections
from cluster.gateway.commits import Attached, Commits, shares_of
from cluster.gateway.context import GatewayContext
from cluster.gateway.descriptions import Descriptions
from cluster.gateway.epochs import FrontEndEpochs
from cluster.gateway.exchange_changes import ExchangeChanges
from cluster.gateway.finding_links import FindingLinks
from cluster.gateway.gets import Gets
from cluster.gateway.link import PartitionLink
from cluster.gateway.local_queues import LocalQueues
from cluster.gateway.lost_memory import LostMemory
from cluster.gateway.owner_requests import Browsed, OwnerRequests
from cluster.gateway.queue_declarations import QueueDeclarations, reachable
from cluster.gateway.queue_deletions import QueueDeletions
from cluster.gateway.readers import FrontEndReaders
from cluster.gateway.redirects import Redirects
from cluster.gateway.routes import Routes, Targets
from cluster.gateway.shared_queues import RENUMBERED, SharedQueues
from cluster.gateway.state import Confirmation, LinkConsumer
from cluster.gateway.streams import Streams
from cluster.gateway.takes import FrontEndTakes
from cluster.gateway.targets import FrontEndTargets
from cluster.gateway.times import within_times
from cluster.gateway.views import FrontEndViews
from cluster.peers.link_messages import FIRST_CONSUMER
from node.delivery.deeds import Deed, Named
from node.delivery.settlements import Modification, Outcome, Settlement, attached_as, token_of
from node.message.run import Run
from node.queue.stream_settings import is_stream
from node.ranges.range_set import Range
from node.refusal import Refusal, locked
from node.routing.exchange import Exchange
from node.routing.matching import Binding, Destination
from node.session.batch_port import BatchPort
from node.session.link_port import LinkPort
from node.session.logins import Login
from node.session.permissions import Permissions, Scope
from node.session.ports import (
    Authenticated,
    ConsumerOptions,
    DeclaredQueue,
    Done,
    Identity,
    NamedAnswer,
    QueueCounts,
    QueueDeclaration,
    QueueRef,
    RenewalAnswer,
    Route,
    TakeGot,
    TargetPort,
    VhostConnection,
)
from node.session.queue_description import QueueDescription
from node.session.subscriber import Subscriber
from node.session.traffic import ExchangeFlow
from node.session.view_port import ViewPort
from node.wire.scram import ScramExchange


class FrontEnd:
    """Implements `node.session.ports.BrokerPort` on the links and the catalog of a node."""

    def __init__(
        self,
        context: GatewayContext,
        local: LocalQueues,
        lost_memory: LostMemory,
        access: Access,
        connections: ClientConnections,
        default_type: str,
    ) -> None:
        """`default_type` is the type of durable queues whose declaration and virtual host name none."""
        catalog, links, formats = context.catalog, context.links, context.formats
        self._formats, self._number = formats, context.config.front_end
        self._catalog, self._links, self._local, self._lost_memory = catalog, links, local, lost_memory
        self._declarations = QueueDeclarations(context, local, lost_memory, default_type)
        self._placing, self.churn = self._declarations.placing, self._declarations.churn
        targets = FrontEndTargets(self._number, links, formats, self._next_number)
        self.targets: TargetPort = targets
        self.links: LinkPort = FindingLinks(catalog.state, links)
        self._commits = Commits(self._number, catalog.state, context.undecided, targets)
        self._exchanges = ExchangeChanges(catalog, local, self._placing)
        self._routes, self._cancellations = Routes(context, access, local), Cancellations(context, local)
        self.epochs = FrontEndEpochs(self._number, links, formats, self._routes.present)
        self.takes, self.readers = FrontEndTakes(links, formats), FrontEndReaders(links, formats)
        self._requests = OwnerRequests(links, self._routes, self._commits, formats)
        self._access, self._connections, self._redirects = access, connections, Redirects(context)
        self.permissions: Permissions = access
        self._descriptions = Descriptions(catalog.state, links, local, self._placing)
        self.batches: BatchPort = FrontEndBatches(context, self._declarations, self._descriptions)
        self._browsing = BrowsingConsumers(links, Streams(catalog.state, formats))
        consumers = self._consumers = dict[int, Attached]()
        self._attaching = Attaching(context, local, consumers, self._new_consumer, self._cancellations.cancel)
        self._attached = AttachedConsumers(
            context, self._placing, self._attaching, consumers, self._browsing, self._cancellations
        )
        self.backlogs, self._giving_back = self._attaching.backlogs, self._attached.giving_back
        self.views: ViewPort = FrontEndViews(catalog.state, links, self.queue, formats)
        gets = Gets(catalog.state, links, local, self._consumers, self._new_consumer)
        self._shared = shared = SharedQueues(self._placing, self._requests, gets, formats.lend_by_filter)
        self._deletions = QueueDeletions(catalog, formats, local, self.churn, self._requests.ask, shared)
        self._last_consumer, self._waiting = FIRST_CONSUMER, dict[Subscriber, None]()

    # -- readiness ------------------------------------------------------------------------------

    def ready(self) -> bool:
        # Until this process is a witness, a new uptime may begin, which deletes the temporary exchanges.
        return self._catalog.fresh() and self._number in self._catalog.state.witnesses.front_ends

    def wait_ready(self, subscriber: Subscriber) -> None:
        self._waiting[subscriber] = None

    def wait_no_more(self, subscriber: Subscriber) -> None:
        self._waiting.pop(subscriber, None)

    def tick(self, now: float) -> None:
        """Let waiting sessions go on once the catalog is fresh again, close the connections of deleted users
        and virtual hosts, and move consumers. Called every few milliseconds.
        """
        self._connections.tick(now)
        self._attached.tick(now)
        if self._waiting and self.ready():
            waiting, self._waiting = self._waiting, {}
            for subscriber in waiting:
                subscriber.unblocked()

    # -- connections ----------------------------------------------------------------------------

    def authenticate(self, login: Login, remote: str, answer: Authenticated) -> None:
        self._access.log_in(login, remote, answer)

    @property
    def offers_scram(self) -> bool:
        return self._access.offers_scram

    def begin_scram(self) -> ScramExchange:
        return self._access.begin_scram()

    def enter(self, subscriber: Subscriber, identity: Identity, vhost: str) -> VhostConnection:
        return self._connections.enter(subscriber, identity, vhost)

    def change_rights(self, holder: int, identity: Identity) -> Scope:
        return self._connections.change_rights(holder, identity)

    def channel_opened(self, user: str) -> None:
        self._connections.check_channels(user)

    def release_holder(self, holder: int, released: Callable[[], None]) -> None:
        self._connections.leave(holder)
        self._lost_memory.release_holder(holder)
        if self._declarations.release_holder(holder):
            # The queues in the catalog and those of this node are released at the same time.
            arguments = {"front_end": self._number, "holder": holder}
            both = iter((_nothing, released))
            self._catalog.submit("release_holder", arguments, lambda value, refusal: next(both)())
            self._local.release_holder(holder, lambda: next(both)())
        else:
            self._local.release_holder(holder, released)

    # -- routing --------------------------------------------------------------------------------

    @property
    def flows(self) -> Mapping[tuple[str, str], ExchangeFlow]:
        """The counters of messages published to exchanges on this node, by virtual host and name."""
        return self._routes.flows

    def exchange(self, vhost: str, name: str) -> Exchange:
        return self._routes.exchange(vhost, name)

    def queue(self, vhost: str, name: str, holder: int) -> QueueRef:
        if parse_local_queue_name(name) is not None:
            return self._local.find(vhost, name, holder)
        queue = self._catalog.state.queue(vhost, self._placing.name_here(vhost, name))
        if queue.exclusive and (queue.front_end, queue.holder) != (self._number, holder):
            raise locked(vhost, name)
        self._placing.check_here(queue)
        return reachable(self._links, QueueRef(name, queue.partition, queue.id, vhost))

    def name_here(self, vhost: str, name: str) -> str:
        """The queue of the catalog that clients of this node mean by a name."""
        return self._placing.name_here(vhost, name)

    def reply_queue(self, vhost: str, holder: int) -> QueueRef:
        return self._local.declare_reply(vhost, holder)

    def owner_elsewhere(self, vhost: str, name: str, holder: int) -> tuple[str, int] | None:
        wanted = self._redirects.wanted
        return (
            self._redirects.owner_of(self._placing.nearest(self.queue(vhost, name, holder)))
            if wanted
            else None
        )

    def find_local_queue(self, vhost: str, name: str) -> QueueRef:
        return self._routes.find_local(vhost, name)

    def describe(self, queue: QueueRef) -> QueueDescription:
        return self._descriptions.queue(queue)

    def bindings(
        self, vhost: str, source: str, destination: Destination
    ) -> list[tuple[Binding, Mapping[str, Any]]]:
        return self._descriptions.bindings(vhost, source, destination)

    def header_names(self, scope: Scope, exchange: str) -> tuple[str, ...] | None:
        return self._routes.header_names(scope, exchange)

    def route_alike(
        self, scope: Scope, exchange: str, key: str, alike: bytes, headers: Callable[[], Mapping[str, Any]]
    ) -> Route:
        return self._routes.find_alike(scope, exchange, key, alike, headers)

    def route_keys(
        self, scope: Scope, exchange: str, keys: Sequence[str]
    ) -> tuple[Sequence[tuple[int, Route]], Refusal | None]:
        return self._routes.find_each(scope, exchange, keys)

    @property
    def keeps_keys(self) -> bool:
        return self._formats.everywhere >= METHODS_IN_RUNS

    @property
    def keeps_sections(self) -> bool:
        return self._formats.everywhere >= SECTIONS_IN_RUNS

    @property
    def knows_filters(self) -> bool:
        return self._formats.everywhere >= FILTERS_IN_TERMS

    @property
    def knows_expressions(self) -> bool:
        return self._formats.know_expressions()

    @property
    def knows_links(self) -> bool:
        return self._formats.know_links()

    def route(
        self,
        scope: Scope,
        exchange: str,
        key: str,
        headers: Mapping[str, Any] | None = None,
        copies: Sequence[str] = (),
    ) -> Route:
        return self._routes.find(scope, exchange, key, headers, copies)

    def publish(self, subscriber: Subscriber, channel: int, run: Run, route: Route, first_tag: int) -> bool:
        assert isinstance(route, Targets)
        route.flow.routed += run.count * route.queues
        confirmation = None
        last_tag = first_tag + run.count - 1
        links = route.links
        if any(link.unreachable for link, _ in links):
            links = tuple(target for target in links if not target[0].unreachable)
            if first_tag and any(link.unreachable and not link.lost for link, _ in route.links):
                # The owner on the lost node cannot tell when the message is safe: the client gets a nack.
                subscriber.reject(channel, first_tag, last_tag)
                first_tag = 0
            elif first_tag and not links:
                # All queues were in lost memory: confirm as if the node was lost after the publish.
                subscriber.confirm(channel, first_tag, last_tag)
                first_tag = 0
        if first_tag:
            confirmation = Confirmation(subscriber, channel, first_tag, last_tag, len(links))
        going_on = True
        for link, queues in links:
            link.publish(run, queues, confirmation)
            if link.full and going_on:
                going_on = False
                link.wait(subscriber)
        return going_on

    def commit(
        self, publishes: Sequence[tuple[Run, Route]], settled: Sequence[Settlement], answer: Done
    ) -> None:
        for one in settled:
            if one.outcome.undeliverable_here:
                self._giving_back.keep_from(attached_as(one.lease), one.ranges)
        present = self._routes.present(publishes)
        shares = shares_of(present, settled, self._consumers, formats=self._formats)
        self._commits.commit(shares, answer)

    def still_leads(self, route: Route) -> bool:
        assert isinstance(route, Targets)
        return self._routes.still_leads(route)

    # -- the catalog ----------------------------------------------------------------------------

    def when_visible(self, done: Callable[[], None]) -> None:
        self._catalog.when_visible(done)

    def declare_exchange(self, vhost: str, exchange: Exchange, answer: Done) -> None:
        self._exchanges.declare(vhost, exchange, answer)

    def delete_exchange(self, vhost: str, name: str, if_unused: bool, answer: Done) -> None:
        self._exchanges.delete(vhost, name, if_unused, answer)

    def bind(self, vhost: str, binding: Binding, arguments: dict[str, Any], answer: Done) -> None:
        self._exchanges.bind(vhost, binding, arguments, answer)

    def unbind(self, vhost: str, binding: Binding, arguments: dict[str, Any], answer: Done) -> None:
        self._exchanges.unbind(vhost, binding, arguments, answer)

    def declare_queue(
        self,
        vhost: str,
        declaration: QueueDeclaration,
        holder: int,
        answer: Callable[[DeclaredQueue | None, Refusal | None], None],
        node: str = "",
    ) -> None:
        """`node` is the node that declares the queue, if it is not this one; it must be running."""
        self._declarations.declare(vhost, declaration, holder, answer, node)

    def delete_queue(
        self, queue: QueueRef, if_unused: bool, if_empty: bool, answer: Callable[[int, Refusal | None], None]
    ) -> None:
        self._deletions.delete(queue, if_unused, if_empty, answer)

    # -- owners ---------------------------------------------------------------------------------

    def purge(self, queue: QueueRef, answer: Callable[[int, Refusal | None], None]) -> None:
        self._browsing.streams.refuse(queue, "queue.purge")
        self._shared.purge(queue, answer)

    def count(self, queue: QueueRef, answer: Callable[[QueueCounts, Refusal | None], None]) -> None:
        self._shared.count(queue, answer)

    def browse(self, queue: QueueRef, behind: Bookmark, wanted: int, filter: bytes, answer: Browsed) -> None:
        """See `cluster.gateway.shared_queues.SharedQueues.browse`."""
        self._shared.browse(queue, behind, wanted, filter, answer)

    @property
    def knows_views(self) -> bool:
        """Whether all members of the cluster have views."""
        return self._formats.know_views()

    @property
    def knows_views_of_parts(self) -> bool:
        """Whether all members of the cluster have views over queues with several owners."""
        return self._formats.know_views_of_parts()

    def get(self, queue: QueueRef, no_ack: bool, answer: TakeGot, filter: bytes = b"") -> None:
        self._browsing.streams.refuse(queue, "basic.get")
        self._shared.get(queue, no_ack, answer, filter)

    def _new_consumer(self, link: PartitionLink, queue: int) -> int:
        number = self._next_number()
        self._consumers[number] = Attached(link, queue)
        return number

    def _next_number(self) -> int:
        self._last_consumer += 1
        return self._last_consumer

    def consume(
        self,
        subscriber: Subscriber,
        queue: QueueRef,
        options: ConsumerOptions,
        answer: Callable[[int, Refusal | None], None],
    ) -> None:
        whole, queue = queue, self._shared.consumed(queue, options)
        stream = self._browsing.streams.check_reader(queue, options)
        if options.browse or stream:
            self._browsing.begin(self._next_number(), subscriber, queue, options, answer, stream=stream)
        elif options.replaces:
            self._attached.replace(subscriber, whole, options, answer)
        else:
            self._attaching.begin(subscriber, queue, options, answer)

    def consumer(self, number: int) -> LinkConsumer | None:
        """A consumer of this front end with its terms; None if it is gone, or moves."""
        return self._attached.find(number)

    def topic_under(self, queue: QueueRef) -> QueueRef | None:
        return self._browsing.streams.under(queue)

    def keeps_until_settled(self, queue: QueueRef) -> bool:
        found = self._attaching.settings_of(queue)
        return found is not None and not found.at_most_once and not is_stream(found)

    def cancel(self, consumer: int, done: Callable[[], None]) -> None:
        self._attached.cancel(consumer, done)

    def leave(self, consumer: int, done: Callable[[], None], closed: bool = False) -> None:
        self._attached.leave(consumer, done, closed)

    def forget(self, consumer: int) -> None:
        self._attached.forget(consumer)

    def credit(self, consumer: int, limit: int) -> None:
        self._attached.credit(consumer, limit)

    def drain(self, consumer: int, limit: int, done: Callable[[], None]) -> None:
        self._attached.drain(consumer, limit, done)

    def settle(self, lease: int, ranges: list[Range]) -> None:
        attached = self._consumers.get(attached_as(lease))
        mine = [] if attached is None else attached.under(lease, ranges)
        if attached is not None and mine:
            attached.link.settle(attached.queue, mine, token_of(lease))
        elif attached is None:
            self._browsing.settled(lease, ranges)

    def unsettled_of(self, consumer: int) -> list[Range] | None:
        return self._giving_back.unsettled_of(consumer)

    def backlog_of(self, consumer: int) -> int:
        return self.backlogs.of(self._attached.present(consumer))

    def when_settled(self, consumer: int, done: Callable[[], None]) -> None:
        self._giving_back.when_settled(consumer, done)

    def renew_leases(self, queue: QueueRef, ranges: list[Range], answer: RenewalAnswer) -> None:
        self._shared.refuse(queue, "a renewal by bookmark", RENUMBERED)
        self._requests.renew_leases(queue, ranges, answer)

    def settle_named(self, queue: QueueRef, named: Named, answer: NamedAnswer) -> None:
        self._shared.refuse(queue, f"{named.deed.name.lower()} by bookmark or filter", RENUMBERED)
        if not named.deed.copies:
            self._browsing.streams.refuse(queue, f"{named.deed.name.lower()} by bookmark or filter")
        topic = self._browsing.streams.kept_by(queue) if named.deed is Deed.UNDO else None
        if named.since is None and named.until is None:
            self._requests.settle_named(queue, named, answer, topic)
            return

        def narrowed(within: Named | None, refusal: Refusal | None) -> None:
            if within is None:
                answer({}, refusal)
            else:
                self._requests.settle_named(queue, within, answer, topic)

        within_times(self._links, self._browsing.streams.telling_times(queue), named, narrowed)

    def renew(self, lease: int, ranges: list[Range]) -> None:
        self._giving_back.renew(lease, ranges)

    def abandon(self, lease: int, ranges: list[Range]) -> None:
        self._giving_back.abandon(lease, ranges)

    def give_back(
        self, lease: int, ranges: list[Range], outcome: Outcome, change: Modification | None = None
    ) -> None:
        self._giving_back.give_back(lease, ranges, outcome, change)

    def discard(self, lease: int, ranges: list[Range], error: bytes = b"") -> None:
        attached = self._consumers.get(attached_as(lease))
        mine = [] if attached is None else attached.under(lease, ranges)
        if attached is not None and mine:
            told = error if error and self._formats.know_errors() else b""
            attached.link.discard(attached.queue, mine, token_of(lease), told)
        elif attached is None:
            self._browsing.settled(lease, ranges)


def _nothing() -> None:
    """The first of two answers: the caller waits for the second one."""
