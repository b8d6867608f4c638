"""The incoming half of a connection: cuts octets into frames, and gives them to channels (§2.3.5, §4.2.3)."""

from __future__ import annotations

from typing import Final

from node.delivery.shares import FRAME_WORK, REQUEST_WORK
from node.wire.amqp091 import methods as m
from node.wire.amqp091.ack_path import ACK_IDS, acknowledgements
from node.wire.amqp091.channel import Channel
from node.wire.amqp091.channel_state import ChannelState
from node.wire.amqp091.codec import (
    ACCEPTED_HEADERS,
    FRAME,
    FRAME_OVERHEAD,
    FRAME_SLACK,
    FRAME_TYPES,
    PROTOCOL_HEADER,
    decode_method,
)
from node.wire.amqp091.effects import (
    NegotiationFailed,
    UpdateSecret,
)
from node.wire.amqp091.errors import (
    ChannelNumberError,
    FrameError,
    FramingError,
    NotAllowedError,
    ProtocolException,
    UnexpectedMethodError,
)
from node.wire.amqp091.intake import PROPERTIES_WORK
from node.wire.amqp091.lifecycle import TAKING, ConnectionLifecycle, ConnectionState, NegotiationError
from node.wire.amqp091.primitives import SHORT, method_ids
from node.wire.amqp091.publish_path import PUBLISH_IDS

_CONNECTION_CLASS: Final = SHORT.pack(m.ConnectionStart.CLASS_ID)


