"""Links that receive from an exchange (AMQP 1.0): their queues, and how long the broker keeps them."""

from __future__ import annotations

from typing import Any

import pytest

from node.refusal import AccessRefusedError, NotFoundError, Refusal
from node.session.amqp10.subscriptions import (
    EXCLUSIVE,
    KEEPS_UNSETTLED,
    MAX_NAME_OCTETS,
    SUBSCRIPTION,
    queue_name,
)
from node.session.ports import QueueDeclaration
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import AmqpCondition, StdDistMode, TerminusDurability, TerminusExpiryPolicy
from node.wire.amqp10.errors import AddressError
from node.wire.amqp10.values import Described
from tests.session.attached import Client, NodeBroker
from tests.wire.amqp10.peer import error_in
from tests.wire.amqp10.performatives import receiver

ADDRESS = "/exchanges/orders/eu.%23"
LASTING = "subscription/client/receiver-0"
NEVER = TerminusExpiryPolicy.NEVER


def subscriber(handle: int = 0, address: str = ADDRESS, **fields: Any) -> d.Attach:
    return receiver(handle, source=d.Source(address, **fields))


def durable(address: str = ADDRESS) -> d.Attach:
    """The attach of a durable subscription, as Qpid JMS makes it."""
    return subscriber(
        0,
        address,
        durable=TerminusDurability.UNSETTLED_STATE,
        expiry_policy=NEVER,
        distribution_mode=StdDistMode.COPY,
    )


def sourceless() -> d.Attach:
    attach = receiver(0)
    attach.source = None
    return attach


@pytest.mark.requirement("B11.2", "B11.8")
def test_a_subscription_has_an_exclusive_queue_until_its_session_ends(
    client: Client, broker: NodeBroker
) -> None:
    (attach,) = client.send(subscriber())
    source = attach.source
    assert (source.address, source.distribution_mode) == (ADDRESS, StdDistMode.COPY)
    assert (source.expiry_policy, source.durable) == ("session-end", TerminusDurability.NONE)
    assert broker.declared == [EXCLUSIVE] and broker.bound == [("orders", "eu.#", "amq.gen-1")]
    assert list(broker.consumed.values()) == ["amq.gen-1"]
    client.send(d.Detach(0, False))
    assert broker.deleted == [] and not broker.consumed
    assert client.send(subscriber())[0].source.address == ADDRESS
    assert len(broker.declared) == 1 and list(broker.consumed.values()) == ["amq.gen-1"]
    client.send(d.End())
    assert broker.deleted == ["amq.gen-1"]


@pytest.mark.requirement("B11.10", "B11.5")
def test_a_durable_subscription_is_found_by_container_and_link(broker: NodeBroker) -> None:
    first = Client(broker)
    source = first.send(durable())[0].source
    assert (source.expiry_policy, source.durable) == (NEVER, TerminusDurability.CONFIGURATION)
    arguments = {SUBSCRIPTION: ADDRESS, KEEPS_UNSETTLED: True}
    wanted = QueueDeclaration(LASTING, True, False, False, arguments)
    assert broker.declared == [wanted] and broker.bound == [("orders", "eu.#", LASTING)]
    first.session.lost()
    assert broker.deleted == [] and not broker.consumed
    again = Client(broker)
    assert again.send(durable())[0].source.address == ADDRESS
    assert broker.declared == [wanted] and list(broker.consumed.values()) == [LASTING]
    assert broker.bound[1:] == broker.bound[:1], "the exchange may have been deleted meanwhile"


@pytest.mark.requirement("B11.10")
@pytest.mark.sentence("1.0/2.6.3-3")
def test_a_peer_without_a_source_finds_its_subscription_and_ends_it(broker: NodeBroker) -> None:
    """As Qpid JMS unsubscribes."""
    Client(broker).send(durable())
    client = Client(broker)
    source = client.send(sourceless())[0].source
    assert (source.address, source.expiry_policy, source.durable) == (ADDRESS, NEVER, 1)
    client.send(d.Detach(0, True))
    assert broker.deleted == [LASTING]
    _, detach = client.send(sourceless())
    assert error_in(detach, d.Detach).condition == AmqpCondition.NOT_FOUND


@pytest.mark.requirement("B11.7")
def test_a_timeout_begins_when_the_link_is_detached(client: Client, broker: NodeBroker) -> None:
    source = client.send(subscriber(timeout=30))[0].source
    assert (source.expiry_policy, source.timeout, source.durable) == ("link-detach", 30, 0)
    arguments = {SUBSCRIPTION: ADDRESS, "x-expires": 30_000}
    assert broker.declared == [QueueDeclaration(LASTING, False, False, False, arguments)]
    client.send(d.Detach(0, False), d.End())
    assert broker.deleted == []
    source = Client(broker).send(subscriber(timeout=99))[0].source
    assert source.timeout == 30, "the terminus is the one that the node has kept"


@pytest.mark.requirement("B11.10")
@pytest.mark.parametrize("error", ["stolen", "cancelled", "session"])
def test_an_error_of_the_link_leaves_the_subscription(client: Client, broker: NodeBroker, error: str) -> None:
    client.send(durable())
    match error:
        case "stolen":
            again = durable()
            again.handle = 1
            client.send(again)
            assert list(broker.consumed.values()) == [LASTING]
        case "cancelled":
            (consumer,) = broker.consumed
            broker.consumers[consumer].consumer_cancelled(consumer)
        case _:
            client.send(d.Detach(9))
    assert broker.deleted == []


