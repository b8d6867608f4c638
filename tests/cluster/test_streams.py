"""Streams: queues whose messages stay for all readers, from any place on (D17)."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.config.formats import ARGUMENT_LEVELS
from node.wire.amqp091 import methods as m
from node.wire.amqp091.fields import Timestamp
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.values import Described, Symbol, TimestampMs, ULong
from tests.cluster.kept_links import KeptClient, keeping, site
from tests.cluster.links import LinkClient
from tests.cluster.test_leases import isolate
from tests.inside import machine_of
from tests.simulation.node import EPOCH_MS
from tests.site import ChannelClosedError, Client, Delivery, Site
from tests.wire.amqp10.performatives import credit, receiver

__all__ = ["site"]

STREAM = "s"
REPLAY = pytest.mark.requirement("D17.1")
OFFSET = "x-stream-offset"


def declared(site: Site, **arguments: Any) -> Client:
    client = site.client("n1")
    client.declare(STREAM, queue_type="stream", **arguments)
    return client


def publish(client: Client, *names: str, **properties: Any) -> None:
    tags = client.publish(STREAM, *(name.encode() for name in names), **properties)
    assert client.confirms(tags) == [True] * len(names)


def reading(site: Site, name: str, offset: object = None, *, prefetch: int = 100, **options: Any) -> Client:
    """A reader on a node, which begins at an offset."""
    client = site.client(name)
    arguments = options | ({} if offset is None else {OFFSET: offset})
    client.consume(STREAM, prefetch=prefetch, arguments=arguments)
    site.run(0.1)
    return client


def got(client: Client) -> list[str]:
    return got_of(client.deliveries)


def got_of(deliveries: list[Delivery]) -> list[str]:
    return [one.body.decode() for one in deliveries]


def now_s(site: Site) -> int:
    return (EPOCH_MS + int(site.world.now * 1000)) // 1000


@REPLAY
def test_every_reader_gets_every_message_in_order(site: Site) -> None:
    client = declared(site)
    publish(client, "1", "2")
    readers = [reading(site, name, "first") for name in site.nodes]
    publish(client, "3", "4")
    for reader in readers:
        site.until(lambda reader=reader: got(reader) == ["1", "2", "3", "4"])
        assert not any(one.method.redelivered for one in reader.deliveries)
    assert got(reading(site, "n2", "first")) == ["1", "2", "3", "4"]
    assert client.depth(STREAM) == 4


@pytest.mark.requirement("D17.1", "D17.2")
def test_a_reader_begins_at_the_place_that_it_names(site: Site) -> None:
    client = declared(site)
    publish(client, "1", "2")
    site.run(3.0)
    later = now_s(site)
    publish(client, "3", "4")
    offsets = {
        name: one.headers[OFFSET]
        for name, one in zip("1234", reading(site, "n1", "first").deliveries, strict=True)
    }
    bookmarks = [
        one.headers["x-bookmark"] for one in reading(site, "n3", "first", **{"x-tell": True}).deliveries
    ]
    assert sorted(offsets.values()) == list(offsets.values()) and sorted(bookmarks) == bookmarks
    expected = {
        "first": "1234",
        "last": "4",
        "next": "",
        None: "",
        offsets["2"]: "234",
        offsets["4"]: "4",
        offsets["4"] + 1: "",
        Timestamp(later): "34",
        Timestamp(later - 60): "1234",
        Timestamp(later + 60): "",
        Timestamp(0): "1234",
        Timestamp((1 << 64) - 1): "",
        (1 << 63) - 1: "",
        "1000Y": "1234",
        "2s": "34",
        "1h": "1234",
        bookmarks[2]: "34",
    }
    readers = {wanted: reading(site, "n2", wanted) for wanted in expected}
    assert {wanted: "".join(got(one)) for wanted, one in readers.items()} == expected
    publish(client, "5")
    site.run(0.1)
    assert {wanted: "".join(got(one)) for wanted, one in readers.items()} == {
        wanted: f"{names}5" for wanted, names in expected.items()
    }


@REPLAY
@pytest.mark.parametrize(
    "offset", ["fast", "", "1001Y", "9" * 9 + "Y", -1, True, 1.5, "0123456789abcdef01234567"]
)
def test_a_wrong_offset_is_refused(site: Site, offset: object) -> None:
    declared(site)
    with pytest.raises(ChannelClosedError, match=r"406 .*invalid arg 'x-stream-offset' for queue 's'"):
        reading(site, "n2", offset)


@REPLAY
@pytest.mark.parametrize("answer", ["ack", "nack", "reject", "none"])
def test_an_answer_gives_credit_and_leaves_the_message(site: Site, answer: str) -> None:
    client = declared(site)
    publish(client, *"123456")
    reader = reading(site, "n2", "first", prefetch=2)
    assert got(reader) == ["1", "2"]
    for number in range(0 if answer == "none" else 4):
        one = reader.deliveries[number]
        if answer == "ack":
            reader.ack(one)
        elif answer == "nack":
            reader.nack(one, requeue=True)
        else:
            reader.reject(one, requeue=False)
        site.run(0.1)
    assert got(reader) == list("12" if answer == "none" else "123456")
    reader.close()
    assert client.depth(STREAM) == 6 and got(reading(site, "n3", "first")) == list("123456")


@pytest.mark.requirement("D17.4")
def test_a_reader_needs_no_acknowledgements(site: Site) -> None:
    client = declared(site)
    names = [str(number) for number in range(1000)]
    publish(client, *names)
    reader = site.client("n2")
    reader.consume(STREAM, no_ack=True, arguments={OFFSET: "first"})
    site.until(lambda: len(reader.deliveries) == len(names))
    assert got(reader) == names


def test_messages_of_a_page_keep_their_keys_and_properties(site: Site) -> None:
    client = declared(site)
    client.bind(STREAM, "amq.fanout")
    sent = [(key, f"id {key} {number}", f"{key} {number}") for number in range(20) for key in "abc"]
    tags: list[int] = []
    for key, message_id, body in sent:
        named: dict[str, Any] = {"message_id": message_id}
        if key != "a":
            named = {"headers": {"id": message_id}}
        tags += client.publish(key, body.encode(), exchange="amq.fanout", **named)
    assert all(client.confirms(tags))
    for tells in (False, True):
        came = reading(site, "n2", "first", **{"x-tell": tells}).deliveries
        keys = [one.method.routing_key for one in came]
        ids = [one.properties.message_id or one.headers["id"] for one in came]
        assert list(zip(keys, ids, got_of(came), strict=True)) == sent
        offsets = [one.headers[OFFSET] for one in came]
        assert offsets == sorted(set(offsets))
        assert all(("x-bookmark" in one.headers) == tells for one in came)


@pytest.mark.requirement("D9.1", "D17.1")
def test_a_reader_with_a_filter_gets_what_it_takes(site: Site) -> None:
    client = declared(site, filter="kind <> 'noise'")
    for number in range(6):
        publish(client, str(number), headers={"kind": ("order", "noise", "offer")[number % 3]})
    reader = reading(site, "n2", "first", prefetch=1, **{"x-filter": "kind = 'order'"})
    assert got(reader) == ["0"]
    reader.ack(reader.deliveries[0])
    site.until(lambda: got(reader) == ["0", "3"])
    assert got(reading(site, "n3", "first")) == ["0", "2", "3", "5"]


@REPLAY
def test_readers_go_on_when_the_owner_dies(site: Site) -> None:
    client = declared(site)
    publish(client, *"12345")
    slow, fast = reading(site, "n2", "first", prefetch=2), reading(site, "n3", "first")
    site.nodes["n1"].stop(power=True)
    other = site.client("n2")
    publish(other, *"678")
    for number in range(8):
        site.until(lambda number=number: len(slow.deliveries) > number)
        slow.ack(slow.deliveries[number])
    site.until(lambda: len(fast.deliveries) == 8)
    assert got(slow) == got(fast) == list("12345678")


def test_transient_messages_of_a_stream_are_in_the_log(site: Site) -> None:
    client = declared(site)
    client.declare("q")
    for queue in (STREAM, "q"):
        client.bind(queue, "amq.fanout")
    tags = client.publish("", b"1", b"2", exchange="amq.fanout", delivery_mode=1)
    assert client.confirms(tags) == [True, True]
    client.confirms(client.publish("", b"3", exchange="amq.fanout"))
    site.nodes["n1"].stop(power=True)
    reader = reading(site, "n2", "first")
    site.until(lambda: got(reader) == ["1", "2", "3"])
    other = site.client("n2")
    site.until(lambda: other.depth("q") >= 1)
    assert b"3" in other.bodies("q")


def test_no_message_of_a_stream_waits_or_expires_by_its_own_wish(site: Site) -> None:
    client = declared(site)
    publish(client, "1", expiration="10", headers={"x-delay": 60_000})
    site.run(1.0)
    assert got(reading(site, "n2", "first")) == ["1"]


def test_messages_leave_a_stream_by_age(site: Site) -> None:
    client = declared(site, max_age="2s")
    publish(client, "1", "2")
    site.run(1.0)
    publish(client, "3")
    reader = reading(site, "n2", "first", prefetch=1)
    site.until(lambda: client.depth(STREAM) == 1)
    assert site.world.now > 1.9
    reader.ack(reader.deliveries[0])
    site.until(lambda: got(reader) == ["1", "3"])
    site.until(lambda: client.depth(STREAM) == 0)


def test_messages_leave_a_stream_by_size(site: Site) -> None:
    client = declared(site, max_length_bytes=250)
    publish(client, *(str(number) * 100 for number in range(1, 6)))
    site.until(lambda: client.depth(STREAM) == 2)
    assert [one[0] for one in got(reading(site, "n2", "first"))] == ["4", "5"]


def test_a_policy_sets_what_streams_have(site: Site) -> None:
    client = declared(site)
    policy = {
        "name": "p", "pattern": ".*", "apply_to": "streams", "priority": 0,
        "definition": {"max-age": "1s", "message-ttl": 0, "dead-letter-exchange": "amq.fanout"},
    }  # fmt: skip
    publish(client, "1")
    site.submit("n1", "put_policy", {"vhost": "/", "operator": False, "policy": policy})
    assert got(reading(site, "n2", "first")) == ["1"]
    site.until(lambda: client.depth(STREAM) == 0)


def test_a_reader_does_not_pass_a_message_of_an_undecided_transaction(site: Site) -> None:
    # The first of the two partitions decides about the transaction.
    writer = site.client("n3", transactional=True)
    writer.declare("q")
    client = declared(site)
    reader = reading(site, "n2", "first")
    for queue in ("q", STREAM):
        writer.publish(queue, b"1")
    writer.send(m.TxCommit())
    partition = site.front_end("n1").queue("/", STREAM, 0).partition
    (stream,) = machine_of(site.nodes["n1"].broker.owners[partition]).queues.values()
    site.until(lambda: stream.withheld, step_s=0.0002)
    mend = isolate(site, "n3")
    publish(client, "2")
    site.run(0.2)
    assert stream.withheld and not reader.deliveries
    mend()
    site.until(lambda: got(reader) == ["1", "2"])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"max_length": 5}, "406 .*invalid arg 'x-max-length' for queue 's' .*of queue type stream"),
        ({"delivery_limit": 5}, "406 .*invalid arg 'x-delivery-limit'"),
        ({"max_age": "5"}, "406 .*invalid arg 'x-max-age' .*invalid_max_age"),
        ({"max_age": "999999999Y"}, "406 .*invalid arg 'x-max-age' .*invalid_max_age"),
        ({"max_age": 5}, "406 .*invalid arg 'x-max-age'"),
        ({"durable": False}, "406 .*invalid property 'non-durable' for queue of type stream"),
        ({"exclusive": True}, "406 .*invalid property 'exclusive-owner' for queue of type stream"),
        ({"auto_delete": True}, "406 .*invalid property 'auto-delete' for queue of type stream"),
        ({"initial_cluster_size": 0}, "406 .*invalid arg 'x-initial-cluster-size'"),
        ({"queue_type": ["stream"]}, r"406 .*unsupported type '\['stream'\]'"),
        ({"queue_type": {"a": 1}}, "406 .*unsupported type"),
        ({"queue_type": "quorum", "max_age": "5s"}, "406 .*invalid arg 'x-max-age'"),
    ],
)
def test_a_wrong_declaration_is_refused(site: Site, arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(ChannelClosedError, match=reason):
        declared(site, **arguments) if "queue_type" not in arguments else site.client("n1").declare(
            "s", **arguments
        )


def test_a_declared_stream_is_the_same_stream(site: Site) -> None:
    client = declared(site, max_age="1h")
    declared(site, max_age="1h")
    client.declare(STREAM, max_age="1h")
    for other in ({"queue_type": "quorum", "max_age": "1h"}, {"queue_type": "stream", "max_age": "2h"}):
        with pytest.raises(ChannelClosedError, match=r"406 .*inequivalent arg"):
            site.client("n1").declare(STREAM, **other)


@pytest.mark.parametrize("command", ["get", "purge"])
def test_commands_that_take_messages_are_refused(site: Site, command: str) -> None:
    client = declared(site)
    publish(client, "1")
    with pytest.raises(ChannelClosedError, match=f"540 .*{command} not supported by stream queues queue 's'"):
        getattr(site.client("n2"), command)(STREAM)
    assert client.depth(STREAM) == 1


def test_no_stream_is_declared_before_all_nodes_know_streams(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    formats = site.nodes["n1"].broker.formats
    monkeypatch.setattr(
        type(formats), "everywhere", property(lambda _: ARGUMENT_LEVELS["x-queue-type: stream"] - 1)
    )
    with pytest.raises(ChannelClosedError, match=r"406 .*x-queue-type: stream; upgrade all nodes first"):
        declared(site)


# -- AMQP 1.0 ---------------------------------------------------------------------------------------


def link(site: Site, name: str, offset: Any) -> LinkClient:
    """A client of AMQP 1.0 with a link that reads the stream."""
    wanted = None
    if offset is not None:
        wanted = {Symbol("offset"): Described(Symbol("rabbitmq:stream-offset-spec"), offset)}
    client = LinkClient(site, name)
    client.send(receiver(0, source=d.Source(STREAM, filter=wanted)))
    client.send(credit(100))
    return client


@pytest.mark.requirement("D17.1", "D17.2")
def test_a_link_of_amqp_1_0_reads_from_its_place(site: Site) -> None:
    client = declared(site)
    publish(client, *"123")
    offsets = [one.headers[OFFSET] for one in reading(site, "n1", "first").deliveries]
    for offset, names in (
        ("first", "123"),
        (Symbol("last"), "3"),
        (ULong(offsets[1]), "23"),
        (TimestampMs(0), "123"),
        (None, ""),
    ):
        reader = link(site, "n2", offset)
        reader.reads()
        payloads = [bytes(one.payload) for one in reader.frames if isinstance(one.performative, d.Transfer)]
        assert all(OFFSET.encode() in one for one in payloads)
        assert "".join(one[-1:].decode() for one in payloads) == names, offset


def test_a_link_that_wants_to_be_kept_is_a_reader_all_the_same(site: Site) -> None:
    client = declared(site)
    publish(client, "1")
    reader = KeptClient(site, "n2", keeping(queue=STREAM), credit(10))
    publish(client, "2")
    came = reader.came(d.Transfer)
    assert len(came) == 1
    reader.end("detached")
    assert client.depth(STREAM) == 2
