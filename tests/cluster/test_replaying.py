"""Messages that no client has are published anew: dead letters go where they were published first (X4)."""

from __future__ import annotations

from typing import Any

import pytest

from node.delivery.deeds import Became, Deed, ReplayTarget
from node.refusal import PreconditionFailedError
from node.wire.amqp091 import methods as m
from tests.cluster.kept_links import site
from tests.cluster.test_moving import PLACES, client, place
from tests.cluster.test_settling_by_bookmark import QUEUE, Settlement, bookmarks_of, taking
from tests.site import Client, Delivery, Site

__all__ = ["client", "site"]

WORK = "work"


def worked(site: Site, there: str, **arguments: Any) -> Client:
    """A topic exchange with a queue whose rejected messages are dead letters in QUEUE."""
    worker = site.client(there)
    dead = {"dead_letter_exchange": "", "dead_letter_routing_key": QUEUE}
    worker.declare(WORK, **dead, **arguments)
    worker.declare_exchange("orders", "topic")
    worker.bind(WORK, "orders", "eu.#")
    return worker


def reject(client: Client, queue: str, count: int) -> None:
    """A client that takes messages, and cannot process any."""
    begin = len(client.deliveries)
    client.consume(queue, "rejecting")
    client.site.until(lambda: len(client.deliveries) == begin + count)
    for one in client.deliveries[begin:]:
        client.reject(one, requeue=False)
    client.cancel("rejecting")


def replay(
    site: Site, *bookmarks: str, exchange: str | None = None, key: str | None = None, **options: Any
) -> Settlement:
    options = {"deed": Deed.REPLAY, "node": "n3"} | options
    target = ReplayTarget(exchange, key)
    deed, node = options.pop("deed"), options.pop("node")
    return Settlement(site, node, deed, *bookmarks, target=target, **options)


def drained(client: Client, queue: str) -> list[Delivery]:
    client.site.run(0.1)
    return client.drain(queue)


def bodies(client: Client, queue: str) -> list[bytes]:
    return [one.body for one in drained(client, queue)]


@pytest.mark.requirement("X4.3")
@PLACES
@pytest.mark.parametrize("persistent", [2, 1])
def test_dead_letters_go_where_they_were_published_first(
    site: Site, client: Client, there: str, persistent: int
) -> None:
    """As they were published: without the headers of dead letters, to all queues that are bound now."""
    worker = worked(site, there)
    told = {"message_id": "m", "headers": {"n": 1}, "delivery_mode": persistent}
    for key in ("eu.fr", "eu.it"):
        worker.confirms(worker.publish(key, key.encode(), exchange="orders", **told))
    reject(worker, WORK, 2)
    site.until(lambda: client.depth(QUEUE) == 2)
    worker.declare("audit")
    worker.bind("audit", "orders", "*.it")
    assert replay(site, filter="TRUE").answer.counts == {Became.SETTLED: 2}
    found = drained(client, WORK)
    assert [one.body for one in found] == [b"eu.fr", b"eu.it"]
    assert [(one.method.exchange, one.method.routing_key) for one in found] == [
        ("orders", "eu.fr"), ("orders", "eu.it"),
    ]  # fmt: skip
    for one in found:
        assert (one.properties.message_id, one.headers) == ("m", {"n": 1})
        assert not one.method.redelivered
    assert bodies(client, "audit") == [b"eu.it"]
    assert bodies(client, QUEUE) == []


@pytest.mark.requirement("X4.3")
def test_a_message_may_die_and_be_published_anew_over_and_over(site: Site, client: Client) -> None:
    """RabbitMQ drops a message that comes back to a queue where it has expired; this is no such cycle."""
    worker = site.client("n2")
    worker.declare(WORK, message_ttl=50, dead_letter_exchange="", dead_letter_routing_key=QUEUE)
    worker.confirms(worker.publish(WORK, b"1", headers={"CC": [WORK]}))
    for _ in range(3):
        site.until(lambda: client.depth(QUEUE) == 1)
        assert replay(site, filter="TRUE").answer.counts == {Became.SETTLED: 1}
        site.until(lambda: client.depth(WORK) == 1)
    site.until(lambda: client.depth(QUEUE) == 1)
    [one] = drained(client, QUEUE)
    assert [death["count"] for death in one.headers["x-death"]] == [1]