@pytest.mark.requirement("B11.10")
def test_a_subscription_to_another_address_is_made_anew(broker: NodeBroker) -> None:
    Client(broker).send(durable())
    Client(broker).send(durable("/exchanges/orders/us.%23"))
    assert broker.deleted == [LASTING]
    assert broker.bound == [("orders", "eu.#", LASTING), ("orders", "us.#", LASTING)]
    assert broker.queues[LASTING].arguments[SUBSCRIPTION] == "/exchanges/orders/us.%23"


def test_a_changed_source_of_the_connection_is_made_anew(client: Client, broker: NodeBroker) -> None:
    client.send(subscriber())
    client.send(d.Detach(0, False))
    client.send(subscriber(address="/exchanges/orders/us"))
    assert broker.deleted == ["amq.gen-1"] and broker.bound[1:] == [("orders", "us", "amq.gen-2")]


# -- refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attach", [subscriber(), durable()], ids=["exclusive", "lasting"])
@pytest.mark.parametrize("refused", ["declare", "bind", "consume"])
def test_a_refused_subscription_leaves_no_queue(
    client: Client, broker: NodeBroker, attach: d.Attach, refused: str
) -> None:
    broker.refusals[refused] = AccessRefusedError("no right")
    answer, detach = client.send(attach)
    assert answer.source is None
    assert error_in(detach, d.Detach).condition == AmqpCondition.UNAUTHORIZED_ACCESS
    lasts = refused == "consume" and attach.source.expiry_policy is NEVER
    assert bool(broker.queues) is lasts, "a terminus that lasts has been made before the consumer is refused"


@pytest.mark.parametrize("refused", [NotFoundError("no exchange 'orders'"), AccessRefusedError("no")])
def test_a_kept_queue_that_cannot_be_bound_stays(broker: NodeBroker, refused: Refusal) -> None:
    Client(broker).send(durable())
    broker.refusals["bind"] = refused
    assert Client(broker).send(durable())[0].source is None
    assert LASTING in broker.queues, "its messages wait"


def test_a_queue_of_another_kind_is_not_taken(client: Client, broker: NodeBroker) -> None:
    broker.queues[LASTING] = QueueDeclaration(LASTING, True, False, False)
    for attach in (durable(), sourceless()):
        _, detach = client.send(attach)
        assert error_in(detach, d.Detach).condition == AmqpCondition.RESOURCE_LOCKED
        client.send(d.Detach(0, True))
    assert LASTING in broker.queues


def test_a_filter_is_refused(client: Client, broker: NodeBroker) -> None:
    selector = Described("apache.org:selector-filter:string", "colour = 'red'")
    attach, detach = client.send(subscriber(filter={"s": selector}))
    assert attach.source is None and broker.declared == []
    assert error_in(detach, d.Detach).condition == AmqpCondition.NOT_IMPLEMENTED


@pytest.mark.parametrize("step", ["declare", "bind", "consume"])
def test_a_link_that_goes_meanwhile_leaves_no_exclusive_queue(
    client: Client, broker: NodeBroker, step: str
) -> None:
    broker.delayed.add(step)
    assert client.send(subscriber()) == []
    client.send(d.Detach(0, True))
    broker.answer()
    assert not broker.queues and not broker.consumers


# -- names ------------------------------------------------------------------------------------------------


def test_names_of_containers_and_links_never_meet() -> None:
    assert queue_name("a/b", "c") != queue_name("a", "b/c")
    assert queue_name("é", " ") == "subscription/%C3%A9/%20"


def test_names_have_a_limit(client: Client) -> None:
    assert len(queue_name("c" * 100, "l" * 141)) == MAX_NAME_OCTETS
    with pytest.raises(AddressError):
        queue_name("c" * 100, "l" * 142)
    attach = durable()
    attach.name = "l" * 250
    _, detach = client.send(attach)
    assert error_in(detach, d.Detach).condition == AmqpCondition.INVALID_FIELD


@pytest.mark.requirement("B11.2")
def test_a_plain_name_is_an_exchange_where_no_queue_has_the_name(client: Client, broker: NodeBroker) -> None:
    broker.refusals["queue orders"] = NotFoundError("no queue 'orders'")
    (attach,) = client.send(subscriber(address="orders"))
    assert attach.source.address == "orders", "clients compare addresses"
    assert broker.bound == [("orders", "", "amq.gen-1")]
    assert list(broker.consumed.values()) == ["amq.gen-1"]


def test_a_plain_name_of_neither_is_refused(client: Client, broker: NodeBroker) -> None:
    broker.refusals["queue orders"] = NotFoundError("no queue 'orders'")
    broker.missing.add("orders")
    attach, detach = client.send(subscriber(address="orders"))
    assert attach.source is None
    error = error_in(detach, d.Detach)
    assert (error.condition, error.description) == (AmqpCondition.NOT_FOUND, "no queue 'orders'")
    assert not broker.declared
