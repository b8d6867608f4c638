"""Queues keep their promises for messages of AMQP 1.0, and clients of AMQP 0-9-1 get these messages."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from cluster.admin.api.message_format import shown_message
from cluster.admin.traces.context import Stretch, TraceContext, stretches_in
from cluster.catalog.membership.formats import Formats
from cluster.config.formats import SECTIONS_IN_RUNS
from node.message.run import Run
from node.refusal import PreconditionFailedError
from node.session.core import SessionCore
from node.session.ports import Got, Identity
from node.wire.amqp091 import methods as m
from node.wire.amqp10 import definitions as d
from node.wire.amqp10.deaths import DEATHS, death_maps
from node.wire.amqp10.definitions import SectionCode
from node.wire.amqp10.messages import annotation, header_in
from node.wire.amqp10.values import (
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    TimestampMs,
    TypedArray,
    UByte,
    UInt,
    ULong,
    UShort,
)
from node.wire.formats import AMQP_1_0, FORMATS
from tests.cluster.kinds import declare
from tests.cluster.links import LinkClient
from tests.cluster.recorders import RecordedSubscriber
from tests.site import Client, Site
from tests.wire.amqp10.peer import transfer
from tests.wire.amqp10.performatives import credit, receiver, sender
from tests.wire.amqp10.runs import run_of
from tests.wire.amqp10.sections import annotated, application, data, message, section

FORMAT = FORMATS[AMQP_1_0]


class Publisher(RecordedSubscriber):
    """A session that publishes messages of AMQP 1.0."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self.client = client
        self.returned: list[Run] = []
        self.refusals: list[Any] = []
        self._core = SessionCore(client.site.front_end(client.node.name), self, lambda channel: ())
        self._core.enter(Identity("guest"), "/")
        self._tag = 1

    def hold(self, channel: int) -> None:
        raise AssertionError("no test fills a link")

    def return_unroutable(self, channel: int, run: Run) -> None:
        self.returned.append(run)

    def batch_refused(self, channel: int, tag: int, refusal: Any) -> None:
        raise AssertionError("no test sends a batch")

    def publish_refused(self, channel: int, refusal: Any) -> None:
        self.refusals.append(refusal)

    def publish(self, queue: str, *messages: bytes, exchange: str = "") -> tuple[int, int]:
        """Publish messages of one run; return the numbers of confirmed and rejected ones."""
        self.confirmed.clear()
        self.rejected.clear()
        run = run_of(*messages, key=queue, exchange=exchange, skip=b"transfer")
        self._core.publish(1, run, True, self._tag)
        self._tag += len(messages)
        if not self.refusals:
            self.client.site.until(lambda: _count(self.confirmed + self.rejected) == len(messages))
        return _count(self.confirmed), _count(self.rejected)


def _count(ranges: list[tuple[int, int, int]]) -> int:
    return sum(last - first + 1 for _, first, last in ranges)


@pytest.fixture
def client() -> Client:
    return Site("n1", "n2", "n3").client("n1")


@pytest.fixture
def publisher(client: Client) -> Publisher:
    return Publisher(client)


def get(client: Client, queue: str) -> bytes | None:
    """The sections of the next message, which is removed."""
    port, answers = client.site.front_end(client.node.name), list[Got | None]()
    port.get(port.queue("/", queue, client.holder), True, lambda got, _: answers.append(got))
    client.site.until(lambda: answers)
    got = answers[0]
    if got is None:
        return None
    assert got.run.format == AMQP_1_0
    (octets,) = got.run.contents()
    return octets


def sections(client: Client, queue: str) -> list[bytes]:
    """The messages in the queue, got one by one."""
    found = []
    while (octets := get(client, queue)) is not None:
        found.append(octets)
    return found


@pytest.mark.sentence("1.0/3.2-1", "1.0/3.2.4-1")
def test_sections_cross_the_cluster_as_they_came(client: Client, publisher: Publisher) -> None:
    queue = declare(client, "replicated")
    sent = [message(d.Properties(to="q").encode(), body=b"one"), message(body=b"two")]
    assert publisher.publish(queue, *sent) == (2, 0)
    assert sections(client.site.client("n2"), queue) == sent