@pytest.mark.requirement("X4.3")
@PLACES
def test_messages_of_any_queue_go_to_another_exchange_or_key(site: Site, client: Client, there: str) -> None:
    worker = worked(site, there)
    client.confirms(client.publish(QUEUE, b"1", b"2", headers={"CC": ["other"]}))
    assert replay(site, filter="TRUE", exchange="orders", key="eu.x").answer.counts == {Became.SETTLED: 2}
    found = drained(worker, WORK)
    assert [(one.body, one.method.routing_key) for one in found] == [(b"1", "eu.x"), (b"2", "eu.x")]
    client.confirms(client.publish(WORK, b"3"))
    reject(worker, WORK, 1)
    site.until(lambda: client.depth(QUEUE) == 1)
    assert replay(site, filter="TRUE", key="eu.y").answer.counts == {Became.UNROUTED: 1}
    assert replay(site, filter="TRUE", exchange="orders", key="eu.y").answer.counts == {Became.SETTLED: 1}
    assert bodies(client, WORK) == [b"3"]


@pytest.mark.requirement("X4.3")
def test_a_headers_exchange_routes_each_message_by_its_headers(site: Site, client: Client) -> None:
    client.declare(WORK)
    client.declare_exchange("by-kind", "headers")
    client.call(m.QueueBind(WORK, "by-kind", "", arguments={"kind": "a"}), m.QueueBindOk)
    for number in range(4):
        client.confirms(client.publish(QUEUE, b"%d" % number, headers={"kind": "ab"[number % 2]}))
    answer = replay(site, filter="TRUE", exchange="by-kind").answer
    assert answer.counts == {Became.SETTLED: 2, Became.UNROUTED: 2}
    assert bodies(client, WORK) == [b"0", b"2"]
    assert bodies(client, QUEUE) == [b"1", b"3"]


@pytest.mark.requirement("X4.3")
def test_further_keys_of_the_first_publish_count(site: Site, client: Client) -> None:
    worker = worked(site, "n2")
    worker.bind(WORK, "orders", "first")
    worker.declare("copy")
    worker.bind("copy", "orders", "second")
    worker.confirms(worker.publish("first", b"1", exchange="orders", headers={"CC": ["second"]}))
    reject(worker, WORK, 1)
    assert bodies(worker, "copy") == [b"1"]
    site.until(lambda: client.depth(QUEUE) == 1)
    assert replay(site, filter="TRUE").answer.counts == {Became.SETTLED: 1}
    assert bodies(worker, "copy") == bodies(worker, WORK) == [b"1"]


@pytest.mark.requirement("X4.3")
def test_bookmarks_name_messages_and_those_of_consumers_stay(site: Site, client: Client) -> None:
    client.declare(WORK)
    client.confirms(client.publish(QUEUE, b"1", b"2", b"3"))
    holder = taking(site, "n2", 1)
    [first] = bookmarks_of(holder)
    second = f"{first[:8]}{int(first[8:], 16) + 1:016x}"
    answer = replay(site, first, second, key=WORK).answer
    assert answer.bookmarks == {first: Became.LEASED, second: Became.SETTLED}
    assert bodies(client, WORK) == [b"2"]
    assert replay(site, filter="TRUE", key=WORK, tries=True).answer.counts == {Became.SETTLED: 2}
    holder.close()
    assert bodies(client, QUEUE) == [b"1", b"3"]


