"""One client connection: carries out what its protocol machine asks, feeds it what the broker says.

No socket and no clock: `Transport` writes, `now` comes with the input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from node.engine.content import properties_in, read_headers_property
from node.engine.copies import may_have_copies, read_copies, without_blind_copies
from node.engine.errors import Refusal
from node.engine.rewriting import with_properties
from node.frontend.authentication import Authentication
from node.frontend.consumers import SessionConsumers
from node.frontend.permissions import NOWHERE
from node.frontend.ports import BrokerPort, Got, Route
from node.frontend.requests import Caller, Requests
from node.frontend.traffic import Traffic
from node.frontend.transactions import Transactions
from node.numbers import Numbers
from node.runs import Run
from node.wire.amqp091 import effects, methods
from node.wire.amqp091.connection import Connection
from node.wire.amqp091.errors import ConnectionForcedError
from node.wire.amqp091.limits import ConnectionLimits
from node.wire.amqp091.primitives import Method

NO_ROUTE: Final = 312
"""0-9-1 reply code of a mandatory message that no queue takes."""


class Transport(Protocol):
    """The socket, as a session sees it."""

    remote: str
    certified_name: str
    """Who the client is by its certificate; empty where it has shown none that is valid."""

    def wanted(self) -> None:
        """There is output; `flush` will be called at the end of the turn."""

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close_after_flush(self) -> None: ...
    def log(self, event: str, fields: Mapping[str, str | int]) -> None: ...

    def entered(self) -> None:
        """The connection is open: the client is no stranger any more."""

    def negotiation_failed(self, reason: str) -> None:
        """To be logged, and counted against the address that the client is at."""


class Session:
    """See the module's docstring; implements `node.frontend.ports.Subscriber`."""

    def __init__(
        self, port: BrokerPort, transport: Transport, limits: ConnectionLimits, clock: Callable[[], float]
    ) -> None:
        self.connection = Connection(limits, clock())
        self.scope = NOWHERE
        self.holder, self.closed = 0, False
        self.traffic = Traffic()
        self._port = port
        self._transport = transport
        self._clock = clock
        self._requests = Requests(port, self)
        self._transactions = Transactions(port, self)
        authentication = Authentication(port, transport, self)
        self._consumers = SessionConsumers(port, lambda: self.connection.channels)
        self._held_back: list[bytes] = []
        # Channels whose publishes have filled a link.
        self._held: set[int] = set()
        self._blocked = self._full = self._releasing = False
        self._channels_known = 0
        self._handlers: dict[type[effects.Effect], Callable[[Any], None]] = {
            effects.Publish: self._publish,
            effects.HoldPublish: self._publish,
            effects.Commit: self._transactions.commit,
            effects.Rollback: self._transactions.roll_back,
            effects.Settle: self._settle,
            effects.Return: self._return,
            effects.Redeliver: self._redeliver,
            effects.Discard: self._discard,
            effects.Credit: self._credit,
            effects.Request: self._request,
            effects.ChannelClosed: self._channel_closed,
            effects.ConnectionClosed: self._connection_closed,
            effects.Authenticate: authentication.log_in,
            effects.OpenVhost: self._open_vhost,
            effects.UpdateSecret: authentication.update_secret,
            effects.NegotiationFailed: self._negotiation_failed,
            effects.CloseSocket: self._close_socket,
            effects.Log: self._log,
        }

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
        if self._blocked:
            self._held_back.append(data)
            return
        if not self._port.ready() and self.holder:
            # This node's catalog may be behind: what it would route by it could go astray.
            self._held_back.append(data)
            self._blocked = True
            self._transport.pause_reading()
            self._port.wait_ready(self)
            return
        self._carry_out(self.connection.receive(data, self._clock()))
        if self.connection.channels_opened != self._channels_known:
            self._channels_opened()
        self.stop_when_full()

    def stop_when_full(self) -> None:
        """Read no further where the client has sent more than can be looked at now."""
        if self.connection.paused and not self._blocked:
            self._full = True
            self._transport.pause_reading()

    def tick(self) -> None:
        """Run timers that are due: heartbeats, time-outs."""
        if self.connection.next_deadline() <= self._clock():
            self._carry_out(self.connection.tick(self._clock()))

    def lost(self) -> None:
        """The socket is gone."""
        self._carry_out(self.connection.disconnected())

    def force_close(self, reason: str) -> None:
        """Close the connection from this side (320); without a word where it is not open yet."""
        self.connection.close(ConnectionForcedError(reason))
        self.answered()

    def take_output(self) -> bytes:
        if self._releasing:
            return b""
        output = self.connection.take_output()
        wanted = self.connection.take_effects()
        if wanted:
            self._carry_out(wanted)
        return output

    def _carry_out(self, wanted: list[effects.Effect]) -> None:
        handlers = self._handlers
        while wanted:
            for effect in wanted:
                handlers[type(effect)](effect)
            wanted = self.connection.take_effects()
        self._transport.wanted()

    def alarm(self, reason: str | None) -> None:
        """The cluster is short of memory or disk, or, with None, of nothing any more."""
        self.connection.alarm(reason)
        self.answered()

    # -- publishing -----------------------------------------------------------------------------

    def _publish(self, effect: effects.Publish) -> None:
        run = effect.run
        try:
            if may_have_copies(run) or self._port.needs_headers(self.scope, run.exchange):
                self._publish_one_by_one(effect)
                return
            route = self._port.route(self.scope, run.exchange, run.routing_key)
        except Refusal as refusal:
            self.connection.fail_publish(effect.channel, refusal)
            return
        self._publish_along(effect, run, route, effect.first_tag)

    def _publish_along(self, effect: effects.Publish, run: Run, route: Route, first_tag: int) -> None:
        if type(effect) is effects.HoldPublish:
            self._transactions.hold(effect.channel, run, route, effect.mandatory)
            return
        traffic, count = self.traffic, run.count
        traffic.published += count
        if first_tag > 0:
            traffic.confirmable += count
        route.flow.published += count
        if route:
            if not self._port.publish(self, effect.channel, run, route, first_tag):
                self._held.add(effect.channel)
                self.connection.hold(effect.channel)
            return
        self.unroutable(effect.channel, run, effect.mandatory)
        if first_tag:
            # A message that no queue takes is confirmed at once: nothing more will happen to it.
            self.confirm(effect.channel, first_tag, first_tag + run.count - 1)

    def unroutable(self, channel: int, run: Run, mandatory: bool) -> None:
        """No queue takes the messages."""
        if mandatory:
            self.traffic.returned += run.count
            self.connection.return_unroutable(channel, run, NO_ROUTE, "NO_ROUTE")
        else:
            self.traffic.dropped += run.count

    def _publish_one_by_one(self, effect: effects.Publish) -> None:
        """Messages with headers of their own have routes of their own."""
        run = effect.run
        by_headers = self._port.needs_headers(self.scope, run.exchange)
        for first, count, properties in properties_in(run):
            headers = read_headers_property(properties) if by_headers else None
            copies = read_copies(properties)
            route = self._port.route(self.scope, run.exchange, run.routing_key, headers, copies.keys)
            tag = effect.first_tag + first if effect.first_tag else 0
            piece = run.slice(first, count)
            if copies.blind:
                piece = with_properties(piece, without_blind_copies)
            self._publish_along(effect, piece, route, tag)

    # -- settling -------------------------------------------------------------------------------

    def _settle(self, effect: effects.Settle) -> None:
        self._port.settle(effect.consumer, effect.ranges)

    def _return(self, effect: effects.Return) -> None:
        self._port.give_back(effect.consumer, effect.ranges, effect.delivered)

    def _redeliver(self, effect: effects.Redeliver) -> None:
        self._port.redeliver(effect.consumer, effect.ranges)

    def _discard(self, effect: effects.Discard) -> None:
        self._port.discard(effect.consumer, effect.ranges)

    def _credit(self, effect: effects.Credit) -> None:
        self._port.credit(effect.consumer, effect.limit)

    # -- requests -------------------------------------------------------------------------------

    def _request(self, effect: effects.Request) -> None:
        if isinstance(effect.method, methods.BasicCancel):
            self._port.cancel(effect.consumer)
            self.connection.reply(effect.channel, methods.BasicCancelOk(effect.method.consumer_tag))
            return
        caller = Caller(effect.channel, self.scope, self.holder, self)
        self._requests.carry_out(caller, effect.method)

    def reply(self, channel: int, method: Method) -> None:
        if not self.closed:
            self.connection.reply(channel, method)
            self.answered()

    def fail(self, channel: int, error: Refusal) -> None:
        if not self.closed:
            self.connection.fail(channel, error)
            self.answered()

    def consume_ok(self, channel: int, tag: str, consumer: int, returnable: bool, reply_to: str) -> None:
        if self.closed:
            self._consumers.came_late(consumer)
            return
        self.connection.consume_ok(channel, tag, consumer, returnable, reply_to)
        self._consumers.started(channel, consumer)
        self.answered()

    def deliver_get(self, channel: int, got: Got) -> None:
        if self.closed:
            self._port.give_back(got.consumer, [(got.sequence, got.sequence)], False)
            return
        self.connection.deliver_get(channel, got.run, got.sequence, got.redelivered, got.ready, got.consumer)
        self.answered()

    def get_empty(self, channel: int) -> None:
        if not self.closed:
            self.connection.get_empty(channel)
            self.answered()

    def answered(self) -> None:
        """An answer lets parked frames of its channel go on."""
        self._carry_out(self.connection.take_effects())
        if self._full and not self.connection.paused:
            self._full = False
            if not self._blocked:
                self._transport.resume_reading()

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

    def _channel_closed(self, effect: effects.ChannelClosed) -> None:
        self._consumers.channel_closed(effect.channel, effect.unsettled)

    def _connection_closed(self, effect: effects.ConnectionClosed) -> None:
        self.closed = True
        self._consumers.connection_closed(effect.unsettled)
        if self.holder:
            # Clients take it that exclusive queues are gone when they read Close-Ok (§4.5).
            self._releasing = True
            self._port.release_holder(self.holder, self._released)

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
        self.connection.deliver(consumer, run, numbers, redelivered)
        self._transport.wanted()

    def confirm(self, channel: int, first: int, last: int) -> None:
        if not self.closed:
            self.traffic.confirmed += last - first + 1
            self.connection.confirm(channel, first, last)
            self._transport.wanted()

    def reject(self, channel: int, first: int, last: int) -> None:
        if not self.closed:
            self.connection.nack(channel, first, last)
            self._transport.wanted()

    def consumer_cancelled(self, consumer: int) -> None:
        if not self.closed:
            self.connection.cancel_consumer(consumer)
            self.answered()

    def unblocked(self) -> None:
        """Publishers may go on: take what was held back, then read on."""
        self._blocked = False
        held, self._held = sorted(self._held), set()
        for channel in held:
            self.connection.release(channel)
        if held:
            self.answered()
        while self._held_back and not self._blocked:
            self.receive(self._held_back.pop(0))
        if not self._blocked and not self._full and not self.closed:
            self._transport.resume_reading()