VALUES: dict[str, Any] = {
    "null": None, "true": True, "ubyte": UByte(200), "ushort": UShort(60_000), "uint": UInt(4_000_000_000),
    "ulong": ULong(1 << 63), "byte": Byte(-100), "short": Short(-30_000), "int": Int(-2_000_000_000),
    "long": -(1 << 62), "float": Float(0.5), "double": 0.1, "decimal32": Decimal32(b"\x32\0\0\1"),
    "decimal64": Decimal64(bytes(range(8))), "decimal128": Decimal128(bytes(range(16))), "char": Char("ü"),
    "timestamp": TimestampMs(-5), "uuid": UUID(int=7), "binary": b"\0\xff", "string": "grün",
    "symbol": Symbol("sign"),
}  # fmt: skip
"""A value of each type but lists, maps and arrays."""

EVERYTHING: dict[Any, Any] = {Symbol(name): value for name, value in VALUES.items()} | {
    Symbol("list"): [1, ["two"]], Symbol("map"): {"k": b"v"}, Symbol("array"): TypedArray(0x71, [Int(1)]),
    Symbol("described"): Described(Symbol("quorate:test"), [1]),
}  # fmt: skip

PROPERTIES = d.Properties(
    message_id=UUID(int=1), user_id=b"guest", to="somewhere", subject="subject", reply_to="replies",
    correlation_id=ULong(9), content_type="text/plain", content_encoding="gzip",
    absolute_expiry_time=4_102_444_800_123, creation_time=1_234_567_890_123, group_id="group",
    group_sequence=3, reply_to_group_id="replies",
)  # fmt: skip
HEAD = b"".join(
    (
        d.Header(durable=True, priority=7, first_acquirer=True, delivery_count=3).encode(),
        section(SectionCode.DELIVERY_ANNOTATIONS, EVERYTHING),
        section(SectionCode.MESSAGE_ANNOTATIONS, EVERYTHING),
        PROPERTIES.encode(),
        section(SectionCode.APPLICATION_PROPERTIES, VALUES),
    )
)
BODIES = {
    "no data": data(b""),
    "data": data(b"one") + data(b"two" * 1000),
    "sequences": section(SectionCode.AMQP_SEQUENCE, [1]) + section(SectionCode.AMQP_SEQUENCE, ["two"]),
    "value": section(SectionCode.AMQP_VALUE, EVERYTHING),
}
FOOTER = section(SectionCode.FOOTER, EVERYTHING)


@pytest.mark.requirement("B9.1", "B9.2")
@pytest.mark.parametrize("kind", ["replicated", "transient"])
@pytest.mark.parametrize("body", BODIES)
def test_a_message_comes_from_link_to_link_with_each_section_and_field_as_it_was(
    client: Client, body: str, kind: str
) -> None:
    """But for the `ttl`, which counts down."""
    queue, site = declare(client, kind), client.site
    sent = HEAD + BODIES[body] + FOOTER
    (told,) = LinkClient(site, "n1", sender(0, queue)).send(transfer(0, sent))
    assert isinstance(told.state, d.Accepted)
    assert LinkClient(site, "n3", receiver(0, queue), credit(9)).payloads == [sent]


@pytest.mark.requirement("B14.1")
def test_a_client_of_1_0_gets_what_one_of_0_9_1_publishes(client: Client) -> None:
    queue = declare(client, "replicated")
    properties = {"message_id": "id", "content_type": "text/plain", "app_id": "group", "headers": {"n": "7"}}
    client.confirms(client.publish(queue, b"body", **properties))
    (octets,) = LinkClient(client.site, "n3", receiver(0, queue), credit(9)).payloads
    kept = d.Properties(message_id="id", content_type="text/plain", group_id="group").encode()
    assert octets.endswith(message(kept, application(n="7")))
    assert header_in(octets).durable


@pytest.mark.requirement("B14.2")
def test_a_client_of_0_9_1_gets_what_one_of_1_0_sends(client: Client) -> None:
    queue = declare(client, "replicated")
    properties = d.Properties(message_id="id", content_type="text/plain", group_id="group").encode()
    LinkClient(client.site, "n1", sender(0, queue)).send(transfer(0, message(properties, application(n="7"))))
    found = client.site.client("n3").get(queue)
    assert found is not None and found.body == b"body"
    known = found.properties
    assert (known.message_id, known.content_type, known.app_id) == ("id", "text/plain", "group")
    assert found.headers["n"] == "7"


