"""The state machine of a client's 0-9-1 connection: octets in, octets and effects out.

The machine reads no clock and touches no socket; `now` is in seconds of any monotonic clock. `reader` and
`channel` handle frames. This module has the interface for the session around the machine.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf

from node.delivery.settlements import Outcome
from node.message.run import Run
from node.ranges.range_set import Numbers
from node.wire.amqp091 import methods as m
from node.wire.amqp091.channel import Channel
from node.wire.amqp091.channel_state import ChannelState
from node.wire.amqp091.codec import HEARTBEAT, encode_contents
from node.wire.amqp091.effects import Credit, Effect, LogEffect
from node.wire.amqp091.errors import Failure, LoginRefusedError, NotAllowedError
from node.wire.amqp091.fields import Table
from node.wire.amqp091.lifecycle import DEAF, NOT_OPEN_YET, ConnectionState, Stage
from node.wire.amqp091.limits import ConnectionLimits
from node.wire.amqp091.primitives import Method, method_ids, truncated
from node.wire.amqp091.reader import FrameReader
from node.wire.amqp091.replies import reply_text
from node.wire.amqp091.routing_keys import by_key
from node.wire.amqp091.shared import Hold

_PUBLISH = (m.BasicPublish.CLASS_ID, m.BasicPublish.METHOD_ID)


class Connection(FrameReader):
    """One client's connection.

    `receive`, `tick` and `disconnected` return the effects to carry out, in order. Other methods may cause
    effects as well: after its calls the session takes them with `take_effects`. Answers for a closed channel
    are ignored.
    """

    def __init__(self, limits: ConnectionLimits, now: float):
        super().__init__(limits, now)
        self._confirmed: set[Channel] = set()

    # -- input and output -----------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> list[Effect]:
        """Take octets from the client, in pieces of any size; return the effects."""
        self._now = now
        if data:
            self._heartbeats.heard_at = now
        if self.state not in DEAF:
            self._intake.add(data)
            self._advance()
            self._check_memory()
        return self.take_effects()

    def tick(self, now: float) -> list[Effect]:
        """Run due timers; return the effects. To be called at `next_deadline`, or later."""
        self._now = now
        self._credits.tick(now)
        self._pace.renew(now)
        if now >= self._deadline:
            self._timed_out()
        elif self._heartbeats.silent(now):
            self._outbox.emit(LogEffect("heartbeat_missed", {"interval": self._negotiation.heartbeat}))
            self._end_channels()
            self._close_socket()
        elif self._heartbeats.due(now):
            self._outbox.write(HEARTBEAT)
        return self.take_effects()

    def next_deadline(self) -> float:
        """The time at which `tick` is to be called; infinity for never. Any other call may change it."""
        return min(
            self._deadline, self._heartbeats.next_deadline(), self._credits.deadline, self._pace.deadline
        )

    def take_output(self) -> bytes:
        """Remove and return the octets to write now: all, or a share of each channel. Consumers may get new
        credit, as effects.
        """
        for channel in self._confirmed:
            if channel.state is ChannelState.OPEN:
                channel.flush_confirms()
        self._confirmed.clear()
        output = self._outbox.take_output()
        self._credits.output_taken()
        if self._unread:
            self._share.exhaust()
        if output:
            self._heartbeats.wrote_at = self._now
        return output

    @property
    def has_output(self) -> bool:
        """Whether output is left that `take_output` has not taken."""
        return self._outbox.waiting

    def take_effects(self) -> list[Effect]:
        """The effects that no call has returned yet, in order."""
        for granted in self._credits.changes():
            self._outbox.emit(Credit(granted.consumer, granted.limit))
        return self._outbox.take_effects()

    @property
    def paused(self) -> bool:
        """Whether the session should stop reading the socket: too much input waits for answers, or the
        machine takes no input any more.
        """
        if self.state is ConnectionState.PAUSED or self._unread:
            return True
        waiting = self._parking.octets
        if self._negotiation.waits_for_session:
            waiting += self._intake.size
        return waiting > self._limits.parked_bytes

    def reading(self, active: bool, now: float) -> None:
        """The session has stopped or resumed reading the socket: heartbeats cannot arrive meanwhile."""
        self._heartbeats.listen(active, now)

    def disconnected(self) -> list[Effect]:
        """The socket is closed. Returns the last effects."""
        self._end_channels()
        self.state = ConnectionState.CLOSED
        self._deadline = inf
        self._heartbeats.stop()
        self._confirmed.clear()
        self._forget()
        return self.take_effects()

    # -- negotiation ----------------------------------------------------------------------------

    @property
    def client_properties(self) -> Table:
        """The client-properties of Start-Ok."""
        return self._negotiation.client_properties

    @property
    def mechanism(self) -> str:
        """The SASL mechanism that the client chose."""
        return self._negotiation.mechanism

    @property
    def agreed(self) -> tuple[int, int, int]:
        """channel-max, frame-max in octets, and heartbeat interval in seconds."""
        negotiation = self._negotiation
        return negotiation.channel_max, negotiation.frame_max, negotiation.heartbeat

    @property
    def channels(self) -> Collection[Channel]:
        """The channels that are open or closing."""
        return self._channels.values()

    def authenticated(self, user: str, *, impersonates: bool = False) -> None:
        """The answer to Authenticate. `impersonates`: the user may publish with any user-id."""
        if self._asked(Stage.AUTHENTICATION):
            self.user = user
            self._claims = None if impersonates else user
            self._negotiation.authenticated()
            self._advance()

    def refused(self, reason: str) -> None:
        """The answer to Authenticate: the login is refused, with a reason for the log.

        The client gets no answer (§2.2.4), unless it has the capability authentication_failure_close.
        """
        if not self._asked(Stage.AUTHENTICATION):
            return
        if self._negotiation.client_can("authentication_failure_close"):
            error = LoginRefusedError(self._negotiation.mechanism)
            self._outbox.send(0, m.ConnectionClose(error.code, reply_text(error)))
        self._abort(reason)

    def opened(self) -> None:
        """The answer to OpenVhost."""
        if self._asked(Stage.VHOST):
            self._negotiation.opened()
            self.state = ConnectionState.OPEN
            self._deadline = inf
            self._advance()

    def open_failed(self, error: Failure) -> None:
        """The answer to OpenVhost: the virtual host does not exist, or the user may not enter it."""
        if self._asked(Stage.VHOST):
            self._negotiation.stage = Stage.DONE
            self._fail(error, (m.ConnectionOpen.CLASS_ID, m.ConnectionOpen.METHOD_ID))
            self._advance()

    def secret_checked(self, good: bool) -> None:
        """The answer to UpdateSecret."""
        if self.state is not ConnectionState.OPEN:
            return
        if good:
            self._outbox.send(0, m.ConnectionUpdateSecretOk())
        else:
            error = NotAllowedError("New secret was refused by one of the backends")
            self._fail(error, (m.ConnectionUpdateSecret.CLASS_ID, m.ConnectionUpdateSecret.METHOD_ID))

    def _asked(self, stage: Stage) -> bool:
        return self.state is ConnectionState.NEGOTIATING and self._negotiation.stage is stage

    # -- answers to requests --------------------------------------------------------------------

    def reply(self, channel: int, method: Method) -> None:
        """The answer to the channel's pending Request."""
        if (found := self._channels.get(channel)) is None:
            return
        pending = found.answer(method)
        if found.state is ChannelState.CLOSED:
            self._forget_channel(found)
        if isinstance(pending, m.BasicCancel):
            consumer = found.deliveries.consumers.get(pending.consumer_tag)
            if consumer is not None:
                found.end_consumer(consumer)
        self._resume(channel)

    def fail(self, channel: int, error: Failure) -> None:
        """Refuse the channel's pending Request, or carry out a RefuseEffect: closes channel or connection."""
        found = self._channels.get(channel)
        if found is None:
            return
        pending = found.pending
        ids = getattr(error, "method", (0, 0)) if pending is None else method_ids(pending)
        found.answer(None)
        if pending is not None or found.state is ChannelState.OPEN:
            self._close_with(found, error, ids)
        self._resume(channel)

    def fail_publish(self, channel: int, error: Failure) -> None:
        """A publish of the channel is refused: close channel or connection.

        Unlike `fail` this is no answer to a Request that the channel may have made since.
        """
        found = self._channels.get(channel)
        if found is not None:
            self._close_with(found, error, _PUBLISH)

    def _close_with(self, channel: Channel, error: Failure, ids: tuple[int, int]) -> None:
        if error.ends_connection:
            self._fail(error, ids)
        else:
            channel.fail(error, ids)

    def consume_ok(
        self, channel: int, tag: str, consumer: int, returnable: bool = True, reply_to: str = ""
    ) -> None:
        """The answer to basic.consume. `consumer` is the consumer's number in deliveries, settlements and
        credit.

        The consumer begins with the credit in the Request; `take_effects` returns changes since.
        `returnable`: the queue keeps messages until they are settled, so that deliveries can go back to it.
        `reply_to`: messages of this channel that ask for direct replies get this address.
        """
        found = self._channels.get(channel)
        if found is not None:
            found.start_consumer(tag, consumer, returnable, reply_to)
            self._resume(channel)

    def deliver_get(
        self, channel: int, run: Run, sequence: int, redelivered: bool, message_count: int, consumer: int = 0
    ) -> None:
        """The answer to basic.get: a run of one message. `message_count` ready messages are left in the
        queue.

        The settlement will have the number `consumer`.
        """
        found = self._channels.get(channel)
        if found is None:
            return
        if isinstance(found.pending, m.BasicGet) and found.state is ChannelState.OPEN:
            no_ack = found.pending.no_ack
            found.answer(None)
            found.deliveries.send_got(run, sequence, redelivered, message_count, consumer, no_ack)
        else:
            self._outbox.settlements.add(Outcome.RELEASED, channel, consumer, range(sequence, sequence + 1))
            found.answer(None)
        self._resume(channel)

    def get_empty(self, channel: int) -> None:
        """The answer to basic.get: the queue has no message."""
        self.reply(channel, m.BasicGetEmpty())

    # -- deliveries -----------------------------------------------------------------------------

    def deliver(self, consumer: int, run: Run, numbers: Numbers, redelivered: bool) -> None:
        """Messages for a consumer, and their sequence numbers.

        A delivery for a consumer that has gone is returned, as not delivered, on channel 0.
        """
        if self.state is not ConnectionState.OPEN:
            return
        found = self._credits.consumers.get(consumer)
        if found is None:
            self._outbox.settlements.add(Outcome.RELEASED, 0, consumer, numbers)
            return
        self._channels[found.channel].deliveries.deliver(found, run, numbers, redelivered)
        self._credits.look_at_output()

    def cancel_consumer(self, consumer: int) -> None:
        """The broker has ended the consumer: tell the client, if it has the capability
        consumer_cancel_notify.
        """
        found = self._credits.consumers.get(consumer)
        if found is None:
            return
        self._channels[found.channel].end_consumer(found)
        if self._negotiation.client_can("consumer_cancel_notify"):
            self._outbox.send(found.channel, m.BasicCancel(found.tag, nowait=True))

    def pause_credit(self) -> None:
        """The socket's buffer is above its high-water mark: revoke all credit."""
        self._credits.pause(True)

    def resume_credit(self) -> None:
        """The socket's buffer has drained."""
        self._credits.pause(False)

    # -- publishing -----------------------------------------------------------------------------

    def nack(self, channel: int, first: int, last: int) -> None:
        """The publishes with these tags are refused."""
        self.confirm(channel, first, last, positive=False)

    def confirm(self, channel: int, first: int, last: int, *, positive: bool = True) -> None:
        """The publishes with these tags are confirmed, or (`positive` False) refused."""
        found = self._channels.get(channel)
        if found is not None:
            found.confirm(first, last, positive=positive)
            self._confirmed.add(found)

    def return_unroutable(self, channel: int, run: Run, code: int, text: str) -> None:
        """Return mandatory messages that no queue takes to the client. To be called before `confirm`."""
        found = self._channels.get(channel)
        if found is not None and found.state is ChannelState.OPEN:
            for key, piece in by_key(run):
                method = m.BasicReturn(code, truncated(text), run.exchange, key)
                self._outbox.write(encode_contents(channel, method, piece, self._parts.frame_max))

    # -- the connection -------------------------------------------------------------------------

    def close(self, error: Failure) -> None:
        """Close the connection with an exception; without a word where it is not open yet."""
        if self.state is ConnectionState.OPEN:
            self._fail(error)
        elif self.state in NOT_OPEN_YET or self.state is ConnectionState.PAUSED:
            self._close_socket()

    def hold(self, channel: int) -> None:
        """Take no more frames of a channel before `release`: a link with its publishes is full."""
        if channel in self._channels:
            self._channels[channel].holds |= Hold.LINK

    def release(self, channel: int) -> None:
        """Take the channel's frames again, parked ones first."""
        self._let_go(channel, Hold.LINK)

    def alarm(self, reason: str | None) -> None:
        """The cluster is short of a resource, for this reason; None: the shortage is over.

        During a shortage a channel that publishes is held from its next frame on. Other channels go on.
        """
        if reason is not None:
            self._alarm.reason = reason
            return
        connection_open = self.state is ConnectionState.OPEN
        self._alarm.over(connection_open)
        for channel, found in list(self._channels.items()):
            if found.holds & Hold.ALARM:
                if connection_open and found.state is ChannelState.OPEN:
                    self._alarm.flow(channel, active=True)
                self._let_go(channel, Hold.ALARM)

    @property
    def blocked(self) -> bool:
        """Whether the client has published during a resource alarm, and is held back."""
        return self._alarm.blocked

    def _let_go(self, channel: int, hold: Hold) -> None:
        found = self._channels.get(channel)
        if found is not None and found.holds & hold:
            found.holds &= ~hold
            self._resume(channel)
