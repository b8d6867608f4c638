"""Order of publication (A22), priorities (A20), order by key (X3), on every kind of queue."""

from __future__ import annotations

import pytest

from tests.cluster.kinds import KINDS, declare
from tests.site import Client, Site

every_kind = pytest.mark.parametrize("kind", KINDS)
persistent_or_not = pytest.mark.parametrize("mode", [1, 2])


@pytest.fixture
def client() -> Client:
    return Site("n1").client("n1")


def bodies_of(client: Client) -> list[bytes]:
    client.site.run(0.1)
    return [delivery.body for delivery in client.deliveries]


# -- delivery modes -----------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("consumer_first", [True, False])
@pytest.mark.requirement("A22.1")
def test_transient_messages_do_not_overtake_persistent_ones(
    client: Client, kind: str, consumer_first: bool
) -> None:
    """0-9-1 §4.7: also where only the persistent ones wait for the commit of their removal."""
    queue = declare(client, kind)
    if consumer_first:
        client.consume(queue, no_ack=True)
    for number, mode in enumerate((2, 1, 2, 2, 1, 1, 2)):
        client.publish(queue, b"%d" % number, delivery_mode=mode)
    if not consumer_first:
        client.site.run(0.1)
        client.consume(queue, no_ack=True)
    assert bodies_of(client) == [b"%d" % number for number in range(7)]


# -- priorities ---------------------------------------------------------------------------------


@every_kind
@persistent_or_not
@pytest.mark.requirement("A20.1")
def test_the_highest_priority_is_delivered_first(client: Client, kind: str, mode: int) -> None:
    queue = declare(client, kind, max_priority=32)
    client.publish(queue, b"none", delivery_mode=mode)
    for priority in (1, 32, 31, 7, 31):
        client.publish(queue, f"{priority}".encode(), priority=priority, delivery_mode=mode)
    client.confirms(client.publish(queue, b"too much", priority=200, delivery_mode=mode))
    assert client.bodies(queue) == [b"32", b"too much", b"31", b"31", b"7", b"1", b"none"]


@every_kind
def test_a_requeued_message_keeps_its_priority_and_place(client: Client, kind: str) -> None:
    queue = declare(client, kind, max_priority=9)
    client.publish(queue, b"a", b"b", priority=5)
    client.confirms(client.publish(queue, b"c", priority=1))
    client.consume(queue, prefetch=1)
    assert bodies_of(client) == [b"a"]
    client.nack(client.deliveries[0], requeue=True)
    assert bodies_of(client) == [b"a", b"a"]
    client.publish(queue, b"d", priority=9)
    client.nack(client.deliveries[1], requeue=True)
    assert bodies_of(client)[2:] in ([b"a"], [b"d"])


def test_a_queue_that_did_not_ask_for_priorities_has_none(client: Client) -> None:
    queue = declare(client, "replicated")
    client.publish(queue, b"a", priority=1)
    client.confirms(client.publish(queue, b"b", priority=9))
    assert client.bodies(queue) == [b"a", b"b"]


# -- order by key -------------------------------------------------------------------------------


@every_kind
@persistent_or_not
@pytest.mark.requirement("X3.1", "X3.2")
def test_a_group_is_with_one_consumer_at_a_time(client: Client, kind: str, mode: int) -> None:
    queue = declare(client, kind, group_by="customer")
    other = client if kind == "exclusive" else client.site.client("n1")
    client.consume(queue, "one", prefetch=2)
    other.consume(queue, "two", prefetch=2)
    for body in (b"a1", b"b1", b"a2", b"b2", b"a3", b"b3"):
        client.publish(queue, body, headers={"customer": chr(body[0])}, delivery_mode=mode)
    client.site.run(0.1)
    given: dict[str, list[bytes]] = {}
    for one in {id(each): each for each in (client, other)}.values():
        for delivery in one.deliveries:
            given.setdefault(delivery.method.consumer_tag, []).append(delivery.body)
    assert sorted(given.values()) == [[b"a1", b"a2"], [b"b1", b"b2"]]


@pytest.mark.requirement("X3.1")
@pytest.mark.parametrize(
    ("key", "properties"),
    [
        ("message-id", {"message_id": "k"}),
        ("correlation_id", {"correlation_id": "k"}),
        ("type", {"type": "k"}),
        ("app-id", {"app_id": "k"}),
        ("reply_to", {"reply_to": "k"}),
        ("routing_key", {}),
        ("a header", {"headers": {"a header": 7}}),
    ],
)
def test_a_group_is_named_by_a_property_or_a_header(
    client: Client, key: str, properties: dict[str, object]
) -> None:
    queue = declare(client, "replicated", group_by=key)
    client.confirms(client.publish(queue, b"a", b"b", **properties))
    assert client.get(queue, no_ack=False) is not None
    assert client.get(queue, no_ack=False) is None
    if properties:
        # Messages without a key belong to no group.
        client.confirms(client.publish(queue, b"c"))
        assert client.get(queue, no_ack=False) is not None


@every_kind
@pytest.mark.requirement("X3.1")
def test_a_message_that_comes_back_is_the_next_of_its_group(client: Client, kind: str) -> None:
    queue = declare(client, kind, group_by="customer")
    client.consume(queue, prefetch=1)
    for body in (b"a1", b"a2"):
        client.publish(queue, body, headers={"customer": "a"})
    assert bodies_of(client) == [b"a1"]
    client.nack(client.deliveries[0], requeue=True)
    assert bodies_of(client) == [b"a1", b"a1"]
    client.ack(client.deliveries[1])
    assert bodies_of(client) == [b"a1", b"a1", b"a2"]


@pytest.mark.requirement("X3.1", "X3.2")
def test_a_group_moves_when_its_consumer_goes(client: Client) -> None:
    other = client.site.client("n1")
    queue = declare(client, "replicated", group_by="customer")
    other.consume(queue, "first", prefetch=2)
    for body in (b"a1", b"a2", b"a3"):
        client.publish(queue, body, headers={"customer": "a"})
    assert bodies_of(other) == [b"a1", b"a2"]
    client.consume(queue, "second", prefetch=3)
    assert bodies_of(client) == []
    other.close()
    assert bodies_of(client) == [b"a1", b"a2", b"a3"]
