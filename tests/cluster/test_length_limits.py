"""Queues with a limit on their length, of every kind and with every policy (A24)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.kinds import client, declared
from tests.site import Client, Site

__all__ = ["client", "declared"]

MODES = pytest.mark.parametrize("mode", [1, 2])


@pytest.mark.requirement("A24.3", "A24.5")
@MODES
def test_the_oldest_are_dropped(client: Client, declared: Any, mode: int) -> None:
    queue = declared(max_length=3)
    for body in (b"a", b"b", b"c"):
        client.publish(queue, body, delivery_mode=mode)
    assert client.confirms(client.publish(queue, b"d", b"e", delivery_mode=mode)) == [True, True]
    client.site.run(0.05)
    assert client.bodies(queue) == [b"c", b"d", b"e"]


@pytest.mark.requirement("A24.4", "A24.5")
@MODES
def test_octets_of_bodies_are_counted(client: Client, declared: Any, mode: int) -> None:
    queue = declared(max_length_bytes=10)
    bodies = [b"aaaa", b"bb", b"", b"cccc", b"ddd"]
    client.confirms(client.publish(queue, *bodies, delivery_mode=mode))
    client.site.run(0.05)
    assert client.bodies(queue) == [b"bb", b"", b"cccc", b"ddd"]
    client.confirms(client.publish(queue, b"x" * 11, b"y" * 10, delivery_mode=mode))
    client.site.run(0.05)
    assert client.bodies(queue) == [b"y" * 10]


@pytest.mark.requirement("A24.3", "A24.4")
def test_leased_messages_count_in_no_limit(client: Client, declared: Any) -> None:
    queue = declared(max_length=2, max_length_bytes=6)
    client.consume(queue, prefetch=2)
    client.confirms(client.publish(queue, b"aaa", b"bbb"))
    client.site.until(lambda: len(client.deliveries) == 2)
    client.confirms(client.publish(queue, b"ccc", b"ddd"))
    client.site.run(0.05)
    assert client.depth(queue) == 2
    # The returned message is the oldest, and over the limit.
    client.nack(client.deliveries[0], requeue=True)
    client.site.until(lambda: len(client.deliveries) == 3)
    assert client.deliveries[2].body == b"aaa"


@pytest.mark.requirement("A24.3")
def test_what_consumers_take_at_once_is_never_too_much(client: Client, declared: Any) -> None:
    for overflow in ("drop-head", "reject-publish"):
        other = client.site.client("n1")
        queue = declared(max_length=1, overflow=overflow) if overflow == "drop-head" else "r"
        if overflow != "drop-head":
            other.declare("r", max_length=1, overflow=overflow)
        consumer = client if queue != "r" else other
        consumer.consume(queue)
        bodies = [b"%d" % i for i in range(50)]
        assert all(consumer.confirms(consumer.publish(queue, *bodies)))
        consumer.site.until(lambda consumer=consumer: len(consumer.deliveries) == 50)


@pytest.mark.requirement("A24.3", "A24.6")
@MODES
@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_a_full_queue_refuses(client: Client, declared: Any, mode: int, overflow: str) -> None:
    queue = declared(max_length=2, overflow=overflow)
    tags = client.publish(queue, b"a", b"b", b"c", delivery_mode=mode)
    tags += client.publish(queue, b"d", delivery_mode=mode)
    assert client.confirms(tags) == [True, True, False, False]
    assert client.get(queue).body == b"a"  # type: ignore[union-attr]
    assert client.confirms(client.publish(queue, b"e", b"f", delivery_mode=mode)) == [True, False]
    assert client.bodies(queue) == [b"b", b"e"]


@pytest.mark.requirement("A24.4", "A24.6")
@MODES
def test_a_full_queue_refuses_by_octets(client: Client, declared: Any, mode: int) -> None:
    queue = declared(max_length_bytes=10, overflow="reject-publish")
    tags = client.publish(queue, b"aaaaaa", b"bbbbbb", b"cc", b"", b"ddd", delivery_mode=mode)
    assert client.confirms(tags) == [True, False, True, True, False]
    assert client.bodies(queue) == [b"aaaaaa", b"cc", b""]


@pytest.mark.requirement("A24.3", "A24.6")
def test_a_queue_without_room_refuses_everything(client: Client, declared: Any) -> None:
    queue = declared(max_length=0, overflow="reject-publish")
    client.consume(queue)
    assert client.confirms(client.publish(queue, b"a")) == [False]


@pytest.mark.requirement("A24.6")
@MODES
def test_a_message_that_one_of_several_queues_refuses_is_refused(client: Client, mode: int) -> None:
    """The other queues take the message all the same, as in RabbitMQ."""
    client.declare("full", max_length=1, overflow="reject-publish")
    client.declare("wide")
    for queue in ("full", "wide"):
        client.bind(queue, "amq.fanout")
    tags = client.publish("", b"a", b"b", b"c", exchange="amq.fanout", delivery_mode=mode)
    assert client.confirms(tags) == [True, False, False]
    assert client.bodies("full") == [b"a"]
    assert client.bodies("wide") == [b"a", b"b", b"c"]


@pytest.mark.requirement("A24.6")
def test_refused_messages_are_not_in_the_log() -> None:
    client = Site("n1").client("n1")
    client.declare("q", max_length=1, overflow="reject-publish")
    client.confirms(client.publish("q", b"a" * 1000))
    journal = client.node.journal
    before = journal.counters.bytes_written
    for _ in range(20):
        client.confirms(client.publish("q", b"b" * 1000))
    assert journal.counters.bytes_written - before < 10_000
    assert client.bodies("q") == [b"a" * 1000]


@pytest.mark.requirement("A24.3")
@MODES
def test_a_get_behind_publishes_finds_what_the_limit_has_left(
    client: Client, declared: Any, mode: int
) -> None:
    queue = declared(max_length=2)
    client.publish(queue, b"a", b"b", b"c", b"d", delivery_mode=mode)
    for body in (b"c", b"d"):
        got = client.get(queue)
        assert got is not None and got.body == body
    assert client.get(queue) is None


def test_consumers_have_what_came_before_a_get_was_sent(client: Client, declared: Any) -> None:
    queue = declared()
    client.consume(queue, prefetch=2)
    client.publish(queue, b"a", b"b", b"c")
    got = client.get(queue)
    assert got is not None and got.body == b"c"
    client.site.until(lambda: len(client.deliveries) == 2)
    assert [one.body for one in client.deliveries] == [b"a", b"b"]


@pytest.mark.requirement("A24.3")
@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_what_is_delayed_takes_no_room_before_it_is_due(client: Client, declared: Any, overflow: str) -> None:
    queue = declared(max_length=1, max_length_bytes=4, overflow=overflow)
    late = {"headers": {"x-delay": 500}}
    assert client.confirms(client.publish(queue, b"aaa", b"bbb", b"ccc", **late)) == [True] * 3
    assert client.confirms(client.publish(queue, b"d", b"e")) == [True, False]
    assert client.confirms(client.publish(queue, b"f", **late)) == [False]
    client.site.run(0.6)
    assert client.bodies(queue) == [b"aaa", b"bbb", b"ccc", b"d"]
