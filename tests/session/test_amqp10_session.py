"""A session of AMQP 1.0 on a broker: targets, refused publishes, views."""

from __future__ import annotations

from typing import Any

import pytest

from node.refusal import AccessRefusedError, NotFoundError, Refusal, locked
from node.session.amqp10.session import ConnectionSession
from node.session.client_views import LinkView
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.connection import AMQP_HEADER, SASL_HEADER
from node.wire.amqp10.definitions import AmqpCondition
from node.wire.amqp10.limits import ConnectionLimits
from tests.session.answering import Socket
from tests.session.attached import Client, NodeBroker
from tests.wire.amqp10.peer import error_in, transfer
from tests.wire.amqp10.performatives import PLAIN, credit, octets_of, receiver, sender
from tests.wire.amqp10.runs import run_of
from tests.wire.amqp10.sections import message

# -- targets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hostname", "vhost"),
    [
        (None, "/"),
        ("broker.example", "/"),
        ("vhost:tenant", "tenant"),
        ("vhost:/a b", "/a b"),
        ("vhost:", ""),
    ],
)
def test_the_hostname_of_open_names_the_virtual_host(hostname: str | None, vhost: str) -> None:
    port: Any = NodeBroker()
    session = ConnectionSession(port, Socket(), ConnectionLimits(), lambda: 1.0)
    session.receive(octets_of(SASL_HEADER, PLAIN))
    session.receive(octets_of(AMQP_HEADER, d.Open("client", hostname)))
    assert session.vhost == vhost


@pytest.mark.requirement("B4.5", "B4.6")
@pytest.mark.parametrize(
    ("name", "refusal", "condition"),
    [
        ("queue q", NotFoundError("no queue"), AmqpCondition.NOT_FOUND),
        ("route q", AccessRefusedError("no right"), AmqpCondition.UNAUTHORIZED_ACCESS),
    ],
)
def test_a_target_is_refused_for_what_its_publishes_would_be(
    name: str, refusal: Refusal, condition: AmqpCondition
) -> None:
    broker = NodeBroker()
    broker.refusals[name] = refusal
    broker.missing.add("q")
    client = Client(broker)
    attach, detach = client.send(sender(0))
    assert attach.target is None and error_in(detach, d.Detach).condition == condition


def test_a_target_may_be_an_exchange_by_its_plain_name() -> None:
    broker = NodeBroker()
    broker.refusals["queue q"] = NotFoundError("no queue")
    client = Client(broker)
    attach, _ = client.send(sender(0))
    assert attach.target.address == "q"
    client.send(transfer(1))
    assert [(run.exchange, run.routing_key) for run in broker.published] == [("q", "")]


@pytest.mark.requirement("B4.5", "B4.6")
@pytest.mark.parametrize("exchange", ["missing", "forbidden"])
def test_a_target_that_is_neither_a_queue_nor_an_exchange_is_refused(exchange: str) -> None:
    broker = NodeBroker()
    broker.refusals["queue q"] = NotFoundError("no queue")
    if exchange == "missing":
        broker.missing.add("q")
    else:
        broker.refusals["route "] = AccessRefusedError("no right")
    attach, detach = Client(broker).send(sender(0))
    conditions = {"missing": AmqpCondition.NOT_FOUND, "forbidden": AmqpCondition.UNAUTHORIZED_ACCESS}
    assert attach.target is None and error_in(detach, d.Detach).condition == conditions[exchange]


def test_every_connection_may_send_to_an_exclusive_queue() -> None:
    broker = NodeBroker()
    broker.refusals["queue q"] = locked("/", "q")
    assert Client(broker).send(sender(0))[0].target is not None
    refused = Client(broker).send(receiver(0))
    assert error_in(refused[1], d.Detach).condition == AmqpCondition.RESOURCE_LOCKED


def test_a_refused_publish_ends_its_link_or_rejects_its_messages() -> None:
    broker = NodeBroker()
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
    broker = NodeBroker()
    client = Client(broker)
    client.send(sender(9, target=d.Coordinator()), sender(0), receiver(1), credit(10, handle=1))
    (consumer,) = broker.consumers
    client.session.deliver(consumer, run_of(message(), message()), broker.lease(consumer, 2), False, consumer)
    client.reads()
    (view,) = client.session.session_views()
    assert (view.number, view.unsettled, view.unconfirmed) == (0, 2, 0)
    links = {one.handle: one for one in view.links}
    assert links[0] == LinkView(0, "sender-0", True, "from", "q", False, 0, ConnectionLimits().link_credit)
    assert links[1] == LinkView(1, "receiver-1", False, "q", "to", False, 2, 8)
    assert links[9].target is None
