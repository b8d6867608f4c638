"""Delayed delivery (X1), as clients see it, on every kind of queue."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.cluster.kinds import KINDS, declare
from tests.site import Client, Site

every_kind = pytest.mark.parametrize("kind", KINDS)
persistent_or_not = pytest.mark.parametrize("mode", [1, 2])


@pytest.fixture
def client() -> Client:
    return Site("n1").client("n1")


def bodies_of(client: Client, after: float) -> list[bytes]:
    client.site.run(after)
    return [delivery.body for delivery in client.deliveries]


def delayed(milliseconds: Any) -> dict[str, Any]:
    return {"headers": {"x-delay": milliseconds}}


@every_kind
@persistent_or_not
@pytest.mark.requirement("X1.2", "X1.3")
def test_a_message_is_delivered_when_its_delay_has_passed(client: Client, kind: str, mode: int) -> None:
    queue = declare(client, kind)
    client.consume(queue)
    client.publish(queue, b"late", **delayed(1000), delivery_mode=mode)
    client.publish(queue, b"later", **delayed(2000), delivery_mode=mode)
    client.confirms(client.publish(queue, b"now", delivery_mode=mode))
    assert bodies_of(client, 0.9) == [b"now"]
    assert bodies_of(client, 0.2) == [b"now", b"late"]
    assert bodies_of(client, 0.8) == [b"now", b"late"]
    assert bodies_of(client, 0.2) == [b"now", b"late", b"later"]


@every_kind
@pytest.mark.requirement("X1.3")
def test_a_scheduled_message_is_not_ready(client: Client, kind: str) -> None:
    queue = declare(client, kind)
    client.confirms(client.publish(queue, b"a", **delayed(500)))
    assert client.depth(queue) == 0
    assert client.get(queue) is None
    client.site.run(0.6)
    assert client.depth(queue) == 1
    assert client.bodies(queue) == [b"a"]


@pytest.mark.parametrize("nothing", [0, -5, "1000", True, None, Decimal("2.5")])
def test_what_is_no_time_is_no_delay(client: Client, nothing: Any) -> None:
    queue = declare(client, "replicated")
    client.confirms(client.publish(queue, b"a", **delayed(nothing)))
    assert client.bodies(queue) == [b"a"]


@pytest.mark.requirement("X1.3")
def test_a_message_that_is_due_takes_its_place_by_priority(client: Client) -> None:
    queue = declare(client, "replicated", max_priority=9)
    client.publish(queue, b"high", priority=9, **delayed(100))
    client.publish(queue, b"higher than low", priority=5, **delayed(200))
    client.confirms(client.publish(queue, b"low", priority=1))
    client.site.run(0.3)
    assert client.bodies(queue) == [b"high", b"higher than low", b"low"]


@every_kind
def test_scheduled_messages_are_purged_with_the_others(client: Client, kind: str) -> None:
    queue = declare(client, kind)
    client.publish(queue, b"a", b"b", **delayed(100))
    client.confirms(client.publish(queue, b"c"))
    assert client.purge(queue) == 3
    client.site.run(0.2)
    assert client.bodies(queue) == []


def test_a_queue_with_scheduled_messages_is_not_empty(client: Client) -> None:
    queue = declare(client, "replicated")
    client.confirms(client.publish(queue, b"a", **delayed(60_000)))
    with pytest.raises(AssertionError, match="406 PRECONDITION_FAILED"):
        client.delete(queue, if_empty=True)


@every_kind
@pytest.mark.requirement("A24.1")
def test_time_to_live_counts_from_when_a_message_is_due(client: Client, kind: str) -> None:
    queue = declare(client, kind, message_ttl=300)
    client.publish(queue, b"a", **delayed(500))
    client.confirms(client.publish(queue, b"b", expiration="100", **delayed(500)))
    client.site.run(0.55)
    assert client.depth(queue) == 2
    client.site.run(0.1)
    assert client.depth(queue) == 1
    client.site.run(0.2)
    assert client.depth(queue) == 0


# -- backoff ------------------------------------------------------------------------------------

BACKOFF = {"initial": 100, "factor": 3, "maximum": 500}


@every_kind
@persistent_or_not
@pytest.mark.requirement("X1.5")
def test_a_message_that_fails_again_and_again_rests_longer_and_longer(
    client: Client, kind: str, mode: int
) -> None:
    queue = declare(client, kind, redelivery_backoff=BACKOFF)
    client.consume(queue, prefetch=1)
    client.confirms(client.publish(queue, b"a", delivery_mode=mode))
    client.site.until(lambda: client.deliveries)
    for rest_ms in (100, 300, 500, 500):
        before = len(client.deliveries)
        client.nack(client.deliveries[-1], requeue=True)
        client.site.run((rest_ms - 20) / 1000)
        assert len(client.deliveries) == before
        client.site.run(0.07)
        assert len(client.deliveries) == before + 1
        assert client.deliveries[-1].method.redelivered


@pytest.mark.requirement("X1.5")
def test_other_messages_pass_one_that_rests(client: Client) -> None:
    queue = declare(client, "replicated", redelivery_backoff=BACKOFF)
    client.consume(queue, prefetch=1)
    client.confirms(client.publish(queue, b"a", b"b"))
    client.site.until(lambda: client.deliveries)
    client.nack(client.deliveries[-1], requeue=True)
    assert bodies_of(client, 0.05) == [b"a", b"b"]
    client.ack(client.deliveries[-1])
    assert bodies_of(client, 0.1) == [b"a", b"b", b"a"]


@pytest.mark.requirement("X1.5", "X3.1")
def test_what_rests_holds_up_its_own_group_alone(client: Client) -> None:
    queue = declare(client, "replicated", redelivery_backoff=BACKOFF, group_by="customer")
    client.consume(queue, prefetch=1)
    for body in (b"a1", b"a2", b"b1"):
        client.publish(queue, body, headers={"customer": chr(body[0])})
    client.site.until(lambda: client.deliveries)
    client.nack(client.deliveries[-1], requeue=True)
    assert bodies_of(client, 0.05) == [b"a1", b"b1"]
    client.ack(client.deliveries[-1])
    assert bodies_of(client, 0.03) == [b"a1", b"b1"]
    assert bodies_of(client, 0.1) == [b"a1", b"b1", b"a1"]
    client.ack(client.deliveries[-1])
    assert bodies_of(client, 0.05) == [b"a1", b"b1", b"a1", b"a2"]


def test_messages_of_a_closed_channel_rest_too(client: Client) -> None:
    other = client.site.client("n1")
    queue = declare(client, "replicated", redelivery_backoff=BACKOFF)
    other.consume(queue)
    client.confirms(client.publish(queue, b"a"))
    other.site.until(lambda: other.deliveries)
    client.consume(queue)
    other.close()
    assert bodies_of(client, 0.05) == []
    assert bodies_of(client, 0.1) == [b"a"]


# -- exchanges of RabbitMQ's plugin ---------------------------------------------------------------


def test_an_exchange_for_delayed_messages_routes_as_its_type(client: Client) -> None:
    for _ in range(2):
        client.declare_exchange("later", "x-delayed-message", **{"x-delayed-type": "topic"})
    for queue, key in (("one", "a.*"), ("two", "#")):
        client.declare(queue)
        client.bind(queue, "later", key)
    client.publish("a.b", b"ab", exchange="later", **delayed(200))
    client.confirms(client.publish("c", b"c", exchange="later", **delayed(100)))
    assert client.depth("one") == client.depth("two") == 0
    client.site.run(0.3)
    assert client.bodies("one") == [b"ab"]
    assert client.bodies("two") == [b"ab", b"c"]


@pytest.mark.parametrize("type_", [None, "x-delayed-message", 5])
def test_an_exchange_for_delayed_messages_must_say_how_to_route(client: Client, type_: Any) -> None:
    with pytest.raises(AssertionError, match="406 PRECONDITION_FAILED - invalid argument, 'x-delayed-type'"):
        client.declare_exchange("later", "x-delayed-message", **{"x-delayed-type": type_})


def test_an_exchange_for_delayed_messages_is_none_of_its_type(client: Client) -> None:
    client.declare_exchange("later", "x-delayed-message", **{"x-delayed-type": "topic"})
    with pytest.raises(AssertionError, match="received 'topic' but current is 'x-delayed-message'"):
        client.declare_exchange("later", "topic")
    client.open_channel()
    with pytest.raises(AssertionError, match="received 'direct' but current is 'topic'"):
        client.declare_exchange("later", "x-delayed-message", **{"x-delayed-type": "direct"})
