"""Queues that keep the last message of each key (D16), on every kind of queue and over owners."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.config.formats import ARGUMENT_LEVELS, FORMAT_LEVEL
from tests.cluster.kept_links import owner, site
from tests.cluster.kinds import client, declared
from tests.cluster.test_browsing_consumers import browser
from tests.cluster.test_modified_annotations import sent
from tests.cluster.test_streams import got, reading
from tests.cluster.test_topics import TOPIC, publish, taken
from tests.site import ChannelClosedError, Client, Site
from tests.wire.amqp10.sections import application, message

__all__ = ["client", "declared", "site"]

KEY = "/id"


def value(id: Any, price: int) -> bytes:
    return b'{"id": %s, "price": %d}' % (str(id).encode(), price)


@pytest.mark.requirement("D16.1")
@pytest.mark.parametrize("mode", [1, 2])
def test_the_last_message_of_each_key_stays(client: Client, declared: Any, mode: int) -> None:
    queue = declared(key=KEY)
    client.confirms(client.publish(queue, *(value(n % 3, n) for n in range(7)), delivery_mode=mode))
    client.confirms(client.publish(queue, value(1, 7), b"no key", b"no key", delivery_mode=mode))
    assert client.bodies(queue) == [value(2, 5), value(0, 6), value(1, 7), b"no key", b"no key"]


@pytest.mark.requirement("D16.1")
def test_keys_of_properties_and_equal_numbers_in_both_protocols(site: Site) -> None:
    client = site.client("n2")
    client.declare("q", key="id")
    for number, body in ((7, b"a"), ("7", b"b"), (True, b"c"), (7, b"d")):
        client.confirms(client.publish("q", body, headers={"id": number}))
    sent(site, "q", message(application(id=7.0), body=b"e"))
    sent(site, "q", message(application(id=7.5), body=b"f"))
    assert client.bodies("q") == [b"b", b"c", b"e", b"f"]


@pytest.mark.requirement("D16.1")
@pytest.mark.parametrize("requeue", [True, False])
def test_a_message_that_is_replaced_at_its_consumer_does_not_come_back(client: Client, requeue: bool) -> None:
    client.declare("q", key=KEY)
    client.confirms(client.publish("q", value(1, 1)))
    client.consume("q", prefetch=2)
    client.site.until(lambda: len(client.deliveries) == 1)
    client.confirms(client.publish("q", value(1, 2)))
    client.site.until(lambda: len(client.deliveries) == 2)
    client.ack(client.deliveries[1])
    client.nack(client.deliveries[0], requeue=requeue)
    client.site.run(0.1)
    assert (client.depth("q"), len(client.deliveries)) == (0, 2)
    client.confirms(client.publish("q", value(1, 3)))
    client.site.until(lambda: len(client.deliveries) == 3)


@pytest.mark.requirement("D16.1")
def test_a_message_that_is_given_back_unreplaced_is_the_last_one_again(client: Client) -> None:
    client.declare("q", key=KEY)
    client.confirms(client.publish("q", value(1, 1), value(2, 1)))
    client.consume("q", prefetch=2)
    client.site.until(lambda: len(client.deliveries) == 2)
    for one in client.deliveries:
        client.nack(one, requeue=True)
    client.site.until(lambda: len(client.deliveries) == 4)
    assert [one.body for one in client.deliveries[2:]] == [value(1, 1), value(2, 1)]


@pytest.mark.requirement("D16.1")
@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("mode", [1, 2])
def test_the_next_owner_knows_the_keys(site: Site, power: bool, mode: int) -> None:
    home = site.client("n1")
    home.declare("q", key=KEY)
    home.confirms(home.publish("q", value(1, 1), value(2, 1), delivery_mode=2))
    first = owner(site)
    far = site.client(next(name for name in site.nodes if name != first))
    far.consume("q", prefetch=1)
    site.until(lambda: len(far.deliveries) == 1)
    home.confirms(home.publish("q", value(1, 2), delivery_mode=2))
    # The client has the first message, and another takes the one that has replaced it.
    other = site.client(far.node.name)
    came = [other.get("q", no_ack=False) for _ in range(2)]
    assert [one and one.body for one in came] == [value(2, 1), value(1, 2)]
    site.nodes[first].stop(power=power)
    far.confirms(far.publish("q", value(2, 2), delivery_mode=mode))
    site.until(lambda: far.depth("q") == 1)
    far.nack(far.deliveries[0], requeue=True)
    far.close()
    other.close()
    last = site.client(far.node.name)
    site.run(0.2)
    assert sorted(last.bodies("q")) == [value(1, 2), value(2, 2)]


# -- over a stream -------------------------------------------------------------------------------------


def last_values(site: Site, **arguments: Any) -> Client:
    """A stream, a queue with the last values of its keys, and another queue over it."""
    client = site.client("n1")
    client.declare(TOPIC, queue_type="stream")
    client.declare("last", underlying_topic=TOPIC, key=KEY, **arguments)
    client.declare("all", underlying_topic=TOPIC)
    return client


@pytest.mark.requirement("D16.1", "D16.2", "D16.3", "D16.4")
def test_other_queues_over_the_stream_have_every_publish_and_nothing_else(site: Site) -> None:
    client = last_values(site, message_ttl=300)
    texts = [value(n % 2, n).decode() for n in range(4)]
    publish(client, *texts)
    assert [client.depth(queue) for queue in ("last", "all")] == [2, 4]
    assert taken(site.client("n2"), "last") == texts[2:]
    publish(client, *texts[:2])
    site.until(lambda: client.depth("last") == 0)
    publish(client, *texts[2:])
    assert client.purge("last") == 2
    every = texts + texts
    assert taken(site.client("n3"), "all") == every
    assert got(reading(site, "n2", "first")) == every


@pytest.mark.requirement("D16.1")
@pytest.mark.parametrize("no_ack", [True, False])
def test_a_client_of_0_9_1_browses_the_last_values_and_takes_none(site: Site, no_ack: bool) -> None:
    client = last_values(site)
    publish(client, *(value(n % 2, n).decode() for n in range(4)))
    reader = site.client("n3")
    reader.consume("last", prefetch=10, no_ack=no_ack, arguments={"x-browse": True})
    site.until(lambda: len(reader.deliveries) == 2)
    publish(client, value(0, 4).decode())
    site.until(lambda: len(reader.deliveries) == 3)
    assert [one.body for one in reader.deliveries] == [value(0, 2), value(1, 3), value(0, 4)]
    if not no_ack:
        for one in reader.deliveries:
            reader.ack(one)
    reader.close()
    site.run(0.1)
    assert taken(client, "last") == [value(1, 3).decode(), value(0, 4).decode()]


@pytest.mark.requirement("D16.1")
def test_a_reader_has_the_last_values_and_then_what_is_published(site: Site) -> None:
    client = last_values(site)
    publish(client, *(value(n % 2, n).decode() for n in range(4)))
    reader = browser(site, "n3", "last", limit=10)
    site.until(lambda: len(reader.bodies) == 2)
    publish(client, value(0, 4).decode())
    site.until(lambda: len(reader.bodies) == 3)
    assert reader.bodies == [value(0, 2), value(1, 3), value(0, 4)]


# -- deltas --------------------------------------------------------------------------------------------

DELTA = {"x-delta": True}


@pytest.mark.requirement("D16.6")
def test_a_delta_is_merged_and_every_queue_over_the_stream_has_the_whole(site: Site) -> None:
    client = last_values(site)
    publish(client, '{"id": 1, "price": 3, "at": {"x": 1, "y": 2}}')
    publish(client, '{"id": 1, "price": 4, "at": {"y": null}}', '{"id": 1, "qty": 7}', headers=DELTA)
    site.nodes["n1"].stop(power=True)
    other = site.client("n2")
    publish(other, '{"id": 1, "price": null}', '{"id": 2, "price": null, "qty": 1}', headers=DELTA)
    wholes = [
        '{"id":1,"price":4,"at":{"x":1}}',
        '{"id":1,"price":4,"at":{"x":1},"qty":7}',
        '{"id":1,"at":{"x":1},"qty":7}',
        '{"id":2,"qty":1}',
    ]
    assert taken(other, "last") == wholes[2:]
    assert taken(other, "all")[1:] == wholes
    assert got(reading(site, "n3", "first"))[1:] == wholes


@pytest.mark.requirement("D16.6")
@pytest.mark.parametrize("mode", [1, 2])
def test_messages_of_one_batch_are_merged_in_order(client: Client, declared: Any, mode: int) -> None:
    queue = declared(key=KEY)
    client.publish(queue, b'{"id": 1, "a": 1}', delivery_mode=mode)
    client.publish(queue, b'{"id": 1, "b": 2}', headers=DELTA, delivery_mode=mode)
    client.publish(queue, b'{"id": 1, "c": 3}', delivery_mode=mode)
    tags = client.publish(
        queue, b'{"id": 1, "d": 4}', b'{"id": 1, "e": 5}', headers=DELTA, delivery_mode=mode
    )
    assert client.confirms(tags) == [True, True]
    assert client.bodies(queue) == [b'{"id":1,"c":3,"d":4,"e":5}']


# -- expiration ----------------------------------------------------------------------------------------


@pytest.mark.requirement("D16.5")
def test_messages_have_the_expiration_of_the_stream_in_every_queue_over_it(site: Site) -> None:
    client = site.client("n1")
    client.declare(TOPIC, queue_type="stream", message_ttl=400)
    client.declare("last", underlying_topic=TOPIC, key=KEY)
    client.declare("all", underlying_topic=TOPIC)
    client.declare("brief", underlying_topic=TOPIC, message_ttl=100)
    client.declare("long", underlying_topic=TOPIC, message_ttl=10**6)
    publish(client, value(1, 1).decode())
    publish(client, value(2, 1).decode(), expiration="200")
    site.nodes["n1"].stop(power=True)
    other = site.client("n2")
    queues = ["last", "all", "brief", "long"]
    for seconds, left in ((0.15, [2, 2, 0, 2]), (0.1, [1, 1, 0, 1]), (0.3, [0, 0, 0, 0])):
        site.run(seconds)
        assert [other.depth(queue) for queue in queues] == left, seconds
    assert len(got(reading(site, "n2", "first"))) == 2


# -- refusals, transactions, delays ----------------------------------------------------------------------


@pytest.mark.requirement("D16.6")
@pytest.mark.parametrize(
    "body",
    [
        b"no JSON",
        b"[1]",
        b'{"price": 1}',
        b'{"id": {"x": 1}}',
        b'{"id": 1, "n": 1e999}',
        b'{"id": 1, "s": "%s"}' % (b"x" * 65000),
    ],
)
def test_a_delta_that_makes_no_whole_is_refused(client: Client, declared: Any, body: bytes) -> None:
    queue = declared(key=KEY)
    client.confirms(client.publish(queue, b'{"id":1,"a":"%s"}' % (b"x" * 600)))
    tags = client.publish(queue, body, b'{"id": 2}', headers=DELTA)
    assert client.confirms(tags) == [False, True]
    assert len(client.bodies(queue)) == 2


@pytest.mark.requirement("D16.6")
def test_a_delta_of_a_value_that_is_no_object_is_refused_where_it_is_no_json(client: Client) -> None:
    client.declare("q", key="id")
    client.confirms(client.publish("q", b"text", headers={"id": 1}))
    client.confirms(client.publish("q", b"[1]", headers={"id": 2}))
    assert client.confirms(client.publish("q", b'{"x": 1}', headers={"id": 1, **DELTA})) == [False]
    assert client.confirms(client.publish("q", b'{"x": 1}', headers={"id": 2, **DELTA})) == [True]
    assert client.bodies("q") == [b"text", b'{"x":1}']


@pytest.mark.requirement("D16.6")
def test_a_queue_without_keys_has_deltas_as_they_are(client: Client) -> None:
    client.declare("plain")
    client.declare("last", key=KEY)
    for queue in ("plain", "last"):
        client.bind(queue, "amq.fanout")
    client.publish("", b'{"id": 1, "a": 1}', exchange="amq.fanout")
    client.confirms(client.publish("", b'{"id": 1, "b": null}', exchange="amq.fanout", headers=DELTA))
    assert client.bodies("plain") == [b'{"id": 1, "a": 1}', b'{"id": 1, "b": null}']
    assert client.bodies("last") == [b'{"id":1,"a":1}']


@pytest.mark.requirement("D16.6")
def test_a_message_of_amqp_1_0_may_be_a_delta(site: Site) -> None:
    client = site.client("n1")
    client.declare("q", key=KEY)
    client.confirms(client.publish("q", b'{"id": 1, "a": 1}'))
    sent(site, "q", message(application(**DELTA), body=b'{"id": 1, "b": 2}'))
    assert client.bodies("q") == [b'{"id":1,"a":1,"b":2}']


@pytest.mark.requirement("D16.1", "D16.6")
def test_a_transaction_replaces_when_it_is_committed_and_has_no_deltas(client: Client) -> None:
    client.declare("q", key=KEY)
    client.declare("other")
    client.confirms(client.publish("q", value(1, 1)))
    other = client.site.client("n1", transactional=True)
    other.publish("q", value(1, 2), value(2, 2))
    client.site.run(0.1)
    assert client.depth("q") == 1
    other.commit()
    assert client.depth("q") == 2
    other.publish("q", b'{"id": 1, "a": 1}', headers=DELTA)
    with pytest.raises(ChannelClosedError):
        other.commit()
    assert client.bodies("q") == [value(1, 2), value(2, 2)]


@pytest.mark.requirement("D16.1")
def test_a_delayed_message_replaces_when_it_is_due_unless_a_newer_one_is_there(client: Client) -> None:
    client.declare("q", key=KEY)
    for body, delay in ((value(1, 1), 300), (value(2, 1), 300)):
        client.confirms(client.publish("q", body, headers={"x-delay": delay}))
    client.confirms(client.publish("q", value(1, 2)))
    client.site.run(0.5)
    assert client.bodies("q") == [value(2, 1), value(1, 2)]


@pytest.mark.requirement("D16.1")
def test_no_dead_letter_is_made_of_a_replaced_message_and_they_are_counted(client: Client) -> None:
    client.declare("dead")
    client.declare("q", key=KEY, dead_letter_exchange="", dead_letter_routing_key="dead")
    client.confirms(client.publish("q", *(value(1, n) for n in range(3))))
    client.site.run(0.1)
    assert (client.depth("q"), client.depth("dead")) == (1, 0)
    (owner,) = (one for one in client.site.nodes["n1"].broker.owners.values() if one.queues)
    assert sum(queue.delivery.tally.replaced for queue in owner.queues.values()) == 2


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"key": "/n +"}, "the expression ends too early at column 5"),
        ({"key": 7}, "unacceptable_type"),
        ({"key": KEY, "barrier_expression": "a"}, "no queue has both x-key and x-barrier-expression"),
        ({"key": KEY, "target_queue_depth": 5}, "no queue has both x-key and x-target-queue-depth"),
        ({"key": KEY, "queue_type": "stream"}, "invalid arg 'x-key' for queue 'q' .*of queue type stream"),
    ],
)
def test_a_wrong_key_is_refused(site: Site, arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(ChannelClosedError, match=f"406 .*{reason}"):
        site.client("n1").declare("q", **arguments)


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [({"key": KEY}, "x-key"), ({"queue_type": "stream", "message_ttl": 9}, "x-message-ttl of a stream")],
)
def test_no_queue_has_keys_before_all_nodes_know_them(
    client: Client, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], argument: str
) -> None:
    assert ARGUMENT_LEVELS[argument] == 20
    monkeypatch.setitem(ARGUMENT_LEVELS, argument, FORMAT_LEVEL + 1)
    with pytest.raises(ChannelClosedError, match=f"406 .*{argument}.*upgrade all nodes first"):
        client.declare("q", **arguments)
