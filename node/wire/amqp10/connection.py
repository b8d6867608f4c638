"""One connection of AMQP 1.0 as a state machine: SASL, Open and Close, frames and idle time-outs (part 2,
section 2.4; part 5, section 5.3).

state      meaning                                                leaves by
HEADER     waiting for the first protocol header                  a header: SASL or OPENING
SASL       waiting for sasl-init                                  sasl-init: LOG_IN
LOG_IN     the session code checks the login                      its answer: LOGGED_IN, CHALLENGED or PAUSED
CHALLENGED sasl-challenge sent                                    sasl-response: LOG_IN
LOGGED_IN  waiting for the header of AMQP                         the header: OPENING
OPENING    waiting for Open                                       Open: ENTERING
ENTERING   the session code opens the virtual host                its answer: OPEN or CLOSING
OPEN       Open sent; sessions work                               Close received: PARTED; Close sent: CLOSING
CLOSING    Close sent; all but Close is discarded                 Close received or time-out: CLOSED
PARTED     Close received and answered                            the output is written, time-out: CLOSED
PAUSED     the negotiation has failed                             the pause is over: CLOSED
CLOSED     CloseSocket was emitted                                -
"""

from __future__ import annotations

from math import inf
from typing import Final

from node.delivery.credit import CONSUMER_OCTETS, Credits, Windows
from node.delivery.idle import IdleTimes
from node.wire.amqp10.definitions import (
    MIN_MAX_FRAME_SIZE,
    Begin,
    Close,
    Error,
    Open,
    SaslChallenge,
    SaslCode,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Transfer,
)
from node.wire.amqp10.effects import (
    AnswerChallenge,
    Authenticate,
    CloseSocket,
    ConnectionClosed,
    Effect,
    EnterVhost,
    LogEffect,
    NegotiationFailed,
    Outbox,
)
from node.wire.amqp10.error_texts import error_of, fitted
from node.wire.amqp10.errors import (
    ChannelBoundsError,
    EndpointStateError,
    Ends,
    FieldChoiceError,
    IdleTimeOutError,
    MemoryExhaustedError,
    TokenExpiredError,
    WireError,
)
from node.wire.amqp10.frame_input import FrameInput
from node.wire.amqp10.frames import (
    EMPTY_FRAME,
    MAX_MAX_FRAME_SIZE,
    Frame,
    FrameType,
    ProtocolHeader,
    ProtocolId,
    Received,
    frames_of,
)
from node.wire.amqp10.limits import MAX_CHANNEL, OFFERED, ConnectionLimits
from node.wire.amqp10.session_endpoint import SessionEndpoint
from node.wire.amqp10.session_table import SessionTable
from node.wire.amqp10.states import AWAITING_ANSWER, DEAF, NOT_OPEN_YET, ConnectionState, check_next
from node.wire.amqp10.transfer_rows import TransferRow

AMQP_HEADER: Final = ProtocolHeader(ProtocolId.AMQP).encode()
SASL_HEADER: Final = ProtocolHeader(ProtocolId.SASL).encode()
TLS_HEADER: Final = ProtocolHeader(ProtocolId.TLS).encode()


