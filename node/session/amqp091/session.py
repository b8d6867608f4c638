"""One client connection: carries out what its protocol machine asks, feeds it what the broker says.

No socket and no clock: `Transport` writes, `now` comes with the input.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from node.message.run import Run
from node.ranges.numbers import Numbers
from node.refusal import Refusal
from node.session.amqp091.authentication import Authentication
from node.session.amqp091.consumers import SessionConsumers, nothing
from node.session.amqp091.effect_loop import EffectLoop, answer, refuse
from node.session.amqp091.publishes import Publishes
from node.session.amqp091.requests import Caller, Requests
from node.session.amqp091.transactions import Transactions
from node.session.containment import Containment
from node.session.permissions import NOWHERE
from node.session.ports import BrokerPort, Got
from node.session.traffic import Traffic
from node.session.transport import NO_TRANSPORT, Transport
from node.wire.amqp091 import effects, methods
from node.wire.amqp091.connection import Connection
from node.wire.amqp091.errors import ConnectionForcedError, Failure
from node.wire.amqp091.intake import Pieces
from node.wire.amqp091.limits import ConnectionLimits
from node.wire.amqp091.primitives import Method

NO_ROUTE: Final = 312
"""0-9-1 reply code of a mandatory message that no queue takes."""


class Session(Containment):
    """See the module's docstring; implements `node.session.ports.Subscriber`."""

    def __init__(
        self, port: BrokerPort, transport: Transport, limits: ConnectionLimits, clock: Callable[[], float]
    ) -> None:
        super().__init__()
        self.connection = connection = Connection(limits, clock())
        self.scope, self.holder, self.closed = NOWHERE, 0, False
        self.traffic = Traffic()
        self._port, self._transport, self._clock = port, transport, clock
        requests = Requests(port, self)
        transactions = Transactions(port, self)
        authentication = Authentication(port, transport, self)
        self._consumers = SessionConsumers(port, connection)
        self._held_back = Pieces()
        # Channels whose publishes have filled a link.
        self._held: set[int] = set()
        self._blocked = self._full = self._releasing = self._gone = self._failing = False
        self._channels_known = 0
        publishes = Publishes(port, self, transactions)
        handlers: dict[type[effects.Effect], Callable[[Any], None]] = {
            effects.Publish: publishes.publish,
            effects.HoldPublish: publishes.publish,
            effects.Commit: transactions.commit,
            effects.Rollback: transactions.roll_back,
            effects.Settle: self._settle,
            effects.Return: self._return,
            effects.Discard: self._discard,
            effects.Credit: self._credit,
            effects.Request: partial(self._request, requests),
            effects.Answer: partial(answer, connection),
            effects.Refuse: partial(refuse, connection),
            effects.ChannelClosed: self._channel_closed,
            effects.ConnectionClosed: self._connection_closed,
            effects.Authenticate: authentication.log_in,
            effects.OpenVhost: self._open_vhost,
            effects.UpdateSecret: authentication.update_secret,
            effects.NegotiationFailed: self._negotiation_failed,
            effects.CloseSocket: self._close_socket,
            effects.Log: self._log,
        }
        self._effects = EffectLoop(handlers, connection.take_effects)

    @property
    def user(self) -> str:
        """Who logged in; empty before."""
        return self.connection.user

    @property
    def vhost(self) -> str:
        """The virtual host of the connection; empty before it is open."""
        return self.scope.vhost

    @property
    def held_back(self) -> bool:
        """Whether the client is not read from because it publishes faster than can be taken."""
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
            # This node's catalog may be behind: it may not know the client yet, or route messages astray.
            self._held_back.add(data)
            self._wait_ready()
            return
        self._carry_out(self.connection.receive(data, self._clock()))
        if self.connection.channels_opened != self._channels_known:
            self._channels_opened()
        self.stop_when_full()

    @property
    def held(self) -> int:
        """Octets that the client makes the node hold, those that the socket has taken excepted."""
        return self.connection.held + self._held_back.size

    def stop_when_full(self) -> None:
        """Read no further where the client has sent more than can be looked at now."""
        if self.connection.paused and not self._blocked:
            self._full = True
            self._transport.pause_reading()

    def tick(self) -> None:
        """Run timers that are due: heartbeats, time-outs."""
        with self:
            if self.connection.next_deadline() <= self._clock():
                self._carry_out(self.connection.tick(self._clock()))

    def force_close(self, reason: str) -> None:
        """Close the connection from this side (320); without a word where it is not open yet."""
        self.close_with(ConnectionForcedError(reason))

    def close_with(self, error: Failure) -> None:
        """The same, for another reason."""
        with self:
            self.connection.close(error)
            self.answered()

    def take_output(self, writes: bool = True) -> bytes:
        """What to write now, if at all; nothing before other clients see what the connection's end does."""
        output = b""
        with self:
            if not self._releasing:
                output = self.connection.take_output() if writes else b""
                self._go_on()
        return output

    def _go_on(self) -> None:
        """Take up input that earlier turns have left: a share of it, so that other clients have theirs."""
        connection = self.connection
        if not connection.has_input or self._port.ready():
            connection.go_on()
        elif not self._blocked:
            self._wait_ready()
        if wanted := connection.take_effects():
            self._carry_out(wanted)
        self._read_on()
        if connection.has_input and not self._blocked:
            self._transport.wanted()

    def _wait_ready(self) -> None:
        self._blocked = True
        self._transport.pause_reading()
        self._port.wait_ready(self)

    def _carry_out(self, wanted: list[effects.Effect]) -> None:
        if not self._effects.carry_out(wanted, self):
            return
        if self._gone:
            self._end([])
            # Without these nothing refers to the session but who waits for something of it.
            self._effects.close()
            self._transport = NO_TRANSPORT
        self._transport.wanted()
        self._read_on()

    def _read_on(self) -> None:
        if self._full and not self.connection.paused:
            self._full = False
            if not self._blocked:
                self._transport.resume_reading()

    def alarm(self, reason: str | None) -> None:
        """The cluster is short of memory or disk, or, with None, of nothing any more."""
        with self:
            self.connection.alarm(reason)
            self.answered()

    # -- publishing -----------------------------------------------------------------------------

    def hold(self, channel: int) -> None:
        """What the channel has published fills a link: it publishes no more before `unblocked`."""
        self._held.add(channel)
        self.connection.hold(channel)

    def unroutable(self, channel: int, run: Run, mandatory: bool) -> None:
        """No queue takes the messages."""
        if mandatory:
            self.traffic.returned += run.count
            self.connection.return_unroutable(channel, run, NO_ROUTE, "NO_ROUTE")
        else:
            self.traffic.dropped += run.count

    # -- settling -------------------------------------------------------------------------------

    def _settle(self, effect: effects.Settle) -> None:
        self._port.settle(effect.consumer, effect.ranges)

    def _return(self, effect: effects.Return) -> None:
        self._port.give_back(effect.consumer, effect.ranges, effect.delivered)

    def _discard(self, effect: effects.Discard) -> None:
        self._port.discard(effect.consumer, effect.ranges)

    def _credit(self, effect: effects.Credit) -> None:
        self._port.credit(effect.consumer, effect.limit)

    # -- requests -------------------------------------------------------------------------------

    def _request(self, requests: Requests, effect: effects.Request) -> None:
        if isinstance(effect.method, methods.BasicCancel):
            ok = methods.BasicCancelOk(effect.method.consumer_tag)
            self._port.leave(effect.consumer, partial(self.reply, effect.channel, ok))
            return
        caller = Caller(effect.channel, self.scope, self.holder, self, effect.limit)
        began = self._clock()
        requests.carry_out(caller, effect.method)
        self.connection.took(self._clock() - began)

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

    def consume_ok(self, channel: int, tag: str, consumer: int, returnable: bool, reply_to: str) -> None:
        if self.closed:
            self._consumers.came_late(consumer)
            return
        self._consumers.started(channel, consumer)
        with self:
            self.connection.consume_ok(channel, tag, consumer, returnable, reply_to)
            self.answered()

    def deliver_get(self, channel: int, got: Got) -> None:
        if self.closed:
            self._port.give_back(got.consumer, [(got.sequence, got.sequence)], False)
            return
        with self:
            self.connection.deliver_get(
                channel, got.run, got.sequence, got.redelivered, got.ready, got.consumer
            )
            self.answered()

    def get_empty(self, channel: int) -> None:
        with self:
            if not self.closed:
                self.connection.get_empty(channel)
                self.answered()

    def answered(self) -> None:
        """An answer lets parked frames of its channel go on."""
        self._carry_out(self.connection.take_effects())

    def _channels_opened(self) -> None:
        self._channels_known = self.connection.channels_opened
        try:
            self._port.channel_opened(self.user)
        except Refusal as refusal:
            self.connection.close(refusal)
            self.answered()

    @property
    def channel_count(self) -> int:
        return len(self.connection.channels)

    # -- the end --------------------------------------------------------------------------------

    def lost(self) -> None:
        """The socket is gone."""
        self._gone = True
        wanted: list[effects.Effect] = []
        with self:
            wanted = self.connection.disconnected()
        with self:
            self._carry_out(wanted)

    def failed(self, error: Exception) -> None:
        """A defect was met: this session ends, and no other. It gives back what it had."""
        self._transport.session_failed(error)
        self._effects.failed = True
        if not self._failing:
            self._failing = True
            self.lost()
            self._failing = False

    def _channel_closed(self, effect: effects.ChannelClosed) -> None:
        ok = partial(self.reply, effect.channel, methods.ChannelCloseOk())
        self._consumers.channel_closed(effect.channel, effect.unsettled, ok if effect.awaited else nothing)

    def _connection_closed(self, effect: effects.ConnectionClosed) -> None:
        self._end(effect.unsettled)

    def _end(self, unsettled: effects.Unsettled) -> None:
        """Whatever ended the connection: what it had goes back, once."""
        if self.closed:
            return
        self.closed = True
        self._held_back.clear()
        if self._blocked:
            self._port.wait_no_more(self)
        if not self.holder:
            self._consumers.connection_closed(unsettled, nothing)
            return
        # Clients take it that auto-delete and exclusive queues are gone when they read Close-Ok (§4.5).
        self._releasing = True
        release = partial(self._port.release_holder, self.holder, self._released)
        self._consumers.connection_closed(unsettled, release)

    def _released(self) -> None:
        self._releasing = False
        self._transport.wanted()

    def _close_socket(self, effect: effects.CloseSocket) -> None:
        self._releasing = False
        self._transport.close_after_flush()

    def _log(self, effect: effects.Log) -> None:
        self._transport.log(effect.event, effect.fields)

    # -- negotiation ----------------------------------------------------------------------------

    def _open_vhost(self, effect: effects.OpenVhost) -> None:
        try:
            entry = self._port.enter(self, self.user, effect.vhost)
        except Refusal as refusal:
            self.connection.open_failed(refusal)
            return
        self.scope, self.holder = entry.scope, entry.holder
        self._transport.entered()
        self.connection.opened()

    def _negotiation_failed(self, effect: effects.NegotiationFailed) -> None:
        self._transport.negotiation_failed(effect.reason)

    # -- what the broker says (Subscriber) ------------------------------------------------------

    def deliver(self, consumer: int, run: Run, numbers: Numbers, redelivered: bool) -> None:
        with self:
            self.connection.deliver(consumer, run, numbers, redelivered)
            self._transport.wanted()

    def confirm(self, channel: int, first: int, last: int) -> None:
        with self:
            if not self.closed:
                self.traffic.confirmed += last - first + 1
                self.connection.confirm(channel, first, last)
                self._transport.wanted()

    def reject(self, channel: int, first: int, last: int) -> None:
        with self:
            if not self.closed:
                self.connection.nack(channel, first, last)
                self._transport.wanted()

    def consumer_cancelled(self, consumer: int) -> None:
        with self:
            if not self.closed:
                self.connection.cancel_consumer(consumer)
                self.answered()

    def unblocked(self) -> None:
        """Publishers may go on: take what was held back, then read on."""
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
