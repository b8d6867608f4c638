"""Order by key (X3) where an owner has given up a consumer that is back."""

from __future__ import annotations

import pytest

from cluster.broker.lost_nodes import FRONT_END_GRACE_S
from tests.cluster.test_batches_that_come_again import cut_off
from tests.site import Client, Site

QUEUE = "groups"


class Shared:
    """The consumer of `far` has a message. The owner gave the consumer up, and has sent the message to the
    consumer of `near`; then the first consumer has settled the message.
    """

    def __init__(self) -> None:
        self.site = Site("n1", "n2", "n3")
        publisher = self.site.client("n1")
        publisher.declare(QUEUE, durable=True, group_by="key", queue_type="quorum")
        self.far, self.near = self.site.client("n2"), self.site.client("n3")
        self.far.consume(QUEUE, prefetch=1)
        publisher.confirms(publisher.publish(QUEUE, b"first", b"second", headers={"key": "k"}))
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


def bodies(client: Client) -> list[bytes]:
    return [delivery.body for delivery in client.deliveries]


@pytest.fixture
def shared() -> Shared:
    return Shared()


@pytest.mark.requirement("X3.1", "X3.2")
def test_no_other_consumer_gets_more_of_a_group_before_the_second_one_has_settled(shared: Shared) -> None:
    assert bodies(shared.far) == bodies(shared.near) == [b"first"]
    shared.near.ack(shared.near.deliveries[0])
    shared.site.run(1.0)
    assert sorted(bodies(shared.far) + bodies(shared.near)) == [b"first", b"first", b"second"]


@pytest.mark.parametrize("way", ["reject", "cancel", "disconnect"])
def test_the_group_is_free_when_the_second_consumer_gives_the_message_back(shared: Shared, way: str) -> None:
    if way == "reject":
        shared.near.reject(shared.near.deliveries[0], requeue=True)
    elif way == "cancel":
        shared.near.close()
    else:
        shared.near.disconnect()
    shared.site.run(1.0)
    assert sorted(bodies(shared.far) + bodies(shared.near)) == [b"first", b"first", b"second"]
