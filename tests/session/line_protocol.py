"""A toy protocol, and the example for the next: the header LINES001, then a line for each command.

log-in USER PASSWORD VHOST; declare, delete, purge or get QUEUE; bind QUEUE EXCHANGE KEY; publish EXCHANGE KEY
BODY; consume QUEUE CREDIT; credit CONSUMER LIMIT (since it began); accept, reject, return or release CONSUMER
NUMBER; cancel CONSUMER. They are answered in their order: `ok` and the result, `nothing`, `unroutable`,
`rejected`, or `refused` and why. Deliveries are lines too: message CONSUMER NUMBER BODY.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import astuple
from functools import partial

from node.message.run import Run
from node.ranges.numbers import Numbers, merged, ranges_of
from node.refusal import EntryRefusedError, Refusal
from node.routing.matching import Destination, DestinationKind
from node.session import commands as c
from node.session.client_session import ClientProtocol
from node.session.client_views import (
    ChannelTotals,
    ChannelTraffic,
    ChannelView,
    ConnectionView,
    ConsumerView,
)
from node.session.consumers import nothing
from node.session.core import SessionCore
from node.session.logins import PasswordLogin
from node.session.ports import BrokerPort, Got, Identity, Outcome, QueueDeclaration
from node.session.transport import Transport
from node.wire.formats import AMQP_0_9_1, FORMATS, format_of

HEADER, LOG_IN_S = b"LINES001", 5.0
CHANNEL, TAG, BODY_MAX = 1, 1, 1 << 20
OUTCOMES = dict(zip(("accept", "reject", "return", "release"), Outcome, strict=True))
COMMANDS: dict[str, Callable[..., c.Command]] = {
    "declare": lambda queue: c.DeclareQueue(QueueDeclaration(queue, True, False, False)),
    "delete": c.DeleteQueue,
    "purge": c.PurgeQueue,
    "bind": lambda queue, source, key: c.Bind(source, Destination(DestinationKind.QUEUE, queue), key),
    "get": c.Get,
    "consume": lambda queue, credit: c.Consume(queue, int(credit)),
    "cancel": lambda consumer: c.Cancel(int(consumer)),
}


class LineSession:
    """Implements `ClientSession` for the listener, and `PublishingSession` for the broker."""

    user, vhost, last_words, has_output = "", "", b"", False
    channel_count, channels_opened, held_output = 1, 1, 0

    def __init__(self, port: BrokerPort, transport: Transport, clock: Callable[[], float]) -> None:
        self._core = SessionCore(port, self, lambda _: self.unsettled)
        self.traffic = self._core.traffic
        self.unsettled: dict[int, set[int]] = {}
        self.held_back = self._busy = self._begun = False
        self._port, self._transport, self._clock = port, transport, clock
        self._deadline = clock() + LOG_IN_S
        self._input, self._output, self._fate = b"", b"", "ok"

    @property
    def held(self) -> int:
        return len(self._input) + len(self._output)

    def receive(self, data: bytes) -> None:
        self._input += data
        if not self._begun and len(self._input) >= len(HEADER):
            self._begun, self._input = True, self._input[len(HEADER) :]
        self._go_on()

    def _go_on(self) -> None:
        while self._begun and not self._busy and not self.held_back and b"\n" in self._input:
            if not self._port.ready():
                self.held_back = True
                self._port.wait_ready(self)
                return
            line, _, self._input = self._input.partition(b"\n")
            self._busy = True
            try:
                self._carry_out(*line.decode().split(" "))
            except (Refusal, LookupError, ValueError, TypeError) as error:
                self._answer(f"refused {error}")

    def _carry_out(self, verb: str, *words: str) -> None:
        if verb == "log-in":
            user, password, vhost = words
            logged_in = partial(self._logged_in, vhost)
            self._core.log_in(PasswordLogin(user, password), self._transport.remote, logged_in)
        elif not self.vhost:
            raise EntryRefusedError("log in first")
        elif verb == "publish":
            exchange, key, body = words
            run = FORMATS[AMQP_0_9_1].composed(exchange, key, {}, body.encode(), self.user, BODY_MAX)
            self._core.publish(CHANNEL, run, True, TAG)
        elif verb == "credit":
            self._core.credit(*map(int, words))
            self._answer("ok")
        elif verb in OUTCOMES:
            consumer, number = map(int, words)
            self.unsettled[consumer].remove(number)
            self._core.settle(consumer, [(number, number)], OUTCOMES[verb])
            self._answer("ok")
        else:
            self._core.carry_out(CHANNEL, COMMANDS[verb](*words), self._answered)

    def _logged_in(self, vhost: str, identity: Identity | None, reason: str) -> None:
        if identity is None:
            self._turn_away(reason)
            return
        try:
            self._core.enter(identity.user, vhost)
        except Refusal as refusal:
            self._answered(refusal)
            return
        self.user, self.vhost = identity.user, vhost
        self._transport.entered()
        self._answer("ok")

    def _answered(self, result: c.Result | Refusal) -> None:
        if isinstance(result, Refusal):
            self._answer(f"refused {result}")
        elif isinstance(result, Got):
            self.unsettled.setdefault(result.consumer, set()).add(result.sequence)
            self._answer(f"ok {result.consumer} {result.sequence} {_text(result.run)}")
        elif isinstance(result, c.Nothing):
            self._answer("nothing")
        else:
            if isinstance(result, c.Consuming):
                self.unsettled[result.consumer] = set()
            self._answer(" ".join(("ok", *map(str, astuple(result)))))

    def _answer(self, line: str) -> None:
        if self._busy:
            self._say(line)
            self._busy = False
            self._go_on()

    def _say(self, line: str) -> None:
        self._output += line.encode() + b"\n"
        self._transport.wanted()

    def take_output(self, writes: bool = True) -> bytes:
        output = self._output if writes else b""
        self._output = self._output[len(output) :]
        return output

    def deliver(self, consumer: int, run: Run, numbers: Numbers, redelivered: bool) -> None:
        for place, number in enumerate(numbers):
            self.unsettled[consumer].add(number)
            self._say(f"message {consumer} {number} {_text(run.slice(place, 1))}")

    def confirm(self, channel: int, first: int, last: int) -> None:
        fate, self._fate = self._fate, "ok"
        self._answer(fate)

    def reject(self, channel: int, first: int, last: int) -> None:
        self._answer("rejected")

    def return_unroutable(self, channel: int, run: Run) -> None:
        self._fate = "unroutable"

    def publish_refused(self, channel: int, refusal: Refusal) -> None:
        self._answered(refusal)

    def consumer_cancelled(self, consumer: int) -> None:
        self._say(f"cancelled {consumer}")

    def hold(self, channel: int) -> None:
        self.held_back = True

    def unblocked(self) -> None:
        self.held_back = False
        self._go_on()

    def tick(self) -> None:
        if not self.user and self._clock() >= self._deadline:
            self._turn_away("time-out")

    def _turn_away(self, reason: str) -> None:
        self._transport.negotiation_failed(reason)
        self._transport.close_after_flush()

    def alarm(self, reason: str | None) -> None: ...
    def reading(self, active: bool) -> None: ...
    def writing(self, active: bool) -> None: ...

    def force_close(self, reason: str) -> None:
        self._say(f"closed {reason}")
        self._transport.close_after_flush()

    exhausted = force_close

    def failed(self, error: Exception) -> None:
        self._transport.session_failed(error)
        self.lost()

    def lost(self) -> None:
        unsettled = [(one, merged(ranges_of(list(some)))) for one, some in self.unsettled.items()]
        self._core.end(unsettled, nothing)
        self._core.forget()

    # A protocol without channels has no rows of them.

    @property
    def is_open(self) -> bool:
        return bool(self.vhost)

    def view(self) -> ConnectionView:
        return ConnectionView("lines", "PLAIN", 0, 0, 0, 0, {}, False)

    def channel_views(self) -> Iterator[ChannelView]:
        return iter(())

    def channel_traffic(self) -> Iterator[tuple[int, ChannelTraffic]]:
        return iter(())

    def consumer_views(self) -> Iterator[ConsumerView]:
        return iter(())

    def channel_totals(self) -> ChannelTotals:
        return ChannelTotals(len(self.unsettled), 0)


def lines(port: BrokerPort, clock: Callable[[], float]) -> ClientProtocol:
    return ClientProtocol("lines", (HEADER,), lambda transport: LineSession(port, transport, clock))


def _text(run: Run) -> str:
    """The body of a run of one message."""
    _, body = format_of(run).contents(run)
    return body.decode()
