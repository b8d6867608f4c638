"""A client of AMQP 1.0 on a broker that answers when the test wants it to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from node.delivery.settlements import Outcome
from node.message.run import Run
from node.refusal import NotFoundError, Refusal
from node.routing.exchange import Exchange
from node.session.amqp10.session import ConnectionSession
from node.session.ports import ConsumerOptions, DeclaredQueue, QueueDeclaration, QueueRef
from node.session.queue_description import QueueDescription
from node.session.subscriber import Subscriber
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.composite import Composite
from node.wire.amqp10.connection import AMQP_HEADER, SASL_HEADER
from node.wire.amqp10.frames import Frame, FrameParser
from node.wire.amqp10.limits import ConnectionLimits
from tests.session.answering import AnsweringBroker, Socket, Somewhere
from tests.wire.amqp10.performatives import LARGE, PLAIN, begin, octets_of


class NodeBroker(AnsweringBroker):
    """Keeps the queues that sessions have declared and deleted, and what they have had published.

    A request whose name is in `delayed` waits in `waiting`; a refusal in `refusals` is the answer to it.
    Queues and routes are refused as `queue NAME` and `route KEY`.
    """

    keeps_sections = True
    keeps_keys = True
    knows_filters = True
    knows_links = False

    def __init__(self) -> None:
        super().__init__()
        self.declared: list[QueueDeclaration] = []
        self.declared_by: list[int] = []
        """The holder of each declared queue."""
        self.queues: dict[str, QueueDeclaration] = {}
        """The declared queues that are not deleted."""
        self.bound: list[tuple[str, str, str]] = []
        """(exchange, routing key, queue)"""
        self.deleted: list[str] = []
        self.ended: list[int | str] = []
        """The consumers and the queues that have ended, in their order."""
        self.consumed: dict[int, str] = {}
        """The queues of the consumers that have not ended."""
        self.routed: list[tuple[str, str]] = []
        self.published: list[Run] = []
        self.returned: list[tuple[int, list[tuple[int, int]], bool]] = []
        self.changes: list[Any] = []
        """(consumer, ranges, failed)"""
        self.commits: list[tuple[list[Run], list[Any]]] = []
        self.delayed: set[str] = set()
        self.refusals: dict[str, Refusal] = {}
        self.waiting: deque[Callable[[], None]] = deque()
        self.missing: set[str] = set()
        """Exchanges that do not exist."""
        self.lost = False
        """The queues of all routes are deleted."""

    def owner_elsewhere(self, vhost: str, name: str, holder: int) -> tuple[str, int] | None:
        return None

    def _refuse(self, name: str) -> None:
        if name in self.refusals:
            raise self.refusals[name]

    def queue(self, vhost: str, name: str, holder: int) -> QueueRef:
        self._refuse(f"queue {name}")
        if name.startswith("subscription/") and name not in self.queues:
            raise NotFoundError(f"no queue '{name}' in vhost '{vhost}'")
        return super().queue(vhost, name, holder)

    def exchange(self, vhost: str, name: str) -> Exchange:
        if name in self.missing:
            raise NotFoundError(f"no exchange '{name}' in vhost '{vhost}'")
        return super().exchange(vhost, name)

    def describe(self, queue: QueueRef) -> QueueDescription:
        found = self.queues[queue.name]
        return QueueDescription(
            queue.name, "quorum", found.durable, found.exclusive, False, found.arguments, "n1", ("n1",)
        )

    def bind(self, vhost: str, binding: Any, arguments: Mapping[str, Any], answer: Any) -> None:
        def answered(refusal: Refusal | None) -> None:
            if refusal is None:
                self.bound.append((binding.source, binding.key, binding.destination.name))
            answer(refusal)

        self._answer("bind", answered)

    def _answer(self, name: str, answer: Callable[[Refusal | None], None]) -> None:
        refusal = self.refusals.get(name)
        if name in self.delayed:
            self.waiting.append(lambda: answer(refusal))
        else:
            answer(refusal)

    def answer(self) -> None:
        """Answer the request that has waited longest."""
        self.waiting.popleft()()

    def declare_queue(self, vhost: str, declaration: QueueDeclaration, holder: int, answer: Any) -> None:
        name = declaration.name or f"amq.gen-{len(self.declared) + 1}"
        fresh = name not in [one.name for one in self.declared]
        found = DeclaredQueue(QueueRef(name, 1, 1, vhost), created=fresh)
        self.declared.append(declaration)
        self.declared_by.append(holder)
        if "declare" not in self.refusals:
            self.queues[name] = declaration
        self._answer("declare", lambda refusal: answer(found if refusal is None else None, refusal))

    def delete_queue(self, queue: QueueRef, if_unused: bool, if_empty: bool, answer: Any) -> None:
        self.deleted.append(queue.name)
        self.queues.pop(queue.name, None)
        self.ended.append(queue.name)
        answer(0, None)

    def consume(self, subscriber: Subscriber, queue: QueueRef, options: ConsumerOptions, answer: Any) -> None:
        self._last += 1
        number = self._last

        def answered(refusal: Refusal | None) -> None:
            if refusal is None:
                self.consumers[number] = subscriber
                self.consumed[number] = queue.name
            answer(number, refusal)

        self._answer("consume", answered)

    def cancel(self, consumer: int, done: Callable[[], None]) -> None:
        self.consumed.pop(consumer, None)
        self.ended.append(consumer)
        super().cancel(consumer, done)

    def route(self, scope: Any, exchange: str, key: str, headers: Any = None, copies: Any = ()) -> Any:
        if exchange in self.missing:
            raise NotFoundError(f"no exchange '{exchange}' in vhost '/'")
        self._refuse(f"route {key}")
        self.routed.append((exchange, key))
        return Somewhere()

    def still_leads(self, route: Any) -> bool:
        return not self.lost

    def publish(self, subscriber: Subscriber, channel: int, run: Run, route: Any, first_tag: int) -> bool:
        self.published.append(run)
        return super().publish(subscriber, channel, run, route, first_tag)

    def commit(self, publishes: Any, settled: Any, answer: Callable[[Refusal | None], None]) -> None:
        self.commits.append(([run for run, _ in publishes], list(settled)))

        def answered(refusal: Refusal | None) -> None:
            for one in settled:
                self._release(one.lease, one.ranges)
            answer(refusal)

        self._answer("commit", answered)

    def give_back(self, consumer: int, ranges: Any, outcome: Outcome, change: Any = None) -> None:
        self.returned.append((consumer, ranges, outcome.failed))
        self.changes.append(change)
        super().give_back(consumer, ranges, outcome, change)


LIMITS = ConnectionLimits()


class Client:
    """A session of the protocol, with an open connection and an AMQP session on channel 0."""

    def __init__(
        self, broker: NodeBroker, limits: ConnectionLimits = LIMITS, max_frame_size: int = LARGE
    ) -> None:
        self.broker = broker
        self.socket = Socket()
        port: Any = broker
        self.session = ConnectionSession(port, self.socket, limits, lambda: 1.0)
        self._parser = FrameParser(LARGE)
        self.frames: list[Frame] = []
        """Every frame that the node has written."""
        self.send(SASL_HEADER, PLAIN)
        self.send(AMQP_HEADER, d.Open("client", max_frame_size=max_frame_size), begin())

    def send(self, *sent: Composite | bytes, channel: int = 0) -> list[Any]:
        """Send everything in one piece; returns the performatives that the node writes."""
        self.session.receive(octets_of(*sent, channel=channel))
        return self.reads()

    def reads(self) -> list[Any]:
        found: list[Any] = []
        while output := self.session.take_output():
            received = self._parser.receive(output)
            while self._parser.unfinished:
                received += self._parser.receive(b"")
            frames = [one for one in received if isinstance(one, Frame)]
            self.frames += frames
            found += [one.performative for one in frames]
        return found
