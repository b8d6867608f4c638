"""A queue with a target depth shows its oldest messages alone (D12)."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.config.formats import ARGUMENT_LEVELS, FORMAT_LEVEL
from node.delivery.deeds import Became, Deed
from node.message.bookmarks import bookmark_of
from tests.cluster.kept_links import owner, site
from tests.cluster.test_browsing import bodies, look_at
from tests.cluster.test_moving import TARGET, move, target
from tests.cluster.test_settling_by_bookmark import QUEUE, Settlement
from tests.site import ChannelClosedError, Client, Site

__all__ = ["site"]

DEPTH = 3
MODES = pytest.mark.parametrize("mode", [2, 1])


def numbered(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def filled(site: Site, count: int = 10, mode: int = 2, **arguments: Any) -> Client:
    """A client of the owner's node, with the queue and so many messages in it."""
    client = site.client("n1")
    client.declare(QUEUE, target_queue_depth=DEPTH, **arguments)
    for number in range(count):
        headers = {"odd": number % 2, "number": number}
        client.confirms(client.publish(QUEUE, b"%d" % number, headers=headers, delivery_mode=mode))
    return client


def bookmarks(site: Site) -> list[str]:
    """The bookmarks of ten messages, none of which has left or is leased."""
    definition = site.nodes["n3"].broker.catalog.state.queues["/", QUEUE]
    first = look_at(site.client("n2"), QUEUE)[0].place.number
    return [bookmark_of(definition.id, first + index) for index in range(10)]


@pytest.mark.requirement("D12.1")
@MODES
def test_consumers_get_the_first_messages_and_each_settlement_shows_another(site: Site, mode: int) -> None:
    client = filled(site, mode=mode)
    taking = [site.client(name) for name in ("n2", "n3")]
    for one in taking:
        one.consume(QUEUE, prefetch=10)
    site.run(0.3)

    def got() -> list[bytes]:
        return sorted((d.body for one in taking for d in one.deliveries), key=int)

    assert got() == numbered(0, 1, 2)
    first = next(one for one in taking if one.deliveries)
    first.ack(first.deliveries[0])
    site.until(lambda: len(got()) == DEPTH + 1)
    site.run(0.2)
    assert got() == numbered(0, 1, 2, 3)
    for one in taking:
        for delivery in one.deliveries[one is first :]:
            one.nack(delivery, requeue=False)
    site.until(lambda: len(got()) == 2 * DEPTH + 1)
    assert client.depth(QUEUE) == 3


@pytest.mark.requirement("D12.1")
def test_queries_and_filters_see_the_first_messages_alone(site: Site) -> None:
    client = filled(site)
    assert bodies(look_at(site.client("n2"), QUEUE)) == numbered(0, 1, 2)
    assert bodies(look_at(site.client("n3"), QUEUE, filter="odd = 1")) == numbered(1)
    assert Settlement(site, "n2", Deed.ACKNOWLEDGE, filter="odd = 1").answer.counts == {Became.SETTLED: 1}
    assert bodies(look_at(site.client("n2"), QUEUE)) == numbered(0, 2, 3)
    assert client.depth(QUEUE) == 9


@pytest.mark.requirement("D12.1")
def test_a_consumer_whose_filter_takes_none_of_the_first_messages_gets_none(site: Site) -> None:
    filled(site)
    waiting, other = site.client("n2"), site.client("n3")
    waiting.consume(QUEUE, prefetch=10, arguments={"x-filter": "number > 4"})
    site.run(0.3)
    assert not waiting.deliveries
    for number in range(3):
        assert other.get(QUEUE).body == b"%d" % number
    site.until(lambda: len(waiting.deliveries) == 1)
    site.run(0.2)
    assert [one.body for one in waiting.deliveries] == numbered(5)


@pytest.mark.requirement("D12.2", "D12.3")
def test_a_bookmark_reads_deeper(site: Site) -> None:
    client = filled(site)
    target(site, "n2")
    named = bookmarks(site)
    settled = Settlement(site, "n2", Deed.ACKNOWLEDGE, named[5], named[1])
    assert settled.became == [Became.SETTLED, Became.SETTLED]
    assert move(site, named[7]).answer.counts == {Became.SETTLED: 1}
    assert bodies(look_at(site.client("n3"), QUEUE)) == numbered(0, 2, 3)
    assert client.bodies(QUEUE) == numbered(0, 2, 3, 4, 6, 8, 9)
    assert client.bodies(TARGET) == numbered(7)


@pytest.mark.requirement("D12.1", "D12.2")
@pytest.mark.parametrize("power", [True, False])
def test_a_new_owner_shows_no_more(site: Site, power: bool) -> None:
    filled(site)
    first, named = owner(site), bookmarks(site)
    taking, other = (site.client(name) for name in site.nodes if name != first)
    taking.consume(QUEUE, prefetch=10)
    site.until(lambda: len(taking.deliveries) == DEPTH)
    assert Settlement(site, taking.node.name, Deed.ACKNOWLEDGE, named[4]).became == [Became.SETTLED]
    site.nodes[first].stop(power=power)
    site.run(3.0)
    assert [one.body for one in taking.deliveries] == numbered(0, 1, 2)
    for delivery in list(taking.deliveries):
        taking.ack(delivery)
    site.until(lambda: len(taking.deliveries) == 2 * DEPTH)
    site.run(0.2)
    assert [one.body for one in taking.deliveries[DEPTH:]] == numbered(3, 5, 6)
    assert other.depth(QUEUE) == 3


def test_delayed_messages_take_no_room_and_hidden_ones_expire(site: Site) -> None:
    client = site.client("n1")
    client.declare(QUEUE, target_queue_depth=1, dead_letter_exchange="", dead_letter_routing_key="grave")
    client.declare("grave")
    client.publish(QUEUE, b"late", headers={"x-delay": 200})
    client.confirms(client.publish(QUEUE, b"first"))
    client.confirms(client.publish(QUEUE, b"short", expiration="100"))
    assert bodies(look_at(client, QUEUE)) == [b"first"]
    site.until(lambda: client.depth("grave") == 1)
    site.until(lambda: bodies(look_at(client, QUEUE)) == [b"late"])
    assert client.bodies(QUEUE) == [b"late", b"first"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        pytest.param({"max_priority": 5}, "x-max-priority", marks=pytest.mark.requirement("D12.4")),
        pytest.param(
            {"priority_expression": "/n"}, "x-priority-expression", marks=pytest.mark.requirement("D12.4")
        ),
        ({"group_by": "key"}, "x-group-by"),
        ({"target_queue_depth": 0}, "value_zero"),
        ({"target_queue_depth": "x"}, "expected integer"),
    ],
)
def test_a_depth_beside_another_order_is_refused(site: Site, arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(ChannelClosedError, match=reason) as refused:
        site.client("n1").declare(QUEUE, **{"target_queue_depth": 3} | arguments)
    assert refused.value.code == 406


def test_no_queue_has_a_depth_before_all_nodes_know_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ARGUMENT_LEVELS, "x-target-queue-depth", FORMAT_LEVEL + 1)
    with pytest.raises(ChannelClosedError, match="upgrade all nodes first"):
        site.client("n1").declare(QUEUE, target_queue_depth=3)
