"""Failed deliveries are counted in deliveries, and limited, on every kind of queue (A24)."""

from __future__ import annotations

from typing import Any

import pytest

from node.wire.amqp091 import methods as m
from tests.cluster.kinds import client, declared
from tests.site import Client, Site

__all__ = ["client", "declared"]

pytestmark = pytest.mark.requirement("A24.13")
MODES = pytest.mark.parametrize("mode", [1, 2])


def counts(client: Client) -> list[int | None]:
    """The numbers of failed deliveries in the headers of the deliveries so far."""
    return [one.headers.get("x-delivery-count") for one in client.deliveries]


def told(declared: Any, *expected: int | None) -> list[int | None]:
    """The expected numbers for a queue of this kind: deliveries of classic queues have none."""
    _, kind = declared.args
    return list(expected) if kind == "replicated" else [None] * len(expected)


def failing(client: Client, times: int) -> None:
    """Get a message and return it, so many times."""
    for _ in range(times):
        before = len(client.deliveries)
        client.nack(client.deliveries[-1], requeue=True)
        client.site.until(lambda before=before: len(client.deliveries) > before)


@MODES
def test_a_message_that_failed_too_often_is_a_dead_letter(client: Client, declared: Any, mode: int) -> None:
    client.declare("grave")
    queue = declared(delivery_limit=2, dead_letter_exchange="", dead_letter_routing_key="grave")
    client.confirms(client.publish(queue, b"a", b"b", delivery_mode=mode, headers={"n": 1}))
    client.consume(queue, prefetch=1)
    client.site.until(lambda: client.deliveries)
    failing(client, 3)
    assert [one.body for one in client.deliveries] == [b"a", b"a", b"a", b"b"]
    assert counts(client) == told(declared, None, 1, 2, None)
    assert all(one.headers["n"] == 1 for one in client.deliveries)
    client.site.until(lambda: client.depth("grave") == 1)
    (dead,) = client.drain("grave")
    assert dead.body == b"a"
    assert dead.headers["x-death"][0]["reason"] == "delivery_limit"
    assert dead.headers["x-first-death-reason"] == "delivery_limit"
    assert "x-delivery-count" not in dead.headers
    assert dead.properties.delivery_mode == mode


@MODES
def test_without_a_dead_letter_exchange_it_is_gone(client: Client, declared: Any, mode: int) -> None:
    queue = declared(delivery_limit=0)
    client.confirms(client.publish(queue, b"a", b"b", delivery_mode=mode))
    client.consume(queue, prefetch=1)
    client.site.until(lambda: client.deliveries)
    failing(client, 1)
    client.ack(client.deliveries[-1])
    client.site.run(0.1)
    assert [one.body for one in client.deliveries] == [b"a", b"b"]
    assert client.depth(queue) == 0


@MODES
@pytest.mark.parametrize("limit", [{}, {"delivery_limit": -1}])
def test_without_a_limit_it_comes_again_and_again(
    client: Client, declared: Any, mode: int, limit: dict[str, int]
) -> None:
    queue = declared(**limit)
    client.confirms(client.publish(queue, b"a", delivery_mode=mode))
    client.consume(queue, prefetch=1)
    client.site.until(lambda: client.deliveries)
    failing(client, 25)
    assert counts(client) == told(declared, None, *range(1, 26))


def test_every_way_in_which_a_delivery_fails_counts(client: Client) -> None:
    queue = client.declare("q", delivery_limit=3).queue
    client.confirms(client.publish(queue, b"a"))
    client.consume(queue)
    client.site.until(lambda: len(client.deliveries) == 1)
    client.send(m.BasicReject(client.deliveries[-1].method.delivery_tag, True))
    client.site.until(lambda: len(client.deliveries) == 2)
    client.call(m.ChannelClose(200, "", 0, 0), m.ChannelCloseOk)
    other = client.site.client("n1")
    other.consume(queue)
    other.site.until(lambda: len(other.deliveries) == 1)
    other.close()
    last = client.site.client("n1")
    got = last.get(queue, no_ack=False)
    assert got is not None
    assert counts(client) + counts(other) + [got.headers["x-delivery-count"]] == [None, 1, 2, 3]
    last.nack(got, requeue=True)
    last.site.run(0.1)
    assert last.depth(queue) == 0


def test_what_a_cancelled_consumer_never_had_counts_nothing(client: Client) -> None:
    """The credit is for one message only: the second one stays in the queue."""
    queue = client.declare("q", delivery_limit=0).queue
    client.confirms(client.publish(queue, b"a", b"b"))
    tag = client.consume(queue, prefetch=1)
    client.site.until(lambda: client.deliveries)
    client.cancel(tag)
    client.nack(client.deliveries[0], requeue=True)
    client.site.run(0.1)
    (left,) = client.drain(queue)
    assert (left.body, left.method.redelivered, left.headers) == (b"b", False, {})


def test_with_a_backoff_it_rests_until_the_limit(client: Client) -> None:
    backoff = {"initial": 100, "factor": 2, "maximum": 1000}
    queue = client.declare("q", delivery_limit=1, redelivery_backoff=backoff).queue
    client.confirms(client.publish(queue, b"a"))
    client.consume(queue, prefetch=1)
    client.site.until(lambda: client.deliveries)
    client.nack(client.deliveries[-1], requeue=True)
    client.site.run(0.05)
    assert counts(client) == [None]
    client.site.run(0.1)
    assert counts(client) == [None, 1]
    client.nack(client.deliveries[-1], requeue=True)
    client.site.run(1.0)
    assert counts(client) == [None, 1]


def test_a_group_goes_on_when_one_of_it_is_given_up(client: Client) -> None:
    queue = client.declare("q", delivery_limit=0, group_by="g").queue
    client.publish(queue, b"a1", b"a2", headers={"g": "a"})
    client.consume(queue, prefetch=1)
    client.site.until(lambda: client.deliveries)
    failing(client, 1)
    assert [one.body for one in client.deliveries] == [b"a1", b"a2"]


@MODES
def test_a_lost_node_counts(mode: int) -> None:
    site = Site("n1", "n2", "n3")
    client, far = site.client("n1"), site.client("n2")
    client.declare("q", delivery_limit=1)
    far.consume("q", prefetch=1)
    client.confirms(client.publish("q", b"a", delivery_mode=mode))
    site.until(lambda: far.deliveries)
    site.nodes["n2"].stop(power=False)
    client.consume("q", prefetch=1)
    site.until(lambda: client.deliveries)
    assert counts(client) == [1]
    failing_at = client.deliveries[-1]
    client.nack(failing_at, requeue=True)
    site.run(0.5)
    assert len(client.deliveries) == 1
    assert client.depth("q") == 0
