"""Messages that have left a queue over a stream come back, each once and at its old place (X4)."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.config.formats import UNDONE
from node.delivery.deeds import Became, Deed
from node.message.streams import LARGEST_OFFSET, OffsetKind, StreamOffset
from node.refusal import AccessRefusedError, PreconditionFailedError, Refusal
from node.wire.amqp091 import methods as m
from tests.cluster.kept_links import site
from tests.cluster.test_leases import isolate
from tests.cluster.test_moving import place
from tests.cluster.test_settling_by_bookmark import QUEUE, Settlement, bookmarks_of, taking
from tests.cluster.test_streams import now_s
from tests.cluster.test_topics import TOPIC, publish, taken
from tests.inside import machine_of
from tests.site import Client, Delivery, Site

__all__ = ["site"]

ALL = "TRUE"


def over(site: Site, **arguments: Any) -> Client:
    """A client of the owner's node, which has declared the queue over its stream."""
    client = site.client("n1")
    client.declare(TOPIC, queue_type="stream")
    client.declare(QUEUE, underlying_topic=TOPIC, **arguments)
    return client


def purged(site: Site, count: int) -> Client:
    """A client of a queue that has had numbered messages."""
    client = over(site)
    for number in range(count):
        publish(client, str(number), headers={"n": number})
    client.purge(QUEUE)
    return client


def undo(site: Site, *bookmarks: str, node: str = "n3", **options: Any) -> Settlement:
    filter = options.pop("filter", "" if bookmarks else ALL)
    return Settlement(site, node, Deed.UNDO, *bookmarks, filter=filter, **options)


def back(site: Site, *bookmarks: str, **options: Any) -> dict[Became, int]:
    counts: dict[Became, int] = undo(site, *bookmarks, **options).answer.counts
    site.run(0.1)
    return counts


def drained(client: Client) -> list[Delivery]:
    client.site.run(0.1)
    return client.drain(QUEUE)


@pytest.mark.requirement("X4.5")
@pytest.mark.parametrize("mode", [2, 1])
def test_acknowledged_messages_come_back_in_their_order_marked_redelivered(site: Site, mode: int) -> None:
    client = over(site)
    publish(client, *"abcd", delivery_mode=mode)
    assert taken(client, QUEUE) == [*"abcd"]
    publish(client, "e", delivery_mode=mode)
    assert back(site) == {Became.SETTLED: 4}
    found = drained(client)
    assert [one.body for one in found] == [b"a", b"b", b"c", b"d", b"e"]
    assert [one.method.redelivered for one in found] == [True] * 4 + [False]
    assert back(site) == {Became.SETTLED: 5}


@pytest.mark.requirement("X4.5")
def test_purged_and_expired_messages_come_back(site: Site) -> None:
    client = over(site)
    publish(client, "a", "b")
    publish(client, "c", expiration="500")
    site.until(lambda: client.depth(QUEUE) == 2)
    client.purge(QUEUE)
    assert back(site) == {Became.SETTLED: 3}
    assert client.depth(QUEUE) == 3
    # The time to live begins anew.
    site.until(lambda: client.depth(QUEUE) == 2)
    assert taken(client, QUEUE) == ["a", "b"]


@pytest.mark.requirement("X4.5")
def test_messages_of_a_time_come_back(site: Site) -> None:
    client = over(site)
    times: list[StreamOffset] = []
    for letters in ("ab", "cd", "ef"):
        times.append(StreamOffset(OffsetKind.TIME, round(now_s(site) * 1000)))
        publish(client, *letters)
        site.run(2.0)
    client.purge(QUEUE)
    assert back(site, since=times[1], until=times[2], tries=True) == {Became.SETTLED: 2}
    assert back(site, since=times[1], until=times[2]) == {Became.SETTLED: 2}
    assert taken(client, QUEUE) == ["c", "d"]
    assert back(site, until=times[1]) == {Became.SETTLED: 2}
    assert taken(client, QUEUE) == ["a", "b"]
    assert back(site, since=StreamOffset(OffsetKind.AGE, 2500)) == {Became.SETTLED: 2}
    assert taken(client, QUEUE) == ["e", "f"]
    assert back(site, since=times[2], until=times[1]) == {}
    later = StreamOffset(OffsetKind.TIME, LARGEST_OFFSET)
    assert back(site, since=later) == {}
    assert back(site, until=later) == {Became.SETTLED: 6}
    # The other commands know times, too.
    removed = Settlement(site, "n2", Deed.ACKNOWLEDGE, filter=ALL, since=times[1], until=times[2]).answer
    assert removed.counts == {Became.SETTLED: 2}
    assert taken(client, QUEUE) == ["a", "b", "e", "f"]
    plain = site.client("n2")
    plain.declare("plain")
    target = place(site, "plain")
    copied = Settlement(site, "n2", Deed.COPY, filter=ALL, since=times[1], target=target).answer
    assert copied.counts == {}
    assert back(site, since=times[2]) == {Became.SETTLED: 2}
    copied = Settlement(site, "n2", Deed.COPY, filter=ALL, since=times[1], target=target).answer
    assert copied.counts == {Became.SETTLED: 2}
    assert taken(client, "plain") == ["e", "f"]