def test_messages_are_given_out_by_the_priority_in_their_headers(
    client: Client, publisher: Publisher
) -> None:
    queue = declare(client, "replicated", max_priority=9)
    low, high, none = (
        message(d.Header(priority=1).encode()), message(d.Header(priority=7).encode()), message()
    )  # fmt: skip
    publisher.publish(queue, low, high)
    publisher.publish(queue, none)
    assert sections(client, queue) == [high, low, none]


@pytest.mark.sentence("1.0/3.2.1-5")
def test_priorities_of_ten_levels_and_more_are_distinct_up_to_the_highest(
    client: Client, publisher: Publisher
) -> None:
    """Levels 0 to 11 are twelve; priorities above are as the highest (part 3, section 3.2.1)."""
    queue = declare(client, "replicated", max_priority=11)
    order = [3, 12, 0, 11, 7, 255, 5, 10, 1, 4, 9, 2, 8, 6]
    sent = {priority: d.Header(priority=priority).encode() + message() for priority in order}
    for priority in order:
        publisher.publish(queue, sent[priority])
    highest, others = [12, 11, 255], [10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
    assert sections(client, queue) == [sent[priority] for priority in highest + others]


@pytest.mark.sentence("1.0/3.2.1-2")
@pytest.mark.parametrize("kind", ["replicated", "classic"])
def test_durable_messages_outlast_a_power_cut_of_all_nodes(
    client: Client, publisher: Publisher, kind: str
) -> None:
    queue, site = declare(client, kind), client.site
    sent = [d.Header(durable=True).encode() + message(body=b"%d" % number) for number in range(5)]
    assert publisher.publish(queue, *sent) == (5, 0)
    for node in site.nodes.values():
        node.stop(power=True)
    for node in site.nodes.values():
        node.start()
    site.until(lambda: all(node.ready for node in site.nodes.values()))
    client.disconnect()
    assert sections(site.client("n2"), queue) == sent


@pytest.mark.requirement("X1.4")
@pytest.mark.parametrize(
    "delaying",
    [
        annotated(x_opt_delivery_delay=UInt(2000)),
        annotated(x_delay=2000),
        application(**{"x-delay": 2000}),
    ],
)
def test_messages_wait_for_their_delay(client: Client, publisher: Publisher, delaying: bytes) -> None:
    queue = declare(client, "replicated")
    later, now = message(delaying), message()
    publisher.publish(queue, later)
    publisher.publish(queue, now)
    assert sections(client, queue) == [now]
    client.site.run(2.5)
    assert sections(client, queue) == [later]


@pytest.mark.requirement("B9.3")
def test_messages_expire_by_the_ttl_in_their_headers(client: Client, publisher: Publisher) -> None:
    queue = declare(client, "replicated")
    short, long = [message(d.Header(ttl=ttl).encode(), body=b"%d" % ttl) for ttl in (500, 60_000)]
    publisher.publish(queue, short, long)
    client.site.run(1.0)
    (left,) = sections(client, queue)
    assert left.endswith(message(body=b"60000"))


def ttls(found: list[bytes]) -> list[int | None]:
    """The ttl in the header of each message."""
    return [header_in(one).ttl for one in found]


@pytest.mark.requirement("B9.3")
@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("kind", ["replicated", "transient"])
def test_the_ttl_counts_down(client: Client, publisher: Publisher, kind: str, durable: bool) -> None:
    queue = declare(client, kind)
    sent = [d.Header(durable, ttl=ttl).encode() + message() for ttl in (60_000, 90_000, 60_000)]
    publisher.publish(queue, *sent)
    publisher.publish(queue, d.Header(durable).encode() + message())
    client.site.run(10)
    found = sections(client, queue)
    waited = [
        sent - left for sent, left in zip((60_000, 90_000, 60_000), ttls(found)[:3], strict=True) if left
    ]
    assert len(waited) == 3 and all(10_000 <= one < 10_500 for one in waited)
    assert ttls(found)[3] is None
    assert found[0].endswith(message()), "the rest of the message stays as it is"


@pytest.mark.requirement("B9.3")
def test_the_ttl_counts_down_by_the_time_waited_where_the_queue_has_a_shorter_one(
    client: Client, publisher: Publisher
) -> None:
    queue = declare(client, "replicated", message_ttl=20_000)
    publisher.publish(queue, d.Header(ttl=60_000).encode() + message(), d.Header(ttl=0).encode() + message())
    publisher.publish(queue, message())
    client.site.run(10)
    found = sections(client, queue)
    assert found[1:] == [message()], "a message with no time to live has expired"
    (left, _) = ttls(found)
    assert left is not None and 49_500 < left <= 50_000


def test_a_message_id_that_the_queue_has_seen_is_a_duplicate_in_either_protocol(
    client: Client, publisher: Publisher
) -> None:
    queue = declare(client, "replicated", deduplication_window=1000)
    first, again, other = (
        message(d.Properties(message_id=id).encode(), body=body)
        for id, body in (("a", b"1"), ("a", b"2"), (b"a", b"3"))
    )
    assert publisher.publish(queue, first, again, other) == (3, 0)
    client.confirms(client.publish(queue, b"4", message_id="a"))
    assert sections(client, queue) == [first, other]


def test_the_octets_of_bodies_count(client: Client, publisher: Publisher) -> None:
    queue = declare(client, "replicated", max_length_bytes=6, overflow="reject-publish")
    sent = [message(d.Properties(subject="s").encode(), body=body) for body in (b"1234", b"5678", b"9")]
    assert publisher.publish(queue, *sent) == (2, 1)
    assert sections(client, queue) == [sent[0], sent[2]]


@pytest.mark.sentence("1.0/3.2-1", "1.0/3.2.4-1")
def test_a_dead_letter_tells_its_deaths_and_keeps_its_bare_message(
    client: Client, publisher: Publisher
) -> None:
    grave = declare(client, "replicated")
    client.declare("dying", dead_letter_exchange="", dead_letter_routing_key=grave)
    bare = d.Properties(message_id="id").encode() + application(**{"x-delay": 5})
    publisher.publish("dying", d.Header(priority=3, ttl=100).encode() + message(bare))
    client.site.run(2.0)
    (octets,) = sections(client, grave)
    assert octets.endswith(message(bare))
    header = header_in(octets)
    assert (header.priority, header.ttl) == (3, None)
    (death,) = death_maps(annotation(octets, DEATHS))
    assert {key: value for key, value in death.items() if not key.endswith("time")} == {
        "ttl": 100, "queue": "dying", "reason": "expired", "count": 1, "exchange": "",
        "routing-keys": TypedArray(0xB1, ["dying"]),
    }  # fmt: skip
    assert annotation(octets, "x-first-death-queue") == "dying"
    assert FORMAT.asked_in(run_of(octets))[0][2] == 0, "the delay is over"


def test_a_client_of_0_9_1_reads_the_deaths_of_a_dead_letter(client: Client, publisher: Publisher) -> None:
    grave = declare(client, "replicated")
    client.declare("dying", dead_letter_exchange="", dead_letter_routing_key=grave)
    publisher.publish("dying", message(d.Header(ttl=100).encode(), body=b"mortal"))
    client.site.until(lambda: client.depth(grave) == 1)
    (found,) = client.drain(grave)
    assert found.body == b"mortal"
    (death,) = found.headers["x-death"]
    assert (death["queue"], death["reason"], death["count"]) == ("dying", "expired", 1)
    assert (death["routing-keys"], death["original-expiration"]) == (["dying"], "100")
    assert found.headers["x-first-death-reason"] == "expired"


def test_a_cycle_of_dead_letters_ends(client: Client, publisher: Publisher) -> None:
    client.declare("round", message_ttl=100, dead_letter_exchange="", dead_letter_routing_key="round")
    publisher.publish("round", message())
    client.site.run(2.0)
    assert client.depth("round") == 0


@pytest.mark.sentence("1.0/3.4.5-1")
def test_the_header_counts_failed_deliveries(client: Client, publisher: Publisher) -> None:
    queue = declare(client, "replicated")
    publisher.publish(queue, message(body=b"again"))
    client.consume(queue)
    client.site.until(lambda: client.deliveries)
    client.nack(client.deliveries[0], requeue=True)
    client.site.until(lambda: len(client.deliveries) == 2)
    first, second = client.deliveries
    assert (first.body, second.body) == (b"again", b"again")
    assert first.headers.get("x-delivery-count") is None
    assert second.headers["x-delivery-count"] == 1


def test_application_properties_and_annotations_choose_the_route_of_a_headers_exchange(
    client: Client, publisher: Publisher
) -> None:
    client.declare_exchange("e", "headers", durable=True)
    queue = declare(client, "replicated")
    client.call(m.QueueBind(queue, "e", "", arguments={"kind": "a"}), m.QueueBindOk)
    marked = {"x-match": "all-with-x", "x-mark": 5}
    client.call(m.QueueBind(queue, "e", "", arguments=marked), m.QueueBindOk)
    sent = [
        message(application(kind="a", number=1)), message(application(kind="b")),
        message(annotated(x_mark=UInt(5))), message(application(kind="a", number=2)),
    ]  # fmt: skip
    assert publisher.publish("", *sent, exchange="e") == (4, 0)
    assert sections(client, queue) == [sent[0], sent[2], sent[3]]
    assert [bytes(run.raw) for run in publisher.returned] == [b"transfer" + sent[1]]


def test_further_keys_are_routed_to_and_the_blind_ones_are_taken_out(
    client: Client, publisher: Publisher
) -> None:
    first, second, third = (str(client.declare(name).queue) for name in ("first", "second", "third"))
    sent = message(annotated(x_cc=[second], x_bcc=[third]))
    assert publisher.publish(first, sent) == (1, 0)
    kept = message(annotated(x_cc=[second]))
    assert [sections(client, queue) for queue in (first, second, third)] == [[kept]] * 3


def test_further_keys_that_are_no_list_are_refused(client: Client, publisher: Publisher) -> None:
    queue = declare(client, "replicated")
    publisher.publish(queue, message(annotated(x_cc=Symbol("second"))))
    (refusal,) = publisher.refusals
    assert isinstance(refusal, PreconditionFailedError)


def test_a_queue_groups_messages_by_their_group_id(client: Client, publisher: Publisher) -> None:
    queue = declare(client, "replicated", group_by="group-id")
    sent = [message(d.Properties(group_id=group).encode(), body=group.encode()) for group in "aab"]
    publisher.publish(queue, *sent)
    other = client.site.client("n2")
    for one in (client, other):
        one.consume(queue, prefetch=1)
    client.site.until(lambda: client.deliveries and other.deliveries)
    assert {one.deliveries[0].body for one in (client, other)} == {b"a", b"b"}
    client.site.run(0.5)
    assert len(client.deliveries) + len(other.deliveries) == 2


@pytest.mark.requirement("B14.2")
def test_a_client_of_0_9_1_gets_and_consumes_messages(client: Client, publisher: Publisher) -> None:
    queue = declare(client, "replicated")
    properties = d.Properties(message_id="id", content_type="text/plain", to="q").encode()
    publisher.publish(queue, *[message(properties, application(n=7), body=body) for body in (b"1", b"2")])
    got = client.get(queue)
    client.consume(queue)
    client.site.until(lambda: client.deliveries)
    for found, body in ((got, b"1"), (client.deliveries[0], b"2")):
        assert (found.body, found.properties.message_id, found.headers["n"]) == (body, "id", 7)
        assert found.properties.content_type == "text/plain"


def test_the_administration_shows_messages_of_both_protocols(client: Client, publisher: Publisher) -> None:
    queue = declare(client, "replicated")
    publisher.publish(queue, message(d.Properties(message_id="id").encode(), application(n=7), body=b"1.0"))
    client.confirms(client.publish(queue, b"0-9-1", message_id="id", headers={"n": 7}))
    port, found = client.site.front_end("n1"), list[Got | None]()
    for count in (1, 2):
        port.get(port.queue("/", queue, client.holder), True, lambda got, _: found.append(got))
        client.site.until(lambda count=count: len(found) == count)
    shown = [shown_message(got, "auto", None) for got in found if got is not None]
    assert [one["payload"] for one in shown] == ["1.0", "0-9-1"]
    assert {one["routing_key"] for one in shown} == {queue}
    for one in shown:
        assert one["properties"] == {"delivery_mode": 2, "message_id": "id", "headers": {"n": 7}}


def test_a_sampled_trace_is_found_in_application_properties() -> None:
    context = f"00-{1:032x}-{2:016x}-01"
    run = run_of(message(application(traceparent=context)), message(), message(body=b"traceparent"))
    assert stretches_in(run, lambda trace: True) == [Stretch(0, 1, TraceContext(1, 2))]


@pytest.mark.interpreted
def test_sections_are_kept_once_all_members_read_them(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = client.site.front_end("n1")
    assert port.keeps_sections
    monkeypatch.setattr(Formats, "everywhere", SECTIONS_IN_RUNS - 1)
    assert not port.keeps_sections