@pytest.mark.requirement("X4.3")
def test_a_copy_leaves_the_message(site: Site, client: Client) -> None:
    client.declare(WORK)
    client.confirms(client.publish(QUEUE, b"1", b"2"))
    answer = replay(site, filter="TRUE", key=WORK, deed=Deed.REPLAY_COPY).answer
    assert answer.counts == {Became.SETTLED: 2}
    assert bodies(client, WORK) == bodies(client, QUEUE) == [b"1", b"2"]


@pytest.mark.requirement("X4.3")
def test_a_queue_may_have_its_own_messages_anew(site: Site, client: Client) -> None:
    client.confirms(client.publish(QUEUE, b"1", b"2"))
    assert replay(site, filter="TRUE", deed=Deed.REPLAY_COPY).answer.counts == {Became.SETTLED: 2}
    assert client.depth(QUEUE) == 4
    assert replay(site, filter="TRUE").answer.counts == {Became.SETTLED: 4}
    assert bodies(client, QUEUE) == [b"1", b"2", b"1", b"2"]


# -- refusals -----------------------------------------------------------------------------------------


@pytest.mark.requirement("X4.3")
@PLACES
def test_a_message_that_no_queue_takes_stays_and_later_ones_go(
    site: Site, client: Client, there: str
) -> None:
    worker = worked(site, there)
    worker.bind(WORK, "orders", "us.#")
    for key in ("eu.1", "us.2", "eu.3"):
        worker.confirms(worker.publish(key, key.encode(), exchange="orders"))
    reject(worker, WORK, 3)
    site.until(lambda: client.depth(QUEUE) == 3)
    worker.call(m.QueueUnbind(WORK, "orders", "us.#"), m.QueueUnbindOk)
    answer = replay(site, filter="TRUE").answer
    assert answer.counts == {Became.SETTLED: 2, Became.UNROUTED: 1} and answer.left is None
    assert bodies(client, WORK) == [b"eu.1", b"eu.3"]
    [stays] = drained(client, QUEUE)
    assert stays.body == b"us.2" and stays.headers["x-death"] and not stays.method.redelivered


@pytest.mark.requirement("X4.3")
def test_a_user_publishes_anew_where_the_user_may_publish(site: Site, client: Client) -> None:
    worker = worked(site, "n2")
    worker.confirms(worker.publish("eu.1", b"1", exchange="orders"))
    reject(worker, WORK, 1)
    site.until(lambda: client.depth(QUEUE) == 1)
    rights = {"configure": ".*", "write": "^$", "read": ".*", "vhost": "/", "user": "guest"}
    site.submit("n1", "set_permissions", rights)
    assert replay(site, filter="TRUE").answer.counts == {Became.UNROUTED: 1}
    site.submit("n1", "set_permissions", {**rights, "write": "^orders$", "write_filter": "n > 5"})
    assert replay(site, filter="TRUE").answer.counts == {}
    site.submit("n1", "set_permissions", {**rights, "write": "^orders$", "write_filter": ""})
    assert replay(site, filter="TRUE").answer.counts == {Became.SETTLED: 1}


@pytest.mark.requirement("X4.3")
@PLACES
def test_a_full_queue_takes_what_it_has_room_for(site: Site, client: Client, there: str) -> None:
    site.client(there).declare(WORK, max_length=5, overflow="reject-publish")
    client.confirms(client.publish(QUEUE, *[b"%d" % number for number in range(12)]))
    answer = replay(site, filter="TRUE", key=WORK).answer
    assert answer.counts == {Became.SETTLED: 5, Became.REFUSED: 1} and answer.left is not None
    assert bodies(client, WORK) == [b"%d" % number for number in range(5)]
    assert bodies(client, QUEUE) == [b"%d" % number for number in range(5, 12)]


def test_an_exchange_that_is_not_there_takes_none(site: Site, client: Client) -> None:
    client.confirms(client.publish(QUEUE, b"1"))
    assert replay(site, filter="TRUE", exchange="absent").answer.counts == {Became.UNROUTED: 1}
    assert bodies(client, QUEUE) == [b"1"]


