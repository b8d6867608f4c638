"""A session of AMQP 1.0 on a broker: links and their nodes, publishes, transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from node.delivery.settlements import Outcome
from node.message.run import Run
from node.refusal import AccessRefusedError, NotFoundError, PreconditionFailedError, Refusal, locked
from node.session.amqp10.session import ConnectionSession
from node.session.client_views import LinkView
from node.session.ports import DeclaredQueue, QueueDeclaration, QueueRef, Subscriber
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.connection import AMQP_HEADER, SASL_HEADER
from node.wire.amqp10.definitions import AmqpCondition, Role, TransactionCondition
from node.wire.amqp10.frames import Frame, FrameParser
from node.wire.amqp10.limits import ConnectionLimits
from node.wire.amqp10.values import Described, ULong
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
from tests.wire.amqp10.test_transactions import control, discharge, working

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
        self.send(SASL_HEADER, PLAIN, AMQP_HEADER, d.Open("c", max_frame_size=LARGE), begin())

    def send(self, *sent: Any) -> list[Any]:
        """Send everything in one piece; returns the performatives of the node."""
        self.session.receive(octets_of(*sent))
        return self.reads()

    def reads(self) -> list[Any]:
        """The performatives that the node writes now."""
        found: list[Any] = []
        while output := self.session.take_output():
            found += [one.performative for one in self._parser.receive(output) if isinstance(one, Frame)]
        return found


# -- dynamic nodes ----------------------------------------------------------------------------------


def dynamic(kind: str, handle: int = 0) -> d.Attach:
    if kind == "source":
        return receiver(handle, source=d.Source(None, dynamic=True))
    return sender(handle, target=d.Target(None, dynamic=True))


@pytest.mark.requirement("B11")
@pytest.mark.parametrize("kind", ["source", "target"])
def test_a_dynamic_node_is_a_queue_that_ends_with_its_link(kind: str) -> None:
    client = Client()
    attach = client.send(dynamic(kind))[0]
    node = getattr(attach, kind)
    assert (node.address, node.dynamic) == (f"/queues/{DYNAMIC}", True)
    assert node.dynamic_node_properties == {"lifetime-policy": Described(ULong(d.DeleteOnClose.CODE), [])}
    if kind == "target":
        client.send(transfer(1))
        assert client.broker.published == [("", DYNAMIC, 2)]
    else:
        assert len(client.broker.consumers) == 1
    assert not client.broker.deleted
    assert client.send(d.Detach(0, True)) == [d.Detach(0, True)]
    assert client.broker.deleted == [DYNAMIC] and not client.broker.consumers


@pytest.mark.requirement("B11")
@pytest.mark.parametrize("kind", ["source", "target"])
@pytest.mark.parametrize("end", [d.End(), d.Close(), None], ids=["end", "close", "lost"])
def test_a_dynamic_node_ends_with_its_session(kind: str, end: Any) -> None:
    client = Client()
    client.send(dynamic(kind))
    if end is None:
        client.session.lost()
        # The queue is exclusive to the connection: the broker deletes it with the connection.
        assert not client.broker.holders
    else:
        client.send(end)
        assert client.broker.deleted == [DYNAMIC]


@pytest.mark.parametrize("kind", ["source", "target"])
def test_a_dynamic_node_that_cannot_be_made_refuses_the_link(kind: str) -> None:
    broker = Broker()
    broker.refusals["declare"] = AccessRefusedError("no right to make queues")
    client = Client(broker)
    attach, detach = client.send(dynamic(kind))
    assert getattr(attach, kind) is None
    assert error_in(detach, d.Detach).condition == AmqpCondition.UNAUTHORIZED_ACCESS
    assert client.send(d.Detach(0, True)) == [] and not broker.deleted


def test_a_dynamic_node_without_a_consumer_is_deleted() -> None:
    broker = Broker()
    broker.refusals[f"consume {DYNAMIC}"] = AccessRefusedError("no right to read")
    client = Client(broker)
    attach, detach = client.send(dynamic("source"))
    assert attach.source is None
    assert error_in(detach, d.Detach).condition == AmqpCondition.UNAUTHORIZED_ACCESS
    assert broker.deleted == [DYNAMIC]


@pytest.mark.parametrize("kind", ["source", "target"])
@pytest.mark.parametrize("end", [d.Detach(0, True), d.End()], ids=["detach", "end"])
def test_a_dynamic_node_that_comes_too_late_is_deleted(kind: str, end: Any) -> None:
    broker = Broker()
    client = Client(broker)
    broker.later = []
    client.send(dynamic(kind), end)
    (answer,) = broker.later
    answer()
    client.reads()
    assert broker.deleted == [DYNAMIC] and not broker.consumers


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


# -- transactions -----------------------------------------------------------------------------------


def transacting(broker: Broker) -> tuple[Client, bytes]:
    """A client with a transaction, a sender on handle 0, and two unsettled deliveries on handle 1."""
    client = Client(broker)
    client.send(sender(9, target=d.Coordinator()), sender(0), receiver(1), credit(10, handle=1))
    client.send(control(1, d.Declare()))
    (consumer,) = broker.consumers
    client.session.deliver(consumer, run_of(message(), message()), broker.lease(consumer, 2), False)
    client.reads()
    return client, (1).to_bytes(8, "big")


@pytest.mark.requirement("B10")
def test_a_discharge_commits_publishes_and_settlements_together() -> None:
    broker = Broker()
    client, txn_id = transacting(broker)
    body, state = message(body=b"held"), working(txn_id)
    accepted = working(txn_id, d.Accepted())
    told = client.send(transfer(2, body, state=state), d.Disposition(Role.RECEIVER, 0, 1, True, accepted))
    assert [one.state for one in told] == [accepted]
    assert not broker.published and not broker.committed
    (answer,) = client.send(control(3, discharge(txn_id)))
    assert (answer.first, answer.state) == (3, d.Accepted())
    ((bodies, settled),) = broker.committed
    assert bodies == [body]
    assert [(one.ranges, one.outcome) for one in settled] == [([(1, 2)], Outcome.ACCEPTED)]


@pytest.mark.requirement("B10")
def test_a_rollback_commits_nothing() -> None:
    broker = Broker()
    client, txn_id = transacting(broker)
    client.send(transfer(2, state=working(txn_id)), control(3, discharge(txn_id, fail=True)))
    assert not broker.published and not broker.committed
    client.send(control(4, d.Declare()), control(5, discharge((2).to_bytes(8, "big"))))
    assert broker.committed == [([], [])], "what was held is gone"


@pytest.mark.requirement("B10")
def test_a_commit_with_a_message_that_no_queue_takes_does_nothing() -> None:
    """All or nothing: the settlements of the transaction go back to their queues too."""
    broker = Broker()
    client, txn_id = transacting(broker)
    client.send(
        transfer(2, state=working(txn_id)),
        d.Disposition(Role.RECEIVER, 0, 0, True, working(txn_id, d.Accepted())),
    )
    broker.gone.add("q")
    (answer,) = client.send(control(3, discharge(txn_id)))
    assert answer.state.error.condition == TransactionCondition.TRANSACTION_ROLLBACK
    assert not broker.committed and broker.returned == [(next(iter(broker.consumers)), [(1, 1)])]


@pytest.mark.requirement("B10")
def test_a_commit_that_the_broker_refuses_is_told() -> None:
    broker = Broker()
    broker.commit_refusal = PreconditionFailedError("a queue has refused a message")
    client, txn_id = transacting(broker)
    answer = client.send(transfer(2, state=working(txn_id)), control(3, discharge(txn_id)))[-1]
    assert answer.state.error.condition == TransactionCondition.TRANSACTION_ROLLBACK
    assert answer.state.error.description == "a queue has refused a message"


@pytest.mark.requirement("B10")
def test_a_publish_that_is_refused_in_a_transaction_fails_its_commit() -> None:
    broker = Broker()
    client, txn_id = transacting(broker)
    broker.refusals["route q"] = AccessRefusedError("no right")
    told, answer = client.send(transfer(2, state=working(txn_id)), control(3, discharge(txn_id)))
    assert isinstance(told.state.outcome, d.Rejected) and isinstance(answer.state, d.Rejected)
    assert not broker.committed and client.session.connection.sessions.transactions.octets == 0


@pytest.mark.requirement("B10")
def test_a_refused_publish_keeps_the_rest_of_its_transaction_from_the_commit() -> None:
    """The session code hears of the publishes and of the discharge at once."""
    broker = Broker()
    client, txn_id = transacting(broker)
    client.send(sender(5, "r"))
    broker.refusals["route r"] = AccessRefusedError("no right")
    client.send(
        transfer(2, state=working(txn_id)), transfer(3, handle=5, state=working(txn_id)),
        d.Disposition(Role.RECEIVER, 0, 0, True, working(txn_id, d.Accepted())),
        control(4, discharge(txn_id)),
    )  # fmt: skip
    assert not broker.committed and not broker.published
    assert broker.returned == [(next(iter(broker.consumers)), [(1, 1)])]


@pytest.mark.requirement("B10")
@pytest.mark.parametrize("fail", [True, False])
def test_publishes_of_the_piece_that_ends_their_transaction_are_answered(fail: bool) -> None:
    client, txn_id = transacting(Broker())
    told = client.send(transfer(2, state=working(txn_id)), control(3, discharge(txn_id, fail)))
    assert sorted(one.first for one in told) == [2, 3]
    assert {one.first: one.state for one in told}[2] == working(txn_id, d.Accepted())


# -- views ------------------------------------------------------------------------------------------


def test_sessions_are_shown_with_their_links() -> None:
    broker = Broker()
    client, _ = transacting(broker)
    (view,) = client.session.session_views()
    assert (view.number, view.unsettled, view.unconfirmed) == (0, 2, 0)
    links = {one.handle: one for one in view.links}
    assert links[0] == LinkView(0, "sender-0", True, "from", "q", False, 0, ConnectionLimits().link_credit)
    assert links[1] == LinkView(1, "receiver-1", False, "q", "to", False, 2, 8)
    assert links[9].target is None