class FrameReader:
    """The handling of each incoming frame of a connection."""

    __slots__ = ("_life",)

    def __init__(self, life: ConnectionLifecycle) -> None:
        self._life = life

    # -- octets to frames -----------------------------------------------------------------------

    def advance(self) -> None:
        """Consume as much input as the connection can take now."""
        life = self._life
        if not life.intake.ready or life.negotiation.waits_for_session:
            return
        data = life.intake.take()
        at = 0
        if life.state is ConnectionState.HEADER:
            at = self._protocol_header(data)
            if not at:
                return
        try:
            at, needed = self._consume(data, at, parked=False)
        except (FramingError, NegotiationError) as error:
            life.abort(str(error))
            return
        life.intake.keep(data[at:], needed)
        if at < len(data) and life.must_wait():
            life.unread[0] = None

    def _protocol_header(self, data: bytes) -> int:
        """The position behind the protocol header; 0 where it is another header, or not complete."""
        life = self._life
        begun = data[: len(PROTOCOL_HEADER)]
        if not any(header.startswith(begun) for header in ACCEPTED_HEADERS):
            life.outbox.write(PROTOCOL_HEADER)
            life.outbox.emit(NegotiationFailed("not the header of AMQP 0-9-1"))
            life.close_socket()
        elif len(data) >= len(PROTOCOL_HEADER):
            life.state = ConnectionState.NEGOTIATING
            life.negotiation.start()
            return len(PROTOCOL_HEADER)
        else:
            life.intake.keep(data, 1)
        return 0

    def _consume(self, data: bytes, at: int, *, parked: bool) -> tuple[int, int]:
        """Handle the frames from `at` on: the `parked` ones of one channel, or new input.

        Returns the position of the first frame that is not handled, and the number of its octets that the
        handling needs. Raises FramingError and NegotiationError.
        """
        end, life = len(data), self._life
        channels, share = life.channels, life.share
        while self._takes_frames():
            if end - at < FRAME.size:
                return at, FRAME.size if at < end else 1
            kind, number, size = FRAME.unpack_from(data, at)
            stop = at + size + FRAME_OVERHEAD
            if kind not in FRAME_TYPES:
                raise FramingError(f"frame type {kind}")
            if size > life.largest_payload:
                if not self._refuse(number, size, data[at:], parked=parked):
                    return at, 1
                at = min(stop, end)
                continue
            if stop > end:
                return at, stop - at
            if data[stop - 1] != m.FRAME_END:
                raise FramingError(f"frame end {data[stop - 1]:#04x}")
            channel = channels.get(number)
            if channel is None:
                self._handle(kind, number, None, data[at:stop])
            elif channel.holds:
                if parked:
                    return at, 1
                life.parking.add(number, data[at:stop])
            elif kind == m.FRAME_METHOD and channel.content is None and channel.state is ChannelState.OPEN:
                stop, needed = self._methods(channel, data, at, stop, parked=parked)
                if needed:
                    return at, needed
            else:
                self._handle(kind, number, channel, data[at:stop])
            share.done += stop - at + FRAME_WORK + self._property_work()
            at = stop
        return (at, 1) if life.state in TAKING else (end, 1)

    def _takes_frames(self) -> bool:
        life = self._life
        match life.state:
            case ConnectionState.OPEN:
                return not life.must_wait()
            case ConnectionState.CLOSING:
                return True
            case ConnectionState.NEGOTIATING:
                return not life.negotiation.waits_for_session
            case _:
                return False

    def _methods(self, channel: Channel, data: bytes, at: int, stop: int, *, parked: bool) -> tuple[int, int]:
        """Handle the complete method frame from `at` to `stop`, with a whole run of publishes or
        acknowledgements.

        Returns the position behind the handled frames, and the number of octets to wait for; 0 for none.
        """
        try:
            if data.startswith(PUBLISH_IDS, at + FRAME.size):
                path = self._life.parts.publishes
                needed = 0 if parked else path.unfinished(data, at)
                if needed:
                    return at, needed
                published = path.take(data, at, stop)
                if published is not None:
                    channel.publish(published.run, published.mandatory, published.reply_here)
                    return published.end, 0
            elif data.startswith(ACK_IDS, at + FRAME.size):
                row = acknowledgements(data, at, stop)
                if row is not None:
                    channel.acknowledge(row.first, row.last, row.multiple)
                    return row.end, 0
        except ProtocolException as error:
            self._raised(error, channel)
            return stop, 0
        else:
            if not data.startswith(PUBLISH_IDS, at + FRAME.size):
                self._life.share.done += REQUEST_WORK
            self._handle(m.FRAME_METHOD, channel.number, channel, data[at:stop])
        return stop, 0

    def _property_work(self) -> int:
        """The work for property lists that were checked since the last call."""
        life = self._life
        checks = life.parts.checks
        if checks.wide:
            wide, checks.wide = checks.wide, 0
            life.pace.spend(wide / life.limits.wide_values_per_second, life.now)
        octets, checks.checked = checks.checked, 0
        return octets * PROPERTIES_WORK

    def _refuse(self, number: int, size: int, frame: bytes, *, parked: bool) -> bool:
        """Refuse a frame that is too large, after earlier frames of its channel. False: these have to be
        handled first.
        """
        life = self._life
        channel = life.channels.get(number)
        if channel is None or not channel.holds:
            self._oversized(size)
        elif parked:
            return False
        else:
            # The frame's header is enough for the refusal.
            life.parking.add(number, frame[: FRAME.size])
        if not parked:
            life.intake.skip(max(0, size + FRAME_OVERHEAD - len(frame)))
        return True

    def _oversized(self, size: int) -> None:
        """Close the connection of a client that exceeds the agreed frame size (§2.3.3, §4.2.3)."""
        life = self._life
        text = f"a frame with {size} octets of payload; at most {life.largest_payload} are taken"
        if life.state is ConnectionState.NEGOTIATING:
            raise NegotiationError(text)
        if life.state is ConnectionState.OPEN:
            life.fail(FrameError(text))

    # -- parking --------------------------------------------------------------------------------

    def resume(self, number: int) -> None:
        """Handle a channel's parked frames, until the channel is held again."""
        life = self._life
        parked = life.parking.of(number)
        while parked is not None:
            if life.must_wait():
                life.unread[number] = None
                return
            data, start = parked.take()
            try:
                at, _ = self._consume(data, start, parked=True)
            except FramingError as error:
                life.abort(str(error))
                return
            if life.parking.of(number) is not parked:
                return
            life.parking.consumed(number, parked, start, at)
            if not parked.size or (at < len(data) and not life.must_wait()):
                return

    # -- frames ---------------------------------------------------------------------------------

    def _handle(self, kind: int, number: int, channel: Channel | None, frame: bytes) -> None:
        """Handle one frame. Raises NegotiationError."""
        life = self._life
        if channel is None:
            life.share.done += REQUEST_WORK
        try:
            if life.state is ConnectionState.CLOSING:
                self._while_closing(kind, number, frame)
            elif kind == m.FRAME_HEARTBEAT:
                if number or len(frame) != FRAME_OVERHEAD:
                    raise FrameError("a heartbeat has no payload and belongs to channel 0")
            elif life.state is ConnectionState.NEGOTIATING:
                self._negotiate(kind, number, frame)
            elif number == 0:
                self._on_connection(kind, frame)
            elif kind == m.FRAME_METHOD:
                self._on_channel(number, channel, frame[FRAME.size : -1])
            elif channel is None:
                raise ChannelNumberError(f"a content frame on channel {number}, which is not open")
            elif kind == m.FRAME_HEADER:
                channel.receive_header(frame)
            else:
                channel.receive_body(frame)
        except ProtocolException as error:
            self._raised(error, channel)

    def _negotiate(self, kind: int, number: int, frame: bytes) -> None:
        life = self._life
        if kind != m.FRAME_METHOD or number:
            raise NegotiationError(f"a frame of type {kind} on channel {number}")
        method = decode_method(frame[FRAME.size : -1])
        if isinstance(method, m.ConnectionClose):
            life.outbox.send(0, m.ConnectionCloseOk())
            life.close_socket()
            return
        life.negotiation.receive(method)
        if isinstance(method, m.ConnectionTuneOk):
            life.largest_payload = life.negotiation.frame_max - FRAME_OVERHEAD + FRAME_SLACK
            life.parts = life.agreed_parts()
            interval = life.negotiation.heartbeat
            life.heartbeats.start(interval, interval, life.now)

    def _on_connection(self, kind: int, frame: bytes) -> None:
        life = self._life
        if kind != m.FRAME_METHOD:
            raise ChannelNumberError("a content frame on channel 0")
        method = decode_method(frame[FRAME.size : -1])
        match method:
            case m.ConnectionClose():
                life.flush_confirms()
                life.end_channels()
                life.outbox.send(0, m.ConnectionCloseOk())
                # Closing the socket with unread octets of the client would reset it, and lose Close-Ok.
                life.state = ConnectionState.PARTED
                life.deadline = life.now + life.limits.close_timeout
            case m.ConnectionUpdateSecret():
                life.outbox.emit(UpdateSecret(method.new_secret))
            case _:
                raise UnexpectedMethodError(f"unexpected {method.__doc__} on channel 0", method_ids(method))

    def _on_channel(self, number: int, channel: Channel | None, payload: bytes) -> None:
        life = self._life
        if payload.startswith(_CONNECTION_CLASS):
            raise UnexpectedMethodError(f"a method of class connection on channel {number}")
        if channel is not None:
            channel.receive_method(payload)
            if channel.state is ChannelState.CLOSED:
                self.forget_channel(channel)
            return
        method = decode_method(payload)
        if not isinstance(method, m.ChannelOpen):
            raise ChannelNumberError(f"expected 'channel.open' on channel {number}", method_ids(method))
        if len(life.channels) >= life.negotiation.channel_max:
            # As in RabbitMQ, channel-max limits the number of channels, and not their highest number.
            raise NotAllowedError(
                f"number of channels opened ({len(life.channels)}) has reached the negotiated channel_max "
                f"({life.negotiation.channel_max})",
                method_ids(method),
            )
        life.channels[number] = Channel(number, life.parts, life.used_tags.get(number, 0))
        life.channels_opened += 1
        life.outbox.send(number, m.ChannelOpenOk())

    def forget_channel(self, channel: Channel) -> None:
        """The channel is closed, and its number is free."""
        del self._life.channels[channel.number]
        self._life.used_tags[channel.number] = channel.highest_tag

    def _while_closing(self, kind: int, number: int, frame: bytes) -> None:
        """Handle Close and Close-Ok after the server's Close, and discard other frames (§2.3.7)."""
        if kind != m.FRAME_METHOD or number or not frame.startswith(_CONNECTION_CLASS, FRAME.size):
            return
        try:
            method = decode_method(frame[FRAME.size : -1])
        except ProtocolException:
            return
        if isinstance(method, m.ConnectionClose):
            self._life.outbox.send(0, m.ConnectionCloseOk())
        elif isinstance(method, m.ConnectionCloseOk):
            self._life.close_socket()

    def _raised(self, error: ProtocolException, channel: Channel | None) -> None:
        if self._life.state is ConnectionState.NEGOTIATING:
            raise NegotiationError(str(error)) from error
        if channel is not None and channel.defers(error):
            return
        if channel is not None and not error.ends_connection:
            channel.fail(error, error.method)
        else:
            self._life.fail(error, error.method)
