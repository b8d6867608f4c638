"""The state machine of a client's 0-9-1 connection: octets in, octets and effects out.

The machine reads no clock and touches no socket; `now` is in seconds of any monotonic clock. `reader` and
`channel` handle frames. This module has the interface for the session around the machine.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf

from node.delivery.backlog import NO_BACKLOG
from node.delivery.settlements import Outcome
from node.delivery.shares import LEAST_PART
from node.message.run import Run
from node.ranges.range_set import Numbers
from node.wire.amqp091 import methods as m
from node.wire.amqp091.channel import Channel
from node.wire.amqp091.channel_state import ChannelState
from node.wire.amqp091.codec import HEARTBEAT, encode_contents
from node.wire.amqp091.effects import Credit, Effect, LogEffect
from node.wire.amqp091.errors import Failure, LoginRefusedError, NotAllowedError
from node.wire.amqp091.fields import Table
from node.wire.amqp091.lifecycle import DEAF, NOT_OPEN_YET, ConnectionLifecycle, ConnectionState, Stage
from node.wire.amqp091.limits import ConnectionLimits
from node.wire.amqp091.primitives import Method, method_ids, truncated
from node.wire.amqp091.reader import FrameReader
from node.wire.amqp091.replies import reply_text
from node.wire.amqp091.routing_keys import by_key
from node.wire.amqp091.shared import Hold

_PUBLISH = (m.BasicPublish.CLASS_ID, m.BasicPublish.METHOD_ID)


class Connection:
    """One client's connection.

    `receive`, `tick` and `disconnected` return the effects to carry out, in order. Other methods may cause
    effects as well: after its calls the session takes them with `take_effects`. Answers for a closed channel
    are ignored. `life` has the state and the memory, `reader` the input that turns have left.
    """

    def __init__(self, limits: ConnectionLimits, now: float):
        self.life = ConnectionLifecycle(limits, now)
        self.reader = FrameReader(self.life)
        self._confirmed: set[Channel] = set()

    # -- input and output -----------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> list[Effect]:
        """Take octets from the client, in pieces of any size; return the effects."""
        life = self.life
        life.now = now
        if data:
            life.heartbeats.heard_at = now
        if life.state not in DEAF:
            life.intake.add(data)
            self.reader.advance()
            life.check_memory()
        return self.take_effects()

    def tick(self, now: float) -> list[Effect]:
        """Run due timers; return the effects. To be called at `next_deadline`, or later."""
        life = self.life
        life.now = now
        life.credits.tick(now)
        life.pace.renew(now)
        if now >= life.deadline:
            life.timed_out()
        elif life.heartbeats.silent(now):
            life.outbox.emit(LogEffect("heartbeat_missed", {"interval": life.negotiation.heartbeat}))
            life.end_channels()
            life.close_socket()
        elif life.heartbeats.due(now):
            life.outbox.write(HEARTBEAT)
        return self.take_effects()

    def next_deadline(self) -> float:
        """The time at which `tick` is to be called; infinity for never. Any other call may change it."""
        life = self.life
        return min(
            life.deadline,
            life.heartbeats.next_deadline(),
            life.credits.deadline,
            life.pace.deadline,
        )

    def take_output(self) -> bytes:
        """Remove and return the octets to write now: all, or a share of each channel. Consumers may get new
        credit, as effects.
        """
        life = self.life
        for channel in self._confirmed:
            if channel.state is ChannelState.OPEN:
                channel.flush_confirms()
        self._confirmed.clear()
        output = life.outbox.take_output()
        life.credits.output_taken()
        if life.unread:
            life.share.exhaust()
        if output:
            life.heartbeats.wrote_at = life.now
        return output

    @property
    def has_output(self) -> bool:
        """Whether output is left that `take_output` has not taken."""
        return self.life.outbox.waiting

    def take_effects(self) -> list[Effect]:
        """The effects that no call has returned yet, in order."""
        life = self.life
        if life.outbox.refused:
            life.pace.count_refusals(life.outbox, life.now)
        for granted in life.credits.changes():
            life.outbox.emit(Credit(granted.consumer, granted.limit))
        return life.outbox.take_effects()

    @property
    def paused(self) -> bool:
        """Whether the session should stop reading the socket: too much input waits for answers, or the
        machine takes no input any more.
        """
        life = self.life
        if life.state is ConnectionState.PAUSED or life.unread:
            return True
        waiting = life.parking.octets
        if life.negotiation.waits_for_session:
            waiting += life.intake.size
        return waiting > life.limits.parked_bytes

    def reading(self, active: bool, now: float) -> None:
        """The session has stopped or resumed reading the socket: heartbeats cannot arrive meanwhile."""
        self.life.heartbeats.listen(active, now)

    @property
    def has_input(self) -> bool:
        """Whether input waits for a turn: earlier turns have left it."""
        life = self.life
        return bool(life.unread) and not life.must_read() and not life.paced()

    def begin_turn(self, waiting: int) -> None:
        """Begin a new turn, whose work the `waiting` clients with input for it divide: handle input that
        earlier turns have left, or that waited for the client to read.
        """
        life = self.life
        if life.pace.least_until > life.now:
            waiting = LEAST_PART
        if not life.unread:
            life.share.renew(waiting)
        elif not life.must_read() and not life.paced():
            life.share.renew(waiting)
            waited, life.unread = life.unread, {}
            # A channel's parked frames go before new input.
            for number in waited:
                if number:
                    self.reader.resume(number)
            if 0 in waited and life.must_wait():
                life.unread[0] = None
            elif 0 in waited:
                self.reader.advance()
        # Deliveries may have taken memory, also for a client that sends nothing.
        life.check_memory()

    def took(self, seconds: float) -> None:
        """Count the time that the session has taken for a request as work."""
        self.life.share.took(seconds)

    def disconnected(self) -> list[Effect]:
        """The socket is closed. Returns the last effects."""
        life = self.life
        life.end_channels()
        life.state = ConnectionState.CLOSED
        life.deadline = inf
        life.heartbeats.stop()
        self._confirmed.clear()
        life.forget()
        return self.take_effects()

    # -- negotiation ----------------------------------------------------------------------------

    @property
    def client_properties(self) -> Table:
        """The client-properties of Start-Ok."""
        return self.life.negotiation.client_properties

    @property
    def mechanism(self) -> str:
        """The SASL mechanism that the client chose."""
        return self.life.negotiation.mechanism

    @property
    def agreed(self) -> tuple[int, int, int]:
        """channel-max, frame-max in octets, and heartbeat interval in seconds."""
        negotiation = self.life.negotiation
        return negotiation.channel_max, negotiation.frame_max, negotiation.heartbeat

    @property
    def channels(self) -> Collection[Channel]:
        """The channels that are open or closing."""
        return self.life.channels.values()

    def authenticated(self, user: str, *, impersonates: bool = False) -> None:
        """The answer to Authenticate. `impersonates`: the user may publish with any user-id."""
        life = self.life
        if self._asked(Stage.AUTHENTICATION):
            life.user = user
            life.claims = None if impersonates else user
            life.negotiation.authenticated()
            self.reader.advance()

    def refused(self, reason: str) -> None:
        """The answer to Authenticate: the login is refused, with a reason for the log.

        The client gets no answer (§2.2.4), unless it has the capability authentication_failure_close.
        """
        life = self.life
        if not self._asked(Stage.AUTHENTICATION):
            return
        if life.negotiation.client_can("authentication_failure_close"):
            error = LoginRefusedError(life.negotiation.mechanism)
            life.outbox.send(0, m.ConnectionClose(error.code, reply_text(error)))
        life.abort(reason)

    def opened(self) -> None:
        """The answer to OpenVhost."""
        life = self.life
        if self._asked(Stage.VHOST):
            life.negotiation.opened()
            life.state = ConnectionState.OPEN
            life.deadline = life.ends_at
            self.reader.advance()

    def open_failed(self, error: Failure) -> None:
        """The answer to OpenVhost: the virtual host does not exist, or the user may not enter it."""
        if self._asked(Stage.VHOST):
            self.life.negotiation.stage = Stage.DONE
            self.life.fail(error, (m.ConnectionOpen.CLASS_ID, m.ConnectionOpen.METHOD_ID))
            self.reader.advance()

    def ends_at(self, at: float) -> None:
        """The client's token counts until then: the connection, once it is open, is closed at that time."""
        life = self.life
        life.ends_at = at
        if life.state is ConnectionState.OPEN:
            life.deadline = at

    def secret_checked(self, good: bool) -> None:
        """The answer to UpdateSecret."""
        life = self.life
        if life.state is not ConnectionState.OPEN:
            return
        if good:
            life.outbox.send(0, m.ConnectionUpdateSecretOk())
        else:
            error = NotAllowedError("New secret was refused by one of the backends")
            life.fail(error, (m.ConnectionUpdateSecret.CLASS_ID, m.ConnectionUpdateSecret.METHOD_ID))

    def _asked(self, stage: Stage) -> bool:
        return self.life.state is ConnectionState.NEGOTIATING and self.life.negotiation.stage is stage

    # -- answers to requests --------------------------------------------------------------------

    def reply(self, channel: int, method: Method) -> None:
        """The answer to the channel's pending Request."""
        if (found := self.life.channels.get(channel)) is None:
            return
        pending = found.answer(method)
        if found.state is ChannelState.CLOSED:
            self.reader.forget_channel(found)
        if isinstance(pending, m.BasicCancel):
            consumer = found.deliveries.consumers.get(pending.consumer_tag)
            if consumer is not None:
                found.end_consumer(consumer)
        self.reader.resume(channel)

    def fail(self, channel: int, error: Failure) -> None:
        """Refuse the channel's pending Request, or carry out a RefuseEffect: closes channel or connection."""
        found = self.life.channels.get(channel)
        if found is None:
            return
        pending = found.pending
        ids = getattr(error, "method", (0, 0)) if pending is None else method_ids(pending)
        found.answer(None)
        if pending is not None or found.state is ChannelState.OPEN:
            self._close_with(found, error, ids)
        self.reader.resume(channel)

    def fail_publish(self, channel: int, error: Failure) -> None:
        """A publish of the channel is refused: close channel or connection.

        Unlike `fail` this is no answer to a Request that the channel may have made since.
        """
        found = self.life.channels.get(channel)
        if found is not None:
            self._close_with(found, error, _PUBLISH)

    def _close_with(self, channel: Channel, error: Failure, ids: tuple[int, int]) -> None:
        if error.ends_connection:
            self.life.fail(error, ids)
        else:
            channel.fail(error, ids)

    def consume_ok(
        self,
        channel: int,
        tag: str,
        consumer: int,
        returnable: bool = True,
        reply_to: str = "",
        backlog: int = NO_BACKLOG,
    ) -> None:
        """The answer to basic.consume. `consumer` is the consumer's number in deliveries, settlements and
        credit. Where the tag has a consumer already, that one goes on under this number.

        The consumer begins with the credit in the Request; `take_effects` returns changes since.
        `returnable`: the queue keeps messages until they are settled, so that deliveries can go back to it.
        `reply_to`: messages of this channel that ask for direct replies get this address. `backlog`: see
        `set_backlog`.
        """
        found = self.life.channels.get(channel)
        if found is not None:
            found.start_consumer(tag, consumer, returnable, reply_to)
            if backlog != NO_BACKLOG:
                self.set_backlog(consumer, backlog)
            self.reader.resume(channel)

    def set_backlog(self, consumer: int, backlog: int) -> None:
        """A consumer has another backlog (`node.delivery.backlog`)."""
        self.life.credits.set_backlog(consumer, backlog)

    def deliver_get(
        self, channel: int, run: Run, sequence: int, redelivered: bool, message_count: int, lease: int = 0
    ) -> None:
        """The answer to basic.get: a run of one message. `message_count` ready messages are left in the
        queue.

        The settlement will have the number `lease`.
        """
        found = self.life.channels.get(channel)
        if found is None:
            return
        if isinstance(found.pending, m.BasicGet) and found.state is ChannelState.OPEN:
            no_ack = found.pending.no_ack
            found.answer(None)
            found.deliveries.send_got(run, sequence, redelivered, message_count, lease, no_ack)
        else:
            self.life.outbox.settlements.add(Outcome.RELEASED, channel, lease, range(sequence, sequence + 1))
            found.answer(None)
        self.reader.resume(channel)

    def get_empty(self, channel: int) -> None:
        """The answer to basic.get: the queue has no message."""
        self.reply(channel, m.BasicGetEmpty())

    # -- deliveries -----------------------------------------------------------------------------

    def deliver(self, consumer: int, run: Run, numbers: Numbers, redelivered: bool, lease: int) -> None:
        """Messages for a consumer, with their sequence numbers and the number of their lease.

        A delivery for a consumer that has gone is returned, as not delivered, on channel 0.
        """
        life = self.life
        if life.state is not ConnectionState.OPEN:
            return
        found = life.credits.consumers.get(consumer)
        if found is None:
            life.outbox.settlements.add(Outcome.RELEASED, 0, lease, numbers)
            return
        life.channels[found.channel].deliveries.deliver(found, run, numbers, redelivered, lease)
        life.credits.look_at_output()

    def cancel_consumer(self, consumer: int) -> None:
        """The broker has ended the consumer: tell the client, if it has the capability
        consumer_cancel_notify.
        """
        life = self.life
        found = life.credits.consumers.get(consumer)
        if found is None:
            return
        life.channels[found.channel].end_consumer(found)
        if life.negotiation.client_can("consumer_cancel_notify"):
            life.outbox.send(found.channel, m.BasicCancel(found.tag, nowait=True))

    def pause_credit(self) -> None:
        """The socket's buffer is above its high-water mark: revoke all credit."""
        self.life.credits.pause(True)

    def resume_credit(self) -> None:
        """The socket's buffer has drained."""
        self.life.credits.pause(False)

    # -- publishing -----------------------------------------------------------------------------

    def nack(self, channel: int, first: int, last: int) -> None:
        """The publishes with these tags are refused."""
        self.confirm(channel, first, last, positive=False)

    def confirm(self, channel: int, first: int, last: int, *, positive: bool = True) -> None:
        """The publishes with these tags are confirmed, or (`positive` False) refused."""
        found = self.life.channels.get(channel)
        if found is not None:
            found.confirm(first, last, positive=positive)
            self._confirmed.add(found)

    def return_unroutable(self, channel: int, run: Run, code: int, text: str) -> None:
        """Return mandatory messages that no queue takes to the client. To be called before `confirm`."""
        life = self.life
        found = life.channels.get(channel)
        if found is not None and found.state is ChannelState.OPEN:
            for key, piece in by_key(run):
                method = m.BasicReturn(code, truncated(text), run.exchange, key)
                life.outbox.write(encode_contents(channel, method, piece, life.parts.frame_max))

    # -- the connection -------------------------------------------------------------------------

    def close(self, error: Failure) -> None:
        """Close the connection with an exception; without a word where it is not open yet."""
        life = self.life
        if life.state is ConnectionState.OPEN:
            life.fail(error)
        elif life.state in NOT_OPEN_YET or life.state is ConnectionState.PAUSED:
            life.close_socket()

    def hold(self, channel: int) -> None:
        """Take no more frames of a channel before `release`: a link with its publishes is full."""
        if channel in self.life.channels:
            self.life.channels[channel].holds |= Hold.LINK

    def release(self, channel: int) -> None:
        """Take the channel's frames again, parked ones first."""
        self._let_go(channel, Hold.LINK)

    def alarm(self, reason: str | None) -> None:
        """The cluster is short of a resource, for this reason; None: the shortage is over.

        During a shortage a channel that publishes is held from its next frame on. Other channels go on.
        """
        life = self.life
        if reason is not None:
            life.alarm.reason = reason
            return
        connection_open = life.state is ConnectionState.OPEN
        life.alarm.over(connection_open)
        for channel, found in list(life.channels.items()):
            if found.holds & Hold.ALARM:
                if connection_open and found.state is ChannelState.OPEN:
                    life.alarm.flow(channel, active=True)
                self._let_go(channel, Hold.ALARM)

    @property
    def blocked(self) -> bool:
        """Whether the client has published during a resource alarm, and is held back."""
        return self.life.alarm.blocked

    def _let_go(self, channel: int, hold: Hold) -> None:
        found = self.life.channels.get(channel)
        if found is not None and found.holds & hold:
            found.holds &= ~hold
            self.reader.resume(channel)
