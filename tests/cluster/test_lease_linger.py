"""Messages that a queue keeps for a while when their consumer is gone, and that are settled over another
connection (x-lease-linger, X5).
"""

from __future__ import annotations

from typing import Any

import pytest

from node.delivery.deeds import Became, Deed
from tests.cluster.kept_links import kept, owner, site
from tests.cluster.test_settling_by_bookmark import QUEUE, Settlement
from tests.cluster.test_topics import publish
from tests.site import ChannelClosedError, Client, Site

__all__ = ["site"]

LINGER = {"x-lease-linger": 4000, "x-tell": True}


def holding(site: Site, name: str, *bodies: str, **arguments: Any) -> tuple[Client, list[str]]:
    """A consumer on a node that has messages; returns their bookmarks, too."""
    maker = site.client(name)
    maker.declare(QUEUE, **arguments)
    publish(maker, *bodies, to=QUEUE)
    holder = site.client(name)
    holder.consume(QUEUE, prefetch=10, arguments=LINGER)
    site.until(lambda: len(holder.deliveries) == len(bodies))
    return holder, [one.headers["x-bookmark"] for one in holder.deliveries]


def other(site: Site, name: str) -> Client:
    consumer = site.client(name)
    consumer.consume(QUEUE, prefetch=10)
    return consumer


@pytest.mark.requirement("X5.1")
@pytest.mark.parametrize("how", ["disconnect", "close", "cancel"])
def test_a_delivery_is_settled_over_another_connection_at_another_node(site: Site, how: str) -> None:
    holder, bookmarks = holding(site, "n1", "1", "2", "3")
    holder.ack(holder.deliveries[0])
    if how == "cancel":
        holder.cancel(str(holder.deliveries[0].method.consumer_tag))
    getattr(holder, "disconnect" if how == "cancel" else how)()
    late = other(site, "n2")
    site.run(1.0)
    assert not late.deliveries
    assert Settlement(site, "n3", Deed.ACKNOWLEDGE, bookmarks[1]).became == [Became.SETTLED]
    site.run(5.0)
    assert [(one.body, one.method.redelivered) for one in late.deliveries] == [(b"3", True)]


@pytest.mark.requirement("X5.1")
def test_a_client_settles_what_it_has_after_it_has_cancelled_its_consumer(site: Site) -> None:
    holder, _ = holding(site, "n1", "1", "2")
    holder.cancel(str(holder.deliveries[0].method.consumer_tag))
    holder.ack(holder.deliveries[0])
    holder.nack(holder.deliveries[1], requeue=True)
    late = other(site, "n2")
    site.until(lambda: late.deliveries)
    late.ack(late.deliveries[0])
    holder.close()
    site.run(6.0)
    assert [one.body for one in late.deliveries] == [b"2"] and late.depth(QUEUE) == 0


@pytest.mark.requirement("X5.2")
@pytest.mark.parametrize("killed", ["owner", "front end"])
@pytest.mark.parametrize("power", [True, False])
def test_a_delivery_is_settled_when_the_owner_or_the_node_of_its_client_is_lost(
    site: Site, killed: str, power: bool
) -> None:
    site.client("n1").declare(QUEUE)
    home = owner(site)
    name = next(one for one in site.nodes if one != home)
    holder, bookmarks = holding(site, name, "1", "2")
    site.nodes[home if killed == "owner" else name].stop(power=power)
    if killed == "owner":
        holder.disconnect()
    alive = next(one for one in site.nodes if one not in (home, name))
    late = other(site, alive)
    site.run(2.0)
    assert not late.deliveries
    assert Settlement(site, alive, Deed.ACKNOWLEDGE, bookmarks[0]).became == [Became.SETTLED]
    site.run(9.0)
    assert [one.body for one in late.deliveries] == [b"2"]


@pytest.mark.requirement("X5.1")
@pytest.mark.parametrize("deed", [Deed.CANCEL, Deed.EXPIRE])
def test_a_kept_message_is_cancelled_or_expired_at_once(site: Site, deed: Deed) -> None:
    holder, bookmarks = holding(site, "n1", "1")
    holder.disconnect()
    site.until(lambda: kept(site) == 1)
    late = other(site, "n2")
    Settlement(site, "n3", deed, *bookmarks)
    site.run(0.2)
    assert len(late.deliveries) == (1 if deed is Deed.CANCEL else 0)


@pytest.mark.parametrize(
    "arguments",
    [
        {"durable": False},
        {"semantics": "at-most-once"},
        {"group_by": "site"},
        {"single_active_consumer": True},
        {"lease_period": 1000},
    ],
)
def test_a_queue_that_keeps_no_messages_says_so(site: Site, arguments: dict[str, Any]) -> None:
    client = site.client("n1")
    client.declare(QUEUE, **arguments)
    publish(client, "1", to=QUEUE)
    with pytest.raises(ChannelClosedError, match=r"406 .*'x-lease-linger' .*keeps no messages of consumers"):
        client.consume(QUEUE, arguments=LINGER)
    late = other(site, "n1")
    site.until(lambda: late.deliveries)


@pytest.mark.requirement("X5.1")
def test_a_classic_queue_keeps_messages_too(site: Site) -> None:
    holder, bookmarks = holding(site, "n1", "1", queue_type="classic")
    holder.disconnect()
    late = other(site, "n2")
    site.run(1.0)
    assert not late.deliveries
    assert Settlement(site, "n3", Deed.ACKNOWLEDGE, *bookmarks).became == [Became.SETTLED]


@pytest.mark.requirement("X5.1")
@pytest.mark.parametrize("arguments", [{}, {"x-lease-linger": 0}])
def test_without_the_argument_a_message_goes_back_at_once(site: Site, arguments: dict[str, Any]) -> None:
    client = site.client("n1")
    client.declare(QUEUE)
    publish(client, "1", to=QUEUE)
    holder = site.client("n1")
    holder.consume(QUEUE, prefetch=10, arguments=arguments)
    site.until(lambda: holder.deliveries)
    holder.disconnect()
    late = other(site, "n2")
    site.run(0.2)
    assert len(late.deliveries) == 1


@pytest.mark.parametrize("wrong", [-1, "5", True, 7 * 24 * 3_600_000 + 1])
def test_a_wrong_time_is_refused(site: Site, wrong: Any) -> None:
    client = site.client("n1")
    client.declare(QUEUE)
    for no_ack in (False, True):
        with pytest.raises(ChannelClosedError, match=r"406 .*invalid arg 'x-lease-linger'"):
            site.client("n1").consume(QUEUE, no_ack=no_ack, arguments={"x-lease-linger": wrong})
