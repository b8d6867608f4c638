"""Messages of a consumer that an owner has given up, and that is back when another consumer has them."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.broker.lost_nodes import FRONT_END_GRACE_S
from tests.cluster.test_batches_that_come_again import cut_off
from tests.inside import state_of
from tests.site import Client, Site

QUEUE = "shared"


class Shared:
    """The consumer of `far` has a message. The owner gave the consumer up, and has sent the message to the
    consumer of `near`; then the first consumer has settled the message.
    """

    def __init__(self, **arguments: Any) -> None:
        self.site = Site("n1", "n2", "n3")
        publisher = self.site.client("n1")
        publisher.declare(QUEUE, durable=True, queue_type="quorum", **arguments)
        self.far, self.near = self.site.client("n2"), self.site.client("n3")
        self.far.consume(QUEUE, prefetch=1)
        publisher.confirms(publisher.publish(QUEUE, b"first", headers={"key": "k"}))
        self.site.until(lambda: self.far.deliveries)
        mends = [cut_off(self.site, "n2", other) for other in ("n1", "n3")]
        self.near.consume(QUEUE, prefetch=1)
        self.site.run(FRONT_END_GRACE_S + 0.4)
        assert bodies(self.near) == bodies(self.far) == [b"first"]
        for mend in mends:
            mend()
        self.site.run(1.0)
        self.far.ack(self.far.deliveries[0])
        self.site.run(1.0)
        publisher.confirms(publisher.publish(QUEUE, b"second", headers={"key": "k"}))

    def give_back(self, way: str) -> None:
        """The second consumer gives the message back."""
        if way == "reject":
            self.near.reject(self.near.deliveries[0], requeue=True)
        elif way == "cancel":
            self.near.close()
        else:
            self.near.disconnect()
        self.site.run(1.0)

    @property
    def leased(self) -> int:
        """The queue's unsettled messages, as its owner counts them."""
        broker = self.site.nodes["n1"].broker
        [found] = [queue for one in broker.owners.values() for queue in state_of(one).queues.values()]
        return found.delivery.leased_count


def bodies(client: Client) -> list[bytes]:
    return [delivery.body for delivery in client.deliveries]


@pytest.fixture
def grouped() -> Shared:
    return Shared(group_by="key")


@pytest.mark.requirement("X3.1", "X3.2")
def test_no_other_consumer_gets_more_of_a_group_before_the_second_one_has_settled(grouped: Shared) -> None:
    assert bodies(grouped.far) == bodies(grouped.near) == [b"first"]
    grouped.near.ack(grouped.near.deliveries[0])
    grouped.site.run(1.0)
    assert sorted(bodies(grouped.far) + bodies(grouped.near)) == [b"first", b"first", b"second"]


WAYS = ["reject", "cancel", "disconnect"]


@pytest.mark.parametrize("way", WAYS)
def test_the_group_is_free_when_the_second_consumer_gives_the_message_back(grouped: Shared, way: str) -> None:
    grouped.give_back(way)
    assert sorted(bodies(grouped.far) + bodies(grouped.near)) == [b"first", b"first", b"second"]


def test_a_better_consumer_becomes_active_when_the_second_one_has_settled() -> None:
    shared = Shared(single_active_consumer=True)
    better = shared.site.client("n1")
    better.consume(QUEUE, arguments={"x-priority": 5})
    shared.site.run(1.0)
    assert bodies(better) == []
    shared.near.ack(shared.near.deliveries[0])
    shared.site.run(1.0)
    assert (bodies(shared.near), bodies(better)) == ([b"first"], [b"second"])


@pytest.mark.parametrize("way", WAYS)
def test_a_better_consumer_becomes_active_when_the_second_one_gives_the_message_back(way: str) -> None:
    shared = Shared(single_active_consumer=True)
    better = shared.site.client("n1")
    better.consume(QUEUE, arguments={"x-priority": 5})
    shared.give_back(way)
    assert (bodies(shared.near), bodies(better)) == ([b"first"], [b"second"])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("arguments", [{}, {"max_unsettled": 1}, {"max_priority": 3}])
def test_a_settled_message_counts_no_more_when_the_second_consumer_gives_it_back(
    way: str, arguments: dict[str, Any]
) -> None:
    shared = Shared(**arguments)
    shared.give_back(way)
    assert sorted(bodies(shared.far) + bodies(shared.near)) == [b"first", b"first", b"second"]
    assert shared.leased == 1
