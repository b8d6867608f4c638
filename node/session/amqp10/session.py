"""The session code of one AMQP 1.0 connection, between its protocol machine and the broker.

`ConnectionSession` carries out the effects of the machine (`node.wire.amqp10.connection`) with `SessionCore`,
and passes answers, deliveries and confirms of the broker to the machine. The number of an AMQP session is the
channel of its publishes and consumers for `SessionCore`; the number of a transaction, negative, is the one
of the runs that it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Final

from node.delivery.settlements import Modification, consumer_of
from node.message.run import Run
from node.ranges.range_set import Numbers
from node.refusal import Refusal
from node.session.amqp10 import views
from node.session.amqp10.authentication import Authentication
from node.session.amqp10.containers import links_for
from node.session.amqp10.entitled_pieces import entitled_pieces
from node.session.amqp10.kept_targets import STOLEN
from node.session.amqp10.management import Management
from node.session.amqp10.refusals import refusal_error
from node.session.amqp10.termini import Termini, told
from node.session.client_views import (
    ChannelTotals,
    ChannelTraffic,
    ChannelView,
    ConnectionView,
    ConsumerView,
    SessionView,
)
from node.session.consumers import nothing
from node.session.container_links import ContainerLink
from node.session.core import MachineSession, SessionCore
from node.session.permissions import IMPERSONATOR, publish_refusal
from node.session.ports import Authenticated, BrokerPort, Identity
from node.session.token_renewal import TokenRenewal
from node.session.transport import Transport
from node.wire.amqp10 import effects
from node.wire.amqp10.connection import Connection
from node.wire.amqp10.definitions import AmqpCondition, Close, Error, Rejected
from node.wire.amqp10.error_texts import fitted
from node.wire.amqp10.errors import ConnectionForcedError, MemoryExhaustedError, WireError
from node.wire.amqp10.frames import frame_buffers
from node.wire.amqp10.incoming import ACCEPTED, RELEASED
from node.wire.amqp10.limits import ConnectionLimits
from node.wire.amqp10.offered_links import ended
from node.wire.amqp10.states import ConnectionState
from node.wire.conversion import converted
from node.wire.formats import AMQP_0_9_1, AMQP_1_0, format_of

VHOST_PREFIX: Final = "vhost:"
DEFAULT_VHOST: Final = "/"

INTERNAL_ERROR: Final = b"".join(frame_buffers(0, Close(Error(AmqpCondition.INTERNAL_ERROR))))
"""The frame for a peer whose session code has met a defect."""

REFUSED: Final = Rejected(Error(AmqpCondition.RESOURCE_LIMIT_EXCEEDED, "a queue has refused the message"))

TOO_MANY_ANNOTATIONS: Final = Error(
    AmqpCondition.RESOURCE_LIMIT_EXCEEDED, "a message, or its queue, gets too many octets of annotations"
)

_DELETED: Final = Error(AmqpCondition.RESOURCE_DELETED, "the queue is deleted or lost")


class ConnectionSession(MachineSession):
    """See the module's docstring; implements `ClientSession` and `PublishingSession`."""

    def __init__(
        self,
        port: BrokerPort,
        transport: Transport,
        limits: ConnectionLimits,
        clock: Callable[[], float],
        links: Sequence[ContainerLink] = (),
    ) -> None:
        """`links` are those that the node attaches to containers."""
        super().__init__(port, transport, clock)
        self._links = links
        self.connection = connection = Connection(limits, clock())
        self._core = core = SessionCore(port, self, self._in_use)
        self._renewal = TokenRenewal(core)
        authentication = Authentication(port, core, transport, connection, self._authenticated)
        self._held_back, self._unroutable = b"", False
        self._publishing: effects.PublishEffect | None = None
        """The latest publish. The count of published messages before this publish is `_published`."""
        self._published = self._sessions_known = 0
        self.last_words = INTERNAL_ERROR
        termini = Termini(port, self, self._core, connection).handlers()
        handlers: dict[type[Any], Callable[[Any], None]] = {
            effects.Authenticate: authentication.log_in,
            effects.AnswerChallenge: authentication.go_on,
            effects.EnterVhost: self._enter,
            effects.NegotiationFailed: self._negotiation_failed,
            effects.CloseSocket: self._close_socket,
            effects.LogEffect: self._log,
            **{kind: self.timed(handler) for kind, handler in termini.items()},
            effects.RequestEffect: self.timed(Management(self, core, connection, self.renew_token).request),
            effects.PublishEffect: self._publish,
            effects.SettleEffect: self._settle,
            effects.Credit: self._credit,
            effects.Drain: self._drain,
            effects.CommitEffect: self._commit,
            effects.Rollback: self._roll_back,
            effects.SessionEnded: self._session_ended,
            effects.ConnectionClosed: self._connection_closed,
        }
        self._drive(connection, handlers, effects.GIVING_BACK)

    @property
    def user(self) -> str:
        """The user who has logged in; empty before."""
        return self.connection.user

    @property
    def held(self) -> int:
        """Octets of memory that the client takes up, without output that the socket has taken."""
        return self.connection.held + len(self._held_back)

    @property
    def held_output(self) -> int:
        """`held` without the input held back, which a session that closes the connection ignores."""
        return self.connection.held

    @property
    def held_back(self) -> bool:
        """Whether the session does not read from the client because a link or the catalog cannot keep up."""
        return self._blocked or bool(self.connection.sessions.holding)

    @property
    def channels_opened(self) -> int:
        """The number of AMQP sessions begun since the connection began."""
        return self.connection.sessions.begun

    @property
    def channel_count(self) -> int:
        """The number of AMQP sessions."""
        return len(self.connection.sessions)

    # -- input ----------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Octets from the client."""
        with self:
            self._receive(data)

    def _receive(self, data: bytes) -> None:
        if self._blocked:
            self._held_back += data
            return
        if not self._port.ready():
            # This node's catalog may be out of date: it may not have the client's user or queues yet.
            self._held_back += data
            self._wait_ready()
            return
        self._carry_out(self.connection.receive(data, self._clock()))
        if self.connection.sessions.begun != self._sessions_known:
            self._sessions_begun()
        self._stop_when_full()

    def _stop_when_full(self) -> None:
        """Stop reading from the socket while the machine has input that it may not handle now."""
        if self.connection.paused and not self._blocked and not self._full:
            self._full = True
            self._transport.pause_reading()

    def _sessions_begun(self) -> None:
        self._sessions_known = self.connection.sessions.begun
        try:
            self._core.channel_opened()
        except Refusal as refusal:
            self.connection.close(RefusedEntryError(refusal))
            self.answered()

    def reading(self, active: bool) -> None:
        """The listener reads from the socket, or has stopped."""
        self.connection.reading(active, self._clock())

    def writing(self, active: bool) -> None:
        """True: the socket's buffer has drained. False: it is above its high-water mark."""
        self.connection.pause_credit(not active)

    def alarm(self, reason: str | None) -> None:
        """The cluster is short of a resource, for this reason; None: the shortage is over."""
        with self:
            self.connection.sessions.alarm(reason is not None)
            self.answered()

    def force_close(self, reason: str) -> None:
        """Close the connection with `amqp:connection:forced` and this text."""
        with self:
            self.connection.close(ConnectionForcedError(reason))
            self.answered()

    def exhausted(self, reason: str) -> None:
        """Close the connection with `amqp:resource-limit-exceeded` and this text."""
        with self:
            self.connection.close(MemoryExhaustedError(reason))
            self.answered()

    # -- negotiation ----------------------------------------------------------------------------

    def _authenticated(self, final: bytes | None, identity: Identity | None, reason: str) -> None:
        with self:
            if not self._core.ended:
                if identity is None:
                    self.connection.login_refused(reason)
                else:
                    self._renewal.identity = identity
                    impersonates = IMPERSONATOR in identity.tags
                    self.connection.ends_at(self._clock() + identity.lasts)
                    self.connection.authenticated(identity.user, final, impersonates=impersonates)
                self.answered()

    def renew_token(self, token: str, answer: Authenticated) -> None:
        """Check a new token of the client, and let it count from now on."""

        def renewed(identity: Identity | None, reason: str) -> None:
            if identity is None:
                self._transport.log("token_refused", {"reason": reason})
                self.connection.sessions.count_refusal()
            else:
                self.connection.ends_at(self._clock() + identity.lasts)
            answer(identity, reason)

        if self._renewal.by_token:
            self._renewal.renew(token, self._transport.remote, renewed)
        else:
            renewed(None, f"user '{self.user}' - a token, but the client has logged in without one")

    def _enter(self, effect: effects.EnterVhost) -> None:
        hostname = effect.hostname
        vhost = hostname[len(VHOST_PREFIX) :] if hostname.startswith(VHOST_PREFIX) else DEFAULT_VHOST
        try:
            self._core.enter(self._renewal.identity, vhost)
        except Refusal as refusal:
            self.connection.enter_refused(refusal_error(refusal))
            return
        self._transport.entered()
        self.connection.opened()
        self._attach_links()

    def _attach_links(self) -> None:
        """Attach the links that the configuration has for the client's container."""
        connection, opened = self.connection, self.connection.remote_open
        links = [] if opened is None else links_for(self._links, opened.container_id, self.vhost)
        if not links or connection.state is not ConnectionState.OPEN:
            return
        try:
            self._core.channel_opened()
            connection.sessions.offer(links, connection.channel_max)
        except (Refusal, WireError) as error:
            for one in links:
                self._log(ended(one.name, told(error)))
        else:
            self._sessions_known += 1

    def _negotiation_failed(self, effect: effects.NegotiationFailed) -> None:
        self._transport.negotiation_failed(effect.reason)

    def _log(self, effect: effects.LogEffect) -> None:
        self._transport.log(effect.event, effect.fields)

    # -- links ----------------------------------------------------------------------------------

    def _session_ended(self, effect: effects.SessionEnded) -> None:
        done = partial(self._session_released, effect.channel) if effect.awaited else nothing
        self._core.close_channel(effect.session, effect.unsettled, done)

    def _session_released(self, channel: int) -> None:
        with self:
            self.connection.sessions.released(channel)
            self.answered()

    def _in_use(self, channel: int) -> Collection[int]:
        sessions = self.connection.sessions
        found, session = sessions.transactions.consumers(channel), sessions.numbered(channel)
        if session is not None:
            found |= {link.consumer.number for link in session.outgoing_links() if link.consumer is not None}
            found |= {consumer_of(one.lease) for one in session.outgoing.unsettled}
        return found

    # -- publishing, settling, credit -----------------------------------------------------------

    def _publish(self, effect: effects.PublishEffect) -> None:
        if not self._port.permissions.write_filters:
            self._publish_piece(effect)
            return
        for publishable, piece in entitled_pieces(self._port.permissions, self._core.scope, effect):
            if publishable:
                self._publish_piece(piece)
            else:
                last = piece.first_tag + piece.run.count - 1
                refusal = publish_refusal(self._core.scope, piece.run.exchange)
                rejected = Rejected(fitted(refusal_error(refusal)))
                self.connection.sessions.decided(piece.session, piece.first_tag, last, rejected)

    def _publish_piece(self, effect: effects.PublishEffect) -> None:
        run = effect.run if self._port.keeps_sections else converted(effect.run, AMQP_0_9_1)
        if not effect.transaction:
            self._publishing, self._published = effect, self._core.traffic.published
            kept = effect.link.kept if effect.tags else None
            if kept is None:
                self._core.publish(effect.session, run, True, effect.first_tag)
                return
            with self._port.targets.receiving(kept.number, effect.tags):
                self._core.publish(effect.session, run, True, effect.first_tag)
            return
        self._core.hold_publish(-effect.transaction, run, True)
        self.connection.sessions.publish_held(effect)

    def _settle(self, effect: effects.SettleEffect) -> None:
        change = None
        if effect.annotations:
            refused = partial(self._annotations_refused, consumer_of(effect.lease))
            change = Modification(effect.annotations, refused)
        self._core.settle(effect.lease, effect.ranges, effect.outcome, change)

    def _annotations_refused(self, consumer: int) -> None:
        """The queue does not keep the annotations that the peer has given a message: the link ends."""
        with self:
            if not self._core.ended:
                self.connection.sessions.cancelled(consumer, TOO_MANY_ANNOTATIONS)
                self.answered()

    def _credit(self, effect: effects.Credit) -> None:
        self._core.credit(effect.consumer, effect.limit)

    def _drain(self, effect: effects.Drain) -> None:
        self._core.drain(effect.consumer, effect.limit, partial(self._drained, effect.consumer))

    def _drained(self, consumer: int) -> None:
        with self:
            self.connection.sessions.drained(consumer)
            self.answered()

    def _commit(self, effect: effects.CommitEffect) -> None:
        committed = partial(self._committed, effect)
        received = effect.received
        with self._port.targets.committing(received) if received else nullcontext():
            self._core.commit(-effect.transaction, effect.settled, committed, whole=True)

    def _committed(self, effect: effects.CommitEffect, refusal: Refusal | None) -> None:
        with self:
            if not self._core.ended:
                self.connection.sessions.committed(effect, None if refusal is None else str(refusal))
                self._transport.wanted()

    def _roll_back(self, effect: effects.Rollback) -> None:
        self._core.roll_back(-effect.transaction)

    # -- calls of the broker (PublishingSession) ------------------------------------------------

    def deliver(self, consumer: int, run: Run, numbers: Numbers, redelivered: bool, lease: int) -> None:
        deliver, first = self.connection.sessions.deliver, 0
        with self:
            if run.routing_key is None:
                for _, piece in format_of(run).by_key(run):
                    mine = numbers[first : first + piece.count]
                    deliver(consumer, converted(piece, AMQP_1_0), mine, redelivered, lease)
                    first += piece.count
            else:
                deliver(consumer, converted(run, AMQP_1_0), numbers, redelivered, lease)
            self._transport.wanted()

    def confirm(self, channel: int, first: int, last: int) -> None:
        with self:
            released, self._unroutable = self._unroutable, False
            if not self._core.ended:
                self._core.traffic.confirmed += last - first + 1
                self.connection.sessions.decided(channel, first, last, RELEASED if released else ACCEPTED)
                self._transport.wanted()

    def reject(self, channel: int, first: int, last: int) -> None:
        with self:
            if not self._core.ended:
                self.connection.sessions.decided(channel, first, last, REFUSED)
                self._transport.wanted()

    def return_unroutable(self, channel: int, run: Run) -> None:
        """No queue takes these messages: the confirm that follows releases them."""
        self._unroutable = True

    def publish_refused(self, channel: int, refusal: Refusal) -> None:
        """The run is not published: the exchange does not exist, or the user may not publish to it."""
        if channel < 0:
            self.connection.sessions.transactions.fail(-channel, str(refusal))
        elif self._publishing is not None:
            taken = self._core.traffic.published - self._published
            self.connection.sessions.refuse_publish(self._publishing, taken, refusal_error(refusal))

    def batch_refused(self, channel: int, tag: int, refusal: Refusal) -> None:
        with self:
            if not self._core.ended:
                rejected = Rejected(fitted(refusal_error(refusal)))
                self.connection.sessions.decided(channel, tag, tag, rejected)
                self._transport.wanted()

    def hold(self, channel: int) -> None:
        """A link is full: the connection handles no input before `unblocked`."""
        self.connection.sessions.holding.add(channel)
        self._stop_when_full()

    def consumer_cancelled(self, consumer: int, stolen: bool = False) -> None:
        with self:
            if not self._core.ended:
                self.connection.sessions.cancelled(consumer, STOLEN if stolen else _DELETED)
                self.answered()

    def backlog_changed(self, consumer: int, backlog: int) -> None:
        with self:
            if not self._core.ended:
                self.connection.sessions.set_backlog(consumer, backlog)
                self.answered()

    def unblocked(self) -> None:
        """The session may publish again: process the input held back, then read from the socket."""
        with self:
            self._blocked = False
            self.connection.sessions.holding.clear()
            self.connection.go_on()
            self.answered()
            data, self._held_back = self._held_back, b""
            if data and not self._blocked:
                self._receive(data)
            if not self._blocked and not self._full and not self._core.ended:
                self._transport.resume_reading()

    # -- views ----------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether the client is in its virtual host, and its connection is not closing."""
        return self.connection.state is ConnectionState.OPEN and bool(self.vhost)

    def view(self) -> ConnectionView:
        return views.connection_view(self.connection)

    def channel_views(self) -> Iterator[ChannelView]:
        return views.channel_views(self.connection)

    def channel_traffic(self) -> Iterator[tuple[int, ChannelTraffic]]:
        return views.channel_traffic(self.connection)

    def consumer_views(self) -> Iterator[ConsumerView]:
        return views.consumer_views(self.connection)

    def session_views(self) -> Iterator[SessionView]:
        return views.session_views(self.connection)

    def channel_totals(self) -> ChannelTotals:
        return views.channel_totals(self.connection)

    # -- the end --------------------------------------------------------------------------------

    def _connection_closed(self, effect: effects.ConnectionClosed) -> None:
        self._end(effect.unsettled)

    def _drop_input(self) -> None:
        self._held_back = b""


class RefusedEntryError(WireError):
    """A refusal of the broker that ends the connection."""

    condition = AmqpCondition.NOT_ALLOWED

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
