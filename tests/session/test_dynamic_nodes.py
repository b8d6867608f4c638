"""Nodes that the broker makes for a link, and deletes with it (AMQP 1.0, part 3, section 3.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from node.refusal import AccessRefusedError, ResourceLockedError
from node.session.amqp10.subscriptions import EXCLUSIVE
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import AmqpCondition, Error, LinkCondition
from node.wire.amqp10.values import Described
from tests.session.attached import Client, NodeBroker
from tests.wire.amqp10.peer import error_in, transfer
from tests.wire.amqp10.performatives import begin, credit, receiver, sender
from tests.wire.amqp10.runs import run_of
from tests.wire.amqp10.sections import message

LIFETIME = {"lifetime-policy": Described(d.DeleteOnClose.CODE, [])}
NAME = "amq.gen-1"
ADDRESS = f"/queues/{NAME}"

Attaching = Callable[..., d.Attach]


def dynamic_receiver(handle: int = 0, **fields: Any) -> d.Attach:
    return receiver(handle, source=d.Source(None, dynamic=True, **fields))


def dynamic_sender(handle: int = 0, **fields: Any) -> d.Attach:
    return sender(handle, target=d.Target(None, dynamic=True, **fields))


both = pytest.mark.parametrize("attaching", [dynamic_receiver, dynamic_sender], ids=["source", "target"])


def terminus(attach: d.Attach) -> Any:
    """The terminus at the node."""
    return attach.source if attach.role is d.Role.SENDER else attach.target


@pytest.mark.requirement("B11.1")
@pytest.mark.sentence("1.0/2.6.3-3", "1.0/3.5.3-2", "1.0/3.5.4-2", "1.0/3.5.9-1")
@both
@pytest.mark.parametrize("asked", [None, {"lifetime-policy": d.DeleteOnNoLinksOrMessages()}])
def test_a_dynamic_node_is_an_exclusive_queue_that_the_broker_names(
    client: Client, broker: NodeBroker, attaching: Attaching, asked: Any
) -> None:
    attach = client.send(attaching(dynamic_node_properties=asked))[0]
    assert broker.declared == [EXCLUSIVE]
    assert EXCLUSIVE.exclusive and not EXCLUSIVE.durable and not EXCLUSIVE.name
    assert set(broker.declared_by) == broker.holders, "the connection has the queue for itself"
    made = terminus(attach)
    assert (made.address, made.dynamic, made.dynamic_node_properties) == (ADDRESS, True, LIFETIME)
    assert broker.deleted == []


@pytest.mark.requirement("B11.1")
def test_messages_in_a_dynamic_source_come_to_its_link(client: Client, broker: NodeBroker) -> None:
    client.send(dynamic_receiver(), credit(10))
    ((consumer, queue),) = broker.consumed.items()
    assert queue == NAME
    numbers = broker.lease(consumer, 1)
    broker.consumers[consumer].deliver(consumer, run_of(message()), numbers, False, consumer)
    (delivered,) = client.reads()
    assert isinstance(delivered, d.Transfer) and delivered.handle == 0


@pytest.mark.requirement("B11.1")
def test_messages_for_a_dynamic_target_come_into_its_queue(client: Client, broker: NodeBroker) -> None:
    client.send(dynamic_sender())
    (told,) = client.send(transfer(0))
    assert isinstance(told.state, d.Accepted)
    ((exchange, key),) = broker.routed
    assert (exchange, key) == ("", NAME) and [run.routing_key for run in broker.published] == [NAME]


@pytest.mark.requirement("B11.1", "B11.2")
def test_every_link_has_a_dynamic_node_of_its_own(client: Client, broker: NodeBroker) -> None:
    attaches = [client.send(dynamic_receiver(handle))[0] for handle in range(3)]
    names = [f"amq.gen-{number}" for number in (1, 2, 3)]
    assert [terminus(one).address for one in attaches] == [f"/queues/{name}" for name in names]
    client.send(d.Detach(1, True))
    assert broker.deleted == [names[1]]
    client.send(d.End())
    assert sorted(broker.deleted) == names


# -- the end ----------------------------------------------------------------------------------------


@pytest.mark.requirement("B11.2")
@both
@pytest.mark.parametrize(
    "end",
    [d.Detach(0, True), d.End(), d.Close(), begin(), d.Detach(9)],
    ids=["detach for good", "end", "close", "error of the connection", "error of the session"],
)
def test_a_dynamic_node_is_deleted_once_with_its_link(
    client: Client, broker: NodeBroker, attaching: Attaching, end: Any
) -> None:
    client.send(attaching())
    client.send(end)
    assert broker.deleted == [NAME]
    client.session.lost()
    assert broker.deleted == [NAME]
    assert not broker.consumers and not broker.holders and not broker.leased


@pytest.mark.requirement("B11.2")
@both
def test_a_dynamic_node_is_deleted_when_its_socket_is_lost(
    client: Client, broker: NodeBroker, attaching: Attaching
) -> None:
    client.send(attaching())
    client.session.lost()
    assert broker.deleted == [NAME] and not broker.consumers and not broker.holders


@pytest.mark.requirement("B11.2")
@both
def test_a_link_that_is_taken_over_takes_its_dynamic_node_along(
    client: Client, broker: NodeBroker, attaching: Attaching
) -> None:
    client.send(attaching(0))
    again = attaching(1)
    again.name = "receiver-0" if again.role is d.Role.RECEIVER else "sender-0"
    detach, attach = client.send(again)[:2]
    assert error_in(detach, d.Detach).condition == LinkCondition.STOLEN
    assert broker.deleted == [NAME] and terminus(attach).address == "/queues/amq.gen-2"


@pytest.mark.requirement("B11.2")
def test_a_consumer_ends_before_its_dynamic_node_is_deleted(client: Client, broker: NodeBroker) -> None:
    client.send(dynamic_receiver(), credit(10))
    (consumer,) = broker.consumed
    assert client.send(d.Detach(0, True)) == [d.Detach(0, True)]
    assert broker.ended == [consumer, NAME]


@pytest.mark.requirement("B11.2")
def test_a_cancelled_consumer_ends_its_link(client: Client, broker: NodeBroker) -> None:
    client.send(dynamic_receiver(), credit(10))
    (consumer,) = broker.consumed
    broker.consumers[consumer].consumer_cancelled(consumer)
    (detach,) = client.reads()
    assert error_in(detach, d.Detach).condition == AmqpCondition.RESOURCE_DELETED
    assert broker.deleted == [NAME] and not broker.consumers


# -- refusals ---------------------------------------------------------------------------------------


@pytest.mark.requirement("B11.1")
@both
def test_a_node_that_may_not_be_made_refuses_its_link(
    client: Client, broker: NodeBroker, attaching: Attaching
) -> None:
    broker.refusals["declare"] = AccessRefusedError("no right to make queues")
    attach, detach = client.send(attaching())
    assert terminus(attach) is None and detach.closed
    assert error_in(detach, d.Detach) == Error(AmqpCondition.UNAUTHORIZED_ACCESS, "no right to make queues")
    client.send(d.Detach(0, True))
    assert broker.deleted == []
    broker.refusals.clear()
    assert terminus(client.send(attaching())[0]).dynamic, "the session and the handle are free"


@pytest.mark.requirement("B11.2")
def test_a_refused_consumer_takes_its_dynamic_node_along(client: Client, broker: NodeBroker) -> None:
    broker.refusals["consume"] = ResourceLockedError("locked")
    attach, detach = client.send(dynamic_receiver())
    assert attach.source is None
    assert error_in(detach, d.Detach).condition == AmqpCondition.RESOURCE_LOCKED
    assert broker.deleted == [NAME]
    client.send(d.Detach(0, True))
    assert broker.deleted == [NAME]


# -- a link that has gone meanwhile -----------------------------------------------------------------


@pytest.mark.requirement("B11.2")
@both
@pytest.mark.parametrize("end", [d.Detach(0, True), d.End()], ids=["detach", "end"])
def test_a_node_made_for_a_link_that_has_gone_is_deleted(
    client: Client, broker: NodeBroker, attaching: Attaching, end: Any
) -> None:
    broker.delayed.add("declare")
    assert client.send(attaching()) == []
    client.send(end)
    assert broker.deleted == []
    broker.answer()
    assert broker.deleted == [NAME] and client.reads() == []
    assert not broker.consumers


@pytest.mark.requirement("B11.2")
@both
def test_a_late_node_does_not_go_to_the_next_link_of_the_handle(
    client: Client, broker: NodeBroker, attaching: Attaching
) -> None:
    broker.delayed.add("declare")
    client.send(attaching())
    attach, detach = client.send(d.Detach(0, True))
    assert terminus(attach) is None and detach == d.Detach(0, True)
    assert client.send(attaching()) == []
    broker.answer()
    assert broker.deleted == [NAME] and client.reads() == []
    broker.answer()
    assert terminus(client.reads()[0]).address == "/queues/amq.gen-2"


@pytest.mark.requirement("B11.2")
@pytest.mark.parametrize("end", [d.Detach(0, True), d.End()], ids=["detach", "end"])
def test_a_consumer_begun_for_a_link_that_has_gone_ends(client: Client, broker: NodeBroker, end: Any) -> None:
    broker.delayed.add("consume")
    assert client.send(dynamic_receiver()) == []
    client.send(end)
    assert broker.deleted == [NAME]
    broker.answer()
    assert not broker.consumers and broker.deleted == [NAME]


@both
def test_an_answer_behind_the_end_of_the_connection_makes_no_link(
    client: Client, broker: NodeBroker, attaching: Attaching
) -> None:
    """The queue is the connection's own, and is deleted with the connection."""
    broker.delayed.add("declare")
    client.send(attaching())
    client.send(d.Close())
    assert not broker.holders
    broker.answer()
    assert client.reads() == [] and not broker.consumers