def test_a_queue_without_a_stream_knows_no_times(site: Site) -> None:
    site.client("n1").declare(QUEUE)
    since = StreamOffset(OffsetKind.AGE, 1000)
    refusal = Settlement(site, "n2", Deed.EXPIRE, filter=ALL, since=since).answer
    assert isinstance(refusal, PreconditionFailedError)
    assert str(refusal).startswith("no stream knows the times of messages of queue 'q' in vhost '/'")


@pytest.mark.requirement("X4.5")
def test_dead_letters_and_moved_messages_come_back_without_their_failures(site: Site) -> None:
    client = over(site, delivery_limit=1, dead_letter_exchange="", dead_letter_routing_key="dead")
    for queue in ("dead", "target"):
        client.declare(queue)
    publish(client, "a", "b")
    for _ in range(2):
        failing = client.get(QUEUE, no_ack=False)
        assert failing is not None
        client.reject(failing, requeue=True)
        site.run(0.1)
    site.until(lambda: client.depth("dead") == 1)
    moved = Settlement(site, "n2", Deed.MOVE, filter=ALL, target=place(site, "target"))
    assert moved.answer.counts == {Became.SETTLED: 1}
    assert back(site) == {Became.SETTLED: 2}
    found = drained(client)
    assert [one.body for one in found] == [b"a", b"b"]
    assert not any("x-delivery-count" in one.headers for one in found)
    assert (client.depth("dead"), client.depth("target")) == (1, 1)


@pytest.mark.requirement("X4.5")
def test_a_barrier_that_comes_back_waits_for_the_messages_before_it(site: Site) -> None:
    client = over(site, barrier_expression="barrier")
    publish(client, "a")
    publish(client, "|", headers={"barrier": True})
    publish(client, "b")
    client.purge(QUEUE)
    assert back(site) == {Became.SETTLED: 3}
    consumer = site.client("n2")
    consumer.consume(QUEUE, prefetch=10)
    site.run(0.2)
    assert [one.body for one in consumer.deliveries] == [b"a"]
    consumer.ack(consumer.deliveries[0])
    site.run(0.2)
    assert [one.body for one in consumer.deliveries] == [b"a", b"|", b"b"]


@pytest.mark.requirement("X4.5")
def test_bookmarks_say_what_became_of_each(site: Site) -> None:
    client = over(site)
    publish(client, *"abc")
    consumer = taking(site, "n2", 3)
    first, second, third = bookmarks_of(consumer)
    consumer.ack(consumer.deliveries[0])
    site.run(0.2)
    assert undo(site, first, second).became == [Became.SETTLED, Became.IN_QUEUE]
    assert undo(site, first).became == [Became.IN_QUEUE]
    later = third[:-8] + "f" * 8
    assert undo(site, later).became == [Became.NOT_FOUND]
    with pytest.raises(PreconditionFailedError):
        raise undo(site, "0" * 24).answer
    consumer.close()
    site.run(0.2)
    assert taken(client, QUEUE) == [*"abc"]


@pytest.mark.requirement("X4.5")
def test_a_filter_names_messages_and_a_trial_changes_nothing(site: Site) -> None:
    client = purged(site, 40)
    assert back(site, filter="n >= 30", tries=True) == {Became.SETTLED: 10}
    assert client.depth(QUEUE) == 0
    assert back(site, filter="n >= 30", limit=4) == {Became.SETTLED: 4}
    assert taken(client, QUEUE) == ["30", "31", "32", "33"]
    assert back(site, filter="n < 3") == {Became.SETTLED: 3}
    assert taken(client, QUEUE) == ["0", "1", "2"]


