"""One consumer of a queue at a time gets its messages (x-single-active-consumer), on every kind of queue."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.owner.proposal import HOLD_S
from tests.cluster.kinds import client, declared
from tests.cluster.test_linearizable_reads import owners_of
from tests.site import ChannelClosedError, Client, Site

__all__ = ["client", "declared"]


def bodies_of(client: Client) -> list[bytes]:
    return [delivery.body for delivery in client.deliveries]


def activity(client: Client) -> list[bool]:
    """Whether each consumer of the client's node is active, in the order of their start."""
    links = client.node.broker.links.by_partition.values()
    consumers = {number: one for link in links for number, one in link.consumers.items()}
    return [consumers[number].activated > 0 for number in sorted(consumers)]


@pytest.mark.requirement("A24.12")
def test_the_next_in_order_takes_over(client: Client, declared: Any) -> None:
    queue = declared(single_active_consumer=True)
    first, second, third = (client.consume(queue, tag) for tag in ("a", "b", "c"))
    client.confirms(client.publish(queue, b"1", b"2"))
    assert {one.method.consumer_tag for one in client.deliveries} == {first}
    client.cancel(first)
    client.confirms(client.publish(queue, b"3"))
    client.cancel(second)
    client.confirms(client.publish(queue, b"4"))
    client.site.run(0.05)
    assert [one.method.consumer_tag for one in client.deliveries] == [first, first, second, third]
    assert activity(client) == [True]


@pytest.mark.requirement("A24.12")
def test_a_closed_channel_gives_its_messages_to_the_next_in_order(client: Client) -> None:
    queue = client.declare("q", single_active_consumer=True).queue
    other = client.site.client("n1")
    client.consume(queue, prefetch=2)
    other.consume(queue)
    client.confirms(client.publish(queue, b"1", b"2", b"3", b"4"))
    assert (bodies_of(client), bodies_of(other)) == ([b"1", b"2"], [])
    client.close()
    other.site.until(lambda: len(other.deliveries) == 4)
    assert bodies_of(other) == [b"1", b"2", b"3", b"4"]
    assert [one.method.redelivered for one in other.deliveries] == [True, True, False, False]


@pytest.mark.requirement("A24.12")
def test_a_higher_priority_takes_over_when_all_is_settled(client: Client, declared: Any) -> None:
    queue = declared(single_active_consumer=True)
    low = client.consume(queue, "low", prefetch=1)
    client.confirms(client.publish(queue, b"1", b"2"))
    client.site.until(lambda: client.deliveries)
    high = client.consume(queue, "high", arguments={"x-priority": 5})
    client.consume(queue, "late", arguments={"x-priority": 5})
    client.site.run(0.05)
    assert activity(client) == [True, False, False]
    client.ack(client.deliveries[0])
    client.site.run(0.05)
    assert [one.method.consumer_tag for one in client.deliveries] == [low, high]
    assert activity(client) == [False, True, False]
    client.cancel(high)
    client.ack(client.deliveries[1])
    client.confirms(client.publish(queue, b"3"))
    client.site.run(0.05)
    assert client.deliveries[-1].method.consumer_tag == "late"


@pytest.mark.requirement("A24.12")
def test_one_that_gives_way_goes_on_when_the_other_is_gone(client: Client) -> None:
    queue = client.declare("q", single_active_consumer=True).queue
    client.consume(queue, "low", prefetch=1)
    client.confirms(client.publish(queue, b"1", b"2"))
    high = client.consume(queue, "high", arguments={"x-priority": 1})
    client.cancel(high)
    client.ack(client.deliveries[0])
    client.site.run(0.05)
    assert [one.method.consumer_tag for one in client.deliveries] == ["low", "low"]


def test_there_is_no_exclusive_consumer(client: Client, declared: Any) -> None:
    queue = declared(single_active_consumer=True)
    with pytest.raises(
        ChannelClosedError, match=r"403 ACCESS_REFUSED - queue '.*' in vhost '/' in exclusive use"
    ):
        client.consume(queue, exclusive=True)


def test_single_messages_can_be_got(client: Client, declared: Any) -> None:
    """As from RabbitMQ's classic queues."""
    queue = declared(single_active_consumer=True)
    client.confirms(client.publish(queue, b"1"))
    assert client.bodies(queue) == [b"1"]


