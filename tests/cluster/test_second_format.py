"""Queues keep their promises for messages of any format: here a toy format, one line of text a message."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from cluster.peers.link_messages import Delivery, RemoteFrontEnd, receive_for_front_end
from node.message.deaths import Death
from node.message.format import NO_EXPIRATION, Asked, Copies, MessageSyntaxError
from node.message.run import Run
from node.queue.entry_format import EntryFormatError, encode_publish, read_operations, read_run
from node.ranges.range_map import Span, spans_of
from node.session.ports import Got
from node.wire.formats import FORMATS
from replication.raft import MessageError
from tests.cluster.kinds import declare
from tests.cluster.recorders import RecordedFrontEnd, RecordedSubscriber
from tests.site import Client, Site

LINES = 200


class Lines:
    """`name=value name=value|body`, and a line feed."""

    def properties_in(self, run: Run) -> Iterator[tuple[int, int, bytes]]:
        for index, line in enumerate(_lines(run)):
            yield index, 1, line.partition(b"|")[0]

    def body_size(self, run: Run) -> int:
        return len(_lines(run)[0].partition(b"|")[2])

    def body_sizes(self, run: Run) -> array[int] | None:
        return array("Q", (len(line.partition(b"|")[2]) for line in _lines(run)))

    def size_spans(self, run: Run) -> list[Span]:
        return spans_of(self.body_sizes(run) or [], 0)

    def header_keys(self, run: Run, names: tuple[str, ...]) -> list[tuple[int, int, bytes]]:
        return list(self.properties_in(run))

    def routing_keys(self, run: Run) -> list[str]:
        raise AssertionError("lines of a run have one routing key")

    def by_key(self, run: Run) -> Iterator[tuple[str, Run]]:
        assert run.routing_key is not None
        yield run.routing_key, run

    def may_have_copies(self, run: Run) -> bool:
        return False

    def asked_in(self, run: Run) -> list[Asked]:
        found: list[Asked] = []
        for first, count, properties in self.properties_in(run):
            values = self.headers(properties)
            ttl = int(values.get("ttl", NO_EXPIRATION))
            delay, priority = int(values.get("delay", 0)), int(values.get("priority", 0))
            found.append((first, first + count - 1, delay, priority, ttl))
        return found

    def texts_in(self, run: Run, name: str) -> list[tuple[int, int, bytes | None]]:
        return [(at, at + count - 1, self.text(each, name)) for at, count, each in self.properties_in(run)]

    def text(self, properties: bytes, name: str) -> bytes | None:
        found = self.headers(properties).get(name)
        return None if found is None else found.encode()

    def headers(self, properties: bytes) -> Mapping[str, Any]:
        return dict(word.split("=", 1) for word in properties.decode().split())

    def copies(self, properties: bytes) -> Copies:
        return Copies((), blind=False)

    def dead_letters(self, run: Run, properties: bytes, death: Death, *, routed_anew: bool) -> Run:
        return lines_run(b"died-in=%s|%s" % (death.queue.encode(), _lines(run)[0].partition(b"|")[2]))

    def without_blind_copies(self, run: Run) -> Run:
        return run

    def with_delivery_count(self, run: Run, failures: int) -> Run:
        return run

    @property
    def counts_down(self) -> bool:
        return False

    def with_time_left(self, run: Run, left: int, limit: int | None) -> Run:
        return run

    def copied_keys(self, properties: bytes) -> list[str]:
        return []

    def cycles(self, properties: bytes, queue: str) -> bool:
        return False

    def composed(
        self,
        exchange: str,
        routing_key: str,
        properties: Mapping[str, Any],
        body: bytes,
        user: str | None,
        body_max: int,
    ) -> Run:
        raise MessageSyntaxError("a line is composed by its client")

    def contents(self, run: Run) -> tuple[dict[str, Any], bytes]:
        (line,) = _lines(run)
        properties, _, body = line.partition(b"|")
        return dict(self.headers(properties)), body


def _lines(run: Run) -> list[bytes]:
    return bytes(run.raw).splitlines()


def lines_run(*lines: bytes, key: str = "q") -> Run:
    raw = [line + b"\n" for line in lines]
    lengths = array("I", map(len, raw))
    return Run(
        "", key, 0, True, len(raw), 0, 0, lengths, max(lengths), b"".join(raw), special=True, format=LINES
    )


@pytest.fixture(autouse=True)
def lines_format(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORMATS, LINES, Lines())


@pytest.fixture
def client() -> Client:
    return Site("n1", "n2", "n3").client("n1")


def publish(client: Client, queue: str, *lines: bytes) -> tuple[int, int]:
    """Publish through the node's port, as a session does; return the numbers of confirmed and rejected
    messages.
    """
    port, subscriber = client.site.front_end(client.node.name), RecordedSubscriber()
    route = port.route(client.connection.session._core.scope, "", queue)
    port.publish(subscriber, 1, lines_run(*lines, key=queue), route, 1)
    client.site.until(lambda: _count(subscriber.confirmed + subscriber.rejected) == len(lines))
    return _count(subscriber.confirmed), _count(subscriber.rejected)


def _count(ranges: list[tuple[int, int, int]]) -> int:
    return sum(last - first + 1 for _, first, last in ranges)


def bodies(client: Client, queue: str) -> list[bytes]:
    """The lines in the queue, got one by one."""
    found = []
    while (got := get(client, queue)) is not None:
        assert got.run.format == LINES
        found += _lines(got.run)
    return found


def get(client: Client, queue: str) -> Got | None:
    port, answers = client.site.front_end(client.node.name), list[Got | None]()
    port.get(port.queue("/", queue, client.holder), True, lambda got, _: answers.append(got))
    client.site.until(lambda: answers)
    return answers[0]


def test_lines_cross_the_cluster_as_they_came(client: Client) -> None:
    queue = declare(client, "replicated")
    assert publish(client, queue, b"|one", b"|two") == (2, 0)
    assert bodies(client.site.client("n2"), queue) == [b"|one", b"|two"]


def test_lines_are_given_out_by_their_priority(client: Client) -> None:
    queue = declare(client, "replicated", max_priority=9)
    publish(client, queue, b"priority=1|low", b"priority=7|high", b"priority=30|highest")
    assert bodies(client, queue) == [b"priority=30|highest", b"priority=7|high", b"priority=1|low"]


def test_lines_wait_for_their_delay(client: Client) -> None:
    queue = declare(client, "replicated")
    publish(client, queue, b"delay=2000|later", b"|now")
    assert bodies(client, queue) == [b"|now"]
    client.site.run(2.5)
    assert bodies(client, queue) == [b"delay=2000|later"]


def test_lines_expire(client: Client) -> None:
    queue = declare(client, "replicated")
    publish(client, queue, b"ttl=500|short", b"ttl=60000|long")
    client.site.run(1.0)
    assert bodies(client, queue) == [b"ttl=60000|long"]


def test_a_line_with_an_id_that_the_queue_has_seen_is_dropped(client: Client) -> None:
    queue = declare(client, "replicated", deduplication_window=1000)
    assert publish(client, queue, b"message_id=a|one", b"message_id=a|two", b"message_id=b|three") == (3, 0)
    assert bodies(client, queue) == [b"message_id=a|one", b"message_id=b|three"]


def test_the_octets_of_lines_count(client: Client) -> None:
    queue = declare(client, "replicated", max_length_bytes=6, overflow="reject-publish")
    assert publish(client, queue, b"|1234", b"|5678", b"|9") == (2, 1)
    assert bodies(client, queue) == [b"|1234", b"|9"]


def test_a_line_that_is_given_up_becomes_a_dead_letter_of_its_format(client: Client) -> None:
    grave = declare(client, "replicated")
    client.declare("dying", dead_letter_exchange="", dead_letter_routing_key=grave)
    publish(client, "dying", b"ttl=100|mortal")
    client.site.run(2.0)
    assert bodies(client, grave) == [b"died-in=dying|mortal"]


def test_an_operation_of_a_format_that_is_not_known_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(encode_publish(lines_run(b"|x"), [1]))
    (operation,) = read_operations(data)
    assert read_run(data, operation.position).format == LINES
    monkeypatch.delitem(FORMATS, LINES)
    with pytest.raises(EntryFormatError, match="malformed"):
        list(read_operations(data))


def test_a_delivery_keeps_its_format_between_nodes_and_is_refused_where_that_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[list[bytes]] = []
    RemoteFrontEnd(1, 2, lambda parts: sent.append([bytes(part) for part in parts])).delivered(
        3, [Delivery(4, 5, [(6, 6)], False, lines_run(b"|x"))]
    )
    end = RecordedFrontEnd()
    receive_for_front_end(end, sent[0])
    ((_, (delivery,)),) = end.named("delivered")
    assert (delivery.run.format, delivery.run.channel, _lines(delivery.run)) == (LINES, 0, [b"|x"])
    monkeypatch.delitem(FORMATS, LINES)
    with pytest.raises(MessageError, match="unknown format"):
        receive_for_front_end(end, sent[0])