@pytest.mark.requirement("X4.5")
def test_a_limit_tells_where_the_next_request_goes_on(site: Site) -> None:
    client = over(site)
    publish(client, *map(str, range(30)))
    client.purge(QUEUE)
    total, options = 0, dict[str, Any]()
    while True:
        answer = undo(site, limit=7, **options).answer
        total += answer.counts.get(Became.SETTLED, 0)
        if answer.left is None:
            break
        options = dict(zip(("first", "last"), answer.left, strict=True))
    site.run(0.1)
    assert total == 30
    assert taken(client, QUEUE) == [*map(str, range(30))]


@pytest.mark.requirement("X4.5")
@pytest.mark.parametrize(
    ("arguments", "order"),
    [
        ({"filter": "kind = 'a'"}, "adb"),
        ({"max_priority": 5}, "bcad"),
        ({"priority_expression": "rank"}, "dcba"),
        ({"group_by": "kind"}, "abcd"),
        ({"max_length_bytes": 1000}, "abcd"),
        ({"deduplication_window": 60_000}, "abcd"),
        ({"target_queue_depth": 2}, "abcd"),
        ({"message_ttl": 60_000, "redelivery_backoff": {"initial": 100}}, "abcd"),
        ({"lease_period": 60_000}, "abcd"),
        ({"single_active_consumer": True}, "abcd"),
    ],
)
def test_the_queue_decides_about_each_message_as_about_a_new_one(
    site: Site, arguments: dict[str, Any], order: str
) -> None:
    """Filters, priorities, groups and limits hold for messages that come back."""
    client = over(site, **arguments)
    for rank, (name, kind) in enumerate(("aa", "bb", "cb", "da")):
        priority = {"b": 4, "c": 3}.get(name, 1)
        publish(client, name, headers={"kind": kind, "rank": rank}, priority=priority, message_id=name)
    expected = [*order] if "filter" not in arguments else ["a", "d"]
    assert sorted(taken(client, QUEUE)) == sorted(expected)
    assert back(site) == {Became.SETTLED: len(expected)}
    assert taken(client, QUEUE) == expected


@pytest.mark.requirement("X4.5")
def test_a_delayed_message_does_not_wait_again(site: Site) -> None:
    client = over(site)
    client.declare_exchange("later", "x-delayed-message", **{"x-delayed-type": "fanout"})
    client.bind(QUEUE, "later")
    client.confirms(client.publish("", b"a", exchange="later", headers={"x-delay": 2000}))
    site.until(lambda: client.depth(QUEUE) == 1)
    client.purge(QUEUE)
    assert back(site) == {Became.SETTLED: 1}
    assert taken(client, QUEUE) == ["a"]


@pytest.mark.requirement("X4.5")
def test_a_full_queue_takes_as_many_as_it_has_room_for(site: Site) -> None:
    client = over(site, max_length=5, overflow="reject-publish")
    for part in ("abcde", "fgh"):
        publish(client, *part)
        client.purge(QUEUE)
    answer = undo(site).answer
    assert answer.counts == {Became.SETTLED: 5, Became.REFUSED: 1}
    assert answer.left is not None
    site.run(0.1)
    assert taken(client, QUEUE) == [*"abcde"]
    # The refused messages count no more.
    publish(client, *"ijklm")
    client.purge(QUEUE)
    assert back(site, filter="TRUE", first=answer.left[0], last=answer.left[1]) == {Became.SETTLED: 2}


@pytest.mark.requirement("X4.5")
def test_what_the_stream_has_not_any_more_is_gone(site: Site) -> None:
    client = site.client("n1")
    client.declare(TOPIC, queue_type="stream", max_length_bytes=10)
    client.declare(QUEUE, underlying_topic=TOPIC)
    publish(client, *"abc")
    consumer = taking(site, "n2", 3)
    bookmarks = bookmarks_of(consumer)
    for one in consumer.deliveries:
        consumer.ack(one)
    consumer.close()
    publish(client, "defgh" * 2)
    site.run(0.2)
    assert undo(site, *bookmarks).became == [Became.GONE] * 3
    assert taken(client, QUEUE) == ["defgh" * 2]


@pytest.mark.requirement("X4.5")
def test_a_consumer_gives_back_late_what_another_client_has_brought_back(site: Site) -> None:
    """Another client has settled the message of the consumer by its bookmark."""
    client = over(site)
    publish(client, "a")
    consumer = taking(site, "n2", 1)
    bookmarks = bookmarks_of(consumer)
    assert Settlement(site, "n3", Deed.ACKNOWLEDGE, *bookmarks).became == [Became.SETTLED]
    assert undo(site, *bookmarks).became == [Became.SETTLED]
    consumer.cancel(consumer.deliveries[0].method.consumer_tag)
    consumer.reject(consumer.deliveries[0], requeue=True)
    site.run(0.2)
    assert taken(client, QUEUE) == ["a"]


