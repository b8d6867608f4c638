"""Programs of pika users, unchanged, with their publishers and consumers on different nodes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, UnroutableError

from tests.processes.conftest import Connect
from tests.processes.nodes import Cluster, until

PERSISTENT = pika.BasicProperties(delivery_mode=2)


def take(channel: BlockingChannel, queue: str, count: int) -> list[bytes]:
    """So many bodies from a consumer, acknowledged; fails when a second passes without one."""
    bodies: list[bytes] = []
    for method, _, body in channel.consume(queue, inactivity_timeout=5.0):
        assert method is not None, f"only {len(bodies)} of {count} came: {bodies}"
        bodies.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(bodies) == count:
            break
    channel.cancel()
    return bodies


def get(channel: BlockingChannel, queue: str) -> tuple[Any, Any, Any]:
    """The next message, which may still be on its way through other nodes."""
    return until(lambda: _present(channel.basic_get(queue)), f"a message in {queue}", 5.0)


def _present(got: tuple[Any, Any, Any]) -> tuple[Any, Any, Any] | None:
    return got if got[0] is not None else None


@pytest.mark.requirement("A17.1", "A17.4", "A17.6", "A23.1")
def test_publish_on_one_node_and_consume_on_another(channel: Connect, name: str) -> None:
    publisher, consumer = channel(1), channel(2)
    publisher.confirm_delivery()
    publisher.queue_declare(name, durable=True)
    bodies = [b"%d" % number for number in range(100)]
    for body in bodies:
        publisher.basic_publish("", name, body, PERSISTENT)
    assert take(consumer, name, len(bodies)) == bodies


@pytest.mark.requirement("A16.1", "A16.3")
def test_what_one_node_declared_the_others_know_at_once(channel: Connect, name: str) -> None:
    channels = [channel(node) for node in range(3)]
    for number in range(12):
        declarer, others = channels[number % 3], channels[: number % 3] + channels[number % 3 + 1 :]
        queue = f"{name}-{number}"
        declarer.queue_declare(queue, durable=True)
        for other in others:
            assert other.queue_declare(queue, passive=True).method.message_count == 0
        declarer.queue_delete(queue)
    gone = channels[0]
    with pytest.raises(ChannelClosedByBroker) as closed:
        gone.queue_declare(f"{name}-0", passive=True)
    assert closed.value.reply_code == 404


@pytest.mark.requirement("A16.3", "A16.5")
def test_bindings_and_exchanges_are_seen_everywhere_at_once(channel: Connect, name: str) -> None:
    first, second = channel(0), channel(1)
    for number in range(10):
        exchange, queue = f"{name}-x{number}", f"{name}-q{number}"
        first.exchange_declare(exchange, "fanout", durable=True)
        second.exchange_declare(exchange, passive=True)
        second.queue_declare(queue, durable=True)
        second.queue_bind(queue, exchange)
        first.basic_publish(exchange, "", b"seen")
        assert get(second, queue)[2] == b"seen"


@pytest.mark.requirement("A13.1", "A13.2", "A13.3", "A13.4")
@pytest.mark.parametrize(
    ("kind", "binding", "arguments", "hits", "misses"),
    [
        ("direct", "red", {}, [("red", {})], [("blue", {}), ("red.x", {})]),
        ("fanout", "", {}, [("", {}), ("anything", {})], []),
        (
            "topic",
            "stock.*.#",
            {},
            [("stock.nyse", {}), ("stock.nyse.ibm.now", {})],
            [("stock", {}), ("x.stock.a", {})],
        ),
        (
            "headers",
            "",
            {"x-match": "all", "a": "1", "b": 2},
            [("", {"a": "1", "b": 2, "c": 3})],
            [("", {"a": "1"}), ("", {"a": "1", "b": 3})],
        ),
        ("headers", "", {"x-match": "any", "a": "1", "b": 2}, [("", {"b": 2})], [("", {"c": 2}), ("", {})]),
    ],
    ids=["direct", "fanout", "topic", "headers-all", "headers-any"],
)
def test_exchanges_route_over_nodes(
    channel: Connect,
    name: str,
    kind: str,
    binding: str,
    arguments: dict[str, Any],
    hits: list[tuple[str, dict[str, Any]]],
    misses: list[tuple[str, dict[str, Any]]],
) -> None:
    declarer, publisher, consumer = channel(0), channel(1), channel(2)
    declarer.exchange_declare(name, kind)
    consumer.queue_declare(name, durable=True)
    consumer.queue_bind(name, name, binding, arguments)
    publisher.confirm_delivery()
    for place, (key, headers) in enumerate(hits):
        properties = pika.BasicProperties(headers=headers)
        publisher.basic_publish(name, key, b"hit %d" % place, properties, mandatory=True)
    for key, headers in misses:
        with pytest.raises(UnroutableError):
            publisher.basic_publish(name, key, b"miss", pika.BasicProperties(headers=headers), mandatory=True)
    assert take(consumer, name, len(hits)) == [b"hit %d" % place for place in range(len(hits))]
    assert consumer.queue_declare(name, passive=True).method.message_count == 0


@pytest.mark.requirement("A14.5", "A14.6")
def test_an_exchange_bound_to_an_exchange_and_an_alternate_one(channel: Connect, name: str) -> None:
    first, second = channel(0), channel(1)
    first.exchange_declare(f"{name}-lost", "fanout")
    first.exchange_declare(f"{name}-in", "direct", arguments={"alternate-exchange": f"{name}-lost"})
    first.exchange_declare(f"{name}-out", "fanout")
    first.exchange_bind(f"{name}-out", f"{name}-in", "key")
    for queue, exchange in ((f"{name}-a", f"{name}-out"), (f"{name}-b", f"{name}-lost")):
        second.queue_declare(queue, durable=True)
        second.queue_bind(queue, exchange)
    second.basic_publish(f"{name}-in", "key", b"through")
    second.basic_publish(f"{name}-in", "other", b"astray")
    assert get(first, f"{name}-a")[2] == b"through"
    assert get(first, f"{name}-b")[2] == b"astray"


@pytest.mark.requirement("A17.2")
def test_a_mandatory_message_without_a_queue_comes_back(channel: Connect, name: str) -> None:
    publisher = channel(1)
    publisher.confirm_delivery()
    with pytest.raises(UnroutableError) as error:
        publisher.basic_publish("", f"{name}-nowhere", b"body", mandatory=True)
    [returned] = error.value.messages
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert returned.body == b"body"
    publisher.basic_publish("", f"{name}-nowhere", b"body")
    publisher.queue_declare(name, durable=True)
    publisher.basic_publish("", name, b"arrives", mandatory=True)


@pytest.mark.requirement("A17.5", "A17.9", "A17.10", "A17.11", "A17.12", "A17.13", "A23.2")
def test_get_ack_nack_reject_and_recover(channel: Connect, name: str) -> None:
    publisher, consumer = channel(0), channel(2)
    publisher.confirm_delivery()
    publisher.queue_declare(name, durable=True)
    for number in range(4):
        publisher.basic_publish("", name, b"%d" % number, PERSISTENT)
    first, _, body = get(consumer, name)
    assert (body, first.redelivered, first.message_count) == (b"0", False, 3)
    consumer.basic_nack(first.delivery_tag, requeue=True)
    again, _, body = get(consumer, name)
    assert (body, again.redelivered) == (b"0", True)
    consumer.basic_ack(again.delivery_tag)
    one, _, body = get(consumer, name)
    assert (body, one.redelivered) == (b"1", False)
    consumer.basic_reject(one.delivery_tag, requeue=False)
    _two, _, body = get(consumer, name)
    assert body == b"2"
    _three, _, body = get(consumer, name)
    assert body == b"3"
    consumer.basic_recover(requeue=True)
    for expected in (b"2", b"3"):
        method, _, body = get(consumer, name)
        assert (body, method.redelivered) == (expected, True)
    consumer.basic_ack(method.delivery_tag, multiple=True)
    assert consumer.basic_get(name)[0] is None
    assert consumer.queue_declare(name, passive=True).method.message_count == 0


@pytest.mark.requirement("A22.2")
def test_what_a_closed_channel_had_comes_back_marked(channel: Connect, cluster: Cluster, name: str) -> None:
    publisher, leaver, stayer = channel(0), channel(1), channel(2)
    publisher.confirm_delivery()
    publisher.queue_declare(name, durable=True)
    for number in range(10):
        publisher.basic_publish("", name, b"%d" % number, PERSISTENT)
    for _ in range(5):
        get(leaver, name)
    leaver.connection.close()
    seen = []
    for method, _, body in stayer.consume(name, inactivity_timeout=5.0):
        seen.append((body, method.redelivered))
        stayer.basic_ack(method.delivery_tag)
        if len(seen) == 10:
            break
    assert sorted(seen) == [(b"%d" % number, number < 5) for number in range(10)]


@pytest.mark.requirement("A18.1")
def test_prefetch_bounds_what_a_consumer_holds(channel: Connect, cluster: Cluster, name: str) -> None:
    publisher, consumer = channel(0), channel(1)
    publisher.confirm_delivery()
    publisher.queue_declare(name, durable=True)
    for number in range(30):
        publisher.basic_publish("", name, b"%d" % number, PERSISTENT)
    consumer.basic_qos(prefetch_count=7)
    got: list[tuple[int, bytes]] = []
    consumer.basic_consume(name, lambda _c, method, _p, body: got.append((method.delivery_tag, body)))
    drive(consumer, lambda: len(got) == 7)
    row = cluster.queue(name)
    assert row is not None and (row["leased"], row["ready"]) == (7, 23)
    consumer.basic_ack(got[2][0], multiple=True)
    drive(consumer, lambda: len(got) == 10)
    row = cluster.queue(name)
    assert row is not None and (row["leased"], row["ready"]) == (7, 20)
    assert [body for _, body in got] == [b"%d" % number for number in range(10)]


def drive(channel: BlockingChannel, condition: Callable[[], bool]) -> None:
    """Let pika handle what comes until the condition holds."""

    def after_events() -> bool:
        channel.connection.process_data_events(time_limit=0.02)
        return condition()

    until(after_events, "events of the client", 5.0)


@pytest.mark.requirement("A17.7")
def test_cancel_ends_deliveries_and_gives_nothing_back_that_is_held(channel: Connect, name: str) -> None:
    publisher, consumer = channel(1), channel(0)
    publisher.confirm_delivery()
    publisher.queue_declare(name, durable=True)
    publisher.basic_publish("", name, b"held")
    got: list[tuple[int, bytes]] = []
    tag = consumer.basic_consume(name, lambda _c, method, _p, body: got.append((method.delivery_tag, body)))
    drive(consumer, lambda: len(got) == 1)
    consumer.basic_cancel(tag)
    publisher.basic_publish("", name, b"later")
    method, _, body = get(publisher, name)
    assert body == b"later"
    consumer.basic_ack(got[0][0])
    publisher.basic_ack(method.delivery_tag)
    assert publisher.basic_get(name)[0] is None


@pytest.mark.requirement("A21.2", "A21.3")
@pytest.mark.parametrize("size", [0, 1, 131_064, 131_065, 3_000_000])
def test_bodies_of_any_size_arrive_as_they_were(channel: Connect, name: str, size: int) -> None:
    publisher, consumer = channel(0), channel(1)
    publisher.confirm_delivery()
    publisher.queue_declare(name, durable=True)
    body = bytes(range(256)) * (size // 256 + 1)
    headers = {"deep": {"list": [1, "two", None]}}
    properties = pika.BasicProperties(delivery_mode=2, content_type="x/y", headers=headers, message_id="m1")
    publisher.basic_publish("", name, body[:size], properties)
    method, got, arrived = get(consumer, name)
    assert arrived == body[:size]
    assert (got.content_type, got.headers, got.message_id) == (
        "x/y",
        {"deep": {"list": [1, "two", None]}},
        "m1",
    )
    consumer.basic_ack(method.delivery_tag)


@pytest.mark.requirement("A15.6")
def test_replies_to_server_named_exclusive_queues_cross_nodes(channel: Connect, name: str) -> None:
    server, caller = channel(0), channel(2)
    server.queue_declare(name, durable=True)

    def answer(ch: BlockingChannel, method: Any, properties: Any, body: bytes) -> None:
        reply = pika.BasicProperties(correlation_id=properties.correlation_id)
        ch.basic_publish("", properties.reply_to, b"re: " + body, reply, mandatory=True)
        ch.basic_ack(method.delivery_tag)

    server.basic_consume(name, answer)
    reply_queue = caller.queue_declare("", exclusive=True).method.queue
    assert reply_queue.startswith("amq.gen-")
    answers: list[tuple[str, bytes]] = []
    caller.basic_consume(
        reply_queue, lambda _c, _m, properties, body: answers.append((properties.correlation_id, body)), True
    )
    for number in range(20):
        properties = pika.BasicProperties(reply_to=reply_queue, correlation_id=str(number))
        caller.basic_publish("", name, b"%d" % number, properties)

    def both() -> bool:
        server.connection.process_data_events(time_limit=0)
        caller.connection.process_data_events(time_limit=0)
        return len(answers) == 20

    until(both, "answers", 10.0)
    assert answers == [(str(number), b"re: %d" % number) for number in range(20)]


@pytest.mark.requirement("A15.5", "A5.16")
def test_exclusive_queues_are_one_connections_own_and_go_with_it(channel: Connect, name: str) -> None:
    holder, other = channel(0), channel(1)
    holder.queue_declare(name, exclusive=True)
    holder.basic_publish("", name, b"mine")
    assert get(holder, name)[2] == b"mine"
    attempts: tuple[Callable[[BlockingChannel], Any], ...] = (
        lambda ch: ch.queue_declare(name, exclusive=True),
        lambda ch: ch.queue_declare(name, passive=True),
        lambda ch: ch.basic_get(name),
        lambda ch: ch.queue_delete(name),
    )
    for attempt in attempts:
        asking = other.connection.channel()
        with pytest.raises(ChannelClosedByBroker) as closed:
            attempt(asking)
        assert closed.value.reply_code == 405
    holder.connection.close()
    until(lambda: not exists(other, name), f"{name} is gone", 5.0)


def exists(channel: BlockingChannel, queue: str) -> bool:
    """Asks on a channel of its own, since a refusal closes it."""
    asking = channel.connection.channel()
    try:
        asking.queue_declare(queue, passive=True)
    except ChannelClosedByBroker as closed:
        assert closed.reply_code in (404, 405)
        return bool(closed.reply_code == 405)
    asking.close()
    return True


@pytest.mark.requirement("A15.3")
def test_auto_delete_queues_go_with_their_last_consumer(channel: Connect, name: str) -> None:
    declarer, consumer = channel(0), channel(1)
    declarer.queue_declare(name, auto_delete=True)
    first = consumer.basic_consume(name, lambda *_: None)
    second = consumer.basic_consume(name, lambda *_: None)
    consumer.basic_cancel(first)
    assert exists(declarer, name)
    consumer.basic_cancel(second)
    assert not exists(declarer, name)


@pytest.mark.requirement("A10.1", "A5.14", "A5.15", "A5.17")
@pytest.mark.parametrize(
    ("attempt", "code"),
    [
        (lambda ch, name: ch.queue_declare(f"{name}-absent", passive=True), 404),
        (lambda ch, name: ch.exchange_declare(f"{name}-absent", passive=True), 404),
        (lambda ch, name: ch.basic_get(f"{name}-absent"), 404),
        (lambda ch, name: ch.basic_consume(f"{name}-absent", lambda *_: None), 404),
        (lambda ch, name: ch.queue_bind(name, f"{name}-absent"), 404),
        (lambda ch, name: ch.queue_declare(name, durable=False), 406),
        (lambda ch, name: ch.exchange_declare("amq.direct", "fanout", durable=True), 406),
        (lambda ch, name: ch.queue_delete(name, if_empty=True), 406),
        (lambda ch, name: ch.queue_declare("amq.own", durable=True), 403),
        (lambda ch, name: ch.exchange_declare("amq.own", "direct"), 403),
        (lambda ch, name: ch.exchange_delete("amq.direct"), 403),
    ],
)
def test_refusals_close_the_channel_and_not_the_connection(
    channel: Connect,
    request: pytest.FixtureRequest,
    attempt: Callable[[BlockingChannel, str], Any],
    code: int,
) -> None:
    queue = "refusals"
    asking = channel(1)
    asking.queue_declare(queue, durable=True)
    asking.confirm_delivery()
    asking.basic_publish("", queue, b"not empty", PERSISTENT)
    with pytest.raises(ChannelClosedByBroker) as closed:
        attempt(asking, queue)
    assert closed.value.reply_code == code
    after = asking.connection.channel()
    assert after.queue_declare(queue, passive=True).method.message_count >= 1
    after.queue_delete(queue)


@pytest.mark.requirement("A10.1")
def test_publishing_to_an_absent_exchange_closes_the_channel_only(channel: Connect, name: str) -> None:
    asking = channel(2)
    asking.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker) as closed:
        asking.basic_publish(f"{name}-absent", "key", b"body")
    assert closed.value.reply_code == 404
    with pytest.raises(ChannelClosedByBroker) as closed:
        unknown = asking.connection.channel()
        unknown.basic_ack(77)
        unknown.queue_declare("", exclusive=True)
    assert closed.value.reply_code == 406
    assert asking.connection.channel().queue_declare("", exclusive=True).method.queue


def test_each_method_sees_what_the_same_channel_did_before(channel: Connect, name: str) -> None:
    own = channel(1)
    for node in (0, 1, 2):
        queue = f"{name}-{node}"
        channel(node).queue_declare(queue, durable=True)
        for number in range(20):
            own.basic_publish("", queue, b"%d" % number, PERSISTENT)
        assert own.queue_declare(queue, passive=True).method.message_count == 20
        own.basic_publish("", queue, b"20", PERSISTENT)
        method, _, body = own.basic_get(queue)
        own.basic_nack(method.delivery_tag)
        again, _, body = own.basic_get(queue)
        assert (body, again.redelivered, again.message_count) == (b"0", True, 20)
        own.basic_publish("", queue, b"21", PERSISTENT)
        assert own.queue_purge(queue).method.message_count == 21
        own.basic_ack(again.delivery_tag)
        assert own.queue_declare(queue, passive=True).method.message_count == 0


def test_exclusive_consumers_keep_others_away(channel: Connect, name: str) -> None:
    first, second = channel(0), channel(1)
    first.queue_declare(name, durable=True)
    first.basic_consume(name, lambda *_: None, exclusive=True)
    with pytest.raises(ChannelClosedByBroker) as closed:
        second.basic_consume(name, lambda *_: None)
    assert closed.value.reply_code == 403


@pytest.mark.requirement("A17.8", "A23.3")
def test_deleting_a_queue_tells_its_consumers(channel: Connect, name: str) -> None:
    consumer, deleter = channel(0), channel(1)
    consumer.queue_declare(name, durable=True)
    cancelled: list[Any] = []
    consumer.add_on_cancel_callback(cancelled.append)
    consumer.basic_consume(name, lambda *_: None)
    deleter.basic_publish("", name, b"unsettled")
    deleter.queue_delete(name)
    drive(consumer, lambda: len(cancelled) == 1)


def test_purge_counts_what_it_removed(channel: Connect, name: str) -> None:
    publisher, purger = channel(0), channel(1)
    publisher.confirm_delivery()
    publisher.queue_declare(name, durable=True)
    for _ in range(5):
        publisher.basic_publish("", name, b"x", PERSISTENT)
    held = get(publisher, name)[0]
    assert purger.queue_purge(name).method.message_count == 4
    publisher.basic_nack(held.delivery_tag)
    assert get(purger, name)[2] == b"x"


def test_three_consumers_share_a_queue(channel: Connect, name: str) -> None:
    publisher = channel(0)
    publisher.confirm_delivery()
    publisher.queue_declare(name, durable=True)
    counts = [0, 0, 0]
    lock = threading.Lock()
    consumers = [channel(node) for node in range(3)]

    def count(place: int) -> Callable[..., None]:
        def arrived(ch: BlockingChannel, method: Any, _properties: Any, _body: bytes) -> None:
            with lock:
                counts[place] += 1
            ch.basic_ack(method.delivery_tag)

        return arrived

    for place, consumer in enumerate(consumers):
        consumer.basic_qos(prefetch_count=5)
        consumer.basic_consume(name, count(place))
    for number in range(90):
        publisher.basic_publish("", name, b"%d" % number, PERSISTENT)

    def all_came() -> bool:
        for consumer in consumers:
            consumer.connection.process_data_events(time_limit=0)
        return sum(counts) == 90

    until(all_came, "all messages", 10.0)
    assert min(counts) > 0, counts
