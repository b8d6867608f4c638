"""A connection's states, negotiation, heartbeats and end (§2.2.4, §4.2.3, §4.2.7, §4.10).

state        meaning                                       leaves by
HEADER       waiting for the protocol header               8 octets
NEGOTIATING  see `Negotiation`                             Open-Ok; any error: PAUSED
OPEN         channels work                                 Close received: PARTED; Close sent: CLOSING
CLOSING      Close sent; all but Close is discarded        Close-Ok received or time-out: CLOSED
PARTED       Close-Ok sent; all input is discarded         the client closes the socket, or time-out: CLOSED
PAUSED       the negotiation failed                        the pause is over: CLOSED
CLOSED       CloseSocket was emitted                       -
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from math import inf
from typing import Final

from node.delivery.credit import CONSUMER_OCTETS, Credits, Windows
from node.delivery.idle import IdleTimes
from node.delivery.shares import Pace, WorkShare
from node.delivery.unsettled import UnsettledRanges
from node.wire.amqp091 import methods as m
from node.wire.amqp091.channel import Channel
from node.wire.amqp091.channel_state import ChannelState
from node.wire.amqp091.codec import FRAME_OVERHEAD
from node.wire.amqp091.effects import (
    Authenticate,
    CloseSocket,
    ConnectionClosed,
    LogEffect,
    NegotiationFailed,
    OpenVhost,
    Outbox,
)
from node.wire.amqp091.errors import ConnectionForcedError, Failure, ResourceExhaustedError
from node.wire.amqp091.fields import FieldValue, Table
from node.wire.amqp091.intake import Intake, Parking
from node.wire.amqp091.limits import MAX_CHANNEL, SMALLEST_FRAME_MAX, ConnectionLimits
from node.wire.amqp091.primitives import Method
from node.wire.amqp091.properties import PropertyChecks
from node.wire.amqp091.publish_path import PublishPath
from node.wire.amqp091.replies import reply_text
from node.wire.amqp091.resource_alarm import ResourceAlarm
from node.wire.amqp091.shared import ConnectionParts

CAPABILITIES: Mapping[str, bool] = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "consumer_priorities": True,
    "authentication_failure_close": True,
    "per_consumer_qos": True,
    "direct_reply_to": True,
}


class Stage(Enum):
    START = 1
    AUTHENTICATION = 2
    TUNE = 3
    OPEN = 4
    VHOST = 5
    DONE = 6


class NegotiationError(Exception):
    """The client breaks the rules of the negotiation. It gets no answer (§2.2.4)."""


class Negotiation:
    """The negotiation from the protocol header to Open-Ok (§2.2.4, §2.3.3, §4.2.2), and the agreed limits.

    `frame_max` (octets), `channel_max` and `heartbeat` (seconds) are agreed from Tune-Ok on.

    stage            expects from the client    then
    START            Start-Ok                   Authenticate emitted for the session, AUTHENTICATION
    AUTHENTICATION   nothing                    Tune sent by `authenticated`, TUNE
    TUNE             Tune-Ok                    OPEN
    OPEN             Open                       OpenVhost emitted for the session, VHOST
    VHOST            nothing                    Open-Ok sent by `opened`, DONE
    """

    __slots__ = (
        "_limits",
        "_outbox",
        "channel_max",
        "client_properties",
        "frame_max",
        "heartbeat",
        "mechanism",
        "stage",
    )

    def __init__(self, limits: ConnectionLimits, outbox: Outbox):
        self.stage = Stage.START
        self.client_properties: Table = {}
        self.mechanism = ""
        self.channel_max = limits.channel_max or MAX_CHANNEL
        self.frame_max = limits.frame_max
        self.heartbeat = limits.heartbeat
        self._limits = limits
        self._outbox = outbox

    @property
    def waits_for_session(self) -> bool:
        return self.stage in (Stage.AUTHENTICATION, Stage.VHOST)

    def start(self) -> None:
        """Answer the protocol header with Start, which offers the mechanisms."""
        capabilities: Table = dict(CAPABILITIES)
        properties: Table = {**self._limits.server_properties, "capabilities": capabilities}
        mechanisms = " ".join(self._limits.mechanisms).encode()
        self._outbox.send(0, m.ConnectionStart(0, 9, properties, mechanisms, b"en_US"))

    def receive(self, method: Method) -> None:
        """Raises NegotiationError."""
        match self.stage, method:
            case Stage.START, m.ConnectionStartOk():
                self._start_ok(method)
            case Stage.TUNE, m.ConnectionTuneOk():
                self._tune_ok(method)
            case Stage.OPEN, m.ConnectionOpen():
                self.stage = Stage.VHOST
                self._outbox.emit(OpenVhost(method.virtual_host))
            case _:
                raise NegotiationError(f"{method.__doc__} in stage {self.stage.name}")

    def _start_ok(self, method: m.ConnectionStartOk) -> None:
        if method.mechanism not in self._limits.mechanisms:
            raise NegotiationError(f"mechanism {method.mechanism[:32]!r} was not offered")
        self.client_properties = method.client_properties
        self.mechanism = method.mechanism
        self.stage = Stage.AUTHENTICATION
        self._outbox.emit(Authenticate(method.mechanism, method.response))

    def authenticated(self) -> None:
        self.stage = Stage.TUNE
        self._outbox.send(0, m.ConnectionTune(self.channel_max, self.frame_max, self.heartbeat))

    def _tune_ok(self, method: m.ConnectionTuneOk) -> None:
        """Take the client's limits, which may only be lower; 0 accepts the proposed ones. The client chooses
        the heartbeat.
        """
        if method.channel_max > self.channel_max:
            raise NegotiationError(f"channel-max {method.channel_max} is above {self.channel_max}")
        if method.frame_max > self.frame_max:
            raise NegotiationError(f"frame-max {method.frame_max} is above {self.frame_max}")
        if method.frame_max and method.frame_max < SMALLEST_FRAME_MAX:
            raise NegotiationError(f"frame-max {method.frame_max} is below {SMALLEST_FRAME_MAX}")
        self.channel_max = method.channel_max or self.channel_max
        self.frame_max = method.frame_max or self.frame_max
        self.heartbeat = method.heartbeat
        self.stage = Stage.OPEN

    def opened(self) -> None:
        self.stage = Stage.DONE
        self._outbox.send(0, m.ConnectionOpenOk())

    def client_can(self, capability: str) -> bool:
        """Whether the client has announced the capability."""
        capabilities: FieldValue = self.client_properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(capability) is True


CHANNEL_OCTETS: Final = 6 * 1024
"""Octets of memory for an open channel, with its parts in the session and the administration."""

USED_NUMBER_OCTETS: Final = 128
"""Octets of memory for a channel number that was used before."""


class ConnectionState(Enum):
    HEADER = 1
    NEGOTIATING = 2
    OPEN = 3
    CLOSING = 4
    PAUSED = 5
    CLOSED = 6
    PARTED = 7


DEAF: Final = frozenset((ConnectionState.PAUSED, ConnectionState.PARTED, ConnectionState.CLOSED))
"""States that discard all input of the client."""


TAKING: Final = frozenset((ConnectionState.NEGOTIATING, ConnectionState.OPEN))
"""States that keep input which is not handled now."""

NOT_OPEN_YET: Final = frozenset((ConnectionState.HEADER, ConnectionState.NEGOTIATING))


class ConnectionLifecycle:
    """The state of a connection, with negotiation, heartbeats, memory and end. `FrameReader` handles frames,
    and `Connection` answers the session.

    `claims` is the one user-id that the client may publish with; None for any. `now` is the time of the
    latest call, `deadline` that of the next time-out, `ends_at` that at which the client's token expires;
    infinity for none. `used_tags` has the highest publish
    tag by channel number, of channels that had the number before. `unread` are the channels whose parked
    frames wait until the client has read its answers, or for a later turn; 0 stands for input that is not
    parked.
    """

    def __init__(self, limits: ConnectionLimits, now: float):
        self.state = ConnectionState.HEADER
        self.user = ""
        self.claims: str | None = None
        self.limits = limits
        self.budget = limits.budget
        self.outbox = Outbox()
        self.negotiation = Negotiation(limits, self.outbox)
        self.heartbeats = IdleTimes()
        windows = Windows(
            limits.delivery_window, limits.first_window, limits.delivery_window_bytes, limits.pending_bytes
        )
        self.credits = Credits(windows, self.outbox)
        self.intake = Intake()
        self.largest_payload = m.FRAME_MIN_SIZE - FRAME_OVERHEAD
        self.alarm = ResourceAlarm(self.outbox, self.negotiation.client_can)
        self.parts = self.agreed_parts()
        self.channels_opened = 0
        self.channels: dict[int, Channel] = {}
        self.used_tags: dict[int, int] = {}
        self.parking = Parking()
        self.unread: dict[int, None] = {}
        self.share = WorkShare(limits.turn_work)
        self.pace = Pace(limits.refusals_per_second)
        self.now = now
        self.deadline = now + limits.handshake_timeout
        self.ends_at = inf

    def agreed_parts(self) -> ConnectionParts:
        """Make the state that channels share, with the agreed frame size."""
        limits, frame_max = self.limits, self.negotiation.frame_max
        checks = PropertyChecks(self.claims)
        publishes = PublishPath(frame_max, limits.message_size, checks)
        return ConnectionParts(limits, frame_max, self.outbox, self.credits, checks, publishes, self.alarm)

    # -- memory ---------------------------------------------------------------------------------

    @property
    def held(self) -> int:
        """Octets of memory that the connection takes up (docs/decisions/0018-memory-budget.md), without
        output that the socket has taken.

        Each part keeps its own count. The session adds them up once for a piece of input or output.
        """
        parts = self.parts
        return (
            self.intake.size
            + self.parking.octets
            + self.outbox.octets
            + self.credits.held_octets
            + self.credits.record_octets
            + parts.unfinished_bytes
            + parts.load.octets
            + parts.publishes.remembered
            + parts.checks.remembered
            + len(self.channels) * CHANNEL_OCTETS
            + len(self.credits.consumers) * CONSUMER_OCTETS
            + len(self.used_tags) * USED_NUMBER_OCTETS
        )

    def must_read(self) -> bool:
        """Whether the client has to read its answers before the connection handles further input."""
        return self.outbox.unread > self.limits.unread_bytes and self.state is ConnectionState.OPEN

    def paced(self) -> bool:
        """Whether the client has sent wide header tables, or requests in vain, faster than its pace."""
        return self.pace.waits and self.state is ConnectionState.OPEN

    def must_wait(self) -> bool:
        """Whether input waits: the client has answers to read, the turn's share of work is used up, or the
        client is ahead of its pace.
        """
        return self.state is ConnectionState.OPEN and (
            self.share.used_up or self.pace.waits or self.must_read()
        )

    def check_memory(self) -> None:
        """Close the connection where it takes up more memory than its budget, before or after it is open."""
        limits = self.limits
        if self.state is ConnectionState.OPEN:
            held, budget = self.held, self.budget
            if held > budget:
                text = f"the connection holds {held} octets of memory; at most {budget} are granted to it"
                self.fail(ResourceExhaustedError(text))
        elif self.state in NOT_OPEN_YET and self.intake.size > limits.stranger_bytes:
            self.abort(f"{self.intake.size} octets before the connection is open")

    def _let_go_of_memory(self) -> None:
        """Drop input and caches: the channels have ended."""
        self.parking.clear()
        self.used_tags.clear()
        self.unread.clear()
        self.parts.publishes.clear()
        self.parts.checks.clear()

    def forget(self) -> None:
        """Drop everything after the socket is closed, and break circles of references, so that the memory is
        freed at once and not by the garbage collector.
        """
        self.intake.clear()
        self._let_go_of_memory()
        self.outbox.drop_output()
        self.credits.clear()

    # -- the end --------------------------------------------------------------------------------

    def fail(self, failure: Failure, method: tuple[int, int] = (0, 0)) -> None:
        """Close the connection with a connection exception."""
        self.flush_confirms()
        self.outbox.send(0, m.ConnectionClose(failure.code, reply_text(failure), *method))
        self.outbox.emit(
            LogEffect("connection_exception", {"reply_code": failure.code, "text": str(failure)})
        )
        self.end_channels()
        self.state = ConnectionState.CLOSING
        self.deadline = self.now + self.limits.close_timeout

    def abort(self, reason: str) -> None:
        """The client has broken the framing or the negotiation: it gets no further octet (§2.2.4, §4.2.3)."""
        self.intake.clear()
        if self.state in NOT_OPEN_YET:
            self.outbox.emit(NegotiationFailed(reason))
            self.state = ConnectionState.PAUSED
            self.heartbeats.stop()
            self.deadline = self.now + self.limits.negotiation_pause
            return
        self.outbox.emit(LogEffect("framing_error", {"reason": reason}))
        self.end_channels()
        self.close_socket()

    def end_channels(self) -> None:
        """End all channels, and emit ConnectionClosed with their unsettled deliveries, if the connection is
        open.
        """
        if self.state is not ConnectionState.OPEN:
            return
        unsettled: UnsettledRanges = []
        for channel in self.channels.values():
            unsettled += channel.end()
        self.channels.clear()
        self._let_go_of_memory()
        self.outbox.emit(ConnectionClosed(unsettled))

    def close_socket(self) -> None:
        self.state = ConnectionState.CLOSED
        self.deadline = inf
        self.heartbeats.stop()
        self.intake.clear()
        self._let_go_of_memory()
        self.outbox.emit(CloseSocket())

    def flush_confirms(self) -> None:
        for channel in self.channels.values():
            if channel.state is ChannelState.OPEN:
                channel.flush_confirms()

    def timed_out(self) -> None:
        if self.state is ConnectionState.OPEN:
            self.fail(ConnectionForcedError("the access token has expired"))
            return
        if self.state is ConnectionState.CLOSING:
            self.outbox.emit(LogEffect("close_timeout", {"seconds": int(self.limits.close_timeout)}))
        elif self.state not in DEAF:
            self.outbox.emit(NegotiationFailed("time-out"))
        self.close_socket()