@pytest.mark.requirement("X4.5")
def test_messages_of_an_undecided_transaction_stay_withheld(site: Site) -> None:
    writer = site.client("n3", transactional=True)
    writer.declare("first")
    client = over(site)
    publish(client, "a")
    assert taken(client, QUEUE) == ["a"]
    state = machine_of(site.nodes["n1"].broker.owners[place(site, QUEUE).partition])
    stream = state.queues[place(site, TOPIC).queue]
    for queue in ("first", TOPIC):
        writer.publish(queue, b"t")
    writer.send(m.TxCommit())
    site.until(lambda: stream.withheld, step_s=0.0002)
    mend = isolate(site, "n3")
    assert back(site, node="n2") == {Became.SETTLED: 1}
    assert stream.withheld and client.depth(QUEUE) == 1
    mend()
    site.until(lambda: client.depth(QUEUE) == 2)
    assert taken(client, QUEUE) == ["a", "t"]


@pytest.mark.requirement("X4.5")
@pytest.mark.parametrize("after_s", [0.0, 0.002, 0.004, 0.006, 0.01, 0.03])
def test_each_message_comes_back_once_whichever_owner_dies(site: Site, after_s: float) -> None:
    client = over(site)
    publish(client, *map(str, range(50)))
    assert len(taken(client, QUEUE)) == 50
    asked = undo(site, wait=False)
    site.run(after_s)
    site.nodes["n1"].stop(power=True)
    site.until(lambda: asked.answers)
    assert asked.answer.counts.get(Became.SETTLED) == 50
    other = site.client("n2")
    site.until(lambda: other.depth(QUEUE) == 50)
    found = drained(other)
    assert [one.body for one in found] == [b"%d" % number for number in range(50)]
    assert all(one.method.redelivered for one in found)


@pytest.mark.requirement("X4.5")
def test_the_asking_node_dies_and_nothing_is_half_back(site: Site) -> None:
    client = over(site)
    publish(client, *map(str, range(3000)))
    client.purge(QUEUE)
    undo(site, wait=False)
    site.run(0.004)
    site.nodes["n3"].stop(power=True)
    site.run(0.5)
    found = taken(client, QUEUE)
    assert found == [*map(str, range(len(found)))]
    assert back(site, node="n2")[Became.SETTLED] == 3000
    assert taken(client, QUEUE) == [*map(str, range(3000))]


@pytest.mark.requirement("X4.5")
@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ({"semantics": "at-most-once", "underlying_topic": TOPIC}, "before it delivers it"),
        ({}, "no stream keeps the messages"),
        ({"underlying_topic": "^s$", "default_publish_target": TOPIC}, "no stream keeps the messages"),
        ({"queue_type": "stream"}, "not supported by stream queues"),
    ],
)
def test_a_queue_whose_past_is_not_kept_refuses(site: Site, arguments: dict[str, Any], refusal: str) -> None:
    client = site.client("n1")
    client.declare(TOPIC, queue_type="stream")
    client.declare(QUEUE, **arguments)
    with pytest.raises(Refusal, match=refusal):
        asked = undo(site, wait=False)
        site.until(lambda: asked.answers)
        raise asked.answer


@pytest.mark.requirement("X4.5")
def test_no_owner_of_an_earlier_release_is_asked(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    over(site)
    formats = site.nodes["n3"].broker.formats
    monkeypatch.setattr(type(formats), "everywhere", property(lambda _: UNDONE - 1))
    with pytest.raises(PreconditionFailedError, match="upgrade all nodes first"):
        raise undo(site).answer


@pytest.mark.requirement("X4.5")
def test_who_may_not_write_the_queue_brings_nothing_back(site: Site) -> None:
    client = purged(site, 4)
    rights = {"vhost": "/", "user": "guest", "configure": ".*", "write": "", "read": ".*"}
    site.submit("n1", "set_permissions", rights)
    with pytest.raises(AccessRefusedError):
        raise undo(site).answer
    site.submit("n1", "set_permissions", {**rights, "write": ".*", "write_filter": "n > 2"})
    assert back(site) == {Became.SETTLED: 1}
    site.submit(
        "n1", "set_permissions", {**rights, "write": ".*", "write_filter": "", "read_filter": "n < 1"}
    )
    assert back(site) == {Became.SETTLED: 1}
    site.submit("n1", "set_permissions", {**rights, "write": ".*", "read_filter": ""})
    assert taken(client, QUEUE) == ["0", "3"]
