"""The log of a stream over HTTP, read with the pipeline's own client from three real nodes (F8)."""

from __future__ import annotations

from collections.abc import Callable
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pika
import pytest

from pipeline.log.blocks import END, Block, read_block
from pipeline.log.client import LogClient, Plan
from pipeline.log.nodes import LogApiError
from pipeline.log.rows import Topic, TopicRow, rows_of_blocks
from tests.processes.conftest import Connect
from tests.processes.management_client import Management, basic, path_of, refused
from tests.processes.nodes import Cluster, until

pytestmark = pytest.mark.requirement("F8.3")

DURABLE = pika.BasicProperties(delivery_mode=2, headers={"n": 7})
BODY = b"x" * 1000
COUNT = 10_000


def client(cluster: Cluster, *places: int, user: str = "guest", password: str = "guest") -> LogClient:
    return LogClient([cluster[place].http for place in places or (0, 1, 2)], user, password)


@pytest.fixture
def stream(channel: Connect, name: str) -> str:
    """A stream with 10 MB of messages."""
    publisher = channel(0)
    publisher.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    for number in range(COUNT):
        publisher.basic_publish("", name, b"%06d" % number + BODY, DURABLE)
    until(lambda: publisher.queue_declare(name, passive=True).method.message_count == COUNT, "all are there")
    return name


def rows(reader: LogClient, name: str, plan: Plan) -> list[TopicRow]:
    topic = Topic(name, plan.partition)
    blocks = [
        block for one in plan.ranges for block in reader.blocks("/", name, one.first, one.end, plan.replicas)
    ]
    return rows_of_blocks(topic, blocks)


def numbers(found: list[TopicRow]) -> list[int]:
    return [int(row.body[:6]) for row in found if row.body is not None]


def test_a_stream_of_megabytes_is_read_from_every_node(cluster: Cluster, stream: str) -> None:
    plan = client(cluster).plan("/", stream, range_octets=1 << 20)
    assert len(plan.ranges) > 8 and sum(one.rows for one in plan.ranges) == COUNT
    assert len(set(plan.replicas)) == 3 and plan.end == plan.wanted == plan.stable_end
    for place in range(3):
        found = rows(client(cluster, place), stream, plan)
        assert numbers(found) == list(range(COUNT))
        assert {row.routing_key for row in found} == {stream} and found[0].headers == {"n": 7}
    assert [row.bookmark for row in found] == sorted({row.bookmark for row in found})


def test_reading_goes_on_where_an_answer_was_cut_short(cluster: Cluster, stream: str) -> None:
    reader = client(cluster)
    plan = reader.plan("/", stream, rows=3000)
    [one] = plan.ranges
    half: list[Block] = []
    for block in reader.blocks("/", stream, one.first, one.end):
        half.append(block)
        if len(half) == 2:
            break
    rest = list(reader.blocks("/", stream, f"{one.first[:8]}{half[-1].next:016x}", one.end))
    found = rows_of_blocks(Topic(stream, plan.partition), [*half, *rest])
    assert numbers(found) == list(range(3000)) and one.rows == 3000


def test_what_a_reader_of_a_log_is_refused(cluster: Cluster, channel: Connect, name: str) -> None:
    publisher = channel(0)
    publisher.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    publisher.queue_declare(f"{name}-queue", durable=True)
    publisher.confirm_delivery()
    publisher.basic_publish("", name, b"a", DURABLE)
    api, plan = Management(cluster[1]), path_of("log", "/", name, "plan")
    first = api.call("GET", plan).value["from"]
    other = f"{int(first[:8], 16) + 1:08x}{first[8:]}"
    for query, reason in {
        "form=earliest": "there is no parameter form; these are: from, to",
        "from=yesterday": "from, 'yesterday', is no position",
        "from=" + other: "bookmark of another queue",
        "rows=0": "rows, '0', is no number above 0",
        "octets=-1": "no number above 0",
        "from=" + first[:8] + "7" * 16: "behind the end of the stream",
    }.items():
        assert reason in refused(api.call("GET", f"{plan}?{query}"), 400, "bad_request")
    blocks = path_of("log", "/", name, "blocks")
    assert "from is missing" in refused(api.call("GET", blocks), 400, "bad_request")
    behind = f"{first[:8]}{int(first[8:], 16) + 1:016x}"
    query = f"?from={behind}&to={first}"
    assert "is in front of from" in refused(api.call("GET", blocks + query), 400, "bad_request")
    query = f"?from={first}&to={first[:8]}{'7' * 16}"
    refused(api.call("GET", blocks + query), 409, "not_applied")
    refused(api.call("GET", path_of("log", "/", "nothing", "plan")), 404, "Object Not Found")
    refused(api.call("GET", path_of("log", "nothing", name, "plan")), 404, "Object Not Found")
    queue = api.call("GET", path_of("log", "/", f"{name}-queue", "plan"))
    assert "is no stream" in refused(queue, 400, "bad_request")
    assert api.call("POST", plan).status == 405


