"""Finds the nodes that a peer's links name, and makes those that a peer wants made (part 3, section 3.5).

A dynamic node is a server-named exclusive queue of the connection, and ends with its terminus, whichever
lifetime policy the peer has asked for; the broker's attach tells the peer that. A source that is an exchange
has a queue as well (`node.session.amqp10.subscriptions`). `node.wire.amqp10.retention` says how long the
termini are kept. A peer that attaches a link of the same name again goes on with the terminus.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from node.delivery.settlements import Modification
from node.message.streams import X_SUBSCRIPTION
from node.names import ADMIN_NODE
from node.ranges.range_set import RangeSet
from node.refusal import NotFoundError, Refusal, ResourceLockedError
from node.session.amqp10.filters import filter_set
from node.session.amqp10.kept_targets import SessionTargets
from node.session.amqp10.kept_termini import (
    ask_as_made,
    found_source,
    kept_retention,
    link_identity,
    link_octets,
)
from node.session.amqp10.refusals import refusal_error
from node.session.amqp10.subscriptions import EXCLUSIVE, Subscribing, ignored, queue_name
from node.session.amqp10.view_links import ViewLinks
from node.session.commands import (
    X_MAX_BACKLOG,
    X_TELL,
    Cancel,
    Consume,
    Consuming,
    DeclareQueue,
    DeleteQueue,
    FindExchange,
    FindQueue,
    QueueFound,
    Result,
)
from node.session.consumers import nothing
from node.session.core import MachineSession, SessionCore
from node.session.ports import BrokerPort
from node.wire.amqp10 import effects
from node.wire.amqp10.addresses import QUEUE_PATH, destination_of, exchange_named, view_named
from node.wire.amqp10.connection import Connection
from node.wire.amqp10.definitions import (
    AmqpCondition,
    DeleteOnClose,
    Error,
    LinkCondition,
    Source,
    Target,
)
from node.wire.amqp10.errors import (
    MissingTerminusError,
    SubscriptionFilterError,
    WireError,
)
from node.wire.amqp10.links import IncomingLink, Link, OutgoingLink
from node.wire.amqp10.management import MANAGEMENT_ADDRESS
from node.wire.amqp10.outcomes import told_outcomes
from node.wire.amqp10.recovery import Recovery
from node.wire.amqp10.retention import Retention, granted, unsettled_kept
from node.wire.amqp10.values import AmqpValue, UInt

LIFETIME: Final = {"lifetime-policy": DeleteOnClose()}

CONSUMER_PROPERTIES: Final = (X_MAX_BACKLOG, X_TELL, X_SUBSCRIPTION)
"""The properties of links on which the node sends that are arguments of their consumers."""

NO_FILTER: Final = "a subscription to an exchange takes no filter: bind a queue, and attach to the queue"


class KeptTerminus(NamedTuple):
    """A terminus that the node keeps for the connection, with its queue."""

    queue: str
    address: str
    retention: Retention


class Termini:
    """Carries out the effects of one connection that are about nodes."""

    def __init__(
        self, port: BrokerPort, session: MachineSession, core: SessionCore, connection: Connection
    ) -> None:
        self._port, self._session, self._core, self._connection = port, session, core, connection
        self._targets = SessionTargets(port, session, core, connection)
        self._views = ViewLinks(session, core, connection)
        self._kept: dict[tuple[str, bool], KeptTerminus] = {}
        """The termini that end with their session or with the connection, by the link and the peer's role."""
        self._links: dict[str, tuple[str, bool]] = {}
        """The keys of `_kept`, by their queues."""

    def handlers(self) -> dict[type[Any], Callable[[Any], None]]:
        """By effects, for `EffectLoop`, which drops them: kept here they would be a circle of references."""
        return {
            effects.FindTarget: self._find_target,
            effects.StartConsumer: self._start_consumer,
            effects.EndConsumer: self._end_consumer,
            effects.DeleteNode: self._delete_node,
            effects.AwaitSettled: self._await_settled,
            effects.RenewLease: self._renew,
            **self._targets.handlers(),
            **self._views.handlers(),
        }

    # -- targets --------------------------------------------------------------------------------

    def _find_target(self, effect: effects.FindTarget) -> None:
        """Attach a link on which the peer sends, or refuse it."""
        link = effect.link
        target = link.attach.target
        try:
            if not isinstance(target, Target):
                raise MissingTerminusError("the link has no target")
            if target.dynamic:
                self._make(link)
            elif target.address == MANAGEMENT_ADDRESS:
                link.management = True
                self._connection.sessions.accept(link)
            elif target.address is None:
                link.anonymous = True
                self._connection.sessions.accept(link)
            else:
                self._find(link, target.address)
        except (WireError, Refusal) as error:
            self._connection.sessions.refuse(link, told(error))

    def _find(self, link: IncomingLink, address: str) -> None:
        """Raises AddressError, and Refusal where the peer may not publish there."""
        link.exchange, link.routing_key = destination_of(address)
        if not link.exchange:
            self._take_over(link, link.routing_key)
        self._port.route(self._core.scope, link.exchange, link.routing_key)
        if not link.exchange and link.routing_key == ADMIN_NODE:
            self._connection.sessions.accept(link)
            return
        if not link.exchange and self._redirected(link, link.routing_key, address):
            return
        command = FindExchange(link.exchange) if link.exchange else FindQueue(link.routing_key)
        self._core.carry_out(link.session, command, partial(self._target_found, link, address))

    def _target_found(self, link: IncomingLink, address: str, result: Result | Refusal) -> None:
        with self._session:
            exchange = exchange_named(address)
            # Only its own connection consumes from an exclusive queue, and every connection may send to it.
            if isinstance(result, NotFoundError) and exchange and not link.exchange:
                self._find_named(link, exchange, result)
            elif isinstance(result, Refusal) and not isinstance(result, ResourceLockedError):
                self._connection.sessions.refuse(link, refusal_error(result))
            else:
                self._attach_target(link)
            self._session.answered()

    def _find_named(self, link: IncomingLink, address: str, missing: Refusal) -> None:
        """There is no queue of the name that the address is: there may be an exchange. An exchange to which
        the user may not publish is as good as none.
        """
        found = destination_of(address)
        try:
            self._port.route(self._core.scope, *found)
        except Refusal as error:
            told_error = missing if isinstance(error, NotFoundError) else error
            self._connection.sessions.refuse(link, refusal_error(told_error))
            return
        link.exchange, link.routing_key = found
        self._attach_target(link)

    def _attach_target(self, link: IncomingLink) -> None:
        try:
            self._targets.attach(link)
        except WireError as error:
            self._connection.sessions.refuse(link, told(error))

    # -- sources --------------------------------------------------------------------------------

    def _start_consumer(self, effect: effects.StartConsumer) -> None:
        """Attach a link on which the peer receives, with a consumer, or refuse it."""
        link = effect.link
        source = link.attach.source
        try:
            if source is None:
                self._resume(link)
            elif not isinstance(source, Source):
                raise MissingTerminusError("the link has no source")
            elif source.dynamic:
                self._make(link)
            elif source.address == MANAGEMENT_ADDRESS:
                self._connection.sessions.responding(link)
            elif view := view_named(source.address or ""):
                self._views.attach(link, view)
            else:
                self._receive_from(link, source, source.address or "")
        except WireError as error:
            self._connection.sessions.refuse(link, told(error))

    def _receive_from(self, link: OutgoingLink, source: Source, address: str) -> None:
        """Raises AddressError and FilterError."""
        exchange, queue = destination_of(address)
        if exchange:
            self._subscribe(link, source, address)
        elif not self._redirected(link, queue, address):
            self._take_over(link, queue)
            self._consume(link, queue)

    def _consume(self, link: OutgoingLink, queue: str) -> None:
        """Raises FilterError and IncompleteUnsettledError."""
        filters = link.source.filter if self._port.knows_filters else None
        found = filter_set(filters, expressions=self._port.knows_expressions)
        link.filters = found.kept
        asked = link.attach.properties or {}
        command = Consume(
            queue,
            0,
            link.presettled,
            arguments={name: asked[name] for name in CONSUMER_PROPERTIES if name in asked},
            browse=link.browses,
            offset=found.offset,
            filter=found.condition,
            link=self._kept_link(link),
        )
        self._core.carry_out(link.session, command, partial(self._started, link))

    def _started(self, link: OutgoingLink, result: Result | Refusal) -> None:
        with self._session:
            exchange = exchange_named(link.source.address or "")
            if isinstance(result, NotFoundError) and exchange and not link.subscribes:
                looked = partial(self._exchange_found, link, exchange, result)
                self._core.carry_out(link.session, FindExchange(destination_of(exchange)[0]), looked)
            elif isinstance(result, Refusal):
                self._connection.sessions.refuse(link, refusal_error(result))
            elif isinstance(result, Consuming):
                self._recover(link, result)
            self._session.answered()

    def _exchange_found(
        self, link: OutgoingLink, address: str, missing: Refusal, result: Result | Refusal
    ) -> None:
        """There is no queue of the name that the address is: there may be an exchange, or a view."""
        with self._session:
            try:
                if isinstance(result, Refusal):
                    self._views.attach(link, destination_of(link.source.address)[1], missing)
                else:
                    self._subscribe(link, link.source, address)
            except WireError as error:
                self._connection.sessions.refuse(link, told(error))
            self._session.answered()

    def _kept_link(self, link: OutgoingLink) -> bytes:
        """The link as the queue is to know it, which the peer wants to keep its deliveries with their state
        (part 3, section 3.5.5); empty for every other link. Raises IncompleteUnsettledError.
        """
        source = link.source
        other = source.dynamic or link.presettled or link.browses or link.offered
        kept = None if other or not self._port.knows_links else kept_retention(source)
        return b"" if kept is None else link_octets(link, self._connection, kept)

    def _recover(self, link: OutgoingLink, started: Consuming) -> None:
        """Take the outcomes that the peer has reached before, and then attach the link."""
        if started.unsettled is None:
            self._consuming(link, started)
            return
        kept = RangeSet(started.unsettled)
        try:
            outcomes, resumed = told_outcomes(link.attach.unsettled or {}, kept)
        except WireError as error:
            self._connection.sessions.refuse(link, told(error))
            self._core.carry_out(link.session, Cancel(started.consumer), ignored)
            return
        for one in outcomes:
            kept.remove(one.number, one.number)
            change = Modification(one.annotations, nothing) if one.annotations else None
            self._core.settle(started.consumer, [(one.number, one.number)], one.outcome, change)
        link.recovery = Recovery(kept, resumed, self._connection.max_frame_size)
        link.retention = unsettled_kept(granted(link.source, may_last=True))
        if outcomes:
            self._port.when_settled(started.consumer, partial(self._recovered, link, started))
        else:
            self._consuming(link, started)

    def _recovered(self, link: OutgoingLink, started: Consuming) -> None:
        """The outcomes that the peer has reached before cannot be lost any more."""
        with self._session:
            if not self._core.ended:
                self._consuming(link, started)
                self._session.answered()

    def _renew(self, effect: effects.RenewLease) -> None:
        self._port.renew(effect.lease, effect.ranges)

    def _await_settled(self, effect: effects.AwaitSettled) -> None:
        """The peer settles deliveries once the node has, and may forget them then."""
        self._port.when_settled(effect.consumer, partial(self._settled, effect))

    def _settled(self, effect: effects.AwaitSettled) -> None:
        with self._session:
            if not self._core.ended:
                self._connection.sessions.settled(effect.session, effect.answer)
                self._session.answered()

    def _consuming(self, link: OutgoingLink, started: Consuming) -> None:
        sessions = self._connection.sessions
        if not sessions.consuming(link, started.consumer, started.returnable, started.backlog):
            self._core.carry_out(link.session, Cancel(started.consumer), ignored)

    def _end_consumer(self, effect: effects.EndConsumer) -> None:
        """End the consumer of a link that has ended."""
        answered = partial(self._consumer_ended, effect.link)
        self._core.carry_out(effect.session, Cancel(effect.consumer, effect.link.closed), answered)

    def _consumer_ended(self, link: OutgoingLink, _: Result | Refusal) -> None:
        with self._session:
            self._connection.sessions.consumer_ended(link)
            self._session.answered()

    # -- redirects ------------------------------------------------------------------------------

    def _redirected(self, link: Link, queue: str, address: str) -> bool:
        """Refuse a link to a queue that another node owns, and tell the peer where that node is (part 2,
        section 2.8.18). Returns whether the link is refused. A link that the node attaches stays where the
        container is.
        """
        if link.offered:
            return False
        try:
            place = self._port.owner_elsewhere(self._core.vhost, queue, self._core.holder)
        except Refusal:
            # The command behind this look is refused in the same way.
            return False
        if place is None:
            return False
        host, port = place
        info: dict[str, AmqpValue] = {"network-host": host, "port": UInt(port), "address": address}
        asked = self._connection.remote_open
        if asked is not None and asked.hostname is not None:
            info["hostname"] = asked.hostname
        text = f"the queue is on the node with the address {host}, port {port}"
        self._connection.sessions.refuse(link, Error(LinkCondition.REDIRECT, text, info))
        return True

    # -- subscriptions --------------------------------------------------------------------------

    def _subscribe(self, link: OutgoingLink, source: Source, address: str) -> None:
        """Attach a link to an exchange, with a queue for itself. Raises AddressError and FilterError."""
        if filter_set(source.filter).condition:
            # Messages that the filter leaves would stay in the queue for ever.
            raise SubscriptionFilterError(NO_FILTER)
        link.subscribes = True
        kept = self._kept.get((link.attach.name, link.attach.role))
        if kept is not None and kept.address == address:
            self._attach_to(link, *kept)
            return
        if kept is not None:
            self._core.carry_out(link.session, DeleteQueue(kept.queue), ignored)
        retention = granted(source, may_last=True)
        name = self._lasting_name(link) if retention.lasts else ""
        keeps = kept_retention(source) is not None
        self._subscribing(link).subscribe(name, address, retention, keeps=keeps)

    def _resume(self, link: OutgoingLink) -> None:
        """Attach a link without a source: the peer goes on with a terminus that the node has kept. Raises
        AddressError.
        """
        kept = self._kept.get((link.attach.name, link.attach.role))
        link.subscribes = kept is None or bool(destination_of(kept.address)[0])
        if kept is not None:
            self._attach_to(link, *kept)
        else:
            carry_out = partial(self._core.carry_out, link.session)
            found = Subscribing(carry_out, partial(self._subscribed, link), partial(self._find_link, link))
            found.resume(self._lasting_name(link))

    def _find_link(self, link: OutgoingLink, refusal: Refusal) -> None:
        """There is no such subscription: the link may be one to a queue that keeps its deliveries."""
        identity = link_identity(link, self._connection)
        if not isinstance(refusal, NotFoundError) or not self._port.knows_links or not identity:
            self._not_subscribed(link, refusal)
            return
        self._port.links.find(self._core.vhost, identity, partial(self._link_found, link, refusal))

    def _link_found(self, link: OutgoingLink, refusal: Refusal, queue: str | None, kept_s: int) -> None:
        if self._core.ended:
            return
        if queue is None:
            self._not_subscribed(link, refusal)
            return
        with self._session:
            link.subscribes = False
            link.attach.source = source = found_source(QUEUE_PATH + quote(queue, safe=""), kept_s)
            try:
                self._receive_from(link, source, source.address or "")
            except WireError as error:
                self._connection.sessions.refuse(link, told(error))
            self._session.answered()

    def _lasting_name(self, link: Link) -> str:
        opened = self._connection.remote_open
        return queue_name("" if opened is None else opened.container_id, link.attach.name)

    def _subscribing(self, link: OutgoingLink) -> Subscribing:
        carry_out = partial(self._core.carry_out, link.session)
        return Subscribing(carry_out, partial(self._subscribed, link), partial(self._not_subscribed, link))

    def _subscribed(
        self, link: OutgoingLink, queue: str, address: str, retention: Retention, keeps: bool
    ) -> None:
        with self._session:
            ask_as_made(link, retention, keeps=keeps)
            self._ready(link, queue, address, retention)
            self._session.answered()

    def _not_subscribed(self, link: OutgoingLink, refusal: Refusal) -> None:
        with self._session:
            self._connection.sessions.refuse(link, refusal_error(refusal))
            self._session.answered()

    # -- queues that the broker makes for links -------------------------------------------------

    def _make(self, link: Link) -> None:
        self._core.carry_out(link.session, DeclareQueue(EXCLUSIVE), partial(self._made, link))

    def _made(self, link: Link, result: Result | Refusal) -> None:
        with self._session:
            if isinstance(result, Refusal):
                self._connection.sessions.refuse(link, refusal_error(result))
            elif isinstance(result, QueueFound):
                asked = _terminus(link)
                self._ready(link, result.name, QUEUE_PATH + result.name, granted(asked, may_last=False))
            self._session.answered()

    def _ready(self, link: Link, queue: str, address: str, retention: Retention) -> None:
        """The queue that the broker has made for a link is there."""
        if not self._attach_to(link, queue, address, retention) and not retention.lasts:
            self._core.carry_out(link.session, DeleteQueue(queue), ignored)

    def _attach_to(self, link: Link, queue: str, address: str, retention: Retention) -> bool:
        """Attach a link to its queue. False: the link has gone."""
        if not self._connection.sessions.made(link, queue, retention):
            return False
        if not retention.lasts:
            self._links[queue] = mine = link.attach.name, link.attach.role
            self._kept[mine] = KeptTerminus(queue, address, retention)
        terminus = _terminus(link)
        if terminus.dynamic or not terminus.address:
            terminus.address = address
        if terminus.dynamic:
            terminus.dynamic_node_properties = dict(LIFETIME)
        if isinstance(link, OutgoingLink):
            link.attach.source = terminus
            try:
                self._consume(link, queue)
            except WireError as error:
                self._connection.sessions.refuse(link, told(error))
        else:
            link.routing_key = queue
            self._connection.sessions.accept(link)
        return True

    def _take_over(self, link: Link, queue: str) -> None:
        """Let a link that is attached again have the dynamic node that it has had before."""
        kept = self._kept.get((link.attach.name, link.attach.role))
        if kept is not None and kept.queue == queue:
            self._connection.sessions.made(link, queue, kept.retention)

    def _delete_node(self, effect: effects.DeleteNode) -> None:
        """Delete the queue of a terminus that has ended."""
        mine = self._links.pop(effect.queue, None)
        kept = None if mine is None else self._kept.get(mine)
        # The link may have another queue by now.
        if mine is not None and kept is not None and kept.queue == effect.queue:
            del self._kept[mine]
        self._core.carry_out(effect.session, DeleteQueue(effect.queue), ignored)


def told(error: WireError | Refusal) -> Error:
    """The error as the peer is told it."""
    if isinstance(error, Refusal):
        return refusal_error(error)
    return Error(AmqpCondition(error.condition), str(error))


def _terminus(link: Link) -> Source | Target:
    """The terminus at the node, as the peer asks for it."""
    if isinstance(link, OutgoingLink):
        return link.source
    target = link.attach.target
    return target if isinstance(target, Target) else Target()
