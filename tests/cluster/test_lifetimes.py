"""Messages and queues end when their time is over, on every kind of queue (A24)."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from node.wire.amqp091 import methods as m
from tests.cluster.kinds import KINDS, client, declared
from tests.site import ChannelClosedError, Client, Site

__all__ = ["client", "declared"]


@pytest.mark.requirement("A24.1")
@pytest.mark.parametrize("mode", [1, 2])
def test_messages_expire_by_the_time_of_their_queue(client: Client, declared: Any, mode: int) -> None:
    queue = declared(message_ttl=200)
    client.confirms(client.publish(queue, b"a", b"b", delivery_mode=mode))
    assert client.depth(queue) == 2
    client.site.run(0.15)
    client.confirms(client.publish(queue, b"c", delivery_mode=mode))
    client.site.run(0.1)
    assert client.bodies(queue) == [b"c"]


@pytest.mark.parametrize("mode", [1, 2])
def test_messages_expire_by_their_own_time_wherever_they_stand(
    client: Client, declared: Any, mode: int
) -> None:
    queue = declared()
    client.publish(queue, b"a", delivery_mode=mode)
    client.publish(queue, b"b", b"c", expiration="100", delivery_mode=mode)
    client.confirms(client.publish(queue, b"d", expiration="60000", delivery_mode=mode))
    assert client.depth(queue) == 4
    client.site.run(0.2)
    assert client.bodies(queue) == [b"a", b"d"]


@pytest.mark.requirement("A24.1")
def test_the_shorter_of_two_times_counts(client: Client, declared: Any) -> None:
    queue = declared(message_ttl=100)
    client.publish(queue, b"a", expiration="60000")
    client.confirms(client.publish(queue, b"b", expiration="10"))
    client.site.run(0.06)
    assert client.bodies(queue) == [b"a"]
    client.confirms(client.publish(queue, b"a", expiration="60000"))
    client.site.run(0.2)
    assert client.depth(queue) == 0


@pytest.mark.requirement("A24.1", "D5.1")
def test_a_leased_message_expires_when_it_comes_back(client: Client, declared: Any) -> None:
    queue = declared(message_ttl=50)
    client.consume(queue, prefetch=1)
    client.confirms(client.publish(queue, b"a"))
    client.site.run(0.5)
    client.site.until(lambda: client.deliveries)
    (delivery,) = client.deliveries
    assert delivery.body == b"a"
    client.nack(delivery, requeue=True)
    client.site.run(0.2)
    assert client.depth(queue) == 0 and len(client.deliveries) == 1


@pytest.mark.requirement("D5.2")
def test_expiration_is_no_error(client: Client, declared: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The publishing channel stays open, and the log has no error."""
    queue = declared(message_ttl=50)
    client.confirms(client.publish(queue, b"a", b"b"))
    client.site.run(0.2)
    assert client.depth(queue) == 0
    assert client.get(queue) is None
    assert client.confirms(client.publish(queue, b"c")) == [True]
    assert client.bodies(queue) == [b"c"]
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("mode", [1, 2])
def test_a_message_without_time_goes_only_to_who_waits_for_it(
    client: Client, declared: Any, mode: int
) -> None:
    queue = declared()
    client.confirms(client.publish(queue, b"a", expiration="0", delivery_mode=mode))
    client.site.run(0.05)
    assert client.depth(queue) == 0
    client.consume(queue, prefetch=1)
    client.confirms(client.publish(queue, b"b", b"c", expiration="0", delivery_mode=mode))
    client.site.run(0.1)
    assert [one.body for one in client.deliveries] == [b"b"]
    assert client.depth(queue) == 0


def test_a_malformed_time_closes_the_channel(client: Client, declared: Any) -> None:
    queue = declared()
    client.publish(queue, b"a", expiration="soon")
    with pytest.raises(ChannelClosedError, match="406 PRECONDITION_FAILED - invalid expiration 'soon'"):
        client.depth(queue)


# -- queues -------------------------------------------------------------------------------------


def exists(client: Client, queue: str) -> bool:
    try:
        client.depth(queue)
    except ChannelClosedError as error:
        assert error.code == 404
        client.open_channel()
        return False
    return True


@pytest.mark.requirement("A24.2")
def test_an_unused_queue_goes(client: Client, declared: Any) -> None:
    queue = declared(expires=300)
    client.confirms(client.publish(queue, b"a"))
    client.site.run(0.2)
    assert exists(client, queue)
    client.site.run(0.2)
    assert exists(client, queue)
    client.publish(queue, b"b")
    client.site.run(0.4)
    assert not exists(client, queue)


@pytest.mark.requirement("A24.2")
def test_a_consumer_and_a_get_use_a_queue(client: Client, declared: Any) -> None:
    queue = declared(expires=300)
    tag = client.consume(queue)
    client.site.run(1.0)
    assert exists(client, queue)
    client.site.run(1.0)
    client.cancel(tag)
    client.site.run(0.2)
    client.get(queue)
    client.site.run(0.2)
    client.get(queue)
    client.site.run(0.4)
    assert not exists(client, queue)


@pytest.mark.requirement("A24.1")
@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.parametrize("how", ["nack", "close", "rest"])
def test_a_message_without_time_goes_when_its_consumer_gives_it_back(
    client: Client, declared: Any, mode: int, how: str
) -> None:
    """Also where another consumer waits for it, or the same one."""
    resting = {"redelivery_backoff": {"initial": 50}} if how == "rest" else {}
    queue = declared(message_ttl=0, **resting)
    client.consume(queue)
    client.confirms(client.publish(queue, b"a", delivery_mode=mode))
    client.site.until(lambda: client.deliveries)
    if how == "close":
        client.call(m.ChannelClose(200, "", 0, 0), m.ChannelCloseOk)
        client.open_channel()
        client.consume(queue)
    else:
        client.nack(client.deliveries[0], requeue=True)
    client.site.run(1.0)
    assert len(client.deliveries) == 1
    assert client.depth(queue) == 0


@pytest.mark.requirement("A24.1")
@pytest.mark.parametrize("kind", ["replicated", "classic", "transient"])
@pytest.mark.parametrize("consumer", ["n1", "n2", "n3"])
def test_a_message_without_time_goes_to_a_consumer_on_whichever_node(kind: str, consumer: str) -> None:
    site = Site("n1", "n2", "n3")
    publisher, other = site.client("n2"), site.client(consumer)
    publisher.declare("q", message_ttl=0, **KINDS[kind])
    other.consume("q", prefetch=1)
    publisher.confirms(publisher.publish("q", b"a"))
    site.until(lambda: other.deliveries)
    assert other.deliveries[0].body == b"a"
