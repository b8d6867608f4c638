"""Readers of a stream that go on where the last reader of their subscription has ended (D17)."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.config.formats import ARGUMENT_LEVELS, FORMAT_LEVEL
from cluster.owner import streams
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.values import Described, Symbol
from tests.cluster.kept_links import owner, site
from tests.cluster.links import LinkClient
from tests.cluster.test_streams import OFFSET, STREAM, declared, got, publish
from tests.inside import machine_of
from tests.site import ChannelClosedError, Client, Site
from tests.wire.amqp10.performatives import credit, receiver, settled

__all__ = ["site"]

RECENT = {"x-subscription": "audit", OFFSET: "most-recent"}


def reader(site: Site, name: str, *, prefetch: int = 100, queue: str = STREAM, **options: Any) -> Client:
    client = site.client(name)
    no_ack = options.pop("no_ack", False)
    client.consume(queue, prefetch=prefetch, no_ack=no_ack, arguments=RECENT | options)
    site.run(0.1)
    return client


def settle(client: Client, *places: int) -> None:
    for place in places:
        client.ack(client.deliveries[place])
    client.site.run(0.1)


@pytest.mark.requirement("D17.3")
@pytest.mark.parametrize("offset", ["most-recent", None])
@pytest.mark.parametrize("power", [True, False])
def test_a_reader_goes_on_at_any_node_also_when_the_owner_is_lost(
    site: Site, offset: str | None, power: bool
) -> None:
    client = declared(site)
    publish(client, *"12345")
    first = reader(site, "n2", **{OFFSET: offset} if offset else {})
    assert got(first) == [*"12345"]
    settle(first, 0, 1, 2)
    first.close()
    home = owner(site)
    far = next(name for name in site.nodes if name != home)
    site.nodes[home].stop(power=power)
    assert got(reader(site, far)) == ["4", "5"]


@pytest.mark.requirement("D17.3")
def test_a_message_that_is_not_settled_comes_again_with_all_behind_it(site: Site) -> None:
    client = declared(site)
    publish(client, *"12345")
    one = reader(site, "n2")
    settle(one, 0, 2, 4)
    one.nack(one.deliveries[3], requeue=True)
    one.disconnect()
    assert got(reader(site, "n3")) == [*"2345"]


@pytest.mark.requirement("D17.3")
@pytest.mark.parametrize("how", ["reject", "no_ack", "after the cancel"])
def test_other_ways_of_being_done_with_a_message_count(site: Site, how: str) -> None:
    client = declared(site)
    publish(client, *"123")
    one = site.client("n2")
    tag = one.consume(STREAM, prefetch=2, no_ack=how == "no_ack", arguments=RECENT)
    site.until(lambda: len(one.deliveries) >= 2)
    if how == "after the cancel":
        one.cancel(tag)
        settle(one, 0, 1)
    for delivery in one.deliveries[:2] if how == "reject" else ():
        one.reject(delivery, requeue=False)
    site.run(0.1)
    one.close()
    left = [] if how == "no_ack" else ["3"]
    assert got(reader(site, "n3")) == left
    publish(client, "4")
    assert got(reader(site, "n3")) == [*left, "4"]


@pytest.mark.requirement("D17.3")
def test_a_subscription_never_goes_back_and_subscriptions_are_apart(site: Site) -> None:
    client = declared(site)
    publish(client, *"1234")
    settle(reader(site, "n2"), 0, 1, 2)
    again = reader(site, "n3", **{OFFSET: "first"})
    assert got(again) == [*"1234"]
    settle(again, 0)
    assert got(reader(site, "n3")) == ["4"]
    assert got(reader(site, "n3", **{"x-subscription": "other"})) == [*"1234"]


@pytest.mark.requirement("D17.3")
def test_a_reader_with_a_filter_goes_on(site: Site) -> None:
    client = declared(site)
    publish(client, "1", headers={"kind": "a"})
    publish(client, "2", "3", headers={"kind": "b"})
    taking = {"x-filter": "kind = 'a'"}
    settle(reader(site, "n2", **taking), 0)
    later = reader(site, "n3", **taking)
    publish(client, "4", headers={"kind": "a"})
    site.run(0.1)
    assert got(later) == ["4"]


@pytest.mark.requirement("D17.3")
def test_what_retention_removed_is_skipped(site: Site) -> None:
    client = declared(site, max_age="2s")
    publish(client, *"12")
    settle(reader(site, "n2"), 0)
    site.run(4.0)
    publish(client, "3")
    assert got(reader(site, "n3")) == ["3"]


@pytest.mark.requirement("D17.3")
def test_the_past_of_a_queue_with_a_history_is_read_on(site: Site) -> None:
    client = site.client("n1")
    client.declare("q", history="7D")
    client.confirms(client.publish("q", *(b"%d" % number for number in range(3))))
    settle(reader(site, "n2", queue="q"), 0)
    assert got(reader(site, "n3", queue="q")) == ["1", "2"]


@pytest.mark.requirement("D17.3")
def test_a_link_of_amqp_1_0_goes_on(site: Site) -> None:
    client = declared(site)
    publish(client, *"123")
    wanted = {Symbol("offset"): Described(Symbol("rabbitmq:stream-offset-spec"), "most-recent")}
    for expected in ("123", "3"):
        link = LinkClient(site, "n2")
        link.send(
            receiver(
                0,
                source=d.Source(STREAM, filter=wanted),
                properties={Symbol("x-subscription"): "audit"},
            )
        )
        link.send(credit(100))
        link.reads()
        payloads = [bytes(one.payload) for one in link.frames if isinstance(one.performative, d.Transfer)]
        assert "".join(one[-1:].decode() for one in payloads) == expected
        link.send(settled(0, 1, d.Accepted()))
        site.run(0.1)


@pytest.mark.requirement("D17.3")
def test_a_fast_reader_makes_few_operations(site: Site) -> None:
    client = declared(site)
    publish(client, *(str(number) for number in range(100)))
    before = machine_of(client.site.nodes["n1"].broker.owners[_partition(site)]).applied_index
    one = reader(site, "n2")
    for delivery in one.deliveries:
        one.ack(delivery)
    site.run(0.5)
    assert machine_of(client.site.nodes["n1"].broker.owners[_partition(site)]).applied_index < before + 20
    assert got(reader(site, "n3")) == []


def _partition(site: Site) -> int:
    return int(site.nodes["n1"].broker.catalog.state.queues["/", STREAM].partition)


@pytest.mark.requirement("D17.3")
@pytest.mark.interpreted
def test_old_subscriptions_make_room_and_others_do_not(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_SUBSCRIPTIONS", 3)
    client = declared(site, max_age="4s")
    publish(client, *"12")
    for name in "abc":
        settle(reader(site, "n1", **{"x-subscription": name}), 0)
    with pytest.raises(ChannelClosedError, match=r"506 .*has too many subscriptions"):
        reader(site, "n2", **{"x-subscription": "d"})
    assert got(reader(site, "n2", **{"x-subscription": "b"})) == ["2"]
    site.run(6.0)
    publish(client, "3")
    late = reader(site, "n2", **{"x-subscription": "d"})
    assert got(late) == ["3"]
    settle(late, 0)
    assert got(reader(site, "n2", **{"x-subscription": "d"})) == []


@pytest.mark.requirement("D17.3")
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({OFFSET: "most-recent"}, "invalid arg 'x-stream-offset' .*most-recent needs an x-subscription"),
        ({"x-subscription": ""}, "invalid arg 'x-subscription' .*a name has 1 to 255 octets"),
        ({"x-subscription": "x" * 256}, "invalid arg 'x-subscription'"),
        ({"x-subscription": 7}, "invalid arg 'x-subscription'"),
    ],
)
def test_a_wrong_subscription_is_refused(site: Site, options: dict[str, Any], reason: str) -> None:
    declared(site)
    with pytest.raises(ChannelClosedError, match=f"406 .*{reason}"):
        site.client("n2").consume(STREAM, prefetch=1, arguments=options)


@pytest.mark.requirement("D17.3")
def test_no_other_queue_has_subscriptions(site: Site) -> None:
    site.client("n1").declare("q")
    with pytest.raises(ChannelClosedError, match=r"406 .*readers of streams alone have subscriptions"):
        site.client("n2").consume("q", arguments={"x-subscription": "audit"})


@pytest.mark.requirement("D17.3")
def test_no_reader_has_a_subscription_before_all_nodes_know_them(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared(site)
    monkeypatch.setitem(ARGUMENT_LEVELS, "x-subscription", FORMAT_LEVEL + 1)
    with pytest.raises(ChannelClosedError, match=r"406 .*upgrade all nodes first"):
        reader(site, "n2")
