"""Exclusive consumers, and the priorities of consumers, on every kind of queue (A23)."""

from __future__ import annotations

from typing import Any

import pytest

from node.wire.amqp091 import methods as m
from tests.cluster.kinds import client, declared
from tests.site import ChannelClosedError, Client, Site

__all__ = ["client", "declared"]

IN_USE = "403 ACCESS_REFUSED - queue '.*' in vhost '/' in exclusive use"


def test_an_exclusive_consumer_lets_no_other_in(client: Client, declared: Any) -> None:
    queue = declared()
    tag = client.consume(queue, exclusive=True)
    client.call(m.BasicQos(0, 1), m.BasicQosOk)
    with pytest.raises(ChannelClosedError, match=IN_USE):
        client.consume(queue)
    # The channel has ended, and with it the exclusive consumer.
    client.open_channel()
    client.consume(queue, tag)
    with pytest.raises(ChannelClosedError, match=IN_USE):
        client.consume(queue, exclusive=True)


def test_no_other_consumer_is_let_in_but_any_client_may_get(client: Client) -> None:
    queue = client.declare("q").queue
    client.confirms(client.publish(queue, b"1"))
    tag = client.consume(queue, exclusive=True, prefetch=1)
    client.confirms(client.publish(queue, b"2"))
    other = client.site.client("n1")
    assert other.bodies(queue) == [b"2"]
    client.cancel(tag)
    other.consume(queue, exclusive=True)


def test_an_exclusive_consumer_stays_so_when_the_owner_dies() -> None:
    """Also where another consumer subscribes before the exclusive one has attached to the new owner."""
    site = Site("n1", "n2", "n3")
    site.client("n1").declare("q")
    mine, other = site.client("n2"), site.client("n3")
    mine.consume("q", exclusive=True)
    site.nodes["n1"].stop(power=False)
    with pytest.raises(ChannelClosedError, match=IN_USE):
        other.consume("q")
    mine.confirms(mine.publish("q", b"1"))
    site.until(lambda: mine.deliveries)
    assert mine.cancelled == []


@pytest.mark.requirement("A23.5")
def test_a_higher_priority_is_served_first(client: Client, declared: Any) -> None:
    queue = declared()
    for tag, priority in (("low", -1), ("plain", None), ("high", 7)):
        arguments = {} if priority is None else {"x-priority": priority}
        client.consume(queue, tag, prefetch=2, arguments=arguments)
    client.confirms(client.publish(queue, b"1", b"2", b"3", b"4", b"5", b"6", b"7"))
    client.site.run(0.05)
    assert [one.method.consumer_tag for one in client.deliveries] == ["high"] * 2 + ["plain"] * 2 + [
        "low"
    ] * 2


@pytest.mark.parametrize("priority", ["5", 2.5, True])
def test_a_priority_is_an_integer(client: Client, priority: Any) -> None:
    client.declare("q")
    with pytest.raises(ChannelClosedError, match="406 PRECONDITION_FAILED - invalid arg 'x-priority'"):
        client.consume("q", arguments={"x-priority": priority})


@pytest.mark.requirement("A17.8", "A23.3")
def test_consumers_of_a_deleted_queue_are_cancelled(client: Client, declared: Any) -> None:
    queue = declared()
    tags = {client.consume(queue), client.consume(queue)}
    client.delete(queue)
    client.site.until(lambda: len(client.cancelled) == 2)
    assert set(client.cancelled) == tags


def test_an_exclusive_consumer_stays_so_while_its_node_greets_the_owner_anew() -> None:
    """Nodes greet an owner anew when a message between them was lost."""
    site = Site("n1", "n2", "n3")
    site.client("n1").declare("q")
    mine, other = site.client("n2"), site.client("n3")
    mine.consume("q", exclusive=True)
    owner = site.nodes["n1"]
    for milliseconds in range(8):
        owner.input(lambda: owner.broker.peer_gap("n2", owner.clock()))
        site.run(milliseconds / 1000)
        with pytest.raises(ChannelClosedError, match=IN_USE):
            other.consume("q")
        other.open_channel()
    assert mine.cancelled == []
