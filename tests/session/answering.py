"""A broker that answers every request at once, and knows what it has given to which session."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from node.delivery.backlog import NO_BACKLOG
from node.delivery.settlements import Modification, Outcome
from node.message.run import Run
from node.ranges.range_set import Range, numbers_of
from node.refusal import NotFoundError, Refusal
from node.routing.exchange import Exchange, ExchangeKind
from node.session.amqp091.session import Session
from node.session.permissions import Right, Scope
from node.session.ports import (
    ConsumerOptions,
    DeclaredQueue,
    Got,
    Identity,
    QueueCounts,
    QueueDeclaration,
    QueueRef,
    VhostConnection,
)
from node.session.subscriber import Subscriber
from node.session.traffic import ExchangeFlow
from node.wire.amqp091 import methods as m
from node.wire.amqp091.codec import PROTOCOL_HEADER, encode_method
from node.wire.amqp091.limits import ConnectionLimits
from node.wire.scram import ScramExchange
from tests.wire.client import CLIENT_CAPABILITIES, Frame, frames, run_of


class Somewhere:
    """A route to a queue."""

    def __init__(self) -> None:
        self.flow = ExchangeFlow()


class NoViews:
    """Implements `node.session.view_port.ViewPort`, without a view."""

    def queue_of(self, vhost: str, view: str) -> str:
        raise NotFoundError(f"no view '{view}' in vhost '{vhost}'")


class Defect(Exception):
    """Ignored: no test expects an answer."""


class AnsweringBroker:
    """Implements `node.session.ports.BrokerPort`. Call number `fails_at` of it raises Defect."""

    knows_expressions = True

    def __init__(self, fails_at: int = 0) -> None:
        self.permissions = self
        self.views: Any = NoViews()
        self.write_filters = ()
        self.calls = 0
        self.deepest = 0
        """Frames of the stack below the deepest call."""
        self.consumers: dict[int, Subscriber] = {}
        self.leased: set[tuple[int, int]] = set()
        self.holders: set[int] = set()
        self.got = 0
        self._fails_at = fails_at
        self._last = 0
        self._sequence = 0

    def _called(self) -> None:
        self.calls += 1
        depth, frame = 0, sys._getframe()
        while frame.f_back is not None:
            depth, frame = depth + 1, frame.f_back
        self.deepest = max(self.deepest, depth)
        if self.calls == self._fails_at:
            raise Defect

    def lease(self, consumer: int, count: int) -> range:
        """The sequence numbers of messages that the consumer is given."""
        first = self._sequence + 1
        self._sequence += count
        self.leased.update((consumer, number) for number in range(first, first + count))
        return range(first, first + count)

    # -- connections ----------------------------------------------------------------------------

    def ready(self) -> bool:
        return True

    def wait_no_more(self, subscriber: Subscriber) -> None:
        """Ignored: the port is always ready."""

    def authenticate(self, login: Any, remote: str, answer: Callable[[Identity | None, str], None]) -> None:
        answer(Identity("guest"), "")

    offers_scram = False

    def begin_scram(self) -> ScramExchange:
        raise AssertionError("not offered")

    def enter(self, subscriber: Subscriber, identity: Identity, vhost: str) -> VhostConnection:
        self._last += 1
        self.holders.add(self._last)
        return VhostConnection(Scope(identity.user, vhost), self._last)

    def channel_opened(self, user: str) -> None:
        self._called()

    def release_holder(self, holder: int, released: Callable[[], None]) -> None:
        self.holders.remove(holder)
        released()

    # -- rights, names and routes ---------------------------------------------------------------

    def check_exchange(self, scope: Scope, right: Right, name: str) -> None:
        self._called()

    def check_queue(self, scope: Scope, right: Right, name: str) -> None:
        self._called()

    def check_pattern(self, scope: Scope, right: Right, pattern: str) -> None:
        self._called()

    def check_topic(self, scope: Scope, right: Right, exchange: str, key: str) -> None:
        self._called()

    def read_filter(self, scope: Scope) -> bytes:
        return b""

    def kept_out(self, scope: Scope, run: Run) -> list[Range]:
        return []

    def exchange(self, vhost: str, name: str) -> Exchange:
        self._called()
        return Exchange(name, ExchangeKind.DIRECT)

    def queue(self, vhost: str, name: str, holder: int) -> QueueRef:
        self._called()
        return QueueRef(name, 1, 1, vhost)

    def reply_queue(self, vhost: str, holder: int) -> QueueRef:
        return self.queue(vhost, "reply", holder)

    def find_local_queue(self, vhost: str, name: str) -> QueueRef:
        return self.queue(vhost, name, 0)

    def header_names(self, scope: Scope, exchange: str) -> None:
        self._called()

    def route(self, scope: Scope, exchange: str, key: str, headers: Any = None, copies: Any = ()) -> Any:
        self._called()
        return Somewhere()

    def still_leads(self, route: Any) -> bool:
        return True

    # -- requests -------------------------------------------------------------------------------

    def publish(self, subscriber: Subscriber, channel: int, run: Run, route: Any, first_tag: int) -> bool:
        self._called()
        if first_tag:
            subscriber.confirm(channel, first_tag, first_tag + run.count - 1)
        return True

    def commit(self, publishes: Any, settled: Any, answer: Callable[[Refusal | None], None]) -> None:
        self._called()
        for one in settled:
            self._release(one.lease, one.ranges)
        answer(None)

    def when_visible(self, done: Callable[[], None]) -> None:
        self._called()
        done()

    def declare_exchange(self, vhost: str, exchange: Exchange, answer: Any) -> None:
        self._called()
        answer(None)

    def delete_exchange(self, vhost: str, name: str, if_unused: bool, answer: Any) -> None:
        self._called()
        answer(None)

    def bind(self, vhost: str, binding: Any, arguments: Mapping[str, Any], answer: Any) -> None:
        self._called()
        answer(None)

    unbind = bind

    def declare_queue(self, vhost: str, declaration: QueueDeclaration, holder: int, answer: Any) -> None:
        self._called()
        answer(DeclaredQueue(QueueRef(declaration.name or "named", 1, 1, vhost)), None)

    def delete_queue(self, queue: QueueRef, if_unused: bool, if_empty: bool, answer: Any) -> None:
        self._called()
        answer(0, None)

    def purge(self, queue: QueueRef, answer: Any) -> None:
        self._called()
        answer(0, None)

    def count(self, queue: QueueRef, answer: Any) -> None:
        self._called()
        answer(QueueCounts(0, 0, 0), None)

    def consume(self, subscriber: Subscriber, queue: QueueRef, options: ConsumerOptions, answer: Any) -> None:
        self._called()
        self._last += 1
        self.consumers[self._last] = subscriber
        answer(self._last, None)

    def keeps_until_settled(self, queue: QueueRef) -> bool:
        return True

    def get(self, queue: QueueRef, no_ack: bool, answer: Any, filter: bytes = b"") -> None:
        self._called()
        self.got += 1
        if self.got % 3:
            (sequence,) = self.lease(-1, 1)
            if no_ack:
                self.leased.discard((-1, sequence))
            answer(Got(-1, run_of([b"got"]), sequence, False, 0), None)
        else:
            answer(None, None)

    # -- what consumers hold --------------------------------------------------------------------

    def leave(self, consumer: int, done: Callable[[], None], closed: bool = False) -> None:
        self.cancel(consumer, done)

    def cancel(self, consumer: int, done: Callable[[], None]) -> None:
        self.consumers.pop(consumer, None)
        done()

    def forget(self, consumer: int) -> None:
        assert consumer not in self.consumers
        assert not any(holder == consumer for holder, _ in self.leased), "forgotten while it holds messages"

    def credit(self, consumer: int, limit: int) -> None:
        self._called()

    def drain(self, consumer: int, limit: int, done: Callable[[], None]) -> None:
        self._called()
        done()

    def _release(self, consumer: int, ranges: list[Range]) -> None:
        for sequence in numbers_of(ranges):
            self.leased.remove((consumer, sequence))

    def settle(self, consumer: int, ranges: list[Range]) -> None:
        self._release(consumer, ranges)

    def backlog_of(self, consumer: int) -> int:
        return NO_BACKLOG

    def give_back(
        self,
        consumer: int,
        ranges: list[Range],
        outcome: Outcome,
        change: Modification | None = None,
    ) -> None:
        self._release(consumer, ranges)

    def abandon(self, consumer: int, ranges: list[Range]) -> None:
        self.give_back(consumer, ranges, Outcome.LOST)

    def discard(self, consumer: int, ranges: list[Range], error: bytes = b"") -> None:
        self._release(consumer, ranges)


class Socket:
    """Of a session: keeps what becomes of it."""

    remote = "127.0.0.1"
    certified_name = ""
    clients_waiting = 1

    def __init__(self) -> None:
        self.reading = True
        self.closing = False
        self.failures: list[Exception] = []
        self.logged: list[tuple[str, dict[str, str | int]]] = []

    def wanted(self) -> None:
        """The test takes what is written."""

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close_after_flush(self) -> None:
        self.closing = True

    def log(self, event: str, fields: Mapping[str, str | int]) -> None:
        self.logged.append((event, dict(fields)))

    @property
    def events(self) -> list[str]:
        """The names of the logged events."""
        return [event for event, _ in self.logged]

    def entered(self) -> None:
        """Ignored: there is no gate."""

    def negotiation_failed(self, reason: str) -> None:
        raise AssertionError(reason)

    def session_failed(self, error: Exception) -> None:
        assert isinstance(error, Defect), error
        self.failures.append(error)


class Connected:
    """A session on a broker, from the protocol header to an open channel."""

    def __init__(self, broker: AnsweringBroker, limits: ConnectionLimits | None = None) -> None:
        self.broker = broker
        self.socket = Socket()
        port: Any = broker
        self.session = Session(port, self.socket, limits or ConnectionLimits(), lambda: 1.0)
        properties: dict[str, Any] = {"capabilities": dict(CLIENT_CAPABILITIES)}
        self.send(
            PROTOCOL_HEADER,
            encode_method(0, m.ConnectionStartOk(properties, "PLAIN", b"\0guest\0guest")),
            encode_method(0, m.ConnectionTuneOk(0, 0, 0)),
            encode_method(0, m.ConnectionOpen("/")),
            encode_method(1, m.ChannelOpen()),
        )

    def send(self, *data: bytes) -> None:
        self.session.receive(b"".join(data))

    def output(self) -> list[Frame]:
        found = []
        while (data := self.session.take_output()) or self.session.connection.has_input:
            found += frames(data)
        return found
