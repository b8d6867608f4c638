"""A session of AMQP 1.0 on a broker: targets, refused publishes, views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from node.message.run import Run
from node.refusal import AccessRefusedError, NotFoundError, Refusal, locked
from node.session.amqp10.session import ConnectionSession
from node.session.client_views import LinkView
from node.session.ports import DeclaredQueue, QueueDeclaration, QueueRef, Subscriber
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.connection import AMQP_HEADER, SASL_HEADER
from node.wire.amqp10.definitions import AmqpCondition
from node.wire.amqp10.frames import Frame, FrameParser
from node.wire.amqp10.limits import ConnectionLimits
from tests.session.answering import AnsweringBroker, Socket, Somewhere
from tests.wire.amqp10.peer import (
    LARGE,
    PLAIN,
    begin,
    credit,
    error_in,
    octets_of,
    receiver,
    sender,
    transfer,
)
from tests.wire.amqp10.sections import message, run_of

DYNAMIC = "amq.gen-dynamic"


class Broker(AnsweringBroker):
    """Tells what sessions have asked for. `refusals` are those of queues, exchanges and publishes by name."""

    keeps_sections = True
    keeps_keys = True

    def __init__(self) -> None:
        super().__init__()
        self.refusals: dict[str, Refusal] = {}
        self.deleted: list[str] = []
        self.published: list[tuple[str, str, int]] = []
        self.committed: list[tuple[list[bytes], list[Any]]] = []
        self.returned: list[tuple[int, list[tuple[int, int]]]] = []
        self.commit_refusal: Refusal | None = None
        self.gone: set[str] = set()
        self.later: list[Callable[[], None]] | None = None
        """Answers to declarations that the test gives; None: they are given at once."""

    def _refuse(self, name: str) -> None:
        if name in self.refusals:
            raise self.refusals[name]

    def queue(self, vhost: str, name: str, holder: int) -> QueueRef:
        self._refuse(name)
        return QueueRef(name, 1, 1, vhost)

    def declare_queue(self, vhost: str, declaration: QueueDeclaration, holder: int, answer: Any) -> None:
        assert declaration.exclusive and not declaration.durable and not declaration.name
        declared = DeclaredQueue(QueueRef(DYNAMIC, 1, 1, vhost))

        def answered() -> None:
            refusal = self.refusals.get("declare")
            answer(None if refusal else declared, refusal)

        if self.later is None:
            answered()
        else:
            self.later.append(answered)

    def delete_queue(self, queue: QueueRef, if_unused: bool, if_empty: bool, answer: Any) -> None:
        self.deleted.append(queue.name)
        answer(0, None)

    def consume(self, subscriber: Subscriber, queue: QueueRef, options: Any, answer: Any) -> None:
        refusal = self.refusals.get(f"consume {queue.name}")
        if refusal is None:
            super().consume(subscriber, queue, options, answer)
        else:
            answer(0, refusal)

    def route(self, scope: Any, exchange: str, key: str, headers: Any = None, copies: Any = ()) -> Any:
        self._refuse(f"route {key}")
        place = Somewhere()
        place.key = key  # type: ignore[attr-defined]
        return place

    def still_leads(self, route: Any) -> bool:
        return route.key not in self.gone

    def publish(self, subscriber: Subscriber, channel: int, run: Run, route: Any, first_tag: int) -> bool:
        self.published += [(run.exchange, run.routing_key or "", first_tag)]
        return super().publish(subscriber, channel, run, route, first_tag)

    def commit(self, publishes: Any, settled: Any, answer: Callable[[Refusal | None], None]) -> None:
        bodies = [octets for run, _ in publishes for octets in run.contents()]
        self.committed.append((bodies, list(settled)))
        for one in settled:
            self._release(one.consumer, one.ranges)
        answer(self.commit_refusal)

    def give_back(
        self, consumer: int, ranges: list[Any], failed: bool, undeliverable_here: bool = False
    ) -> None:
        self.returned.append((consumer, ranges))
        self._release(consumer, ranges)


class Client:
    """A client with a session on channel 0."""

    def __init__(self, broker: Broker | None = None) -> None:
        self.broker = broker or Broker()
        self.socket = Socket()
        port: Any = self.broker
        self.session = ConnectionSession(port, self.socket, ConnectionLimits(), lambda: 1.0)
        self._parser = FrameParser(LARGE)
        self.frames: list[Frame] = []
        """Every frame that the node has written."""
        self.send(SASL_HEADER, PLAIN, AMQP_HEADER, d.Open("c", max_frame_size=LARGE), begin())

    def send(self, *sent: Any) -> list[Any]:
        """Send everything in one piece; returns the performatives of the node."""
        self.session.receive(octets_of(*sent))
        return self.reads()

    def reads(self) -> list[Any]:
        """The performatives that the node writes now."""
        found: list[Any] = []
        while output := self.session.take_output():
            frames = [one for one in self._parser.receive(output) if isinstance(one, Frame)]
            self.frames += frames
            found += [one.performative for one in frames]
        return found


# -- targets ----------------------------------------------------------------------------------------


@pytest.mark.requirement("B4")
@pytest.mark.parametrize(
    ("name", "refusal", "condition"),
    [
        ("q", NotFoundError("no queue"), AmqpCondition.NOT_FOUND),
        ("route q", AccessRefusedError("no right"), AmqpCondition.UNAUTHORIZED_ACCESS),
    ],
)
def test_a_target_is_refused_for_what_its_publishes_would_be(
    name: str, refusal: Refusal, condition: AmqpCondition
) -> None:
    broker = Broker()
    broker.refusals[name] = refusal
    client = Client(broker)
    attach, detach = client.send(sender(0))
    assert attach.target is None and error_in(detach, d.Detach).condition == condition


def test_every_connection_may_send_to_an_exclusive_queue() -> None:
    broker = Broker()
    broker.refusals["q"] = locked("/", "q")
    assert Client(broker).send(sender(0))[0].target is not None
    refused = Client(broker).send(receiver(0))
    assert error_in(refused[1], d.Detach).condition == AmqpCondition.RESOURCE_LOCKED


def test_a_refused_publish_ends_its_link_or_rejects_its_messages() -> None:
    broker = Broker()
    client = Client(broker)
    client.send(sender(0), sender(1, None), sender(2, "r"))
    broker.refusals["route q"] = AccessRefusedError("no right any more")
    (detach,) = client.send(transfer(1), transfer(2))
    assert (detach.handle, error_in(detach, d.Detach).condition) == (0, AmqpCondition.UNAUTHORIZED_ACCESS)
    addressed = message(d.Properties(to="/queues/q").encode())
    rejected, accepted = client.send(
        transfer(3, addressed, 1), transfer(4, addressed, 1), transfer(5, handle=2)
    )
    assert (rejected.first, rejected.last) == (3, 4) and isinstance(rejected.state, d.Rejected)
    assert (accepted.first, accepted.state) == (5, d.Accepted())


# -- views ------------------------------------------------------------------------------------------


def test_sessions_are_shown_with_their_links() -> None:
    broker = Broker()
    client = Client(broker)
    client.send(sender(9, target=d.Coordinator()), sender(0), receiver(1), credit(10, handle=1))
    (consumer,) = broker.consumers
    client.session.deliver(consumer, run_of(message(), message()), broker.lease(consumer, 2), False)
    client.reads()
    (view,) = client.session.session_views()
    assert (view.number, view.unsettled, view.unconfirmed) == (0, 2, 0)
    links = {one.handle: one for one in view.links}
    assert links[0] == LinkView(0, "sender-0", True, "from", "q", False, 0, ConnectionLimits().link_credit)
    assert links[1] == LinkView(1, "receiver-1", False, "q", "to", False, 2, 8)
    assert links[9].target is None
