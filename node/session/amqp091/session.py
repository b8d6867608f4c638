"""The session of one AMQP 0-9-1 connection, between its protocol machine and the broker.

The session carries out the effects of the protocol machine (`node.wire.amqp091.connection`) with
`SessionCore`, and passes answers, deliveries and confirms of the broker to the machine. It has no socket:
`Transport` writes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, Final

from node.message.run import Run
from node.ranges.range_set import Numbers
from node.refusal import Refusal
from node.session.amqp091 import views
from node.session.amqp091.authentication import Authentication
from node.session.amqp091.translation import answer, answer_to, command_of, refuse
from node.session.client_views import (
    ChannelTotals,
    ChannelTraffic,
    ChannelView,
    ConnectionView,
    ConsumerView,
    SessionView,
)
from node.session.commands import Completed, Consuming, Nothing, QueueFound, Removed, Result
from node.session.consumers import nothing
from node.session.core import MachineSession, SessionCore
from node.session.ports import BrokerPort, Got, Identity
from node.session.token_renewal import TokenRenewal
from node.session.transport import Transport
from node.wire.amqp091 import effects, methods
from node.wire.amqp091.codec import encode_method
from node.wire.amqp091.connection import Connection
from node.wire.amqp091.errors import ConnectionForcedError, Failure, ResourceExhaustedError
from node.wire.amqp091.intake import Pieces
from node.wire.amqp091.lifecycle import ConnectionState
from node.wire.amqp091.limits import ConnectionLimits
from node.wire.amqp091.primitives import Method
from node.wire.conversion import converted
from node.wire.formats import AMQP_0_9_1

NO_ROUTE: Final = 312
"""The reply code for a mandatory message that no queue takes."""

INTERNAL_ERROR: Final = encode_method(0, methods.ConnectionClose(541, "INTERNAL_ERROR", 0, 0))
"""The frame for a client whose session has met a defect."""


class Session(MachineSession):
    """See the module's docstring; implements `ClientSession` and `PublishingSession`."""

    def __init__(
        self, port: BrokerPort, transport: Transport, limits: ConnectionLimits, clock: Callable[[], float]
    ) -> None:
        super().__init__(port, transport, clock)
        self.connection = connection = Connection(limits, clock())
        self._core = core = SessionCore(port, self, self._in_use)
        self._renewal = renewal = TokenRenewal(core)
        authentication = Authentication(core, renewal, transport, connection, self._authenticated)
        self._held_back = Pieces()
        # Channels that have filled a link, and publish no more before `unblocked`.
        self._held: set[int] = set()
        self._channels_known = 0
        self.last_words = INTERNAL_ERROR
        handlers: dict[type[effects.Effect], Callable[[Any], None]] = {
            effects.PublishEffect: self._publish,
            effects.HoldPublish: self._hold_publish,
            effects.CommitEffect: self._commit,
            effects.Rollback: self._roll_back,
            effects.SettleEffect: self._settle,
            effects.Credit: self._credit,
            effects.Request: self.timed(self._request),
            effects.AnswerEffect: partial(answer, connection),
            effects.RefuseEffect: partial(refuse, connection),
            effects.ChannelClosed: self._channel_closed,
            effects.ConnectionClosed: self._connection_closed,
            effects.Authenticate: authentication.log_in,
            effects.OpenVhost: self._open_vhost,
            effects.UpdateSecret: self.timed(authentication.update_secret),
            effects.NegotiationFailed: self._negotiation_failed,
            effects.CloseSocket: self._close_socket,
            effects.LogEffect: self._log,
        }
        self._drive(connection, handlers, effects.GIVING_BACK)

    @property
    def user(self) -> str:
        """The user who has logged in; empty before."""
        return self.connection.life.user

    @property
    def channels_opened(self) -> int:
        """The number of channels opened since the connection began."""
        return self.connection.life.channels_opened

    @property
    def held_back(self) -> bool:
        """Whether the session does not read from the client because a link or the catalog cannot keep up."""
        return self._blocked or bool(self._held)

    # -- input ----------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Octets from the client."""
        with self:
            self._receive(data)

    def _receive(self, data: bytes) -> None:
        if self._blocked:
            self._held_back.add(data)
            return
        if not self._port.ready():
            # This node's catalog may be out of date: it may not have the client's user or queues yet.
            self._held_back.add(data)
            self._wait_ready()
            return
        self._carry_out(self.connection.receive(data, self._clock()))
        if self.connection.life.channels_opened != self._channels_known:
            self._channels_opened()
        self.stop_when_full()

    @property
    def held(self) -> int:
        """Octets of memory that the client takes up, without output that the socket has taken."""
        return self.connection.life.held + self._held_back.size

    @property
    def held_output(self) -> int:
        """`held` without the input held back, which a session that closes the connection ignores."""
        return self.connection.life.held

    def reading(self, active: bool) -> None:
        """The listener reads from the socket, or has stopped: heartbeats cannot arrive meanwhile."""
        self.connection.reading(active, self._clock())

    def writing(self, active: bool) -> None:
        """True: the socket's buffer has drained. False: it is above its high-water mark."""
        if active:
            self.connection.resume_credit()
        else:
            self.connection.pause_credit()

    def stop_when_full(self) -> None:
        """Stop reading from the socket where the protocol machine has more input than it may process now."""
        if self.connection.paused and not self._blocked:
            self._full = True
            self._transport.pause_reading()

    def force_close(self, reason: str) -> None:
        """Close the connection with 320 and this text; without a word where it is not open yet."""
        self._close_with(ConnectionForcedError(reason))

    def exhausted(self, reason: str) -> None:
        """Close the connection with 506 and this text."""
        self._close_with(ResourceExhaustedError(reason))

    def _close_with(self, error: Failure) -> None:
        with self:
            self.connection.close(error)
            self.answered()

    def alarm(self, reason: str | None) -> None:
        """The cluster is short of a resource, for this reason; None: the shortage is over."""
        with self:
            self.connection.alarm(reason)
            self.answered()

    # -- publishing -----------------------------------------------------------------------------

    def _publish(self, effect: effects.PublishEffect) -> None:
        self._core.publish(effect.channel, effect.run, effect.mandatory, effect.first_tag)

    def hold(self, channel: int) -> None:
        """A link is full: the channel publishes no more before `unblocked`."""
        self._held.add(channel)
        self.connection.hold(channel)

    def return_unroutable(self, channel: int, run: Run) -> None:
        """No queue takes these mandatory messages."""
        self.connection.return_unroutable(channel, run, NO_ROUTE, "NO_ROUTE")

    def publish_refused(self, channel: int, refusal: Refusal) -> None:
        """The run is not published: the refusal closes the channel."""
        self.connection.fail_publish(channel, refusal)

    def batch_refused(self, channel: int, tag: int, refusal: Refusal) -> None:
        """The answer to the batch, if the client wants one, has the reason: basic.nack has none."""
        self.reject(channel, tag, tag)

    # -- transactions ---------------------------------------------------------------------------

    def _hold_publish(self, effect: effects.HoldPublish) -> None:
        self._core.hold_publish(effect.channel, effect.run, effect.mandatory)

    def _roll_back(self, effect: effects.Rollback) -> None:
        self._core.roll_back(effect.channel)

    def _commit(self, effect: effects.CommitEffect) -> None:
        self._core.commit(effect.channel, effect.settled, partial(self._committed, effect.channel))

    def _committed(self, channel: int, refusal: Refusal | None) -> None:
        if refusal is None:
            self.reply(channel, methods.TxCommitOk())
        else:
            self.fail(channel, refusal)

    # -- settling -------------------------------------------------------------------------------

    def _settle(self, effect: effects.SettleEffect) -> None:
        self._core.settle(effect.lease, effect.ranges, effect.outcome)

    def _credit(self, effect: effects.Credit) -> None:
        self._core.credit(effect.consumer, effect.limit)

    # -- requests -------------------------------------------------------------------------------

    def _request(self, effect: effects.Request) -> None:
        channel, method = effect.channel, effect.method
        self._core.carry_out(channel, command_of(effect), partial(self._answer, channel, method))

    def _answer(self, channel: int, method: Method, result: Result | Refusal) -> None:
        """Answer a request with the result of its command."""
        connection = self.connection
        with self:
            if isinstance(result, Refusal):
                connection.fail(channel, result)
            elif isinstance(result, Consuming):
                assert isinstance(method, methods.BasicConsume)
                connection.consume_ok(
                    channel,
                    method.consumer_tag,
                    result.consumer,
                    result.returnable,
                    result.reply_to,
                    result.backlog,
                )
            elif isinstance(result, Got):
                run = result.run if result.run.format == AMQP_0_9_1 else converted(result.run, AMQP_0_9_1)
                connection.deliver_get(
                    channel, run, result.sequence, result.redelivered, result.ready, result.lease
                )
            elif isinstance(result, Nothing):
                connection.get_empty(channel)
            else:
                assert isinstance(result, Completed | QueueFound | Removed)
                connection.reply(channel, answer_to(method, result))
            self.answered()

    def reply(self, channel: int, method: Method) -> None:
        with self:
            if not self.closed:
                self.connection.reply(channel, method)
                self.answered()

    def fail(self, channel: int, error: Refusal) -> None:
        with self:
            if not self.closed:
                self.connection.fail(channel, error)
                self.answered()

    def _in_use(self, channel: int) -> Collection[int]:
        for one in self.connection.channels:
            if one.number == channel:
                return one.deliveries.in_use()
        return ()

    def _channels_opened(self) -> None:
        self._channels_known = self.connection.life.channels_opened
        try:
            self._core.channel_opened()
        except Refusal as refusal:
            self.connection.close(refusal)
            self.answered()

    @property
    def channel_count(self) -> int:
        """The number of channels that are open or closing."""
        return len(self.connection.channels)

    # -- views ----------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether the client is in its virtual host, and its connection is not closing."""
        return self.connection.life.state is ConnectionState.OPEN and bool(self.vhost)

    def view(self) -> ConnectionView:
        return views.connection_view(self.connection)

    def channel_views(self) -> Iterator[ChannelView]:
        return views.channel_views(self.connection)

    def channel_traffic(self) -> Iterator[tuple[int, ChannelTraffic]]:
        return views.channel_traffic(self.connection)

    def consumer_views(self) -> Iterator[ConsumerView]:
        return views.consumer_views(self.connection)

    def session_views(self) -> Iterator[SessionView]:
        return iter(())

    def channel_totals(self) -> ChannelTotals:
        return views.channel_totals(self.connection)

    # -- the end --------------------------------------------------------------------------------

    def _channel_closed(self, effect: effects.ChannelClosed) -> None:
        ok = partial(self.reply, effect.channel, methods.ChannelCloseOk())
        self._core.close_channel(effect.channel, effect.unsettled, ok if effect.awaited else nothing)

    def _connection_closed(self, effect: effects.ConnectionClosed) -> None:
        self._end(effect.unsettled)

    def _drop_input(self) -> None:
        self._held_back.clear()

    def _log(self, effect: effects.LogEffect) -> None:
        self._transport.log(effect.event, effect.fields)

    # -- negotiation ----------------------------------------------------------------------------

    def _open_vhost(self, effect: effects.OpenVhost) -> None:
        try:
            self._core.enter(self._renewal.identity, effect.vhost)
        except Refusal as refusal:
            self.connection.open_failed(refusal)
            return
        self._transport.entered()
        self.connection.opened()

    def _authenticated(self, identity: Identity | None) -> None:
        if identity is not None:
            self.connection.ends_at(self._clock() + identity.lasts)
        self.answered()
        self.stop_when_full()

    def _negotiation_failed(self, effect: effects.NegotiationFailed) -> None:
        self._transport.negotiation_failed(effect.reason)

    # -- calls of the broker (Subscriber) -------------------------------------------------------

    def deliver(self, consumer: int, run: Run, numbers: Numbers, redelivered: bool, lease: int) -> None:
        with self:
            if run.format != AMQP_0_9_1:
                run = converted(run, AMQP_0_9_1)
            self.connection.deliver(consumer, run, numbers, redelivered, lease)
            self._transport.wanted()

    def confirm(self, channel: int, first: int, last: int) -> None:
        with self:
            if not self._core.ended:
                self._core.traffic.confirmed += last - first + 1
                self.connection.confirm(channel, first, last)
                self._transport.wanted()

    def reject(self, channel: int, first: int, last: int) -> None:
        with self:
            if not self.closed:
                self.connection.nack(channel, first, last)
                self._transport.wanted()

    def consumer_cancelled(self, consumer: int, stolen: bool = False) -> None:
        with self:
            if not self.closed:
                self.connection.cancel_consumer(consumer)
                self.answered()

    def backlog_changed(self, consumer: int, backlog: int) -> None:
        with self:
            if not self.closed:
                self.connection.set_backlog(consumer, backlog)
                self.answered()

    def unblocked(self) -> None:
        """The session may publish again: process the input held back, then read from the socket."""
        with self:
            self._unblocked()

    def _unblocked(self) -> None:
        self._blocked = False
        held, self._held = sorted(self._held), set()
        for channel in held:
            self.connection.release(channel)
        if held:
            self.answered()
        if self._held_back.size and not self._blocked:
            self._receive(self._held_back.take())
        if self.connection.has_input:
            self._transport.wanted()
        if not self._blocked and not self._full and not self.closed:
            self._transport.resume_reading()
