"""A new queue over a stream has the stream's past, from its recovery point on (D13, X6)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from cluster.config.formats import ARGUMENT_LEVELS
from node.queue.queue import QueueState
from node.wire.amqp091 import methods as m
from tests.cluster.kept_links import site
from tests.cluster.test_leases import isolate
from tests.cluster.test_streams import got, now_s, reading
from tests.cluster.test_topics import TOPIC, declared, publish, taken
from tests.inside import machine_of, state_of
from tests.site import ChannelClosedError, Client, Site

__all__ = ["site"]

PAST = pytest.mark.requirement("D13.1")


def over(client: Client, name: str, point: str, **arguments: Any) -> None:
    client.declare(name, underlying_topic=TOPIC, recovery_point=point, **arguments)


@pytest.mark.requirement("D13.1", "X6.1", "X6.2")
def test_a_new_queue_has_the_past_from_its_recovery_point_on(site: Site) -> None:
    client = declared(site)
    publish(client, "1", "2")
    site.run(3.0)
    since = datetime.fromtimestamp(now_s(site), UTC)
    publish(client, "3", "4")
    came = reading(site, "n2", "first", **{"x-tell": True}).deliveries
    points = {
        "epoch": "1234",
        "now": "",
        "2s": "34",
        since.isoformat(): "34",
        since.replace(tzinfo=None).isoformat(): "34",
        came[1].headers["x-bookmark"]: "234",
    }
    for number, (point, names) in enumerate(points.items()):
        over(site.client("n3"), f"q{number}", point)
        assert "".join(taken(site.client("n2"), f"q{number}")) == names, point
    over(site.client("n3"), "later", "epoch")
    publish(client, "5")
    assert taken(client, "later") == list("12345")
    assert client.depth(TOPIC) == 5


@PAST
@pytest.mark.parametrize("moment_s", [0.0, 0.001, 0.002, 0.003, 0.005, 0.01])
def test_no_message_is_missed_or_doubled_that_comes_while_the_queue_is_declared(
    site: Site, moment_s: float
) -> None:
    client = declared(site)
    publish(client, "0")
    writers = [site.client(name) for name in ("n1", "n2", "n3")]
    other = site.client("n2")
    sent = ["0"]
    arguments = {"x-underlying-topic": TOPIC, "x-recovery-point": "epoch"}
    for round in range(40):
        if round == 10:
            site.run(moment_s)
            other.send(m.QueueDeclare("q", durable=True, arguments=arguments))
        for writer in writers:
            sent.append(f"{round} {writer.node.name}")
            writer.publish(TOPIC, sent[-1].encode())
        site.run(0.001)
    other.answer(m.QueueDeclareOk)
    site.until(lambda: client.depth(TOPIC) == len(sent))
    site.until(lambda: client.depth("q") == len(sent))
    assert sorted(taken(client, "q")) == sorted(sent)


@PAST
def test_the_past_is_there_when_the_owner_dies(site: Site) -> None:
    client = declared(site)
    publish(client, *"123")
    over(client, "q", "epoch")
    site.nodes["n1"].stop(power=True)
    other = site.client("n2")
    publish(other, "4")
    first = other.get("q")
    assert first is not None and first.body == b"1"
    assert taken(other, "q") == ["2", "3", "4"]
    assert got(reading(site, "n3", "first")) == list("1234")


@pytest.mark.requirement("D13.2")
def test_a_queue_goes_on_from_its_oldest_unacknowledged_message(site: Site) -> None:
    """Also where it was filled from its stream: the recovery point counts once."""
    client = declared(site)
    publish(client, *"1234")
    over(client, "q", "epoch")
    taker = site.client("n2")
    taker.consume("q", prefetch=3)
    site.until(lambda: got(taker) == ["1", "2", "3"])
    taker.ack(taker.deliveries[0])
    taker.ack(taker.deliveries[2])
    site.until(lambda: client.depth("q") == 1 and len(taker.deliveries) == 4)
    for node in site.nodes.values():
        node.stop(power=True)
    for node in site.nodes.values():
        node.start()
    site.until(lambda: all(node.ready for node in site.nodes.values()))
    again = site.client("n3")
    over(again, "q", "epoch")
    site.until(lambda: again.depth("q") == 2)
    assert taken(again, "q") == ["2", "4"]


@PAST
def test_a_queue_keeps_what_its_stream_has_given_up(site: Site) -> None:
    """Snapshots, and entries that are copied forward, keep the messages, too."""
    client = site.client("n1")
    client.declare(TOPIC, queue_type="stream", max_age="5s")
    publish(client, *"123")
    over(client, "q", "epoch")
    site.until(lambda: client.depth(TOPIC) == 0)
    client.declare("noise")
    for _ in range(20):
        tags = client.publish("noise", *([bytes(4000)] * 20))
        assert all(client.confirms(tags))
        client.purge("noise")
    site.run(5.0)
    for name in ("n2", "n3", "n1"):
        site.nodes[name].stop(power=True)
        site.run(2.0)
        site.nodes[name].start()
        site.until(lambda: all(node.ready for node in site.nodes.values()))
    assert taken(site.client("n2"), "q") == list("123")


def undecided(site: Site) -> tuple[Client, QueueState, Callable[[], None]]:
    """The stream has a message of a transaction whose front end is cut off. Returns a client that has
    declared the stream, the stream's state, and the function that ends the cut.
    """
    writer = site.client("n3", transactional=True)
    writer.declare("first")
    client = declared(site)
    partition = site.front_end("n1").queue("/", TOPIC, 0).partition
    (stream,) = machine_of(site.nodes["n1"].broker.owners[partition]).queues.values()
    for queue in ("first", TOPIC):
        writer.publish(queue, b"1")
    writer.send(m.TxCommit())
    site.until(lambda: stream.withheld, step_s=0.0002)
    return client, stream, isolate(site, "n3")


@PAST
def test_a_message_of_an_undecided_transaction_comes_with_its_commit(site: Site) -> None:
    client, stream, mend = undecided(site)
    other = site.client("n2")
    other.send(
        m.QueueDeclare(
            "q", durable=True, arguments={"x-underlying-topic": TOPIC, "x-recovery-point": "epoch"}
        )
    )
    site.run(0.3)
    assert stream.withheld
    mend()
    other.answer(m.QueueDeclareOk)
    site.until(lambda: other.depth("q") == 1)
    assert taken(client, "q") == ["1"]


@PAST
def test_the_features_of_the_queue_hold_for_its_past(site: Site) -> None:
    client = declared(site)
    publish(client, *(letter * 100 for letter in "abcde"))
    over(client, "short", "epoch", max_length=2)
    over(client, "small", "epoch", max_length_bytes=250)
    over(client, "brief", "epoch", message_ttl=500)
    assert client.depth("brief") == 5
    assert [one[0] for one in taken(client, "short")] == ["d", "e"]
    assert [one[0] for one in taken(client, "small")] == ["d", "e"]
    site.until(lambda: client.depth("brief") == 0)
    assert client.depth(TOPIC) == 5


def filled(client: Client, name: str, point: str, ready: int, **arguments: Any) -> None:
    """Declare a queue that decides about each message, and wait until it has so many."""
    over(client, name, point, **arguments)
    client.site.until(lambda: client.depth(name) == ready)


@pytest.mark.requirement("D13.1", "X6.1")
def test_a_queue_that_decides_about_each_message_has_the_past(site: Site) -> None:
    client = declared(site)
    for number in range(8):
        properties = {"headers": {"n": number, "even": number % 2 == 0}, "priority": number % 4}
        publish(client, str(number), **properties)
    filled(client, "filtered", "epoch", 4, filter="even")
    filled(client, "priority", "epoch", 8, max_priority=5)
    filled(client, "ranked", "epoch", 8, priority_expression="n")
    filled(client, "keyed", "epoch", 2, key="even")
    filled(client, "grouped", "epoch", 8, group_by="even")
    filled(client, "short", "epoch", 2, filter="even", max_length=2)
    publish(client, "8", headers={"n": 8, "even": True}, priority=9)
    assert taken(client, "filtered") == ["0", "2", "4", "6", "8"]
    assert taken(client, "priority") == ["8", "3", "7", "2", "6", "1", "5", "0", "4"]
    assert taken(client, "ranked") == [*"876543210"]
    assert taken(client, "keyed") == ["7", "8"]
    assert taken(client, "grouped") == [*"012345678"]
    assert taken(client, "short") == ["6", "8"]


@PAST
def test_barriers_of_the_past_stand_where_they_were(site: Site) -> None:
    client = declared(site)
    for number in range(4):
        publish(client, str(number), headers={"stop": number == 2})
    filled(client, "q", "epoch", 4, barrier_expression="stop")
    taker = site.client("n2")
    taker.consume("q", prefetch=10)
    site.until(lambda: got(taker) == ["0", "1"])
    site.run(0.1)
    assert got(taker) == ["0", "1"]
    for one in taker.deliveries[:2]:
        taker.ack(one)
    site.until(lambda: got(taker) == ["0", "1", "2", "3"])


MANY = 5000


@PAST
@pytest.mark.parametrize("moment_s", [0.008, 0.012, 0.016, 0.02])
def test_the_past_comes_in_whole_and_in_order_whichever_owner_dies(site: Site, moment_s: float) -> None:
    client = declared(site)
    for first in range(0, MANY, 500):
        publish(client, *(str(number) for number in range(first, first + 500)), headers={"a": first % 1000})
    taker = site.client("n2")
    asked = {"x-underlying-topic": TOPIC, "x-recovery-point": "epoch", "x-filter": "a = 0"}
    taker.send(m.QueueDeclare("q", durable=True, arguments=asked))
    site.run(moment_s)
    site.nodes["n1"].stop(power=True)
    taker.answer(m.QueueDeclareOk)
    other = site.client("n3")
    taker.consume("q", no_ack=True)
    publish(other, "new", headers={"a": 0})
    wanted = [str(number) for number in range(MANY) if number // 500 % 2 == 0]
    site.until(lambda: len(taker.deliveries) > len(wanted))
    assert got(taker) == [*wanted, "new"]


def being_filled(site: Site, many: int) -> tuple[Client, Client]:
    """A client that declares a queue over so many messages, and another one; the queue has a part of its past
    by now, which its owner on n1 fills.
    """
    client, taker, other = declared(site), site.client("n2"), site.client("n3")
    for first in range(0, many, 500):
        publish(client, *(str(number) for number in range(first, first + 500)))
    asked = {"x-underlying-topic": TOPIC, "x-recovery-point": "epoch", "x-filter": "TRUE"}
    taker.send(m.QueueDeclare("q", durable=True, arguments=asked))
    partition = site.front_end("n1").queue("/", TOPIC, 0).partition
    owner = state_of(site.nodes["n1"].broker.owners[partition])
    site.until(lambda: any(len(owner.queues[number].delivery.ready) for number in owner.filling), 0.0002)
    return taker, other


@PAST
@pytest.mark.parametrize("moment_s", [0.0, 0.0003, 0.0006, 0.001])
def test_a_purge_removes_what_is_still_to_come_in(site: Site, moment_s: float) -> None:
    taker, client = being_filled(site, MANY)
    site.run(moment_s)
    client.send(m.QueuePurge("q"))
    publish(client, "new")
    purged = client.answer(m.QueuePurgeOk).message_count
    taker.answer(m.QueueDeclareOk)
    assert 0 < purged < MANY
    site.until(lambda: client.depth("q") == 1)
    site.run(0.5)
    assert taken(client, "q") == ["new"]
    assert client.depth(TOPIC) == MANY + 1


@PAST
def test_a_purge_of_the_past_counts_when_the_owner_dies(site: Site) -> None:
    taker, other = being_filled(site, MANY)
    other.purge("q")
    site.nodes["n1"].stop(power=True)
    taker.answer(m.QueueDeclareOk)
    publish(other, "new")
    assert taken(other, "q") == ["new"]


@PAST
def test_whether_a_queue_is_empty_shows_when_its_past_is_in_it(site: Site) -> None:
    client, _, mend = undecided(site)
    over(client, "q", "epoch", filter="TRUE")
    deleting = site.client("n2")
    deleting.send(m.QueueDelete("q", if_empty=True))
    site.run(0.3)
    mend()
    with pytest.raises(ChannelClosedError, match=r"406 .*not empty"):
        deleting.answer(m.QueueDeleteOk)
    other = site.client("n2")
    site.until(lambda: other.depth("q") == 1)
    assert taken(other, "q") == ["1"]
    other.delete("q", if_empty=True)


@PAST
def test_nothing_is_delivered_before_the_past_of_an_undecided_transaction(site: Site) -> None:
    writer = site.client("n3", transactional=True)
    writer.declare("first")
    client = declared(site)
    partition = site.front_end("n1").queue("/", TOPIC, 0).partition
    (stream,) = machine_of(site.nodes["n1"].broker.owners[partition]).queues.values()
    publish(client, "0")
    for queue in ("first", TOPIC):
        writer.publish(queue, b"1")
    writer.send(m.TxCommit())
    site.until(lambda: stream.withheld, step_s=0.0002)
    mend = isolate(site, "n3")
    over(site.client("n2"), "q", "epoch", filter="TRUE")
    publish(client, "2")
    taker = site.client("n2")
    taker.consume("q", no_ack=True)
    site.run(0.3)
    assert stream.withheld
    assert got(taker) == []
    mend()
    site.until(lambda: len(taker.deliveries) == 3)
    assert got(taker) == ["0", "1", "2"]


def test_a_queue_that_decides_about_its_past_needs_the_level_of_all_members(site: Site) -> None:
    client = declared(site)
    formats = site.nodes["n1"].broker._peer_formats
    formats.own = ARGUMENT_LEVELS["x-recovery-point beside x-filter"] - 1
    with pytest.raises(ChannelClosedError, match="a release without x-recovery-point beside x-filter"):
        over(client, "q", "epoch", filter="TRUE")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"recovery_point": "yesterday"}, "invalid_recovery_point"),
        ({"recovery_point": 5}, "invalid arg 'x-recovery-point'"),
        ({"recovery_point": "0123456789abcdef0123456x"}, "invalid_recovery_point"),
        ({"recovery_point": "0123456789abcdef01234567"}, "is a bookmark of another queue"),
        ({"recovery_point": "epoch", "deduplication_window": 5}, "no queue has both x-recovery-point and"),
        ({"recovery_point": "epoch", "underlying_topic": None}, "recovery_point_but_no_underlying_topic"),
    ],
)
def test_a_wrong_declaration_is_refused(site: Site, arguments: dict[str, Any], reason: str) -> None:
    client = declared(site)
    named = {"underlying_topic": TOPIC} | arguments
    with pytest.raises(ChannelClosedError, match=rf"406 .*{reason}"):
        client.declare("q", **{name: value for name, value in named.items() if value is not None})
