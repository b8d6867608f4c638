"""Queues over a stream: each is a queue of its own, and the messages are stored once (D1)."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.config.formats import ARGUMENT_LEVELS
from node.message.bookmarks import bookmark_of
from tests.cluster.kept_links import site
from tests.cluster.test_streams import got, reading
from tests.inside import machine_of
from tests.site import ChannelClosedError, Client, Site

__all__ = ["site"]

TOPIC = "s"
PATTERN = {"underlying_topic": "^s.*$", "default_publish_target": TOPIC}


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
        ({"default_publish_target": TOPIC}, "a queue over one stream has no x-default-publish-target"),
        ({"underlying_topic": "^s$"}, "a pattern of streams needs an x-default-publish-target"),
        (PATTERN | {"underlying_topic": "^(s$"}, r"invalid_pattern,missing \)"),
        (PATTERN | {"underlying_topic": "^s(?=t)$"}, "invalid_pattern,invalid perl operator"),
        (PATTERN | {"underlying_topic": f"^{1024 * 's'}$"}, "invalid_pattern,a pattern has more than 1024"),
        (PATTERN | {"default_publish_target": "absent"}, "there is no stream 'absent'"),
        (PATTERN | {"default_publish_target": "plain"}, "there is no stream 'plain'"),
        (PATTERN | {"underlying_topic": "^t.*$"}, r"'\^t\.\*\$' does not take the stream 's'"),
        (PATTERN | {"recovery_point": bookmark_of(1, 1)}, "x-recovery-point is the bookmark of one stream"),
        (PATTERN | {"recovery_point": "soon"}, "invalid_recovery_point"),
        (PATTERN | {"recovery_point": "epoch", "deduplication_window": 9}, "no queue has both"),
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
    monkeypatch.setattr(
        type(formats), "everywhere", property(lambda _: ARGUMENT_LEVELS["x-underlying-topic"] - 1)
    )
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


# -- patterns ---------------------------------------------------------------------------------------


def streams(site: Site, *names: str) -> None:
    """Streams that are declared on different nodes, and so in different partitions."""
    for number, name in enumerate(names):
        site.client(f"n{number % 3 + 1}").declare(name, queue_type="stream")


def partitions(site: Site, *names: str) -> list[int]:
    state = site.nodes["n1"].broker.catalog.state
    return [state.queues["/", name].partition for name in names]


@pytest.mark.requirement("D1.2", "D1.4")
def test_a_queue_over_a_pattern_has_the_messages_of_all_streams_that_it_takes(site: Site) -> None:
    streams(site, "s", "s2", "t")
    client = site.client("n2")
    client.declare("q", **PATTERN)
    client.declare("either", underlying_topic="^s2$|^t$", default_publish_target="t")
    assert len(set(partitions(site, "s", "s2", "t"))) == 3
    assert partitions(site, "q", "either") == partitions(site, "s", "t")
    for name in ("s", "s2", "t"):
        publish(site.client("n3"), name, to=name)
    assert taken(client, "q") == ["s", "s2"]
    assert taken(client, "either") == ["s2", "t"]
    for name in ("s", "s2", "t"):
        assert client.depth(name) == 1


@pytest.mark.requirement("D1.2")
def test_a_stream_that_is_declared_later_joins_and_one_that_is_deleted_leaves(site: Site) -> None:
    streams(site, "s")
    client = site.client("n1")
    client.declare("q", **PATTERN)
    streams(site, "t", "s2")
    publish(site.client("n2"), "1", to="s2")
    client.delete("s2")
    client.declare("s2")
    publish(client, "2", to="s2")
    client.delete("s2")
    streams(site, "t", "s2")
    publish(client, "3", to="s2")
    assert taken(client, "q") == ["1", "3"]
    client.delete("q")
    publish(client, "4", to="s2")
    client.declare("q", **PATTERN)
    publish(client, "5", to="s2")
    assert taken(client, "q") == ["5"]


@pytest.mark.requirement("D1.5")
def test_a_publish_to_a_queue_over_a_pattern_goes_to_its_default_publish_target(site: Site) -> None:
    streams(site, "s", "s2")
    client = site.client("n3")
    client.declare("q", **PATTERN)
    client.declare("q2", underlying_topic="^s2?$", default_publish_target="s2")
    publish(client, "1", to="q")
    publish(client, "2", to="q2")
    assert taken(client, "q") == taken(client, "q2") == ["1", "2"]
    assert (client.depth("s"), client.depth("s2")) == (1, 1)
    # A queue of that name which is no stream gets nothing that is published to the queue over the pattern.
    client.delete("s")
    client.declare("s")
    client.confirms(client.publish("q", b"3"))
    assert client.depth("q") == client.depth("s") == 0


@pytest.mark.requirement("D1.2")
def test_a_transaction_over_several_streams_reaches_the_queue_whole(site: Site) -> None:
    streams(site, "s", "s2")
    client = site.client("n2")
    client.declare("q", **PATTERN)
    writer = site.client("n1", transactional=True)
    for name in ("s", "s2"):
        writer.publish(name, name.encode())
    assert client.depth("q") == 0
    writer.commit()
    assert taken(client, "q") == ["s", "s2"]


@pytest.mark.requirement("D1.2")
def test_queues_over_a_pattern_go_on_when_owners_die(site: Site) -> None:
    streams(site, "s", "s2")
    site.client("n1").declare("q", **PATTERN)
    for number in (1, 2):
        publish(site.client("n3"), f"{number}", to="s2")
        publish(site.client("n3"), f"{number + 2}", to="s")
        site.nodes["n1" if number == 1 else "n2"].stop(power=True)
        if number == 1:
            site.run(1.0)
            site.until(lambda: site.client("n3").depth("q") == 2)
            site.nodes["n1"].start()
            site.until(lambda: site.nodes["n1"].ready)
    assert sorted(taken(site.client("n3"), "q")) == ["1", "2", "3", "4"]


def test_a_node_that_starts_knows_the_queues_over_patterns(site: Site) -> None:
    streams(site, "s", "s2")
    site.client("n1").declare("q", **PATTERN)
    site.nodes["n3"].stop(power=True)
    site.run(1.0)
    site.nodes["n3"].start()
    site.until(lambda: site.nodes["n3"].ready)
    publish(site.client("n3"), "1", to="s2")
    assert taken(site.client("n2"), "q") == ["1"]


def test_a_reader_of_a_queue_over_a_pattern_is_told_to_read_its_streams(site: Site) -> None:
    streams(site, "s")
    client = site.client("n1")
    client.declare("q", **PATTERN)
    with pytest.raises(ChannelClosedError, match=r"406 .*read each of its streams"):
        client.consume("q", prefetch=1, arguments={"x-stream-offset": "first"})


@pytest.mark.parametrize(("read", "allowed"), [(".*", True), ("^s.*$", True), ("^s", False), ("", False)])
def test_who_may_not_read_all_that_a_pattern_takes_declares_no_queue_over_it(
    site: Site, read: str, allowed: bool
) -> None:
    streams(site, "s")
    site.submit(
        "n1",
        "set_permissions",
        {"vhost": "/", "user": "guest", "configure": ".*", "write": ".*", "read": read},
    )
    client = site.client("n2")
    if allowed:
        client.declare("q", **PATTERN)
    else:
        with pytest.raises(ChannelClosedError, match=r"403 .*read access to queues '\^s\.\*\$'"):
            client.declare("q", **PATTERN)


def test_no_queue_is_over_a_pattern_before_all_nodes_know_patterns(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams(site, "s")
    level = ARGUMENT_LEVELS["x-default-publish-target"] - 1
    formats = site.nodes["n1"].broker.formats
    monkeypatch.setattr(type(formats), "everywhere", property(lambda _: level))
    with pytest.raises(ChannelClosedError, match=r"406 .*x-default-publish-target; upgrade all nodes first"):
        site.client("n1").declare("q", **PATTERN)
