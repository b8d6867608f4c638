"""A client's 0-9-1 connection as a state machine: octets in, octets and effects out.

Nothing here reads a clock or touches a socket; `now` is seconds of any monotonic clock. The states
and what frames do to them are in `reader` and `channel`; this is what the shell sees.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf

from node.delivery.settlements import Outcome
from node.message.run import Run
from node.ranges.numbers import Numbers
from node.wire.amqp091 import methods as m
from node.wire.amqp091.channel import Channel
from node.wire.amqp091.channel_state import ChannelState
from node.wire.amqp091.codec import HEARTBEAT
from node.wire.amqp091.deliver_path import encode_contents
from node.wire.amqp091.effects import Credit, Effect, LogEffect
from node.wire.amqp091.errors import Failure, LoginRefusedError, NotAllowedError
from node.wire.amqp091.fields import Table
from node.wire.amqp091.lifecycle import DEAF, NOT_OPEN_YET, ConnectionState, Stage
from node.wire.amqp091.limits import ConnectionLimits
from node.wire.amqp091.primitives import Method, method_ids, truncated
from node.wire.amqp091.reader import FrameReader
from node.wire.amqp091.replies import reply_text
from node.wire.amqp091.resource_alarm import ResourceAlarm
from node.wire.amqp091.shared import Hold

_PUBLISH = (m.BasicPublish.CLASS_ID, m.BasicPublish.METHOD_ID)


class Connection(FrameReader):
    """One client's connection.

    `receive`, `tick` and `disconnected` return the effects to carry out, in order. Everything else
    may lead to effects as well: the shell takes them with `take_effects` when it is done with its
    calls. Answers for a channel that has gone meanwhile change nothing.
    """

    def __init__(self, limits: ConnectionLimits, now: float):
        super().__init__(limits, now)
        self._confirmed: set[Channel] = set()
        self._alarm = ResourceAlarm(self._outbox)

    # -- input and output -----------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> list[Effect]:
        """Octets from the client, cut anywhere."""
        self._now = now
        if data:
            self._heartbeats.heard(now)
        if self.state not in DEAF:
            self._intake.add(data)
            self._advance()
            self._check_memory()
        return self.take_effects()

    def tick(self, now: float) -> list[Effect]:
        """To be called at `next_deadline`, or later."""
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
        """When `tick` has something to do, unless something else happens before; infinity for never."""
        return min(
            self._deadline, self._heartbeats.next_deadline(), self._credits.deadline, self._pace.deadline
        )

    def take_output(self) -> bytes:
        """The octets to write now; of much output, a share for each channel. May give consumers new
        credit.
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
            self._heartbeats.wrote(self._now)
        return output

    @property
    def has_output(self) -> bool:
        """Whether `take_output` has left something."""
        return self._outbox.waiting

    def take_effects(self) -> list[Effect]:
        """The effects that no call has returned yet."""
        for granted in self._credits.changes():
            self._outbox.emit(Credit(granted.consumer, granted.limit))
        return self._outbox.take_effects()

    @property
    def paused(self) -> bool:
        """Whether the shell should stop reading the socket: too much waits for answers, or the session no
        longer handles input.
        """
        if self.state is ConnectionState.PAUSED or self._unread:
            return True
        waiting = self._parking.octets
        if self._negotiation.waits_for_shell:
            waiting += self._intake.size
        return waiting > self._limits.parked_bytes

    def reading(self, active: bool, now: float) -> None:
        """The shell stopped or resumed reading the socket: a client cannot be heard meanwhile."""
        self._heartbeats.listen(active, now)

    def disconnected(self) -> list[Effect]:
        """The socket is gone."""
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
        """Those that are open or closing."""
        return self._channels.values()

    def authenticated(self, user: str, *, impersonates: bool = False) -> None:
        """The answer to Authenticate. `impersonates`: the user may publish with any user-id."""
        if self._asked(Stage.AUTHENTICATION):
            self.user = user
            self._claims = None if impersonates else user
            self._negotiation.authenticated()
            self._advance()

    def refused(self, reason: str) -> None:
        """The answer to Authenticate: the credentials are wrong, and `reason` says to the log in what.

        The client hears nothing (§2.2.4) unless it has announced that it wants to be told.
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
        """The answer to OpenVhost: there is no such virtual host, or the user has no access to it."""
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
        """The pending Request, or what Refuse tells of, is refused, and channel or connection closed."""
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
        """Something that was published cannot be: close channel or connection.

        Other than `fail` this is no answer to a Request that the channel may have sent since.
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
        """The answer to basic.consume: `consumer` is the number that deliveries will name.

        The consumer has the credit that the Request told; `take_effects` then returns what it has by now.
        `returnable`: the queue keeps messages until they are settled, so that they can go back to it.
        `reply_to`: messages of this channel that ask for direct replies get this name.
        """
        found = self._channels.get(channel)
        if found is not None:
            found.start_consumer(tag, consumer, returnable, reply_to)
            self._resume(channel)

    def deliver_get(
        self, channel: int, run: Run, sequence: int, redelivered: bool, message_count: int, consumer: int = 0
    ) -> None:
        """The answer to basic.get: a run of one message; `message_count` more are in the queue.

        `consumer` is the number that the settlement will name.
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
        """The consumer's queue is gone: tell the client, if it can be told."""
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
        """The messages with these tags were not taken."""
        self.confirm(channel, first, last, positive=False)

    def confirm(self, channel: int, first: int, last: int, *, positive: bool = True) -> None:
        """The messages with these tags are safe, or were not taken."""
        found = self._channels.get(channel)
        if found is not None:
            found.confirm(first, last, positive=positive)
            self._confirmed.add(found)

    def return_unroutable(self, channel: int, run: Run, code: int, text: str) -> None:
        """Messages that were published as mandatory and reach no queue. To be called before `confirm`."""
        found = self._channels.get(channel)
        if found is not None and found.state is ChannelState.OPEN:
            method = m.BasicReturn(code, truncated(text), run.exchange, run.routing_key)
            self._outbox.write(encode_contents(channel, method, run, self._parts.frame_max))

    # -- the connection -------------------------------------------------------------------------

    def close(self, error: Failure) -> None:
        """Close the connection from this side; without a word when it is not open yet."""
        if self.state is ConnectionState.OPEN:
            self._fail(error)
        elif self.state in NOT_OPEN_YET or self.state is ConnectionState.PAUSED:
            self._close_socket()

    def hold(self, channel: int) -> None:
        """Take no more frames of a channel before `release`: what it published must be committed first."""
        if channel in self._channels:
            self._channels[channel].holds |= Hold.LINK

    def release(self, channel: int) -> None:
        """Take the channel's frames again, those that waited first."""
        self._let_go(channel, Hold.LINK)

    def alarm(self, reason: str | None) -> None:
        """The cluster is short of something, or, with None, of nothing any more.

        Meanwhile a channel that publishes is held from its next frame on. Others are not disturbed.
        """
        if reason is not None:
            self._alarm.reason = reason
            self._alarmed = self._parts.alarmed = self._published_during_alarm
            return
        self._alarm.over(self.state is ConnectionState.OPEN)
        self._alarmed = self._parts.alarmed = None
        for channel, found in list(self._channels.items()):
            if found.holds & Hold.ALARM:
                self._flow(channel, active=True)
                self._let_go(channel, Hold.ALARM)

    @property
    def blocked(self) -> bool:
        """Whether the client has published during a resource alarm, and is held back."""
        return self._alarm.blocked

    def _published_during_alarm(self, channel: int) -> None:
        self._channels[channel].holds |= Hold.ALARM
        self._alarm.published(self._negotiation.client_can("connection.blocked"))
        self._flow(channel, active=False)

    def _flow(self, channel: int, *, active: bool) -> None:
        """Ask a client that does not know connection.blocked to stop publishing, or to go on (§3.1.9)."""
        open_ = self.state is ConnectionState.OPEN and self._channels[channel].state is ChannelState.OPEN
        if open_ and not self._negotiation.client_can("connection.blocked"):
            self._outbox.send(channel, m.ChannelFlow(active))

    def _let_go(self, channel: int, hold: Hold) -> None:
        found = self._channels.get(channel)
        if found is not None and found.holds & hold:
            found.holds &= ~hold
            self._resume(channel)