def test_what_retention_has_passed_is_gone(cluster: Cluster, channel: Connect, name: str) -> None:
    publisher = channel(0)
    publisher.confirm_delivery()
    arguments = {"x-queue-type": "stream", "x-max-length-bytes": 2500}
    publisher.queue_declare(name, durable=True, arguments=arguments)
    publisher.basic_publish("", name, b"000000" + BODY, DURABLE)
    reader = client(cluster)
    plan = reader.plan("/", name)
    for number in range(1, 6):
        publisher.basic_publish("", name, b"%06d" % number + BODY, DURABLE)

    def two_are_left() -> bool:
        # Retention may pass the first messages of a plan before they are read.
        try:
            return len(rows(reader, name, reader.plan("/", name))) == 2
        except LogApiError as error:
            assert error.status == 410
            return False

    until(two_are_left, "retention has passed four")
    [kept, _] = rows(reader, name, reader.plan("/", name))

    def gone() -> bool:
        # A follower may apply what retention removes a moment later.
        try:
            return not list(reader.blocks("/", name, plan.first, plan.end))
        except LogApiError as error:
            return error.status == 410 and error.facts["oldest"] == kept.bookmark

    until(gone, "the range is gone")
    with pytest.raises(LogApiError, match=f"the oldest is {kept.bookmark}"):
        reader.plan("/", name, first=plan.first)


def test_the_rights_to_read_count_for_readers_of_a_log(cluster: Cluster, channel: Connect, name: str) -> None:
    channel(0).queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    api, user, path = Management(cluster[0]), f"{name}-user", path_of("log", "/", name, "plan")
    api.call("PUT", path_of("users", user), {"password": "p", "tags": "management"})
    mine = Management(cluster[0], user, "p")
    assert mine.call("GET", path).status == 401
    rights = {"configure": "", "write": "", "read": f"^{name}$"}

    def allowed(**changed: Any) -> Callable[[], int]:
        api.call("PUT", path_of("permissions", "/", user), {**rights, **changed})
        return lambda: mine.call("GET", path).status

    status = allowed()
    until(lambda: status() == 200, "the user may read the stream")
    status = allowed(read="")
    until(lambda: status() == 401, "the user may not read the stream")
    status = allowed(read_filter="x = 1")
    until(lambda: status() == 401, "the user may read a part of it only")
    assert Management(cluster[0], None).call("GET", path).status == 401


def test_any_http_client_reads_blocks(cluster: Cluster, channel: Connect, name: str) -> None:
    """The answer is streamed: it ends with the block that says so, and HEAD has no body."""
    publisher = channel(0)
    publisher.confirm_delivery()
    publisher.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    publisher.basic_publish("", name, b"a", DURABLE)
    plan = client(cluster).plan("/", name)
    path = "/api" + path_of("log", "/", name, "blocks") + f"?from={plan.first}&to={plan.end}"
    headers = {"Authorization": basic("guest", "guest")}
    connection = HTTPConnection(urlsplit(cluster[0].http).netloc, timeout=10)
    for method in ("HEAD", "GET"):
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        assert response.getheader("Content-Type") == "application/vnd.quorate.blocks"
        if method == "HEAD":
            assert response.read() == b""
    first, last = read_block(response.read), read_block(response.read)
    assert (first.messages, last.kind, last.next) == (1, END, int(plan.end[8:], 16))
    assert response.read() == b""
    connection.close()


def test_a_filter_leaves_the_messages_that_it_takes(cluster: Cluster, channel: Connect, name: str) -> None:
    """The node that serves the range evaluates the filter, whichever that is."""
    publisher = channel(1)
    publisher.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    publisher.exchange_declare(f"{name}.x", "fanout")
    publisher.queue_bind(name, f"{name}.x")
    publisher.confirm_delivery()
    for number in range(300):
        body = b'{"n": %d}' % number
        publisher.basic_publish(f"{name}.x", f"key.{number % 3}", body, pika.BasicProperties(delivery_mode=2))
    plan = client(cluster).plan("/", name)
    (part,) = plan.ranges

    def taken(place: int, filter: str) -> list[bytes | None]:
        reader = client(cluster, place)
        blocks = list(reader.blocks("/", name, part.first, part.end, plan.replicas, filter))
        assert blocks[-1].next == int(part.end[8:], 16)
        return [row.body for row in rows_of_blocks(Topic(name, plan.partition), blocks)]

    for place in range(3):
        assert taken(place, "/n >= 297") == [b'{"n": 297}', b'{"n": 298}', b'{"n": 299}']
        assert len(taken(place, "x_routing_key = 'key.1'")) == 100
        assert len(taken(place, "x_routing_key IN ('key.1', 'key.2') AND /n < 3")) == 2
        assert taken(place, "/n > 300") == []
    with pytest.raises(LogApiError, match="invalid filter"):
        taken(0, "n >")
