"""A toy protocol, and the example for the next: the header LINES001, then a line for each command.

log-in USER PASSWORD VHOST; declare, delete, purge or get QUEUE; bind QUEUE EXCHANGE KEY; publish EXCHANGE KEY
BODY; consume or browse QUEUE CREDIT; credit or drain CONSUMER LIMIT (since it began); accept, reject, return,
release, release-elsewhere or return-elsewhere FIRST LAST; cancel CONSUMER. They are answered in their order:
`ok` and the result, `nothing`, `unroutable`, `rejected`, or `refused` and why. Deliveries are lines too:
message CONSUMER NUMBER BODY, where NUMBER grows by one with each delivery of the session. Who settles a
number that is not unsettled hears `closed` and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import astuple
from functools import partial

from node.delivery.credit import ChannelConsumer, Credits, Windows
from node.delivery.settlements import Outcome, Settlements, consumer_of
from node.delivery.shares import Framing, Output
from node.delivery.unsettled import Taken, UnknownDeliveryError, UnsettledDeliveries
from node.message.run import Run
from node.ranges.range_set import Numbers
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
    SessionView,
)
from node.session.consumers import nothing
from node.session.core import SessionCore
from node.session.logins import PLAIN_MECHANISM, PasswordLogin
from node.session.ports import BrokerPort, Got, Identity, QueueDeclaration
from node.session.transport import Transport
from node.wire.formats import AMQP_0_9_1, FORMATS, format_of

HEADER, LOG_IN_S = b"LINES001", 5.0
CHANNEL, TAG, BODY_MAX = 1, 1, 1 << 20
FRAMING = Framing(0, 0, None, 0, b"message ")
"""A connection has one channel, and a frame is a line."""
WINDOWS = Windows(2000, 16, 1 << 22, 1 << 24)
VERBS = ("accept", "reject", "return", "release", "release-elsewhere", "return-elsewhere")
OUTCOMES = dict(zip(VERBS, list(Outcome)[: len(VERBS)], strict=True))
COMMANDS: dict[str, Callable[..., c.Command]] = {
    "declare": lambda queue: c.DeclareQueue(QueueDeclaration(queue, True, False, False)),
    "delete": c.DeleteQueue,
    "purge": c.PurgeQueue,
    "bind": lambda queue, source, key: c.Bind(source, Destination(DestinationKind.QUEUE, queue), key),
    "get": c.Get,
}


class LinkCredit:
    """Implements `FlowControl` for one consumer: the client says how many messages it takes in all."""

    stopped, limited = False, True

    def __init__(self, consumer: int, granted: int) -> None:
        self.granted = granted
        self.consumer = ChannelConsumer(consumer, "", CHANNEL, self, no_ack=False, returnable=True)

    def room(self) -> int | None:
        return self.granted - self.consumer.received

    def octet_room(self, consumer: ChannelConsumer) -> int | None:
        return None

    def give_back_held(self) -> None:
        """Deliveries are written at once: none is held."""


class LineSession:
    """Implements `ClientSession` for the listener, and `PublishingSession` for the broker."""

    user, vhost, last_words = "", "", b""
    channel_count, channels_opened = 1, 1

    def __init__(self, port: BrokerPort, transport: Transport, clock: Callable[[], float]) -> None:
        self._core = SessionCore(port, self, lambda _: self._in_use())
        self.traffic = self._core.traffic
        self._output = Output(FRAMING)
        self._credits = Credits(WINDOWS, self._output)
        self._unsettled = UnsettledDeliveries(self._credits)
        self._settlements = Settlements()
        self._links: dict[int, LinkCredit] = {}
        self._deliveries = 0
        self.held_back = self._busy = self._begun = False
        self._port, self._transport, self._clock = port, transport, clock
        self._deadline = clock() + LOG_IN_S
        self._input, self._fate = b"", "ok"

    @property
    def held(self) -> int:
        return len(self._input) + self._output.octets + self._credits.record_octets

    @property
    def held_output(self) -> int:
        return self._output.octets

    @property
    def has_output(self) -> bool:
        return self._output.waiting

    def _in_use(self) -> set[int]:
        return {*self._links, *(consumer_of(one.lease) for one in self._unsettled)}

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
            except UnknownDeliveryError as error:
                self._begun = False
                self.force_close(str(error))
            except (Refusal, LookupError, ValueError, TypeError) as error:
                self._answer(f"refused {error}")
        self._tell_settled()
        self._tell_credits()

    def _tell_credits(self) -> None:
        for granted in self._credits.changes():
            self._core.credit(*granted)

    def _carry_out(self, verb: str, *words: str) -> None:
        if verb not in OUTCOMES:
            self._tell_settled()
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
            consumer, limit = map(int, words)
            link = self._links[consumer]
            link.granted = limit
            self._credits.touch(link.consumer)
            self._answer("ok")
        elif verb == "drain":
            consumer, limit = map(int, words)
            link = self._links[consumer]
            link.granted = link.consumer.announced = limit
            self._core.drain(consumer, limit, partial(self._drained, link))
        elif verb in OUTCOMES:
            first, last = map(int, words)
            self._settle(first, last, OUTCOMES[verb])
            self._answer("ok")
        elif verb in ("consume", "browse"):
            queue, limit = words
            began = partial(self._began, int(limit))
            self._core.carry_out(CHANNEL, c.Consume(queue, 0, browse=verb == "browse"), began)
        elif verb == "cancel":
            (number,) = map(int, words)
            self._links[number].consumer.ended = True
            self._core.carry_out(CHANNEL, c.Cancel(number), self._answered)
        else:
            self._core.carry_out(CHANNEL, COMMANDS[verb](*words), self._answered)

    def _settle(self, first: int, last: int, outcome: Outcome) -> None:
        """All of the range or nothing; raises UnknownDeliveryError."""
        taken: list[Taken] = []
        try:
            taken.extend(self._unsettled.take_row(first, last))
        except UnknownDeliveryError:
            self._unsettled.restore(taken)
            raise
        for one in taken:
            self._settlements.add(outcome, CHANNEL, one.lease, one.numbers)

    def _tell_settled(self) -> None:
        """The settlements in one piece of input are one call for each consumer and outcome."""
        for _, (link, ranges, outcome, _) in self._settlements.take_all():
            self._core.settle(link, ranges, outcome)

    def _began(self, limit: int, result: c.Result | Refusal) -> None:
        if isinstance(result, c.Consuming):
            link = self._links[result.consumer] = LinkCredit(result.consumer, limit)
            self._credits.consumers[result.consumer] = link.consumer
            self._credits.touch(link.consumer)
        self._answered(result)

    def _drained(self, link: LinkCredit) -> None:
        link.granted = link.consumer.announced = link.consumer.received
        self._answer(f"ok {link.granted}")

    def _logged_in(self, vhost: str, identity: Identity | None, reason: str) -> None:
        if identity is None:
            self._turn_away(reason)
            return
        try:
            self._core.enter(identity, vhost)
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
            numbers = range(result.sequence, result.sequence + 1)
            number = self._record(result.lease, numbers, None)
            self._answer(f"ok {consumer_of(result.lease)} {number} {_text(result.run)}")
        elif isinstance(result, c.Nothing):
            self._answer("nothing")
        else:
            self._answer(" ".join(("ok", *(str(one) for one in astuple(result) if one is not None))))

    def _answer(self, line: str) -> None:
        if self._busy:
            self._say(line)
            self._busy = False
            self._go_on()

    def _say(self, line: str) -> None:
        self._output.write(line.encode() + b"\n")
        self._transport.wanted()

    def take_output(self, writes: bool = True) -> bytes:
        output = self._output.take_output() if writes else b""
        self._credits.output_taken()
        self._tell_credits()
        return output

    def _record(self, lease: int, numbers: Numbers, consumer: ChannelConsumer | None) -> int:
        """The number of the first delivery of some that are unsettled from now on."""
        first = self._deliveries + 1
        self._deliveries += len(numbers)
        self._unsettled.append(first, lease, numbers, consumer)
        return first

    def deliver(self, consumer: int, run: Run, numbers: Numbers, redelivered: bool, lease: int) -> None:
        to = self._links[consumer].consumer
        first = self._record(lease, numbers, to)
        texts = [_text(run.slice(place, 1)) for place in range(len(numbers))]
        lines = "".join(f"message {consumer} {first + place} {text}\n" for place, text in enumerate(texts))
        self._output.write_deliveries(lines.encode())
        self._credits.delivered(to, len(numbers), len(lines))
        self._transport.wanted()

    def confirm(self, channel: int, first: int, last: int) -> None:
        fate, self._fate = self._fate, "ok"
        self._answer(fate)

    def reject(self, channel: int, first: int, last: int) -> None:
        self._answer("rejected")

    def return_unroutable(self, channel: int, run: Run) -> None:
        self._fate = "unroutable"

    def batch_refused(self, channel: int, tag: int, refusal: Refusal) -> None:
        raise AssertionError("no test sends a batch")

    def publish_refused(self, channel: int, refusal: Refusal) -> None:
        self._answered(refusal)

    def consumer_cancelled(self, consumer: int, stolen: bool = False) -> None:
        self._say(f"cancelled {consumer}")

    def backlog_changed(self, consumer: int, backlog: int) -> None:
        self._credits.set_backlog(consumer, backlog)

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

    def writing(self, active: bool) -> None:
        self._credits.pause(not active)

    def force_close(self, reason: str) -> None:
        self._say(f"closed {reason}")
        self._transport.close_after_flush()

    exhausted = force_close

    def failed(self, error: Exception) -> None:
        self._transport.session_failed(error)
        self.lost()

    def lost(self) -> None:
        self._tell_settled()
        self._core.end(self._unsettled.take_ranges(), nothing)
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

    def session_views(self) -> Iterator[SessionView]:
        return iter(())

    def channel_totals(self) -> ChannelTotals:
        return ChannelTotals(len(self._links), 0)


def lines(port: BrokerPort, clock: Callable[[], float]) -> ClientProtocol:
    return ClientProtocol(
        "lines", (HEADER,), (PLAIN_MECHANISM,), lambda transport: LineSession(port, transport, clock)
    )


def _text(run: Run) -> str:
    """The body of a run of one message."""
    _, body = format_of(run).contents(run)
    return body.decode()
