"""Which consumer of a queue gets the next message (x-fairness), seen by clients of both protocols."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from node.wire.amqp10 import definitions as d
from tests.cluster.kinds import client, declared
from tests.cluster.test_backlogs import asking, bodies, link_to, publish
from tests.cluster.test_policies import drop, put
from tests.site import ChannelClosedError, Client, Site
from tests.wire.amqp10.performatives import settled

__all__ = ["client", "declared"]

ACCEPTED = d.Accepted()


@pytest.fixture
def cluster() -> Client:
    return Site("n1", "n2", "n3").client("n1")


def by_tag(client: Client) -> dict[str, int]:
    """How many messages each consumer of the client has got."""
    client.site.run(0.1)
    return Counter(one.method.consumer_tag for one in client.deliveries)


def settle(client: Client, tag: str, count: int) -> None:
    """Settle the first messages of a consumer."""
    for one in [each for each in client.deliveries if each.method.consumer_tag == tag][:count]:
        client.ack(one)


def ask(client: Client, queue: str, **backlogs: int) -> None:
    """Consumers with these tags and backlogs."""
    for tag, backlog in backlogs.items():
        client.consume(queue, tag, **asking(backlog))


@pytest.mark.requirement("D7.3", "D7.4")
def test_a_message_goes_to_clyde_and_not_to_inky_or_blinky(client: Client, declared: Any) -> None:
    """Inky has 1 of 2 messages, Blinky 3 of 4, and Clyde 4 of 10."""
    queue = declared(max_per_subscription_backlog=10)
    ask(client, queue, inky=2, blinky=4, clyde=10)
    publish(client, queue, *[b"m"] * 16)
    assert by_tag(client) == {"inky": 2, "blinky": 4, "clyde": 10}
    settle(client, "inky", 1)
    settle(client, "blinky", 1)
    settle(client, "clyde", 6)
    client.site.run(0.1)
    publish(client, queue, b"next")
    assert by_tag(client)["clyde"] == 11 and len(client.deliveries) == 17
    assert client.deliveries[-1].method.consumer_tag == "clyde"


@pytest.mark.requirement("D7.3")
def test_links_and_channels_are_compared_over_a_failover_of_the_owner(cluster: Client) -> None:
    """The new owner knows the backlogs, and what is left of each."""
    site = cluster.site
    cluster.declare("q", max_per_subscription_backlog=10)
    inky, blinky = site.client("n2"), site.client("n3")
    inky.consume("q", "inky", **asking(2))
    blinky.consume("q", "blinky", **asking(4))
    clyde = link_to(blinky, "n3", 10)
    publish(cluster, "q", *[b"m"] * 16)
    assert (len(bodies(inky)), len(bodies(blinky)), len(clyde.payloads)) == (2, 4, 10)
    site.nodes["n1"].stop(power=True)
    site.run(3)
    settle(inky, "inky", 1)
    settle(blinky, "blinky", 1)
    clyde.send(settled(0, 5, ACCEPTED))
    site.run(1)
    publish(inky, "q", b"next")
    site.run(1)
    assert (len(bodies(inky)), len(bodies(blinky)), len(clyde.payloads)) == (2, 4, 11)
    publish(inky, "q", b"next", b"next")
    site.run(1)
    assert (len(bodies(inky)), len(bodies(blinky)), len(clyde.payloads)) == (3, 4, 12)


@pytest.mark.requirement("D7.1")
def test_the_first_consumer_with_room_gets_the_messages(client: Client, declared: Any) -> None:
    queue = declared(max_per_subscription_backlog=5, fairness="fast")
    ask(client, queue, a=5, b=5)
    publish(client, queue, *[b"m"] * 3)
    assert by_tag(client) == {"a": 3}
    publish(client, queue, *[b"m"] * 3)
    assert by_tag(client) == {"a": 5, "b": 1}


@pytest.mark.requirement("D7.2")
def test_messages_are_spread_evenly_among_consumers_with_room(client: Client, declared: Any) -> None:
    queue = declared(max_per_subscription_backlog=9, fairness="round-robin")
    ask(client, queue, a=9, b=1, c=9)
    publish(client, queue, *[b"m"] * 7)
    assert by_tag(client) == {"a": 3, "b": 1, "c": 3}


@pytest.mark.requirement("D7.4")
def test_a_queue_is_proportional_once_a_policy_caps_it(client: Client, declared: Any) -> None:
    queue = declared()
    ask(client, queue, a=8, b=2)
    put(client, max_per_subscription_backlog=8)
    publish(client, queue, *[b"m"] * 5)
    assert by_tag(client) == {"a": 4, "b": 1}
    put(client, max_per_subscription_backlog=8, fairness="fast")
    settle(client, "a", 2)
    settle(client, "b", 1)
    client.site.run(0.1)
    publish(client, queue, b"m")
    assert sum(by_tag(client).values()) == 6
    drop(client)
    publish(client, queue, *[b"m"] * 9)
    assert by_tag(client) == {"a": 10, "b": 3}, "both backlogs are full"


@pytest.mark.requirement("D7.5")
@pytest.mark.parametrize("fairness", ["fast", "proportional"])
def test_an_at_most_once_queue_takes_turns_alone(client: Client, declared: Any, fairness: str) -> None:
    with pytest.raises(ChannelClosedError) as error:
        declared(fairness=fairness, semantics="at-most-once")
    assert error.value.code == 406 and "invalid arg 'x-fairness' for queue" in str(error.value)
    assert "with x-semantics at-most-once only round-robin is possible" in str(error.value)
    client.open_channel()
    put(client, fairness=fairness)
    queue = declared(fairness="round-robin", semantics="at-most-once", max_per_subscription_backlog=8)
    ask(client, queue, a=8, b=3)
    publish(client, queue, *[b"m"] * 4)
    assert by_tag(client) == {"a": 2, "b": 2}, "no policy changes that"


@pytest.mark.parametrize("value", ["slow", "Fast", 1, ""])
def test_another_fairness_is_refused(client: Client, declared: Any, value: object) -> None:
    with pytest.raises(ChannelClosedError) as error:
        declared(fairness=value)
    assert error.value.code == 406 and "invalid arg 'x-fairness' for queue" in str(error.value)
