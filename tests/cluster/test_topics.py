"""Queues over a stream: each is a queue of its own, and the messages are stored once (D1)."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.config.formats import FORMAT_LEVEL
from tests.cluster.kept_links import site
from tests.cluster.test_streams import got, reading
from tests.inside import machine_of
from tests.site import ChannelClosedError, Client, Site

__all__ = ["site"]

TOPIC = "s"


def declared(site: Site, **views: dict[str, Any]) -> Client:
    """A stream, and queues over it with further arguments."""
    client = site.client("n1")
    client.declare(TOPIC, queue_type="stream")
    for name, arguments in views.items():
        client.declare(name, underlying_topic=TOPIC, **arguments)
    return client


def publish(client: Client, *names: str, to: str = TOPIC, **properties: Any) -> None:
    tags = client.publish(to, *(name.encode() for name in names), **properties)
    assert client.confirms(tags) == [True] * len(names)


def taken(client: Client, queue: str) -> list[str]:
    return [body.decode() for body in client.bodies(queue)]


@pytest.mark.requirement("D1.1", "D1.4")
def test_every_queue_over_a_stream_has_all_its_messages(site: Site) -> None:
    client = declared(site, q1={}, q2={"filter": "kind = 'a'"}, q3={"max_priority": 5}, q4={"max_length": 1})
    publish(client, "1", "2", headers={"kind": "a"}, priority=1)
    publish(client, "3", priority=4)
    assert taken(site.client("n2"), "q1") == ["1", "2", "3"]
    assert taken(site.client("n2"), "q2") == ["1", "2"]
    assert taken(site.client("n3"), "q3") == ["3", "1", "2"]
    assert taken(site.client("n3"), "q4") == ["3"]
    assert got(reading(site, "n2", "first")) == ["1", "2", "3"]


@pytest.mark.requirement("D1.3")
@pytest.mark.parametrize("mode", [2, 1])
def test_a_message_is_stored_once_however_many_queues_have_it(site: Site, mode: int) -> None:
    client = declared(site, **{f"q{number}": {} for number in range(10)})
    publish(client, "x" * 1000, delivery_mode=mode)
    (state,) = {queue.partition for queue in site.nodes["n1"].broker.catalog.state.queues.values()}
    owner = site.nodes["n1"].broker.owners[state]
    machine = machine_of(owner)
    stored = 0
    for entry in range(machine.applied_index + 1):
        group = site.nodes["n1"].broker.host.groups[state]
        if entry and group.log.first_index() <= entry:
            stored += bytes(group.log.entry(entry).data).count(b"x" * 1000)
    assert stored == 1


@pytest.mark.requirement("D1.5")
def test_a_publish_to_a_queue_goes_to_its_stream(site: Site) -> None:
    client = declared(site, q1={}, q2={})
    publish(client, "1", to="q1")
    client.bind("q2", "amq.fanout")
    client.bind(TOPIC, "amq.fanout")
    client.confirms(client.publish("", b"2", exchange="amq.fanout"))
    for queue in ("q1", "q2"):
        assert taken(site.client("n2"), queue) == ["1", "2"]
    assert got(reading(site, "n3", "first")) == ["1", "2"]


@pytest.mark.requirement("D1.1")
def test_a_dead_letter_for_a_stream_goes_to_the_queues_over_it(site: Site) -> None:
    client = declared(site, q1={})
    client.declare("dying", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key=TOPIC)
    publish(client, "1", to="dying")
    site.until(lambda: client.depth("q1") == 1)
    assert got(reading(site, "n2", "first")) == ["1"]


@pytest.mark.requirement("D1.1")
def test_queues_over_a_stream_go_on_when_the_owner_dies(site: Site) -> None:
    client = declared(site, q1={}, q2={})
    publish(client, "1", "2")
    site.nodes["n1"].stop(power=True)
    other = site.client("n2")
    publish(other, "3")
    assert taken(other, "q1") == taken(site.client("n3"), "q2") == ["1", "2", "3"]
    assert got(reading(site, "n3", "first")) == ["1", "2", "3"]


def test_a_queue_outlives_its_stream_and_gets_nothing_more(site: Site) -> None:
    client = declared(site, q1={})
    publish(client, "1")
    client.delete(TOPIC)
    client.confirms(client.publish("q1", b"2"))
    assert taken(client, "q1") == ["1"]
    client.declare(TOPIC, queue_type="stream")
    publish(client, "3")
    assert taken(client, "q1") == ["3"]
    client.delete("q1")
    publish(client, "4")
    assert got(reading(site, "n2", "first")) == ["3", "4"]


def test_a_node_that_starts_knows_the_queues_over_streams(site: Site) -> None:
    declared(site, q1={})
    site.nodes["n3"].stop(power=True)
    site.run(1.0)
    site.nodes["n3"].start()
    site.until(lambda: site.nodes["n3"].ready)
    publish(site.client("n3"), "1")
    assert taken(site.client("n2"), "q1") == ["1"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"underlying_topic": "absent"}, "there is no stream 'absent'"),
        ({"underlying_topic": "plain"}, "there is no stream 'plain'"),
        ({"underlying_topic": 5}, "invalid arg 'x-underlying-topic'"),
        ({"queue_type": "classic"}, "invalid arg 'x-underlying-topic' for queue of type classic"),
        ({"queue_type": "stream"}, "invalid arg 'x-underlying-topic'"),
        ({"durable": False}, "invalid property 'non-durable'"),
        ({"exclusive": True}, "invalid property 'exclusive-owner'"),
    ],
)
def test_a_wrong_declaration_is_refused(site: Site, arguments: dict[str, Any], reason: str) -> None:
    client = declared(site)
    client.declare("plain")
    with pytest.raises(ChannelClosedError, match=rf"406 .*{reason}"):
        client.declare("q", **{"underlying_topic": TOPIC} | arguments)


def test_the_stream_is_a_part_of_what_a_queue_is(site: Site) -> None:
    client = declared(site, q1={})
    client.declare("q1", underlying_topic=TOPIC)
    client.declare("t", queue_type="stream")
    for other in ({}, {"underlying_topic": "t"}):
        with pytest.raises(ChannelClosedError, match=r"406 .*inequivalent arg 'x-underlying-topic'"):
            site.client("n1").declare("q1", **other)


def test_no_queue_over_a_stream_is_declared_before_all_nodes_know_such_queues(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared(site)
    formats = site.nodes["n1"].broker.formats
    monkeypatch.setattr(type(formats), "everywhere", property(lambda _: FORMAT_LEVEL - 1))
    with pytest.raises(ChannelClosedError, match=r"406 .*x-underlying-topic; upgrade all nodes first"):
        site.client("n1").declare("q", underlying_topic=TOPIC)


@pytest.mark.requirement("D17.1", "D17.5")
def test_a_reader_of_a_queues_past_reads_its_stream(site: Site) -> None:
    client = declared(site, q={"filter": "kind = 'a'"})
    for number in range(4):
        publish(client, str(number), headers={"kind": "ab"[number % 2]})
    whole = reading(site, "n2", "first", **{"x-tell": True})
    taker = site.client("n2")
    taker.consume("q", arguments={"x-tell": True})
    site.until(lambda: got(taker) == ["0", "2"])
    for one in taker.deliveries:
        taker.ack(one)
    site.until(lambda: client.depth("q") == 0)
    stream_numbers = [one.headers["x-stream-offset"] for one in whole.deliveries]
    for offset, names in (
        ("first", "0123"),
        ("last", "3"),
        (stream_numbers[1], "123"),
        # A message has one number in the stream and in the queues over it.
        (taker.deliveries[1].headers["x-bookmark"], "23"),
        (whole.deliveries[2].headers["x-bookmark"], "23"),
    ):
        again = site.client("n3")
        again.consume("q", prefetch=10, arguments={"x-stream-offset": offset})
        site.until(lambda again=again, names=names: "".join(got(again)) == names)
    assert client.depth(TOPIC) == 4


@pytest.mark.requirement("D17.5")
def test_a_reader_of_a_queues_past_needs_the_right_to_read_the_stream(site: Site) -> None:
    client = declared(site, q={})
    publish(client, "1")
    rights = {"configure": ".*", "write": ".*", "read": "^q$"}
    site.submit("n1", "set_permissions", {"vhost": "/", "user": "guest"} | rights)
    site.client("n2").consume("q")
    with pytest.raises(ChannelClosedError, match=f"403 .*queue '{TOPIC}'"):
        site.client("n2").consume("q", prefetch=1, arguments={"x-stream-offset": "first"})
    with pytest.raises(ChannelClosedError, match=f"403 .*queue '{TOPIC}'"):
        site.client("n2").declare("other", underlying_topic=TOPIC)