class Connection:
    """See the module's docstring. The caller hands in octets, and carries out the effects."""

    def __init__(self, limits: ConnectionLimits, now: float) -> None:
        self.state = ConnectionState.HEADER
        self.user = ""
        self.mechanism = ""
        self.remote_open: Open | None = None
        self._limits = limits
        self._input = FrameInput(limits.turn_work, limits.refusals_per_second)
        self._outbox = Outbox()
        windows = Windows(
            limits.delivery_window, limits.first_window, limits.delivery_window_bytes, limits.pending_bytes
        )
        self._credits = Credits(windows, self._outbox)
        self._idle = IdleTimes()
        self.sessions = SessionTable(limits, self._outbox, self._credits)
        self._now = now
        self._deadline = now + limits.handshake_timeout
        self._ends_at = inf

    @property
    def channel_max(self) -> int:
        """The highest channel that either peer takes."""
        remote = self.remote_open
        return min(self._limits.channel_max, MAX_CHANNEL if remote is None else remote.channel_max)

    @property
    def max_frame_size(self) -> int:
        """The largest frame that the peer takes, in octets."""
        return self._outbox.max_frame_size

    # -- input ----------------------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> list[Effect]:
        """Take octets of the peer; return what is to be done."""
        self._now = now
        self._idle.heard_at = now
        if self.state not in DEAF:
            self._input.add(data)
            self.go_on()
        return self.take_effects()

    def begin_turn(self, waiting: int) -> None:
        """Begin a new turn, whose work the `waiting` clients with input for it divide."""
        self._input.renew(waiting, self._now)
        if self.has_input:
            self.go_on()

    def took(self, seconds: float) -> None:
        """Count the time that the session has taken for a request as work."""
        self._input.share.took(seconds)

    def go_on(self) -> None:
        """Handle the input that has waited, as far as it may be handled now."""
        self._handle()
        # The session code may be at work on the frame in front of the octets that are no frames.
        failure = self._input.failure
        if failure is not None and self.state not in AWAITING_ANSWER:
            self._fail(failure)
        self.sessions.refresh()
        self._check_memory()

    @property
    def waits(self) -> bool:
        """Whether the input waits for an answer, for room on the way to a queue, or for the peer's pace."""
        paced = self._input.pace.waits and self.state is ConnectionState.OPEN
        return paced or self.state in AWAITING_ANSWER or bool(self.sessions.holding)

    @property
    def paused(self) -> bool:
        """Whether the session should stop reading the socket: input waits that may not be handled now."""
        return self.waits or self.has_input

    @property
    def has_input(self) -> bool:
        """Whether input waits for a turn: earlier turns have left it."""
        return self._input.waits and not self.waits and self.state not in DEAF

    def _handle(self) -> None:
        share = self._input.share
        while not self.waits and self.state not in DEAF:
            if share.used_up and self.state is ConnectionState.OPEN:
                return
            received = self._input.take()
            if received is None:
                return
            try:
                self._take(received)
            except WireError as error:
                self._fail(error)

    def _take(self, received: Received) -> None:
        """Handle a frame, or a row of transfers. Raises WireError."""
        if isinstance(received, TransferRow):
            self._row(received)
        elif isinstance(received, ProtocolHeader):
            self._header(received)
        elif received.kind == FrameType.SASL:
            self._sasl(received)
        else:
            self._frame(received)

    def _row(self, row: TransferRow) -> None:
        """Have a session take a row as a whole, or else handle one frame after the other."""
        session = self.sessions.on_channel(row.channel)
        if self.state is not ConnectionState.OPEN or session is None or not session.row(row):
            for frame in frames_of(row):
                self._frame(frame)

    def _frame(self, frame: Frame) -> None:
        if self.state is not ConnectionState.OPEN:
            self._frame_around_open(frame)
            return
        performative = frame.performative
        session = self.sessions.on_channel(frame.channel)
        if isinstance(performative, Transfer) and session is not None:
            self._guarded(session, frame, performative)
        elif session is None and frame.channel > self.channel_max:
            raise ChannelBoundsError(f"channel {frame.channel} is above {self.channel_max}")
        elif performative is None:
            return
        elif isinstance(performative, Close):
            self._peer_closes(performative)
        elif isinstance(performative, Begin):
            self.sessions.begin(frame.channel, performative, self.channel_max)
        elif session is None or isinstance(performative, Open):
            raise EndpointStateError(f"{type(performative).__name__} on channel {frame.channel}")
        else:
            self._guarded(session, frame, None)

    def _guarded(self, session: SessionEndpoint, frame: Frame, transfer: Transfer | None) -> None:
        """Have the session handle a frame. An error of the session ends only the session."""
        try:
            if transfer is not None:
                session.transfer(frame, transfer)
            else:
                session.receive(frame)
        except WireError as error:
            if error.ends is not Ends.SESSION:
                raise
            session.fail(error)
        self.sessions.look_at(session)

    # -- negotiation ----------------------------------------------------------------------------

    def _move(self, state: ConnectionState) -> None:
        check_next(self.state, state)
        self.state = state

    def _header(self, header: ProtocolHeader) -> None:
        state, wanted = self.state, header.protocol_id
        if header.known and wanted == ProtocolId.SASL and state is ConnectionState.HEADER:
            self._move(ConnectionState.SASL)
            mechanisms = SaslMechanisms(self._limits.mechanisms)
            self._outbox.write(SASL_HEADER)
            self._outbox.send(0, mechanisms)
        elif header.known and wanted == ProtocolId.AMQP and state is ConnectionState.LOGGED_IN:
            self._move(ConnectionState.OPENING)
            self._outbox.write(AMQP_HEADER)
        elif state is ConnectionState.HEADER:
            # The node wants a login, or speaks no such version: the answer is the header that it takes.
            self._outbox.write(SASL_HEADER)
            self._refuse("the first header asks for no layer that the node offers, or not by itself")
        else:
            raise EndpointStateError("a protocol header among frames")

    def _sasl(self, frame: Frame) -> None:
        performative = frame.performative
        if self.state is ConnectionState.SASL and isinstance(performative, SaslInit):
            self._begin_login(performative)
        elif self.state is ConnectionState.CHALLENGED and isinstance(performative, SaslResponse):
            self._move(ConnectionState.LOG_IN)
            self._outbox.emit(AnswerChallenge(performative.response))
        else:
            raise EndpointStateError("a SASL frame where none is expected")

    def _begin_login(self, init: SaslInit) -> None:
        self.mechanism = init.mechanism
        if init.mechanism not in self._limits.mechanisms:
            self.login_refused(f"mechanism {init.mechanism[:32]!r} was not offered", start=True)
            return
        self._move(ConnectionState.LOG_IN)
        self._outbox.emit(Authenticate(init.mechanism, init.initial_response or b""))

    def challenge(self, challenge: bytes) -> None:
        """The mechanism goes on with a challenge. The negotiation's time-out goes on too."""
        if self.state is ConnectionState.LOG_IN:
            self._outbox.send(0, SaslChallenge(challenge))
            self._move(ConnectionState.CHALLENGED)
            self.go_on()

    def authenticated(self, user: str, final: bytes | None = None, *, impersonates: bool = False) -> None:
        """The login is right. `final` is the mechanism's last message to the peer (RFC 4422, section 5). With
        `impersonates` messages may name other users as theirs.
        """
        if self.state is ConnectionState.LOG_IN:
            self.user = user
            self.sessions.parts.user = None if impersonates else user.encode("utf-8", "surrogateescape")
            self._outbox.send(0, SaslOutcome(SaslCode.OK, final))
            self._move(ConnectionState.LOGGED_IN)
            self.go_on()

    def ends_at(self, at: float) -> None:
        """The peer's token counts until then: the connection, once it is open, is closed at that time."""
        self._ends_at = at
        if self.state is ConnectionState.OPEN:
            self._deadline = at

    def login_refused(self, reason: str, start: bool = False) -> None:
        """The login is refused; the peer does not get the reason."""
        if self.state is ConnectionState.LOG_IN or start:
            self._outbox.send(0, SaslOutcome(SaslCode.AUTH))
            self._refuse(reason)

    def _refuse(self, reason: str) -> None:
        self._input.drop()
        self._outbox.emit(NegotiationFailed(reason))
        self._move(ConnectionState.PAUSED)
        self._deadline = self._now + self._limits.refusal_pause

    def _frame_around_open(self, frame: Frame) -> None:
        performative = frame.performative
        if self.state is ConnectionState.CLOSING:
            if isinstance(performative, Close):
                self._close_socket()
            return
        if self.state is not ConnectionState.OPENING:
            raise EndpointStateError("a frame in front of the header of its layer")
        if performative is None:
            return
        if not isinstance(performative, Open):
            raise EndpointStateError(f"{type(performative).__name__} before Open")
        if performative.max_frame_size < MIN_MAX_FRAME_SIZE:
            raise FieldChoiceError(
                f"max-frame-size {performative.max_frame_size} is below {MIN_MAX_FRAME_SIZE}"
            )
        self.remote_open = performative
        self._outbox.max_frame_size = min(performative.max_frame_size, self._limits.max_frame_size)
        self._move(ConnectionState.ENTERING)
        self._outbox.emit(EnterVhost(performative.hostname or ""))

    def opened(self) -> None:
        """The virtual host is open."""
        if self.state is not ConnectionState.ENTERING:
            return
        self._write_open()
        self._move(ConnectionState.OPEN)
        self._deadline = self._ends_at
        remote = self.remote_open
        theirs = remote.idle_time_out if remote is not None else None
        self._idle.start((theirs or 0) / 1000, self._limits.idle_time_out, self._now)
        self.go_on()

    def _write_open(self) -> None:
        limits = self._limits
        idle = round(limits.idle_time_out * 1000) or None
        self._input.parser.accept(min(limits.max_frame_size, MAX_MAX_FRAME_SIZE))
        channel_max, properties = min(limits.channel_max, MAX_CHANNEL), dict(limits.properties)
        told = Open(limits.container_id, None, limits.max_frame_size, channel_max, idle)
        told.offered_capabilities, told.properties = OFFERED, properties
        self._outbox.send(0, told)

    # -- output and time ------------------------------------------------------------------------

    def take_effects(self) -> list[Effect]:
        if self._outbox.refused:
            self._input.pace.count_refusals(self._outbox, self._now)
        for granted in self._credits.changes():
            self.sessions.granted(granted.consumer, granted.limit)
        if self.sessions.parts.rows.touched:
            self.sessions.parts.rows.send()
        return self._outbox.take_effects()

    def take_output(self) -> bytes:
        """The frames to write now."""
        # Deliveries may have taken memory, also for a peer that sends nothing.
        self._check_memory()
        self.sessions.flush()
        output = self._outbox.take_output()
        if output:
            self._idle.wrote_at = self._now
        self._credits.output_taken()
        if self.state is ConnectionState.PARTED and not self._outbox.waiting:
            self._close_socket()
        return output

    @property
    def has_output(self) -> bool:
        return self._outbox.waiting or self.sessions.has_dispositions

    def pause_credit(self, paused: bool) -> None:
        """The socket takes no output, or takes output again."""
        self._credits.pause(paused)

    def reading(self, active: bool, now: float) -> None:
        """The node reads from the socket, or has stopped: the peer cannot be silent meanwhile."""
        self._idle.listen(active, now)

    def next_deadline(self) -> float:
        return min(self._deadline, self._idle.next_deadline(), self._input.pace.deadline)

    def tick(self, now: float) -> list[Effect]:
        """Run the timers that are due."""
        self._now = now
        self._input.pace.renew(now)
        if now >= self._deadline:
            self._timed_out()
        elif self.state is ConnectionState.OPEN:
            if self._idle.silent(now):
                self._fail(IdleTimeOutError("no frame has come within the idle time-out"))
            elif self._idle.due(now):
                self._outbox.write(EMPTY_FRAME)
        return self.take_effects()

    @property
    def held(self) -> int:
        """Octets of memory that the connection takes up, without output that the socket has taken."""
        credits = self._credits
        octets = self._input.held + self._outbox.octets + credits.held_octets + credits.record_octets
        return octets + len(credits.consumers) * CONSUMER_OCTETS + self.sessions.held

    def _check_memory(self) -> None:
        held, budget = self.held, self._limits.budget
        if self.state is ConnectionState.OPEN:
            if held > budget:
                text = f"the connection holds {held} octets of memory; at most {budget} are granted to it"
                self._fail(MemoryExhaustedError(text))
        elif self.state in NOT_OPEN_YET and held > self._limits.stranger_bytes:
            self._refuse(f"{held} octets before the connection is open")

    # -- the end --------------------------------------------------------------------------------

    def close(self, error: WireError) -> None:
        """Close the connection, with a reason for the peer; without a word where it is not open."""
        if self.state is ConnectionState.OPEN:
            self._fail(error)
        elif self.state not in DEAF:
            self._close_socket()

    def enter_refused(self, error: Error) -> None:
        """The virtual host is refused: Open and Close, as section 2.4.3 has it."""
        if self.state is ConnectionState.ENTERING:
            self._write_open()
            self._send_close(error)

    def _fail(self, error: WireError) -> None:
        """Close the connection because of an error."""
        if self.state in DEAF or self.state is ConnectionState.CLOSING:
            if self.state is ConnectionState.CLOSING and self._input.parser.failure is not None:
                self._close_socket()
            return
        if self.state in (ConnectionState.OPENING, ConnectionState.ENTERING):
            self._write_open()
        elif self.state is not ConnectionState.OPEN:
            # There is no Close before Open, and no Open before the login.
            self._refuse(str(error))
            return
        self._outbox.emit(
            LogEffect("connection_exception", {"condition": error.condition, "text": str(error)})
        )
        self._send_close(error_of(error))

    def _send_close(self, error: Error) -> None:
        self._end_sessions()
        self._outbox.send(0, Close(fitted(error)))
        self._move(ConnectionState.CLOSING)
        # No frame follows Close, and the peer has the close time-out instead of the idle time-out.
        self._idle.stop()
        self._deadline = self._now + self._limits.close_timeout

    def _peer_closes(self, _: Close) -> None:
        self._end_sessions()
        self._input.drop()
        self._outbox.send(0, Close())
        self._move(ConnectionState.PARTED)
        # A peer that reads no more does not get the answer, and keeps the connection no longer than this.
        self._idle.stop()
        self._deadline = self._now + self._limits.close_timeout

    def _end_sessions(self) -> None:
        unsettled = self.sessions.close()
        if self.state is ConnectionState.OPEN:
            self._outbox.emit(ConnectionClosed(unsettled))

    def disconnected(self) -> list[Effect]:
        """The socket is closed."""
        if self.state is not ConnectionState.CLOSED:
            self._end_sessions()
            self.state = ConnectionState.CLOSED
        self._deadline = inf
        self._idle.stop()
        self._input.drop()
        self._outbox.drop_output()
        self._credits.clear()
        return self._outbox.take_effects()

    def _close_socket(self) -> None:
        self._end_sessions()
        self.state = ConnectionState.CLOSED
        self._deadline = inf
        self._idle.stop()
        self._input.drop()
        self._outbox.emit(CloseSocket())

    def _timed_out(self) -> None:
        if self.state is ConnectionState.OPEN:
            self._fail(TokenExpiredError("the access token has expired"))
            return
        if self.state in NOT_OPEN_YET:
            self._outbox.emit(NegotiationFailed("time-out"))
        elif self.state is ConnectionState.CLOSING:
            self._outbox.emit(LogEffect("close_timeout", {"seconds": int(self._limits.close_timeout)}))
        self._close_socket()
