"""The client of the log API: where a node fails, another one goes on (F8)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit
from weakref import ref

import pytest

from node.queue.block_format import encode_block, encode_block_run
from pipeline.log.blocks import Block, read_block
from pipeline.log.client import LogClient
from pipeline.log.nodes import ROUNDS, LogApiError, NoNodeError
from pipeline.log.rows import Topic, rows_of_blocks
from pipeline.message.batches import BATCH_ROWS, batched
from pipeline.octets.cursor import MalformedError
from tests.messages import content, run_of

pytestmark = pytest.mark.requirement("F8.3")

QUEUE = 42


def bookmark(number: int) -> str:
    return f"{QUEUE:08x}{number:016x}"


def block(number: int, next: int) -> bytes:
    """A block of one message."""
    parts = encode_block_run(number, 0, run_of([content(b"%d" % number)]))
    return encode_block(QUEUE, number, next, parts, kind=1, messages=1)


def end(number: int) -> bytes:
    return encode_block(QUEUE, number, number, [], kind=2)


def refusal(number: int, status: int, reason: str = "no") -> bytes:
    told = json.dumps({"status": status, "error": "e", "reason": reason}).encode()
    return encode_block(QUEUE, number, number, [told], kind=3)


class Stub:
    """An HTTP port that answers one request after the other with a status and octets, and then as the first
    time. A status 0 breaks the connection.
    """

    def __init__(self, *answers: tuple[int, bytes]) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []
        self.connections = 0
        stub = self

        class Handler(BaseHTTPRequestHandler):
            closing = False

            def setup(self) -> None:
                stub.connections += 1
                super().setup()

            def do_GET(self) -> None:
                query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
                stub.asked.append(query)
                status, octets = stub.answers[(len(stub.asked) - 1) % len(stub.answers)]
                if not status:
                    self.close_connection = True
                    return
                self.send_response(status)
                # Octets that are announced and do not come are those of a node that is lost.
                self.send_header("Content-Length", str(len(octets) + (b"..." in octets)))
                self.end_headers()
                self.wfile.write(octets.removesuffix(b"..."))
                self.close_connection |= self.closing

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        self.handler = Handler
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        # Clients keep connections, which end with the test.
        self.server.daemon_threads = True
        self.thread = Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def keep_connections(self, *, closing: bool = False) -> None:
        """Keep connections behind answers, or close them without telling so."""
        self.handler.protocol_version, self.handler.closing = "HTTP/1.1", closing

    def stop(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def stubs() -> Iterator[list[Stub]]:
    made: list[Stub] = []
    yield made
    for one in made:
        one.stop()


class Reader:
    """A client of stubs, which does not sleep."""

    def __init__(self, stubs: list[Stub], *answers: list[tuple[int, bytes]]) -> None:
        stubs += [Stub(*one) for one in answers]
        self.stubs = stubs
        self.paused: list[float] = []
        self.client = LogClient([one.url for one in stubs], "u", "p", pause=self.paused.append)

    def read(self, first: int = 1, last: int = 9, replicas: tuple[str, ...] = ()) -> list[bytes | None]:
        found = self.client.blocks("/", "s", bookmark(first), bookmark(last), replicas)
        return [row.body for row in rows_of_blocks(Topic("s", 1), list(found))]


WHOLE = block(1, 4) + block(4, 9) + end(9)


def test_a_range_is_read_up_to_its_end(stubs: list[Stub]) -> None:
    reader = Reader(stubs, [(200, WHOLE)])
    assert reader.read() == [b"1", b"4"] and reader.paused == []
    assert stubs[0].asked == [{"from": bookmark(1), "to": bookmark(9)}]


@pytest.mark.parametrize(
    "failing",
    [
        (200, block(1, 4) + b"..."),
        (200, block(1, 4)),
        (200, block(1, 4) + block(4, 9)[:50] + b"..."),
        (200, block(1, 4) + refusal(4, 503)),
    ],
)
def test_another_node_goes_on_behind_the_last_whole_block(stubs: list[Stub], failing: Any) -> None:
    reader = Reader(stubs, [failing], [(200, block(4, 9) + end(9))])
    assert reader.read() == [b"1", b"4"]
    assert stubs[1].asked == [{"from": bookmark(4), "to": bookmark(9)}]


@pytest.mark.parametrize("failing", [(0, b""), (503, b"{}"), (409, b"not JSON"), (502, b"")])
def test_a_node_that_has_no_answer_is_passed_over(stubs: list[Stub], failing: Any) -> None:
    reader = Reader(stubs, [failing], [(200, WHOLE)])
    assert reader.read() == [b"1", b"4"] and reader.paused == []


def test_there_are_rounds_with_longer_and_longer_pauses(stubs: list[Stub]) -> None:
    reader = Reader(stubs, [(503, b'{"reason": "later"}')], [(0, b"")])
    with pytest.raises(NoNodeError, match="no node answers"):
        reader.read()
    assert len(stubs[0].asked) == len(stubs[1].asked) == ROUNDS
    assert reader.paused == [0.1, 0.2, 0.4, 0.8, 1.6]


def test_what_no_node_will_answer_ends_the_reading_at_once(stubs: list[Stub]) -> None:
    told = json.dumps({"error": "gone", "reason": "passed", "oldest": bookmark(5)}).encode()
    reader = Reader(stubs, [(410, told)], [(200, WHOLE)])
    with pytest.raises(LogApiError, match=r"passed \(HTTP status 410\)") as caught:
        reader.read()
    assert caught.value.facts["oldest"] == bookmark(5) and stubs[1].asked == []


def test_a_refusal_in_the_middle_ends_the_reading(stubs: list[Stub]) -> None:
    reader = Reader(stubs, [(200, block(1, 4) + refusal(4, 410, "passed"))], [(200, WHOLE)])
    with pytest.raises(LogApiError, match="passed"):
        reader.read()
    assert stubs[1].asked == []


def test_octets_that_are_no_blocks_are_no_reason_to_ask_again(stubs: list[Stub]) -> None:
    reader = Reader(stubs, [(200, block(1, 4) + b"?" * 60)], [(200, WHOLE)])
    with pytest.raises(MalformedError, match=f"at octet {len(block(1, 4))}"):
        reader.read()
    assert stubs[1].asked == []


def test_followers_are_asked_first(stubs: list[Stub]) -> None:
    reader = Reader(stubs, *([(200, WHOLE)] for _ in range(3)))
    addresses = [one.url.removeprefix("http://") for one in stubs]
    reader.read(replicas=(addresses[2], addresses[0]))
    assert [len(one.asked) for one in stubs] == [0, 0, 1]


def test_a_plan_is_read(stubs: list[Stub]) -> None:
    told = {
        "partition": 7, "from": "a", "to": "d", "end": "c", "stable_end": "e", "oldest": "a",
        "ranges": [{"from": "a", "to": "c", "rows": 3, "octets": 100}],
        "replicas": [{"node": "n", "http": "h:1"}],
    }  # fmt: skip
    reader = Reader(stubs, [(200, json.dumps(told).encode())])
    plan = reader.client.plan("/", "s", first="earliest", end=None, rows=5, range_octets=None)
    assert stubs[0].asked == [{"from": "earliest", "rows": "5"}]
    assert plan.ranges == [("a", "c", 3, 100)] and (plan.wanted, plan.end, plan.replicas) == (
        "d",
        "c",
        ["h:1"],
    )


def test_streams_are_listed(stubs: list[Stub]) -> None:
    rows = [{"name": "b", "type": "stream"}, {"name": "q", "type": "quorum"}, {"name": "a", "type": "stream"}]
    reader = Reader(stubs, [(200, json.dumps(rows).encode())])
    assert reader.client.streams("/") == ["a", "b"]


def test_requests_with_short_answers_share_a_connection(stubs: list[Stub]) -> None:
    reader = Reader(stubs, [(200, b"[]"), (200, b"[]"), (404, b"{}")])
    stubs[0].keep_connections()
    assert reader.client.streams("/") == reader.client.streams("/") == []
    with pytest.raises(LogApiError):
        reader.client.streams("/")
    assert reader.client.streams("/") == []
    assert len(stubs[0].asked) == 4 and stubs[0].connections == 1


def test_a_connection_that_the_node_has_closed_is_opened_anew(stubs: list[Stub]) -> None:
    reader = Reader(stubs, [(200, b"[]")])
    stubs[0].keep_connections(closing=True)
    for _ in range(ROUNDS + 2):
        assert reader.client.streams("/") == []
    assert stubs[0].connections == len(stubs[0].asked) == ROUNDS + 2 and reader.paused == []


def test_the_next_block_comes_when_none_before_it_is_in_memory(
    stubs: list[Stub], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Noted(Block):
        """A block with a set of its own, which weak references find."""

    seen, kept = list[Any](), list[int]()

    def noted(read: Any, at: int) -> Block:
        kept.append(sum(one() is not None for one in seen))
        found = Noted(*read_block(read, at))
        found.held = set[int]()
        seen.append(ref(found.held))
        return found

    class Counted:
        """Takes no message."""

        rows = octets = BATCH_ROWS

        def add(self, block: Block) -> None:
            """Keep nothing."""

        def taken(self) -> int:
            return sum(one() is not None for one in seen)

    monkeypatch.setattr("pipeline.log.client.read_block", noted)
    reader = Reader(stubs, [(200, block(1, 4) + block(4, 6) + block(6, 9) + end(9))])
    blocks = reader.client.blocks("/", "s", bookmark(1), bookmark(9))
    found = list(batched(Counted(), blocks))
    # The client alone has the block that the consumer of its batch may still wait for.
    assert len(found) == 4 and max(found) <= 1
    assert kept == [0, 0, 0, 0]