@pytest.mark.requirement("A24.12")
def test_the_consumers_of_all_nodes_are_in_one_order() -> None:
    site = Site("n1", "n2", "n3")
    far, near, last = (site.client(name) for name in ("n2", "n1", "n3"))
    near.declare("q", single_active_consumer=True)
    for each in (far, near, last):
        each.consume("q", prefetch=1)
    near.confirms(near.publish("q", b"1", b"2", b"3"))
    site.until(lambda: far.deliveries)
    site.nodes["n2"].stop(power=False)
    site.until(lambda: near.deliveries)
    assert (bodies_of(near), bodies_of(last)) == ([b"1"], [])
    near.ack(near.deliveries[0])
    near.close()
    site.until(lambda: last.deliveries)
    assert bodies_of(last) == [b"2"]


@pytest.mark.requirement("A24.12", "D2.2")
@pytest.mark.parametrize("active", [0, 1])
def test_a_living_consumer_stays_the_active_one_when_the_owner_dies(active: int) -> None:
    """Also where the active one of two consumers has subscribed later."""
    site = Site("n1", "n2", "n3")
    owning = site.client("n1")
    clients = site.client("n2"), site.client("n3")
    owning.declare("q", single_active_consumer=True)
    tags = [each.consume("q", prefetch=2) for each in clients]
    if active:
        # The first consumer is behind the second one now.
        clients[0].cancel(tags[0])
        clients[0].consume("q")
    clients[0].confirms(clients[0].publish("q", b"1", b"2", b"3"))
    site.until(lambda: len(clients[active].deliveries) == 2)
    site.nodes["n1"].stop(power=False)
    site.run(1.0)
    for delivery in list(clients[active].deliveries):
        clients[active].ack(delivery)
    clients[0].confirms(clients[0].publish("q", b"4"))
    site.until(lambda: len(clients[active].deliveries) == 4)
    site.run(3.5)
    assert bodies_of(clients[active]) == [b"1", b"2", b"3", b"4"]
    assert not any(one.method.redelivered for one in clients[active].deliveries)
    assert clients[1 - active].deliveries == []
    assert (activity(clients[active]), activity(clients[1 - active])) == ([True], [False])


@pytest.mark.requirement("A24.12")
def test_an_active_consumer_whose_front_end_greets_again_stays_active() -> None:
    """Also when the time ends for which a new owner waits for the front ends of its predecessor."""
    site = Site("n1", "n2", "n3")
    publisher = site.client("n1")
    queue = publisher.declare("q", single_active_consumer=True).queue
    (name,) = owners_of(site, publisher.node.broker.catalog.state.queues["/", queue].partition)
    near, far = (site.client(one) for one in site.nodes if one != name)
    near.consume(queue, prefetch=1)
    far.consume(queue, prefetch=1)
    publisher.confirms(publisher.publish(queue, b"1", b"2"))
    site.until(lambda: near.deliveries)
    owner = site.nodes[name]
    while site.world.now < 2 * HOLD_S:
        owner.input(lambda: owner.broker.peer_gap(near.node.name, owner.clock()))
        site.run(0.003)
        assert (bodies_of(near), bodies_of(far)) == ([b"1"], [])
    site.run(1.0)
    near.ack(near.deliveries[0])
    site.until(lambda: len(near.deliveries) == 2)


@pytest.mark.requirement("A24.12")
def test_dead_letters_of_another_partition_hold_up_no_consumer() -> None:
    """The partition greets the owner as front ends do, and has no consumers to tell of."""
    site = Site("n1", "n2", "n3")
    client = site.client("n1")
    client.declare("q", single_active_consumer=True)
    partitions = {key: queue.partition for key, queue in client.node.broker.catalog.state.queues.items()}
    number = 0
    while len(set(partitions.values())) < 2:
        number += 1
        source = client.declare(
            f"source {number}", dead_letter_exchange="", dead_letter_routing_key="q"
        ).queue
        partitions = {key: queue.partition for key, queue in client.node.broker.catalog.state.queues.items()}
    site.run(2 * HOLD_S)
    first, second = client.consume("q", "first"), client.consume("q", "second")
    client.consume(source, "source")
    client.publish(source, b"1")
    site.until(lambda: client.deliveries)
    client.reject(client.deliveries[0], requeue=False)
    site.until(lambda: len(client.deliveries) == 2)
    client.cancel(first)
    client.publish("q", b"2")
    site.until(lambda: len(client.deliveries) == 3)
    assert [one.method.consumer_tag for one in client.deliveries] == ["source", first, second]
