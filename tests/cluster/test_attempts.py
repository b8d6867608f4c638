"""Cancels and lost deliveries are counted apart, and limited, on every kind of queue and over owners (D4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cluster.config.formats import FORMAT_LEVEL
from node.wire.amqp091 import methods as m
from node.wire.amqp10 import definitions as d
from tests.cluster.kept_links import owner
from tests.cluster.kinds import client, declared
from tests.cluster.links import LinkClient
from tests.site import Client, Site
from tests.wire.amqp10.performatives import credit, receiver, settled

__all__ = ["client", "declared"]

MODES = pytest.mark.parametrize("mode", [1, 2])


def cancel(client: Client, queue: str, times: int = 1) -> None:
    """Get a message and give it back, so many times."""
    for _ in range(times):
        got = client.get(queue, no_ack=False)
        assert got is not None
        client.nack(got, requeue=True)
    client.site.run(0.2)


def lose(client: Client, queue: str, times: int = 1) -> None:
    """Get a message and close its channel, so many times."""
    for _ in range(times):
        assert client.get(queue, no_ack=False) is not None
        client.call(m.ChannelClose(200, "", 0, 0), m.ChannelCloseOk)
        client.open_channel()
    client.site.run(0.2)


def reasons(client: Client) -> list[tuple[bytes, str]]:
    return [(one.body, one.headers["x-death"][0]["reason"]) for one in client.drain("grave")]


@MODES
@pytest.mark.requirement("D4.1", "D4.2")
@pytest.mark.parametrize(("argument", "fail"), [("max_cancels", cancel), ("max_deliveries", lose)])
def test_a_message_expires_when_its_last_delivery_fails(
    client: Client, declared: Any, mode: int, argument: str, fail: Callable[..., None]
) -> None:
    client.declare("grave")
    queue = declared(dead_letter_exchange="", dead_letter_routing_key="grave", **{argument: 3})
    client.confirms(client.publish(queue, b"a", delivery_mode=mode))
    fail(client, queue, 2)
    assert (client.depth(queue), client.depth("grave")) == (1, 0)
    fail(client, queue)
    assert (client.depth(queue), reasons(client)) == (0, [(b"a", "expired")])


@MODES
@pytest.mark.requirement("D4.3")
def test_cancels_and_lost_deliveries_are_counted_apart(client: Client, declared: Any, mode: int) -> None:
    queue = declared(max_cancels=3, max_deliveries=3)
    client.confirms(client.publish(queue, b"a", b"b", delivery_mode=mode))
    for _ in range(2):
        cancel(client, queue)
        lose(client, queue)
    assert client.depth(queue) == 2
    cancel(client, queue)
    assert client.depth(queue) == 1
    lose(client, queue, 2)
    cancel(client, queue, 2)
    assert client.depth(queue) == 1
    lose(client, queue)
    assert client.depth(queue) == 0


@pytest.mark.requirement("D4.2")
def test_a_lapsed_lease_is_a_lost_delivery(client: Client, declared: Any) -> None:
    queue = declared(lease_period=100, max_deliveries=2, max_cancels=1)
    client.confirms(client.publish(queue, b"a"))
    client.consume(queue)
    client.site.run(1.0)
    assert len(client.deliveries) == 2 and client.depth(queue) == 0


@pytest.mark.requirement("D4.1", "D4.3")
def test_outcomes_of_amqp_10_are_cancels_where_they_say_that_the_delivery_failed(client: Client) -> None:
    queue = client.declare("q", max_cancels=2).queue
    client.confirms(client.publish(queue, b"a"))
    peer = LinkClient(client.site, "n1", receiver(0, queue), credit(99))
    for id, state in enumerate([d.Released(), d.Modified(False), d.Modified(True), d.Released()]):
        client.site.until(lambda id=id: len(peer.payloads) > id)
        peer.send(settled(id, None, state))
    client.site.until(lambda: len(peer.payloads) == 5)
    peer.send(settled(4, None, d.Modified(True)))
    client.site.run(0.5)
    assert len(peer.payloads) == 5 and client.depth(queue) == 0


@pytest.mark.requirement("D4.2")
def test_a_link_that_ends_with_a_delivery_has_lost_it(client: Client) -> None:
    queue = client.declare("q", max_deliveries=2, max_cancels=1).queue
    client.confirms(client.publish(queue, b"a"))
    for left in (1, 0):
        peer = LinkClient(client.site, "n1", receiver(0, queue), credit(1))
        client.site.until(lambda peer=peer: peer.payloads)
        peer.send(d.Detach(0, True))
        client.site.run(0.2)
        assert client.depth(queue) == left


@pytest.mark.requirement("D4.1")
def test_cancels_in_a_transaction_count_with_its_commit(client: Client) -> None:
    queue = client.declare("q", max_cancels=2).queue
    client.confirms(client.publish(queue, b"a"))
    for left in (1, 0):
        other = client.site.client("n1", transactional=True)
        got = other.get(queue, no_ack=False)
        assert got is not None
        other.nack(got, requeue=True)
        assert client.depth(queue) == 0
        other.commit()
        client.site.run(0.2)
        assert client.depth(queue) == left


@pytest.mark.requirement("D4.1", "D4.2", "D4.3")
def test_both_are_counted_over_a_lost_owner() -> None:
    site = Site("n1", "n2", "n3")
    client = site.client("n1")
    client.declare("q", max_cancels=3, max_deliveries=3)
    client.confirms(client.publish("q", b"a"))
    first = owner(site)
    others = [name for name in site.nodes if name != first]
    one, two = map(site.client, others)
    cancel(one, "q", 2)
    lose(one, "q", 2)
    site.nodes[first].stop(power=False)
    site.until(lambda: one.depth("q") == 1)
    cancel(two, "q")
    assert two.depth("q") == 0


def test_a_client_s_word_counts_as_a_failure_before_all_nodes_know_cancels(
    client: Client, declared: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.catalog.membership.formats.CANCELS_IN_RETURNS", FORMAT_LEVEL + 1)
    queue = declared(max_cancels=1, max_deliveries=2)
    client.confirms(client.publish(queue, b"a"))
    cancel(client, queue)
    assert client.depth(queue) == 1
    cancel(client, queue)
    assert client.depth(queue) == 0
