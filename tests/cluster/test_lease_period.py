"""A consumer of a queue with x-lease-period keeps an unsettled message for that time, and no longer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.kinds import client, declare, declared
from tests.site import Client, Site

__all__ = ["client", "declared"]


@pytest.mark.parametrize("mode", [1, 2])
def test_what_is_kept_too_long_goes_to_another_consumer(client: Client, declared: Any, mode: int) -> None:
    queue = declared(lease_period=500)
    client.confirms(client.publish(queue, b"1", b"2", delivery_mode=mode))
    client.consume(queue, "a", prefetch=1)
    client.site.run(0.1)
    client.consume(queue, "b", prefetch=1)
    client.site.run(0.1)
    client.ack(client.deliveries[1])
    client.site.run(0.2)
    assert [(one.body, one.method.consumer_tag) for one in client.deliveries] == [(b"1", "a"), (b"2", "b")]
    client.site.run(0.3)
    (again,) = client.deliveries[2:]
    assert (again.body, again.method.consumer_tag, again.method.redelivered) == (b"1", "b", True)


def test_a_late_answer_settles_the_message_while_no_consumer_has_it(client: Client, declared: Any) -> None:
    queue = declared(lease_period=200)
    client.confirms(client.publish(queue, b"1"))
    client.consume(queue, "a", prefetch=1)
    client.site.run(0.5)
    assert client.depth(queue) == 1
    client.ack(client.deliveries[0])
    client.site.run(0.1)
    assert client.depth(queue) == 0


@pytest.mark.parametrize("other", ["n1", "n2"])
@pytest.mark.parametrize("answer", ["ack", "reject", "requeue"])
def test_a_late_answer_leaves_the_message_with_the_consumer_that_has_it_now(other: str, answer: str) -> None:
    site = Site("n1", "n2")
    late, current = site.client("n1"), site.client(other)
    late.declare("q", lease_period=300, dead_letter_exchange="", dead_letter_routing_key="dead")
    late.declare("dead")
    late.confirms(late.publish("q", b"1"))
    late.consume("q", "a", prefetch=1)
    site.run(0.1)
    current.consume("q", "b")
    site.run(0.35)
    (delivery,) = current.deliveries
    assert delivery.method.redelivered
    if answer == "ack":
        late.ack(late.deliveries[0])
    else:
        late.nack(late.deliveries[0], requeue=answer == "requeue")
    site.run(0.1)
    assert len(current.deliveries) == 1 and late.depth("q") == 0 and late.depth("dead") == 0
    # The current lease lapses as well: the message is still in the queue.
    site.run(0.2)
    assert [one.body for one in late.deliveries[1:] + current.deliveries[1:]] == [b"1"]


def test_a_lapsed_delivery_counts_as_failed(client: Client, declared: Any) -> None:
    queue = declared(
        lease_period=100, delivery_limit=1, dead_letter_exchange="", dead_letter_routing_key="dead"
    )
    client.declare("dead")
    client.confirms(client.publish(queue, b"1"))
    client.consume(queue)
    client.site.run(1.0)
    assert [one.method.redelivered for one in client.deliveries] == [False, True]
    assert client.bodies("dead") == [b"1"]


def test_a_message_that_was_got_lapses_as_well(client: Client, declared: Any) -> None:
    queue = declared(lease_period=200)
    client.confirms(client.publish(queue, b"1"))
    assert client.get(queue, no_ack=False) is not None
    client.site.run(0.1)
    assert client.depth(queue) == 0
    client.site.run(0.3)
    assert client.depth(queue) == 1


def test_nothing_lapses_that_is_removed_before_its_delivery(client: Client, declared: Any) -> None:
    queue = declared(lease_period=100, semantics="at-most-once")
    client.confirms(client.publish(queue, b"1"))
    client.consume(queue)
    client.site.run(0.5)
    assert [one.body for one in client.deliveries] == [b"1"]
    assert client.depth(queue) == 0


def test_a_purge_leaves_what_is_leased(client: Client, declared: Any) -> None:
    queue = declared(lease_period=300)
    client.confirms(client.publish(queue, b"1", b"2"))
    client.consume(queue, "a", prefetch=1)
    client.site.run(0.1)
    assert client.purge(queue) == 1
    client.site.run(0.5)
    assert client.depth(queue) == 1
    assert client.purge(queue) == 1
    client.ack(client.deliveries[0])
    client.site.run(0.5)
    assert client.depth(queue) == 0


def test_a_queue_is_deleted_with_its_leases(client: Client, declared: Any) -> None:
    queue = declared(lease_period=200)
    client.confirms(client.publish(queue, b"1"))
    client.consume(queue, "a", prefetch=1)
    client.site.run(0.1)
    client.delete(queue)
    client.site.run(0.5)
    assert [one.body for one in client.deliveries] == [b"1"]


def test_what_a_transaction_has_settled_does_not_lapse(client: Client) -> None:
    queue = declare(client, "replicated", lease_period=200)
    client.confirms(client.publish(queue, b"1", b"2"))
    late = client.site.client("n1", transactional=True)
    late.consume(queue, "a", prefetch=1)
    client.site.run(0.1)
    late.ack(late.deliveries[0])
    late.commit()
    client.site.run(0.5)
    # Only the second message is in the queue again.
    assert client.bodies(queue) == [b"2"]