@pytest.mark.interpreted
def test_no_message_is_published_anew_while_a_node_of_the_last_release_is_a_member(
    site: Site, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.catalog.membership.formats.Formats.know_moves", lambda self: False)
    refusal = replay(site, filter="TRUE").answer
    assert isinstance(refusal, PreconditionFailedError) and "upgrade" in str(refusal)


# -- streams ------------------------------------------------------------------------------------------


@pytest.mark.requirement("X4.3")
@PLACES
@pytest.mark.parametrize("anew", [True, False])
def test_queues_over_a_stream_have_what_is_moved_or_published_into_it(
    site: Site, client: Client, there: str, anew: bool
) -> None:
    """A queue whose filter does not take a message is no obstacle: the stream has it."""
    owner = site.client(there)
    owner.declare("stream", queue_type="stream")
    site.client("n3").declare("far", queue_type="stream")
    owner.declare("over", underlying_topic="stream", filter="kind = 'a'")
    owner.declare("wide", underlying_topic="^(stream|far)$", default_publish_target="far")
    for number in range(4):
        client.confirms(client.publish(QUEUE, b"%d" % number, headers={"kind": "ab"[number % 2]}))
    if anew:
        answer = replay(site, filter="TRUE", key="stream").answer
    else:
        answer = Settlement(site, "n3", Deed.MOVE, filter="TRUE", target=place(site, "stream")).answer
    assert answer.counts == {Became.SETTLED: 4}
    assert bodies(client, "over") == [b"0", b"2"]
    assert bodies(client, "wide") == [b"0", b"1", b"2", b"3"]
    assert client.depth("stream") == 4


@pytest.mark.requirement("X4.3")
def test_a_stream_is_published_anew_and_keeps_its_messages(site: Site, client: Client) -> None:
    client.declare("target")
    site.client("n2").declare("stream", queue_type="stream")
    client.confirms(client.publish("stream", b"1", b"2"))
    # Settlements name the queue that is called QUEUE.
    client.delete(QUEUE)
    site.client("n2").declare(QUEUE, queue_type="stream")
    client.confirms(client.publish(QUEUE, b"3", b"4"))
    assert replay(site, filter="TRUE", key="target", deed=Deed.REPLAY_COPY).answer.counts == {
        Became.SETTLED: 2
    }
    assert bodies(client, "target") == [b"3", b"4"]
    assert client.depth(QUEUE) == 2
    refusal = replay(site, filter="TRUE", key="target").answer
    assert "not supported by stream queues" in str(refusal)


# -- what happens meanwhile ---------------------------------------------------------------------------


@pytest.mark.requirement("X4.3")
@PLACES
@pytest.mark.parametrize("lost", ["n1", "n2", "n3"])
@pytest.mark.parametrize("after_s", [0.003, 0.01])
def test_each_message_is_in_one_queue_whichever_node_is_lost(
    site: Site, client: Client, there: str, lost: str, after_s: float
) -> None:
    """n1 owns the dead letters, n2 may own the queue that they go back to, and n3 is the client's node."""
    site.client(there).declare(WORK, deduplication_window=60_000)
    names = [b"%d" % number for number in range(200)]
    for body in names:
        client.publish(QUEUE, body, message_id=body.decode())
    site.until(lambda: client.depth(QUEUE) == len(names))
    replaying = replay(site, filter="TRUE", key=WORK, wait=False)
    site.run(after_s)
    site.nodes[lost].stop(power=True)
    site.run(4.0)
    if lost != "n3":
        assert replaying.answers and replaying.answer.counts == {Became.SETTLED: len(names)}
    reader = site.client(next(name for name in site.nodes if name not in (lost, "n3")))
    found = reader.bodies(WORK), reader.bodies(QUEUE)
    assert sorted([*found[0], *found[1]]) == sorted(names)
