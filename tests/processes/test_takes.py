"""Takes of a queue over HTTP, on three real nodes, with the pipeline's own client (F8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika
import pytest

from pipeline.log.nodes import LogApiError
from pipeline.log.rows import Topic, TopicRow, rows_of_blocks
from pipeline.log.takes import COMMITTED, EMPTY, HELD, QueueReader, TakeClient
from tests.processes.conftest import Connect
from tests.processes.management_client import Management, path_of, refused
from tests.processes.nodes import Cluster, until

pytestmark = pytest.mark.requirement("F8.3")

DURABLE = pika.BasicProperties(delivery_mode=2, headers={"n": 7})
BODY = b"x" * 500
COUNT = 5000


def client(cluster: Cluster, *places: int, user: str = "guest", password: str = "guest") -> TakeClient:
    return TakeClient([cluster[place].http for place in places or (0, 1, 2)], user, password)


def read(
    taker: TakeClient, reader: QueueReader, number: int, range_octets: int | None = None
) -> list[TopicRow]:
    """The messages of a take, range by range."""
    held = taker.take(reader, number, range_octets=range_octets)
    assert held.state == HELD
    blocks = [
        block
        for one in held.ranges
        for block in taker.taken_blocks(reader, number, one.first, one.end, held.replicas)
    ]
    found = rows_of_blocks(Topic(reader.queue, 1), blocks)
    assert len(found) == held.messages == sum(one.rows for one in held.ranges)
    return found


def numbers(found: list[TopicRow]) -> list[int]:
    return [int(row.body[:6]) for row in found if row.body is not None]


def test_takes_are_read_and_committed_at_every_node(cluster: Cluster, channel: Connect, name: str) -> None:
    """Also with the rights of any client, and every refusal with its reason."""
    publisher = channel(0)
    publisher.queue_declare(name, durable=True)

    def counts() -> tuple[int, int]:
        row = Management(cluster[1]).call("GET", path_of("queues", "/", name)).value
        return row.get("messages_ready", 0), row.get("messages_unacknowledged", 0)

    for number in range(COUNT):
        publisher.basic_publish("", name, b"%06d" % number + BODY, DURABLE)
    until(lambda: publisher.queue_declare(name, passive=True).method.message_count == COUNT, "all are there")
    reader, takers = QueueReader("/", name, "a job/7"), [client(cluster, place) for place in range(3)]
    assert takers[0].take(reader, 1, rows=2000).messages == 2000
    octets = sum(one.octets for one in takers[1].take(reader, 1).ranges)
    assert takers[1].take(reader, 2, octets=octets).messages in range(1, COUNT - 2000)
    assert takers[2].take(reader, 3).state == HELD and takers[0].take(reader, 4).state == EMPTY
    found = [[numbers(read(taker, reader, number, 1 << 16)) for number in (1, 2, 3)] for taker in takers]
    assert found[0] == found[1] == found[2]
    assert [one for part in found[0] for one in part] == list(range(COUNT))
    assert len(takers[0].take(reader, 1, range_octets=1 << 16).ranges) > 8
    first = read(takers[0], reader, 1)[0]
    assert (first.routing_key, first.headers) == (name, {"n": 7})
    until(lambda: counts() == (0, COUNT), "taken messages are unacknowledged")

    takers[1].commit(reader, 2)
    takers[2].commit(reader, 1)
    assert takers[0].take(reader, 1).state == COMMITTED
    [shown] = takers[0].readers("/", name)
    assert (shown["reader"], shown["committed"], [one["number"] for one in shown["takes"]]) == (
        "a job/7", 2, [3],
    )  # fmt: skip
    _check_refusals(cluster, takers[0], reader)
    _check_rights(cluster, name)
    left = len(found[0][2])
    _check_the_release(takers, reader)
    method, _, body = publisher.basic_get(name, auto_ack=True)
    assert method.redelivered and int(body[:6]) == found[0][2][0]
    until(lambda: counts() == (left - 1, 0), "the messages of the last take are ready")


def _check_the_release(takers: list[TakeClient], reader: QueueReader) -> None:
    """Requests that come late do nothing, and a new reader begins behind them."""
    known = takers[0].reader(reader)
    assert (known.committed, known.held, known.next) == (2, [3], 4) and known.end is not None
    takers[2].release(reader, 2)
    assert takers[1].reader(reader) == known
    with pytest.raises(LogApiError, match="its identity is") as caught:
        takers[1].release(reader, 4, "0123abcd")
    assert (caught.value.status, caught.value.facts["error"]) == (410, "another_queue")
    assert caught.value.facts["identity"] == known.identity == known.end[:8]
    takers[2].release(reader, 4, known.identity)
    takers[2].release(reader, 4)
    assert takers[1].readers("/", reader.queue) == []
    for late in (lambda: takers[0].take(reader, 4), lambda: takers[1].commit(reader, 3)):
        with pytest.raises(LogApiError, match="has no such reader"):
            late()
    again = takers[1].reader(reader)
    assert (again.committed, again.held, again.next, again.end) == (0, [], 5, known.end)
    assert takers[1].take(reader, 5, end=f"{known.identity}{1:016x}", identity=known.identity).state == EMPTY
    assert takers[0].readers("/", reader.queue) == []


def _check_refusals(cluster: Cluster, taker: TakeClient, reader: QueueReader) -> None:
    with pytest.raises(LogApiError, match="the last take of the reader is 3") as caught:
        taker.take(reader, 9)
    assert caught.value.facts["last"] == 3
    with pytest.raises(LogApiError, match="has no such reader"):
        taker.commit(reader._replace(reader="nobody"), 1)
    api, path = Management(cluster[0]), path_of("takes", "/", reader.queue, reader.reader)
    one = f"{taker.take(reader, 3).ranges[0].first}"
    for method, wrong, text in (
        ("POST", f"{path}/0", "number, '0', is no number"),
        ("POST", f"{path}/{1 << 63}", "is no number"),
        ("POST", f"{path}/%C2%B2", "is no number"),
        ("POST", f"{path}/4?rows=0", "rows, '0', is no number above 0"),
        ("POST", f"{path}/4?rows=10000001", "is above 10000000"),
        ("POST", f"{path}/4?octets=-1", "octets, '-1', is no number above 0"),
        ("POST", f"{path}/4?row=1", "there is no parameter row; these are: rows, octets"),
        ("POST", f"{path}/4?to=x", "to is missing, or no bookmark"),
        ("POST", f"{path}/4/commit?rows=1", "there is no parameter rows; these are: identity"),
        ("DELETE", f"{path}?number=0", "number, '0', is no number"),
        ("DELETE", f"{path}?rows=1", "there is no parameter rows; these are: number, identity"),
        ("GET", f"{path}?rows=1", "there is no parameter rows; there are none"),
        ("POST", path_of("takes", "/", reader.queue, "r" * 256, "1"), "has 256 octets"),
        ("GET", f"{path}/3/blocks?from={one}", "to is missing, or no bookmark"),
        ("GET", f"{path}/3/blocks?from={one}&to=x", "to is missing, or no bookmark"),
        ("GET", f"{path}/3/blocks?from={one}&to={one[:-1]}", "to is missing, or no bookmark"),
        ("GET", f"{path}/3/blocks?from={one}&to={one[:8]}{0:016x}", "is in front of from"),
    ):
        assert text in refused(api.call(method, wrong), 400, "bad_request")
    refused(api.call("GET", f"{path}/1/blocks?from={one}&to={one[:8]}{'f' * 16}"), 410, "gone")
    refused(api.call("GET", f"{path}/8/blocks?from={one}&to={one[:8]}{'f' * 16}"), 409, "not_applied")
    refused(api.call("GET", path_of("takes", "/", "nothing")), 404, "Object Not Found")
    unfit: list[tuple[dict[str, Any], str]] = [
        ({"durable": True, "arguments": {"x-semantics": "at-most-once"}}, "removes messages before it"),
        ({"durable": True, "arguments": {"x-queue-type": "stream"}}, "is a stream"),
        ({"durable": True, "arguments": {"x-owners": 2}}, "has several owners"),
        ({"durable": False}, "is in the memory of a node"),
    ]
    for number, (definition, reason) in enumerate(unfit):
        other = f"{reader.queue}-unfit-{number}"
        api.call("PUT", path_of("queues", "/", other), definition)
        reply = api.call("POST", path_of("takes", "/", other, "r", "1"))
        assert reason in refused(reply, 400, "bad_request")


def _check_rights(cluster: Cluster, name: str) -> None:
    api, user = Management(cluster[0]), f"{name}-user"
    api.call("PUT", path_of("users", user), {"password": "p", "tags": "management"})

    def allowed(read: str) -> Callable[[], int]:
        rights = {"configure": ".*", "write": ".*", "read": read}
        api.call("PUT", path_of("permissions", "/", user), rights)
        mine, path = Management(cluster[0], user, "p"), path_of("takes", "/", name)
        return lambda: mine.call("GET", path).status

    status = allowed(".*")
    until(lambda: status() == 200, "the user may read the queue")
    status = allowed("^other$")
    until(lambda: status() == 401, "the user may not read the queue")
    mine, reader = client(cluster, 0, user=user, password="p"), QueueReader("/", name, "mine")
    for deed in (lambda: mine.take(reader, 1), lambda: mine.commit(reader, 1), lambda: mine.release(reader)):
        with pytest.raises(LogApiError, match="HTTP status 401"):
            deed()
