"""Filters of consumers by expressions of queues: x-filter of basic.consume, and quorate:filter of links."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.config.formats import FORMAT_LEVEL
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.definitions import StdDistMode
from node.wire.amqp10.values import Described, Symbol
from tests.cluster.kept_links import owner
from tests.cluster.kinds import client, declared
from tests.cluster.links import LinkClient
from tests.site import ChannelClosedError, Client, Site
from tests.wire.amqp10.performatives import credit, receiver

__all__ = ["client", "declared"]

MODES = pytest.mark.parametrize("mode", [1, 2])


def numbered(*numbers: int) -> list[bytes]:
    return [b'{"n": %d, "kind": "%s"}' % (n, b"odd" if n % 2 else b"even") for n in numbers]


def subscribed(client: Client, queue: str, text: object, **options: Any) -> str:
    return client.consume(queue, arguments={"x-filter": text}, **options)


def receiving(queue: str, text: str, **fields: Any) -> d.Attach:
    filters: Any = {Symbol("mine"): Described(Symbol("quorate:filter"), text)}
    return receiver(0, source=d.Source(queue, filter=filters, **fields))


@MODES
@pytest.mark.requirement("D9.1")
def test_a_consumer_gets_what_its_filter_takes(client: Client, declared: Any, mode: int) -> None:
    queue = declared()
    client.confirms(client.publish(queue, *numbered(1, 2, 3), delivery_mode=mode))
    subscribed(client, queue, "/kind = 'odd' AND amqp.priority = 4", no_ack=True)
    client.confirms(client.publish(queue, b"5", *numbered(4, 5), delivery_mode=mode))
    client.site.run(0.3)
    assert [one.body for one in client.deliveries] == numbered(1, 3, 5)
    # basic.get has no filter.
    assert client.bodies(queue) == [*numbered(2), b"5", *numbered(4)]


@pytest.mark.requirement("D9.1")
def test_consumers_with_different_filters_share_a_queue(client: Client, declared: Any) -> None:
    queue = declared()
    odd = subscribed(client, queue, "/n % 2 = 1")
    large = subscribed(client, queue, "/n > 3 AND NOT /n % 2 = 1")
    client.confirms(client.publish(queue, *numbered(*range(7))))
    client.site.run(0.3)
    found = [(one.method.consumer_tag, one.body) for one in client.deliveries]
    assert [body for tag, body in found if tag == odd] == numbered(1, 3, 5)
    assert [body for tag, body in found if tag == large] == numbered(4, 6)
    client.nack(client.deliveries[0], requeue=True)
    client.site.run(0.3)
    assert client.deliveries[-1].body == client.deliveries[0].body and client.depth(queue) == 2


@pytest.mark.requirement("D9.1")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("/n = = 1", "unexpected '=' at column 6"),
        ("FOO(/n) = 1", "there is no function FOO at column 1"),
        ("x" * 8193, "the expression has more than 8192 octets at column 8193"),
        ("NOT " * 32 + "a", "the expression is nested more than 32 deep at column 1"),
        (5, '"expected text, got signedint"'),
    ],
)
def test_a_wrong_filter_is_refused_with_its_column(client: Client, text: object, reason: str) -> None:
    client.declare("q")
    with pytest.raises(ChannelClosedError) as refused:
        subscribed(client, "q", text)
    assert refused.value.code == 406
    assert f"invalid arg 'x-filter' for queue 'q' in vhost '/': {reason}" in str(refused.value)


def test_a_queue_has_128_different_filters_at_most(client: Client) -> None:
    client.declare("q")
    for number in range(128):
        subscribed(client, "q", f"/n = {number}")
    subscribed(client, "q", "/n = 5")
    with pytest.raises(ChannelClosedError, match="too many different filters") as refused:
        subscribed(client, "q", "/n = 128")
    assert refused.value.code == 506


@pytest.mark.requirement("D9.1")
@pytest.mark.parametrize("distribution", [StdDistMode.MOVE, StdDistMode.COPY])
def test_a_link_gets_what_its_filter_takes(client: Client, distribution: StdDistMode) -> None:
    client.declare("q")
    client.confirms(client.publish("q", *numbered(1, 2, 3)))
    attach = receiving("q", "/n % 2 = 1", distribution_mode=distribution)
    assert isinstance(attach.source, d.Source)
    peer = LinkClient(client.site, "n1")
    assert peer.send(attach)[0].source.filter == attach.source.filter
    peer.send(credit(9))
    client.confirms(client.publish("q", *numbered(4, 5)))
    client.site.until(lambda: len(peer.payloads) == 3)
    assert [payload[payload.index(b"{") :] for payload in peer.payloads] == numbered(1, 3, 5)
    assert client.depth("q") == (5 if distribution is StdDistMode.COPY else 2)


@pytest.mark.requirement("D9.1")
def test_a_wrong_filter_refuses_the_link_with_its_column(client: Client) -> None:
    client.declare("q")
    (_, detach) = LinkClient(client.site, "n1").send(receiving("q", "/n = "))
    assert detach.error.condition == "amqp:invalid-field" and "column 6" in detach.error.description


@pytest.mark.requirement("D9.1")
def test_a_filter_stays_in_force_over_a_lost_owner() -> None:
    site = Site("n1", "n2", "n3")
    client = site.client("n1")
    client.declare("q")
    client.confirms(client.publish("q", *numbered(*range(1, 7))))
    first = owner(site)
    one, other = [site.client(name) for name in site.nodes if name != first]
    subscribed(one, "q", "/kind = 'odd'", prefetch=2)
    peer = LinkClient(site, other.node.name, receiving("q", "/kind = 'even' AND /n > 2"), credit(9))
    site.run(0.3)
    site.nodes[first].stop(power=False)
    site.until(lambda: other.depth("q") >= 0)
    other.confirms(other.publish("q", *numbered(7, 8)))
    for delivery in one.deliveries:
        one.ack(delivery)
    site.until(lambda: len(one.deliveries) == 4 and len(peer.payloads) == 3)
    assert [delivery.body for delivery in one.deliveries] == numbered(1, 3, 5, 7)
    assert [payload[payload.index(b"{") :] for payload in peer.payloads] == numbered(4, 6, 8)
    assert other.bodies("q") == numbered(2)


def test_no_such_filter_is_taken_before_all_nodes_read_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.catalog.membership.formats.QUEUE_EXPRESSIONS", FORMAT_LEVEL + 1)
    client.declare("q")
    with pytest.raises(ChannelClosedError, match="upgrade all nodes first") as refused:
        subscribed(client, "q", "/n = 1")
    assert refused.value.code == 406
    answer = LinkClient(client.site, "n1").send(receiving("q", "/n = 1"))[0]
    assert answer.source.filter is None
